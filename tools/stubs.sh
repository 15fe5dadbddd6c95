#!/usr/bin/env bash
# The stub repositories (tests/stubs) of the nodes of the vendor platforms, which have their folder at /srv/stubs:
# tools/stubs.sh [DAY [OPTION...]]. A day is a folder of its own, "today" offers everything; options are those of make.py.
# What is there and has not changed is not made again.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
apt_install apt-utils rpm createrepo-c binutils gcc libc6-dev
day=${1:-today}
mkdir -p "$state/stubs"
# Tests of several nodes ask at the same time.
exec 9>"$state/stubs.lock"
flock 9
with_log "stubs-$day" python tests/stubs/make.py "$state/stubs/$day" "${@:2}"
# apt reads with an account of its own.
chmod -R a+rX "$state/stubs"
echo "$state/stubs/$day"
