#!/usr/bin/env bash
# ansible-test sanity, every test. It wants a real directory .../ansible_collections/lockstep/gpu, so a copy is tested.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need shellcheck shellcheck
# Not below .lockstep: ansible-test asks the git repository around it which files there are, and that ignores them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/ansible_collections/lockstep/gpu
copy_tree "$copy"
# Links for readers of the repository; a collection may not have links to directories.
rm -f "$copy/compat" "$copy/stacks"

# ansible-test makes a virtual environment per test and fetches pip for it from a host of its own. The ensurepip
# of Python does the same from the machine; ansible-test takes this file for the fetched one.
export XDG_CONFIG_HOME=${XDG_CONFIG_HOME:-$HOME/.config} XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
export HOME=$cache/ansible-test
mkdir -p "$HOME/.ansible/test/cache"
minor=$(python -c 'import sys; print("3.%d" % sys.version_info.minor)')
requirements=$(python -c 'import ansible_test._internal.python_requirements as module; print(module.__file__)')
pip=$(sed -n "s/^ *pip='\([0-9.]*\)',$/\1/p" "$requirements")
[ -n "$pip" ] || die "ansible-test names its pip in another way than tools/sanity.sh expects: $requirements"
cp tools/ensure_pip.py "$HOME/.ansible/test/cache/get_pip_${pip//./_}.py"

cd "$copy"
# pslint is about PowerShell, of which there is none here.
ansible-test sanity --local --python "$minor" --skip-test pslint --color no
