# shellcheck shell=bash
# shellcheck disable=SC2034  # variables are used by the scripts that source this file
# What the scripts in this folder share. Source it; it changes to the repository's root.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
state=$root/.lockstep                # everything that these scripts write in the checkout
venv=$state/venv
# Kept between checkouts: downloaded packages and node images cost the most to make again.
cache=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep-gpu}
engine_run=/run/lockstep-gpu
engine_data=/var/lib/lockstep-gpu-engine
mkdir -p "$state/logs"

export PATH=$venv/bin:$PATH
export ANSIBLE_HOME=$state/ansible   # keeps runs apart from the user's ~/.ansible

say() { printf '%s\n' "lockstep: $*" >&2; }
die() { say "$*"; exit 2; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# with_log NAME COMMAND...: run quietly, keep the output, show its end when the command fails.
with_log() {
  local log=$state/logs/$1.log
  shift
  "$@" >"$log" 2>&1 && return
  local rc=$?
  tail -n 30 "$log" >&2
  say "failed (exit $rc): $* -- all of its output: $log"
  return "$rc"
}

# need PROGRAM PACKAGE...: a program, from Debian's packages when it is not there yet.
need() { command -v "$1" >/dev/null || apt_install "${@:2}"; }

# copy_tree DIRECTORY: everything that git tracks or would track, as it is now.
copy_tree() {
  need git git
  mkdir -p "$1"
  # The checkout may belong to another user, in CI for instance.
  git -c safe.directory='*' ls-files -coz --exclude-standard |
    while IFS= read -r -d '' file; do if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi; done |
    tar --null -T - -c | tar -x -C "$1"
}

# apt_install PACKAGE...: make sure that Debian packages are installed, or say which are missing.
apt_install() {
  local missing=() package
  for package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || die "these programs are needed and this is no Debian system: ${missing[*]}"
  is_root || die "these Debian packages are missing, and only root can install them: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C
  with_log "apt-update" apt-get -q update
  with_log "apt-install" apt-get install -y -q --no-install-recommends "${missing[@]}"
}
