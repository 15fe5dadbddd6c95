#!/usr/bin/env bash
# The Molecule scenarios of CI on fresh containers, `--all` for every scenario. LOCKSTEP_PLATFORMS=debian13: one only
# (a glob over the groups of molecule/inventory.yml); scenarios that are not for it are left out.
# The nodes are removed at the end, pass or fail; KEEP=1 leaves them to be looked at.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scenarios=(site hold vendor)
vms=vm_debian12 # those of a short run; the disk of another one takes ten minutes
if [ "${1:-}" = --all ]; then
  mapfile -t scenarios < <(find molecule -mindepth 2 -maxdepth 2 -name molecule.yml -not -path '*/default/*' -printf '%h\n' | xargs -n 1 basename | sort)
  export LOCKSTEP_ALL=1 # tests that are too many for CI
  vms=''
fi
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

# The nodes of a pattern, one a line.
nodes_of() { ansible -i molecule/inventory.yml "$1" --list-hosts 2>/dev/null | sed -n 's/^  *\(lockstep-\)/\1/p'; }

# Virtual machines are the platforms of one scenario alone, which makes and removes them.
[ -z "${LOCKSTEP_PLATFORMS:-}" ] || vms=vm_${LOCKSTEP_PLATFORMS#vm_}
export LOCKSTEP_VMS=$vms

destroy() {
  local scenario
  [ -z "${KEEP:-}" ] || return 0
  for scenario in default rollout vm; do molecule destroy -s "$scenario" >/dev/null 2>&1 || say "nodes are left over; make clean removes them"; done
}
trap destroy EXIT
molecule destroy -s default
molecule create -s default
for scenario in "${scenarios[@]}"; do
  if [ "$scenario" = vm ]; then
    [ -n "$(nodes_of "vm:&${LOCKSTEP_VMS:-all}")" ] || { say "the scenario vm is for none of '$LOCKSTEP_PLATFORMS'"; continue; }
    molecule destroy -s vm
    molecule test -s vm --destroy never
    continue
  fi
  if [ "$scenario" = rollout ]; then
    # Its simulated machines are its own, and imitations of Ubuntu 24.04.
    [ -n "$(nodes_of "ubuntu2404:&${LOCKSTEP_PLATFORMS:-all}")" ] || { say "the scenario rollout is for none of '$LOCKSTEP_PLATFORMS'"; continue; }
    molecule destroy -s rollout
    molecule test -s rollout --destroy never
    [ -n "${KEEP:-}" ] || molecule destroy -s rollout # twelve nodes need not idle beside the next scenario
    continue
  fi
  case $scenario in vendor*) group=vendor ;; *) group=debian ;; esac
  chosen=$(nodes_of "$group:&${LOCKSTEP_PLATFORMS:-all}")
  [ -n "$chosen" ] || { say "the scenario $scenario is for none of '$LOCKSTEP_PLATFORMS'"; continue; }
  platforms=${LOCKSTEP_PLATFORMS:-}
  # A glob may select nodes of both groups; those of the other one are not meant here.
  [ "$chosen" != "$(nodes_of "$group")" ] || platforms=''
  # Scenarios share the nodes: what one has prepared Molecule would take for prepared for the next one, too.
  [ ! -e "molecule/$scenario/prepare.yml" ] || LOCKSTEP_PLATFORMS=$platforms molecule prepare -s "$scenario" --force
  LOCKSTEP_PLATFORMS=$platforms molecule test -s "$scenario" --destroy never
done
