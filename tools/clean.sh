#!/usr/bin/env bash
# Remove what make left behind: disposable nodes, virtual machines, the container engine started here, .lockstep.
# Downloaded packages, the engine's images and the machines' disks stay, they are dear to make again; the last line says where they are.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for host in "${DOCKER_HOST:-unix:///var/run/docker.sock}" "unix://$engine_run/docker.sock"; do
  # The label, and not the name alone: other people's containers may be called lockstep-something.
  mapfile -t nodes < <(DOCKER_HOST=$host timeout 20 docker ps -aq --filter label=lockstep.gpu.node 2>/dev/null || true)
  [ ${#nodes[@]} -eq 0 ] || { say "removing ${#nodes[@]} containers"; DOCKER_HOST=$host docker rm -f -v "${nodes[@]}" >/dev/null; }
done
[ ! -d "$state/vm" ] || tools/vm.sh down
tools/engine.sh stop
rm -rf "$state"
say "kept: downloaded packages and disks in $cache, images in $engine_data (remove the folders to be rid of them)"
