# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ratios of this collection's run times to what the same work costs without it, both measured in one run.

Usage: bench.py noop|first [--rounds N] [--stack NAME]. Times depend on the machine; only ratios and counts are
judged: exit status 1 when one is above its goal.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / ".lockstep" / "bench"
GOALS = {"noop": 6.0, "first": 1.15, "calls": 12}
NODES = "lockstep-bench-ours", "lockstep-bench-bare"


def run(*command: str, log: str = "run", env: dict[str, str] | None = None) -> str:
    """Run *command* in the repository, keep its output in WORK/*log*.log, return its standard output.

    Raises:
        SystemExit: when it fails, with the end of its output.
    """
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    (WORK / (log + ".log")).write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise SystemExit("exit %d: %s\n%s" % (done.returncode, " ".join(command)[:300], (done.stdout + done.stderr)[-4000:]))
    return done.stdout


def timed(*command: str, **options) -> float:
    """Return the wall seconds of `run` with these arguments."""
    started = time.monotonic()
    run(*command, **options)
    return time.monotonic() - started


def platform_of(stack: str) -> str:
    """Return the platform that *stack*, a name such as `debian13-550`, is for."""
    return stack.split("-", 1)[0]


def inventory(node: str) -> str:
    """Write an inventory of *node* alone and return its path."""
    path = WORK / (node + ".ini")
    path.write_text("[gpu_nodes]\n%s ansible_connection=community.docker.docker ansible_python_interpreter=/usr/bin/python3\n"
                    % node, encoding="utf-8")
    return str(path)


def site(node: str, stack: str) -> list[str]:
    """Return the command that brings *node* to *stack*."""
    return ["ansible-playbook", "-i", inventory(node), "site.yml", "-e", "lockstep_stack=" + stack]


def fresh(node: str, stack: str) -> None:
    """Replace *node* by a new one; downloaded packages of earlier nodes are in its cache."""
    run("tools/node.sh", "fresh", node, platform_of(stack), log="fresh-" + node)


def packages(node: str) -> dict[str, str]:
    """Return package (with architecture) -> version of everything installed on *node*, as dpkg says."""
    listing = run("docker", "exec", node, "dpkg-query", "-W", "-f", "${db:Status-Status} ${binary:Package} ${Version}\\n")
    rows = (line.split(" ", 2) for line in listing.splitlines())
    return {name: version for status, name, version in rows if status == "installed"}


def show(title: str, ours: list[float], other: list[float], goal: float) -> bool:
    """Print the medians and their ratio; return whether the ratio keeps *goal*."""
    ratio = statistics.median(ours) / statistics.median(other)
    print("%s: %.2f (goal at most %.2f; medians of %d: %.2f s and %.2f s)" % (
        title, ratio, goal, len(ours), statistics.median(ours), statistics.median(other)))
    return ratio <= goal


def noop(stack: str, rounds: int) -> bool:
    """Measure a converged node: the main job against `ansible -m ping`, by turns; count the remote calls."""
    node = NODES[0]
    run("tools/node.sh", "up", node, platform_of(stack), log="up")
    play, ping = site(node, stack), ["ansible", "-i", inventory(node), "gpu_nodes", "-m", "ansible.builtin.ping"]
    counts = WORK / "remote_calls.json"
    count = {"ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/bench/plugins/callback"), "LOCKSTEP_REMOTE_CALLS": str(counts),
             "ANSIBLE_CALLBACKS_ENABLED": "remote_calls"}
    run(*play, log="converge")
    recap = run(*play, log="count", env=count)
    changed = re.findall(r"changed=(\d+)", recap)
    calls = sum(json.loads(counts.read_text(encoding="utf-8")).get(node, {}).values())
    print("converged run: changed=%s, %d remote calls (goal: 0 and at most %d)" % (",".join(changed), calls, GOALS["calls"]))
    ours, pings = [], []
    for number in range(rounds):
        for measure in ((ours, play), (pings, ping)) if number % 2 else ((pings, ping), (ours, play)):
            measure[0].append(timed(*measure[1], log="noop"))
    kept = show("no-op converge / ansible -m ping", ours, pings, GOALS["noop"])
    return kept and set(changed) == {"0"} and 0 < calls <= GOALS["calls"]


def bare_install(ours: str, bare: str, closure: dict[str, str], kernel: str) -> list[str]:
    """Return the command that installs *closure* on *bare* with nothing but apt-get, from the archive that *ours* uses.

    The DKMS build belongs to it: the driver package's own script makes it for every kernel with headers; where that
    is held back for other kernels than the running one, `dkms autoinstall` for *kernel* makes it.
    """
    source = "/etc/apt/sources.list.d/lockstep-gpu.sources"
    text = run("docker", "exec", ours, "cat", source)
    exact = " ".join("%s=%s" % item for item in sorted(closure.items()))
    script = ("set -e; export DEBIAN_FRONTEND=noninteractive LC_ALL=C; cat >%s <<'SOURCES'\n%s\nSOURCES\n"
              "apt-get -q update; apt-get install -y -q --no-install-recommends %s\n"
              "dkms status -k %s | grep -q installed || dkms autoinstall -k %s\n" % (source, text.rstrip("\n"), exact, kernel, kernel))
    return ["docker", "exec", bare, "sh", "-c", script]


def first(stack: str, rounds: int) -> bool:
    """Measure a fresh node: the main job against bare apt-get and DKMS for the same closure, by turns, packages cached."""
    ours, bare = NODES
    fresh(ours, stack)
    before = packages(ours)
    run(*site(ours, stack), log="warm")
    closure = {name: version for name, version in packages(ours).items() if before.get(name) != version}
    images = [name.split(":")[0] for name in closure if re.match(r"linux-image-\d", name)]
    if len(images) != 1:
        raise SystemExit("one kernel was expected in the closure, not: %s" % (images or "none"))
    command = bare_install(ours, bare, closure, images[0].removeprefix("linux-image-"))
    print("closure: %d packages, kernel %s" % (len(closure), images[0]))
    times: dict[str, list[float]] = {ours: [], bare: []}
    for number in range(rounds):
        for node in (ours, bare) if number % 2 else (bare, ours):
            fresh(node, stack)
            times[node].append(timed(*(site(ours, stack) if node == ours else command), log="first-" + node))
            print("  %s: %.1f s" % (node, times[node][-1]), flush=True)
    different = {name for name, version in closure.items() if packages(bare).get(name) != version}
    if different:
        raise SystemExit("the bare node ended with other versions, the times cannot be compared: %s" % ", ".join(sorted(different)))
    return show("first converge / bare apt-get and DKMS", times[ours], times[bare], GOALS["first"])


def main() -> int:
    """Read the command line, measure, remove the nodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("noop", "first"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--stack", default="debian13-550")
    parser.add_argument("--keep", action="store_true", help="leave the nodes for the next measurement")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    os.environ["DOCKER_HOST"] = run("tools/engine.sh", "start").strip()
    try:
        kept = noop(given.stack, given.rounds or 5) if given.what == "noop" else first(given.stack, given.rounds or 2)
    finally:
        if not given.keep:
            for node in NODES:
                run("tools/node.sh", "down", node)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
