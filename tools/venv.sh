#!/usr/bin/env bash
# Install the locked tools into .lockstep/venv. Does nothing when they are there already.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
collections=(community.docker community.library_inventory_filtering_v1)

# Print the real binary of the newest usable CPython. A pyenv shim would fail outside its own version, so the
# interpreter itself is asked; ensurepip is a package of its own on Debian and not needed from pyenv.
find_python() {
  local candidate version best='' best_minor=0
  for candidate in "${LOCKSTEP_PYTHON:-}" /usr/bin/python3 /usr/bin/python3.?? /usr/local/bin/python3.?? \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python "$(command -v python3 || true)"; do
    [ -x "$candidate" ] || continue
    version=$("$candidate" -c 'import sys
v = sys.version_info
if sys.implementation.name == "cpython" and v.releaselevel == "final" and (3, 11) <= v[:2] <= (3, 14):
    print(v.minor, sys.executable)' 2>/dev/null) || continue
    [ -n "$version" ] || continue
    [ "$candidate" = "${LOCKSTEP_PYTHON:-}" ] && { echo "$version"; return; }
    [ "${version%% *}" -gt "$best_minor" ] && best=$version best_minor=${version%% *}
  done
  echo "$best"
}

found=$(find_python)
if [ -z "$found" ]; then
  apt_install python3
  found=$(find_python)
  [ -n "$found" ] || die "a CPython of 3.11 to 3.14 is needed and was not found; name one with LOCKSTEP_PYTHON=/path/to/python"
fi
minor=${found%% *} python=${found#* }
lock=requirements-dev.txt
[ "$minor" -eq 11 ] && lock=requirements-dev-py311.txt

stamp=$( (echo "$python" "$root" "${collections[@]}"; cat "$lock" tools/collections.txt tools/uv.txt) | sha256sum)
if [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

say "installing the locked tools for Python 3.$minor into .lockstep/venv"
"$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install "python3.$minor-venv"
rm -rf "$venv" "$venv.uv"
with_log venv "$python" -m venv "$venv.uv"
with_log venv-uv "$venv.uv/bin/python" -m pip install -q --require-hashes -r tools/uv.txt
export UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_SYSTEM_CERTS=1
uv=$venv.uv/bin/uv
with_log venv-create "$uv" venv -q --python "$python" "$venv"
VIRTUAL_ENV=$venv with_log venv-sync "$uv" pip sync -q --require-hashes "$lock"

# ansible-core looks into site-packages for collections: with these two steps every tool finds both the
# collections that the tests need and this checkout, wherever it lies.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
with_log venv-collections "$venv.uv/bin/python" tools/extract_collections.py tools/collections.txt "$site" "${collections[@]}"
mkdir -p "$site/ansible_collections/lockstep"
ln -sfn "$root" "$site/ansible_collections/lockstep/gpu"
echo "$stamp" >"$venv/.stamp"
