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
  # Before a node is made for it.
  python -c 'import sys
from ansible_collections.lockstep.gpu.plugins.plugin_utils import stack
try:
    stack.expand(sys.argv[1])
except stack.StackError as error:
    sys.exit("lockstep: %s" % error)' "$stack" || exit 2
  # The node's platform follows from the stack's name. A misspelt stack gets any node: the play names the candidates.
  platform=debian13
  [[ $stack == debian12-* ]] && platform=debian12
  node=lockstep-node
  [ "$platform" = debian13 ] || node=lockstep-node-$platform
  tools/node.sh up "$node" "$platform"
  DOCKER_HOST=$(tools/engine.sh start)
  export DOCKER_HOST
  arguments+=(-i inventories/demo --limit "$node" -e "lockstep_stack=$stack")
fi
exec ansible-playbook "${arguments[@]}" site.yml "$@"
