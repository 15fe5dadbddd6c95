# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converged second run of this collection against one of NVIDIA's own role, on the same stub repositories, in one run.

Usage: peer.py DRIVER_ROLE [--deepops CHECKOUT] [--rounds N]. DRIVER_ROLE is a checkout of
github.com/NVIDIA/ansible-role-nvidia-driver, CHECKOUT one of github.com/NVIDIA/deepops, whose roles bring CUDA and DCGM; neither
is a part of this repository. Ours and theirs are brought onto nodes of their own that imitate Ubuntu 24.04; then each runs again,
by turns. Remote calls, package-manager runs and wall time are compared. Exit status 1 when a ratio is above its goal.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import bench

GOAL = 0.25
PLATFORM = "ubuntu2404"
NODES = {"ours": "lockstep-bench-ours", "peer": "lockstep-bench-peer"}
DRIVER = {"version": "580.126.20", "flavour": "open", "source": "nvidia"}
MORE = {"cuda": {"versions": ["12.8.0"]}, "dcgm": {"version": "4.4.2"}}
VARIABLES = {
    "nvidia_driver_ubuntu_install_from_cuda_repo": True, "nvidia_driver_branch": "580", "nvidia_driver_add_repos": False,
    "nvidia_driver_ubuntu_cuda_package": "nvidia-open-580", "nvidia_driver_skip_reboot": True,
    "nvidia_driver_ubuntu_cuda_keyring_url": "/srv/repos/%s-cuda/cuda-keyring_1.1-1_all.deb" % PLATFORM,
    "cuda_version": "cuda-toolkit-12-8", "dcgm_pkg_name": "datacenter-gpu-manager-4-cuda13", "dcgm_is_dgx": False,
}
URL = "file:///srv/repos/%s-cuda" % PLATFORM
# What the roles take for granted of the node: the keyring package with its source (at the stub's address instead of the public one),
# and the service that the stub of the driver does not have.
GIVEN = """
dpkg -i /srv/repos/%s-cuda/cuda-keyring_1.1-1_all.deb
for file in $(dpkg -L cuda-keyring | grep /etc/apt/sources.list.d/.); do echo 'deb [signed-by=/srv/repos/key.gpg] %s ./' >"$file"; done
[ -e /lib/systemd/system/nvidia-persistenced.service ] ||
  printf '[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/nvidia-persistenced.service
""" % (PLATFORM, URL)
# Where the role's short module names lead to.
NEEDED = ("community.general",)
# Prints a line for every time that somebody opens one of the files.
WATCH = """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None)
descriptor = libc.inotify_init()
names = {libc.inotify_add_watch(descriptor, path.encode(), 0x20): path for path in sys.argv[1:]}
print("ready", flush=True)
while True:
    ready = select.select([descriptor, 0], [], [])[0]
    if descriptor not in ready:
        break    # the end of standard input
    data = os.read(descriptor, 1 << 16)
    while data:
        watch, dummy, dummy, size = struct.unpack_from("iIII", data)
        data = data[16 + size:]
        print(names[watch], flush=True)
"""
# What apt maps each time that it loads its cache, and what dpkg-query and apt read.
FILES = {"cache loads": "/var/cache/apt/pkgcache.bin", "package database reads": "/var/lib/dpkg/status"}


