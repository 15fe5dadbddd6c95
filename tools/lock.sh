#!/usr/bin/env bash
# Compile the locks again: hashes, but no addresses, so that every index that serves the same files will do.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1

# compile PYTHON OUT ARGUMENTS...: the requirements come from a file or, with "-", from standard input.
compile() {
  local python=$1 out=$2
  shift 2
  "$venv.uv/bin/uv" pip compile -q --upgrade --universal --python-version "$python" --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@" -o "$out"
}

compile 3.12 requirements-dev.txt requirements-dev.in
# The last ansible-core that runs on Python 3.11.
compile 3.11 requirements-dev-py311.txt requirements-dev.in -c <(echo 'ansible-core==2.19.14')
compile 3.11 tools/uv.txt - <<<uv
compile 3.12 tools/collections.txt --no-deps - <<<ansible
