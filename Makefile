# Two commands: `make site` does the job, `make test` checks everything. The work is done by tools/*.sh.
STACK ?=
INVENTORY ?=
export STACK INVENTORY

.DEFAULT_GOAL := help
.PHONY: help venv site test test-all bench lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: ## install the locked tools into .lockstep/venv
	@tools/venv.sh

site: venv ## run the main job on a disposable node (STACK=name; INVENTORY=path for your own nodes)
	@tools/site.sh

test: venv ## lint, sanity, galaxy-importer, units, artifact, Molecule
	@tools/test.sh

test-all: venv ## the same, and every further Molecule scenario
	@tools/test.sh --all

bench: venv ## ratios: first converge to bare apt-get and DKMS, no-op converge to ping
	@tests/bench/run.sh

lock: venv ## bring the locked tool versions up to date
	@tools/lock.sh

clean: ## remove containers, the engine started here, and the virtual environment
	@tools/clean.sh
