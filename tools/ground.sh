#!/bin/sh
# Runs inside a fresh node of a vendor platform, see tools/node.sh. /srv/stubs has the stub repositories of several days
# (tools/stubs.sh); /srv/repos/<id> leads to the one that is offered now: tests point it elsewhere.
set -eu
mkdir -p /srv/repos
for path in /srv/stubs/today/*; do
  [ -e "/srv/repos/${path##*/}" ] || ln -sfn "$path" "/srv/repos/${path##*/}"
done
