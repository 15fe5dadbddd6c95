#!/usr/bin/env bash
# The Molecule scenarios of CI on fresh containers, `--all` for every scenario. LOCKSTEP_PLATFORMS=debian13: one only.
# The nodes are removed at the end, pass or fail; KEEP=1 leaves them to be looked at.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scenarios=(site hold)
if [ "${1:-}" = --all ]; then
  mapfile -t scenarios < <(find molecule -mindepth 2 -maxdepth 2 -name molecule.yml -not -path '*/default/*' -printf '%h\n' | xargs -n 1 basename | sort)
fi
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

destroy() { [ -n "${KEEP:-}" ] || molecule destroy -s default >/dev/null 2>&1 || say "nodes are left over; make clean removes them"; }
trap destroy EXIT
molecule destroy -s default
molecule create -s default
for scenario in "${scenarios[@]}"; do
  molecule test -s "$scenario" --destroy never
done
