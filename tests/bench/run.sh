#!/usr/bin/env bash
# What a verdict costs; then both measurements on nodes of their own; STACK=name of another stack, ROUNDS=number. Half an hour and more.
# PEER=checkout of NVIDIA's driver role, DEEPOPS=checkout of deepops: a converged run of ours beside one of theirs (peer.py).
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib.sh"
arguments=(--stack "${STACK:-debian13-550}")
[ -z "${ROUNDS:-}" ] || arguments+=(--rounds "$ROUNDS")
python tests/bench/verdicts.py
rc=0
python tests/bench/bench.py first --keep "${arguments[@]}" || rc=1
python tests/bench/bench.py noop "${arguments[@]}" || rc=1
if [ -n "${PEER:-}" ]; then
  python tests/bench/peer.py "$PEER" ${DEEPOPS:+--deepops "$DEEPOPS"} ${ROUNDS:+--rounds "$ROUNDS"} || rc=1
fi
exit "$rc"
