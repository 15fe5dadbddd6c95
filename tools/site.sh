#!/usr/bin/env bash
# The main job: STACK=name of another stack, INVENTORY=path of your own nodes (no container is made then).
# Arguments go to ansible-playbook, for instance --check --diff.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
arguments=()
if [ -n "${INVENTORY:-}" ]; then
  arguments+=(-i "$INVENTORY")
  [ -z "${STACK:-}" ] || arguments+=(-e "lockstep_stack=$STACK")
else
  stack=${STACK:-debian13-550}
  # Before a node is made for it: the stack is understood, and says which platform it is for.
  platform=$(python -c 'import sys
from ansible_collections.lockstep.gpu.plugins.plugin_utils import stack
try:
    wanted = stack.expand(sys.argv[1])
except stack.StackError as error:
    sys.exit("lockstep: %s" % error)
system, release = wanted["os"]["id"], str(wanted["os"]["release"]).replace(".", "")
if system in ("debian", "ubuntu"):
    vendor = system == "debian" and (wanted.get("driver") or {}).get("source") == "nvidia"
    print(system + release + "_nvidia" * vendor)
else:
    print("el" + str(wanted["os"]["release"]).split(".")[0])' "$stack") || exit 2
  node=lockstep-node
  [ "$platform" = debian13 ] || node=lockstep-node-${platform/_/-}
  tools/node.sh up "$node" "$platform"
  DOCKER_HOST=$(tools/engine.sh start)
  export DOCKER_HOST
  arguments+=(-i inventories/demo --limit "$node" -e "lockstep_stack=$stack")
  case $platform in
    debian12 | debian13) ;;
    *) say "$node is an imitation of $platform, and its repositories are stubs (docs/testing.md)"
      arguments+=(-e "lockstep_platform=$platform" -e @molecule/group_vars/vendor.yml
        -e "lockstep_stub_fingerprint=$(cat "$state/stubs/today/key.fingerprint")") ;;
  esac
fi
exec ansible-playbook "${arguments[@]}" site.yml "$@"
