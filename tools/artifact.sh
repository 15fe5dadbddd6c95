#!/usr/bin/env bash
# The built collection must work alone: install it offline into an empty directory, take away everything that a
# collection need not have, and run lockstep.gpu.site from there by its full name.
# With NODE=name (and STACK) the play really runs, on that disposable container, instead of being listed.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
work=$state/artifact
rm -rf "$work"
copy_tree "$work/source"
# Without site-packages the link to this checkout cannot answer for the installed copy.
export ANSIBLE_COLLECTIONS_SCAN_SYS_PATH=false ANSIBLE_COLLECTIONS_PATH=$work/install:$work/connection
ansible-galaxy collection build "$work/source" --output-path "$work"
ansible-galaxy collection install --offline "$work"/lockstep-gpu-*.tar.gz -p "$work/install"
installed=$work/install/ansible_collections/lockstep/gpu
find "$installed" -mindepth 1 -maxdepth 1 ! -name meta ! -name plugins ! -name roles ! -name playbooks \
  ! -name MANIFEST.json ! -name FILES.json -exec rm -rf {} +
# How the node is reached is the user's business, the collection needs no other one.
mkdir -p "$work/connection/ansible_collections"
ln -s "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ansible_collections/community" "$work/connection/ansible_collections/"

export ANSIBLE_CALLBACKS_ENABLED=lockstep.gpu.progress
cd "$work"
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
# A stack alone, and a bundle, are judged by what is left: facts, stacks and rules lie among the plugins.
ansible-playbook lockstep.gpu.preflight -e lockstep_stack=debian13-550
ansible-playbook lockstep.gpu.audit -e "lockstep_bundle=$work/source/tests/fixtures/cases/dkms-01/main"
find "$installed/plugins/modules" -name '*.py' ! -name __init__.py -printf '%f\n' | while read -r file; do
  ansible-doc -t module "lockstep.gpu.${file%.py}" >/dev/null
done
