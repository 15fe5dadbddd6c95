#!/usr/bin/env bash
# Style and consistency of everything that is not Python.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need shellcheck shellcheck
yamllint -s .
shellcheck -x tools/*.sh tests/bench/*.sh .ci/run
antsibull-changelog lint
ansible-lint
antsibull-docs lint-collection-docs --plugin-docs .
