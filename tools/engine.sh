#!/usr/bin/env bash
# A container engine: `start` prints the DOCKER_HOST of one that answers, installing and starting one when none
# does; `stop` ends the one started here, and no other.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
pid_file=$engine_run/docker.pid
own=unix://$engine_run/docker.sock
bridge=lockstep0

answers() { command -v docker >/dev/null && DOCKER_HOST=$1 timeout 20 docker version -f '{{.Server.Version}}' >/dev/null 2>&1; }

find_engine() {
  local host
  for host in "${DOCKER_HOST:-}" unix:///var/run/docker.sock "$own"; do
    [ -n "$host" ] && answers "$host" && { echo "$host"; return; }
  done
  return 1
}

# A bridge of its own, so that a second engine on this machine is not disturbed, with the first address range that
# no route leads to yet.
make_bridge() {
  ip link show "$bridge" >/dev/null 2>&1 && return
  local third
  for third in {250..240}; do ip -4 route show | grep -q "^172\.29\.$third\." || break; done
  ip link add "$bridge" type bridge
  ip address add "172.29.$third.1/24" dev "$bridge"
  ip link set "$bridge" up
}

start_own() {
  install -d -m 0711 "$engine_run" "$engine_data"
  rm -rf "$engine_data/network" # remembers the address range of an earlier bridge
  with_log engine-bridge make_bridge || die "no network bridge can be made here, so no container engine can start; name one that runs elsewhere with DOCKER_HOST"
  # Where /proc/sys is read-only, inside another container for instance, newer engines want to be told to go on.
  export DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1
  # In a session of its own: it has to outlive this script.
  setsid dockerd -H "$own" --data-root "$engine_data" --exec-root "$engine_run/exec" --pidfile "$pid_file" \
    --bridge "$bridge" >"$engine_run/dockerd.log" 2>&1 </dev/null &
  local engine=$! tries
  for tries in $(seq 60); do
    answers "$own" && return
    kill -0 "$engine" 2>/dev/null || break
    [ "$tries" = 60 ] || sleep 0.5
  done
  grep -v 'level=info' "$engine_run/dockerd.log" | tail -n 5 >&2
  die "the container engine did not start ($engine_run/dockerd.log says why); name one that runs with DOCKER_HOST"
}

start() {
  find_engine && return
  [ -z "${DOCKER_HOST:-}" ] || say "no container engine answers at $DOCKER_HOST"
  is_root || die "no container engine answers and only root can start one: start docker, or set DOCKER_HOST, or run this as root"
  if ! command -v dockerd >/dev/null; then
    apt_install docker.io iptables iproute2
    # Debian 13 has the client in a package of its own.
    command -v docker >/dev/null || apt_install docker-cli
    find_engine && return
  fi
  say "starting a container engine of our own (make clean stops it)"
  start_own >&2
  echo "$own"
}

stop() {
  local pid
  pid=$(cat "$pid_file" 2>/dev/null) || return 0
  # The number may have been given to another process since.
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--pidfile $pid_file" || return 0
  say "stopping the container engine $pid"
  kill "$pid"
  for _ in $(seq 40); do kill -0 "$pid" 2>/dev/null || break; sleep 0.5; done
  ip link delete "$bridge" 2>/dev/null || true
}

"${1:?start or stop}"
