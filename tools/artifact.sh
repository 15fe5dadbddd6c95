#!/usr/bin/env bash
# The built collection must work alone: install it offline into an empty directory, take away everything that a
# collection need not have, and run lockstep.gpu.site from there by its full name.
# With NODE=name (and STACK) the play really runs, on that disposable container, instead of being listed.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
work=$state/artifact
rm -rf "$work"
copy_tree "$work/source"
ansible-galaxy collection build "$work/source" --output-path "$work"
ansible-galaxy collection install --offline "$work"/lockstep-gpu-*.tar.gz -p "$work/install"
installed=$work/install/ansible_collections/lockstep/gpu
find "$installed" -mindepth 1 -maxdepth 1 ! -name meta ! -name plugins ! -name roles ! -name playbooks \
  ! -name MANIFEST.json ! -name FILES.json -exec rm -rf {} +

# The link to this checkout in site-packages must not answer for the installed copy: the given path comes first,
# and the check below says which one ansible takes.
export ANSIBLE_COLLECTIONS_PATH=$work/install ANSIBLE_CALLBACKS_ENABLED=lockstep.gpu.progress
cd "$work"
ANSIBLE_CONFIG=/dev/null ansible-galaxy collection list lockstep.gpu | tee list.txt
grep -qF "# $work/install/ansible_collections" list.txt || die "the installed copy is not the one that ansible finds"
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
link=$site/ansible_collections/lockstep/gpu
rm "$link"
trap 'ln -sfn "$root" "$link"' EXIT

printf '[gpu_nodes]\n%s ansible_connection=community.docker.docker ansible_python_interpreter=/usr/bin/python3\n' \
  "${NODE:-nobody}" >nodes.ini
play=(ansible-playbook -i nodes.ini lockstep.gpu.site -e "lockstep_stack=${STACK:-debian13-550}")
if [ -n "${NODE:-}" ]; then
  DOCKER_HOST=$("$root/tools/engine.sh" start)
  export DOCKER_HOST
  "${play[@]}"
else
  "${play[@]}" --syntax-check
  "${play[@]}" --list-tasks | tee tasks.txt
  # Each role that the play names was found, or listing would have failed; an empty list would prove nothing.
  grep -q 'lockstep.gpu\|preflight' tasks.txt || die "lockstep.gpu.site lists no task"
fi
for file in "$installed"/plugins/modules/*.py; do
  name=$(basename "$file" .py)
  [ "$name" = __init__ ] || ansible-doc -t module "lockstep.gpu.$name" >/dev/null
done
