#!/usr/bin/env bash
# All checks, the fastest first; the first failure ends the run. `--all` adds the Molecule scenarios that take long.
# STEPS="lint units" runs only these, for work on one of them; the closing line then says so.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
known=(lint units resolvers sanity importer artifact molecule)
read -ra steps <<<"${STEPS:-${known[*]}}"
export ANSIBLE_FORCE_COLOR=0 NO_COLOR=1

lint() { tools/lint.sh; }
# Oracles of the units are grub-editenv, modinfo, openssl, gpg, and rpm's own comparison of versions; those of the stub
# repositories the tools that read them.
units() { apt_install grub-common kmod openssl rpm gpg gcc libc6-dev binutils apt-utils createrepo-c dnf dnf-plugins-core; pytest -q -n 2 --dist worksteal -p no:cacheprovider tests/unit; }
# The real apt and the real dnf, on stub repositories and root folders of their own.
resolvers() { apt_install apt-utils binutils gcc libc6-dev gpg dnf dnf-plugins-core createrepo-c rpm; pytest -q -n 2 --dist worksteal -p no:cacheprovider tests/resolver; }
sanity() { tools/sanity.sh; }
importer() { tools/importer.sh; }
artifact() { tools/artifact.sh; }
molecule() { tools/molecule.sh "$@"; }

for step in "${steps[@]}"; do
  [[ " ${known[*]} " == *" $step "* ]] || die "there is no step '$step': ${known[*]}"
done
number=0
for step in "${steps[@]}"; do
  number=$((number + 1))
  started=$SECONDS
  printf '[%d/%d] %-9s ' "$number" "${#steps[@]}" "$step"
  # A child of its own, so that a failure inside the step ends it.
  if [ "$step" = molecule ]; then set -- "$@"; echo "(long; follow it in .lockstep/logs/test-molecule.log)"; fi
  if (set -e; "$step" "$@") >"$state/logs/test-$step.log" 2>&1; then
    printf 'ok (%d s)\n' $((SECONDS - started))
  else
    rc=$?
    printf 'FAILED\n'
    tail -n 80 "$state/logs/test-$step.log"
    echo "make test: step $number of ${#steps[@]}, $step, failed (exit $rc); all of its output: .lockstep/logs/test-$step.log"
    exit 1
  fi
done
if [ -n "${STEPS:-}" ]; then
  echo "make test: only these steps ran, and passed: ${steps[*]}"
else
  echo "make test: all ${#steps[@]} steps passed"
fi