class Opens:
    """Counts, while it is entered, how often files are opened on a node."""

    def __init__(self, node: str) -> None:
        self.node, self.counts = node, dict.fromkeys(FILES, 0)

    def __enter__(self) -> "Opens":
        self._child = subprocess.Popen(["docker", "exec", "-i", self.node, "python3", "-c", WATCH, *FILES.values()],
                                       text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._child.stdout.readline().strip() != "ready":
            raise SystemExit("the node %s cannot be watched" % self.node)
        return self

    def __exit__(self, *_details) -> None:
        lines = self._child.communicate()[0].splitlines()
        self.counts = {name: lines.count(path) for name, path in FILES.items()}


def write_plays(driver: pathlib.Path, deepops: pathlib.Path | None) -> str:
    """Write the peer's plays as its own playbooks have them and return their path: the one for CUDA brings the driver again."""
    plays = [[driver]] if not deepops else [[driver], [driver, deepops / "roles/nvidia_cuda"], [deepops / "roles/nvidia_dcgm"]]
    path = bench.WORK / "peer.yml"
    path.write_text(json.dumps([{"hosts": "gpu_nodes", "vars": VARIABLES, "roles": [str(role.resolve()) for role in roles]}
                                for roles in plays]), encoding="utf-8")
    return str(path)


def commands(driver: pathlib.Path, deepops: pathlib.Path | None) -> dict[str, list[str]]:
    """Return who -> the command that brings its node to the driver, with deepops to CUDA and DCGM too."""
    fingerprint = (bench.ROOT / ".lockstep/stubs/today/key.fingerprint").read_text(encoding="utf-8").strip()
    cuda = {"url": URL, "key": "/srv/repos/key.asc", "fingerprint": fingerprint}
    variables = {"lockstep_stack": {"driver": DRIVER, **(MORE if deepops else {})}, "lockstep_repositories": {"cuda": cuda}}
    ours = ["ansible-playbook", "-i", bench.inventory(NODES["ours"]), "site.yml", "-e", json.dumps(variables)]
    return {"ours": ours, "peer": ["ansible-playbook", "-i", bench.inventory(NODES["peer"]), write_plays(driver, deepops)]}


def measure(rounds: int, plays: dict[str, list[str]], settings: dict[str, str]) -> dict[str, dict[str, float]]:
    """Converge both, run each again by turns; return who -> {remote calls, cache loads, package database reads, seconds}."""
    counts_at = bench.WORK / "remote_calls.json"
    count = {"ANSIBLE_CALLBACK_PLUGINS": str(bench.ROOT / "tests/bench/plugins/callback"), "LOCKSTEP_REMOTE_CALLS": str(counts_at),
             "ANSIBLE_CALLBACKS_ENABLED": "remote_calls", **settings}
    found: dict[str, dict[str, float]] = {}
    seconds: dict[str, list[float]] = {who: [] for who in plays}
    for who, play in plays.items():
        bench.run(*play, log="converge-" + who, env=settings)
        with Opens(NODES[who]) as opens:
            bench.run(*play, log="count-" + who, env=count)
        calls = json.loads(counts_at.read_text(encoding="utf-8")).get(NODES[who], {})
        found[who] = {"remote calls": sum(calls.values()), **opens.counts}
    for number in range(rounds):
        for who in sorted(plays, reverse=bool(number % 2)):
            seconds[who].append(bench.timed(*plays[who], log="again-" + who, env=settings))
    for who, row in found.items():
        row["seconds"] = statistics.median(seconds[who])
    return found


def judge(found: dict[str, dict[str, float]]) -> bool:
    """Print the comparison; return whether every ratio keeps the goal."""
    kept = True
    for key, theirs in found["peer"].items():
        ours = found["ours"][key]
        ratio = ours / theirs if theirs else float(bool(ours))
        judged = key != "package database reads"
        kept = kept and (ratio <= GOAL or not judged)
        print("%-24s ours %7.2f  peer %7.2f  ratio %.2f%s" % (key, ours, theirs, ratio, " (goal at most %.2f)" % GOAL if judged else ""))
    return kept


def main() -> int:
    """Read the command line, measure, remove the nodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("driver", type=pathlib.Path)
    parser.add_argument("--deepops", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="leave the nodes to be looked at")
    given = parser.parse_args()
    bench.WORK.mkdir(parents=True, exist_ok=True)
    os.environ["DOCKER_HOST"] = bench.run("tools/engine.sh", "start").strip()
    collections = bench.WORK / "collections"
    bench.run(".lockstep/venv.uv/bin/python", "tools/extract_collections.py", "tools/collections.txt", str(collections), *NEEDED, log="collections")
    try:
        for node in NODES.values():
            bench.run("tools/node.sh", "fresh", node, PLATFORM, log="fresh-" + node)
        bench.run("docker", "exec", NODES["peer"], "sh", "-c", GIVEN, log="given")
        kept = judge(measure(given.rounds, commands(given.driver, given.deepops), {"ANSIBLE_COLLECTIONS_PATH": str(collections)}))
    finally:
        if not given.keep:
            for node in NODES.values():
                bench.run("tools/node.sh", "down", node)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
