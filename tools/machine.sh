#!/usr/bin/env bash
# A simulated machine (docs/testing.md): tools/machine.sh image | up NAME [IMAGE] | down NAME | fresh NAME [IMAGE] | save NAME IMAGE | forget.
# A container that its kernel's name, its GRUB and its restarts are simulated for. `image` prints the image of one as its
# installer left it; `save` keeps a machine's disk as an image, `forget` removes
# those that tests kept. What its firmware and kernel did is in .lockstep/machines/NAME.log.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
verb=${1:?image, up, down, fresh, save or forget} name=${2:-}
here=molecule/rollout/machine inside=/usr/local/lib/simulated-machine shared=$state/machines
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

image() {
  local from to build=lockstep-image-machine sources
  from=$(tools/image.sh ubuntu2404)
  tools/stubs.sh >/dev/null # of this checkout, also where the image is there
  to=lockstep-simulated/machine:$(cat tools/machine.sh "$here"/* tests/stubs/contents_kernel.py <(echo "$from") | sha256sum | cut -c 1-12)
  if ! docker image inspect "$to" >/dev/null 2>&1; then
    say "making the image of a simulated machine"
    sources=$(python3 tools/apt_archive.py bookworm)
    docker rm -f "$build" >/dev/null 2>&1 || true
    with_log "$build" docker run -d --label lockstep.gpu.node --name "$build" -v "$state/stubs:/srv/stubs:ro" "$from" sleep infinity
    docker exec "$build" mkdir -p "$inside"
    docker cp -q "$here/." "$build:$inside"
    with_log "ground-$build" docker exec -i "$build" sh -s <tools/ground.sh
    with_log "$build" docker exec "$build" sh "$inside/build.sh" "$sources" "${ROLLOUT_KERNEL:-6.8.0-31-generic}"
    save "$build" "$to"
    docker rm -f -v "$build" >/dev/null
  fi
  echo "$to"
}

# The engine starts a machine again whose first process ended with a failure: that is a reset. Nothing may tell a container.
up() {
  local image=${1:-}
  [ -n "$image" ] || image=$(image)
  mkdir -p "$shared"
  rm -f "$shared/$name".*
  docker run -d --label lockstep.gpu.node --name "$name" --hostname "$name" --restart on-failure --cgroupns=private --network none \
    --tmpfs /run --tmpfs /tmp:exec -v "$state/stubs:/srv/stubs:ro" -v "$shared:/var/lib/simulated-machine" \
    "$image" >/dev/null
}

down() { [ -z "$(docker ps -aq --filter "name=^/$name\$")" ] || docker rm -f -v "$name" >/dev/null; }

fresh() { down; up "$@"; }

save() {
  docker commit -c 'ENTRYPOINT []' -c "CMD [\"/usr/bin/python3\", \"$inside/simulated_machine.py\"]" \
    -c 'LABEL lockstep.gpu.image="simulated machine"' "$1" "$2" >/dev/null
}

forget() { docker images --filter dangling=false --format '{{.Repository}}:{{.Tag}}' 'lockstep-simulated/rollout-*' | xargs -r docker rmi -f >/dev/null; }

case $verb in
  image | forget) "$verb" ;;
  save) save "$name" "${3:?the name of the image}" ;;
  up | down | fresh)
    case $name in lockstep-*) ;; *) die "the names of disposable machines start with lockstep-, '$name' does not" ;; esac
    "$verb" "${@:3}"
    ;;
  *) die "tools/machine.sh image|up|down|fresh|save|forget, not '$verb'" ;;
esac
