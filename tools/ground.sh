#!/bin/sh
# Runs inside a fresh node of a vendor platform, see tools/node.sh. /srv/stubs has the stub repositories of several days
# (tools/stubs.sh); /srv/repos/<id> leads to the one that is offered now: tests point it elsewhere.
set -eu
mkdir -p /srv/repos
for path in /srv/stubs/today/*; do
  [ -e "/srv/repos/${path##*/}" ] || ln -sfn "$path" "/srv/repos/${path##*/}"
done
# What an imitation of EL has in its userland is no rpm package: the names that others need are entered into the database.
if [ -d /srv/stubs/today/base-rpm ] && ! rpm -q glibc >/dev/null 2>&1; then
  rpm --import /srv/repos/key.asc
  rpm -i --justdb --nodeps --noscripts --notriggers /srv/repos/base-rpm/*.rpm
fi
