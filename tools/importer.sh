#!/usr/bin/env bash
# What Galaxy would say of the built collection: galaxy-importer parses it, reads its documentation, lints it.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
work=$state/importer
rm -rf "$work"
copy_tree "$work/source"
ansible-galaxy collection build "$work/source" --output-path "$work"
cd "$work"
# ansible-test is a step of its own and would want a container here.
export GALAXY_IMPORTER_RUN_ANSIBLE_TEST=false GALAXY_IMPORTER_RUN_ANSIBLE_DOC=true
export GALAXY_IMPORTER_RUN_ANSIBLE_LINT=true GALAXY_IMPORTER_OFFLINE_ANSIBLE_LINT=true
python -m galaxy_importer.main --print-result lockstep-gpu-*.tar.gz 2>&1 | tee importer.log
# It tells of faults in its output and leaves with 0.
if grep -E '^(ERROR|WARNING|CRITICAL)' importer.log; then die "galaxy-importer found the faults above"; fi
python "$root/tools/check_import.py" importer_result.json "$work/source"
