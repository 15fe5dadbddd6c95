# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL: configuration, graph files, all copies of the library, network interfaces."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_nccl, parse_copies, parse_interfaces, parse_nccl, parse_nccl_log
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, Function, Recorded

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "nccl_conf": ("local", Function(capture_nccl.nccl_conf, "tail -v -n +1 /etc/nccl.conf /root/.nccl.conf")),
    "nccl_env": ("local", Function(capture_nccl.nccl_env, "grep -i nccl /etc/environment /etc/profile.d/*.sh /etc/security/pam_env.conf")),
    "nccl_graph_file": ("local", Function(capture_nccl.named_in_conf("NCCL_GRAPH_FILE"), "the file that NCCL_GRAPH_FILE names in nccl.conf")),
    "nccl_topo_file": ("local", Function(capture_nccl.named_in_conf("NCCL_TOPO_FILE"), "the file that NCCL_TOPO_FILE names in nccl.conf")),
    "ip_addresses": ("local", Command(("ip", "-br", "addr"))),
    "library_files": ("deep", Function(capture_nccl.library_files, "find / -xdev -name 'libnccl.so*' -o -name 'libcuda.so*' -o -name 'libnvidia-ml.so*'")),
    "pip_list": ("deep", Function(capture_nccl.pip_list, "pip list --format=freeze (from the dist-info folders of NCCL and PyTorch)")),
    "torch_nccl": ("bundle", Recorded("python -c 'import torch; print(torch.cuda.nccl.version())'")),
    "nccl_log": ("bundle", Recorded("a program with NCCL_DEBUG=INFO")),
}


def section(reader):
    """The part of the state that these probes fill.

    nccl: {conf: [{path, lines}] of parse_nccl_conf, [] without files; env: rows of parse_nccl_env; graph_file: {gpus, graphs};
    topo_file: {gpus}; log: of parse_nccl_log; pip: {package: version}; torch: the version that PyTorch is linked with}.
    interfaces: [{name, running, addresses}]. library_files: [{path, target, version}].
    loader_cache: "all" where the loader's whole cache was listed, "part" where a search in it found something, "nothing"
    where it found nothing; None where it is unknown.
    """
    return {
        "nccl": {
            "conf": reader.parsed("nccl_conf", parse_nccl.parse_nccl_conf, absent=[]),
            "env": reader.parsed("nccl_env", parse_nccl.parse_nccl_env, absent=[]),
            "graph_file": reader.parsed("nccl_graph_file", parse_nccl.parse_nccl_graph_file, absent=None),
            "topo_file": reader.parsed("nccl_topo_file", parse_nccl.parse_nccl_topo_file, absent=None),
            "log": reader.told("nccl_log", lambda text, rc: parse_nccl_log.parse_nccl_log(text)),
            "pip": _searched(reader, "pip_list", parse_copies.parse_pip_list, {}),
            "torch": reader.parsed("torch_nccl", parse_copies.parse_torch_nccl, absent=None),
        },
        "interfaces": reader.parsed("ip_addresses", parse_interfaces.parse_interfaces, absent=None),
        "library_files": _searched(reader, "library_files", parse_copies.parse_library_files, [], partial=True),
        "loader_cache": _loader_cache(reader),
    }


def _searched(reader, name, parser, nothing, partial=False):
    """The value of a list that may have been cut with grep, which ends with 1 where it finds nothing."""
    return nothing if found_nothing(reader.seen(name)) else reader.parsed(name, parser, absent=nothing, partial=partial)


def found_nothing(seen):
    """Whether this is grep's answer that there is no such line."""
    return seen is not None and seen.rc == 1 and not seen.out.strip() and not seen.err.strip()


def _loader_cache(reader):
    seen = reader.seen("loader_libraries")
    if found_nothing(seen):
        return "nothing"
    if seen is None or seen.rc != 0:
        return None
    # `ldconfig -p` begins with this line, in the language of whoever ran it; a search leaves it out.
    whole = "libs found in cache" in seen.out or re.match(r"\s*\d+ [^/\n]{1,60}/etc/ld\.so\.cache", seen.out)
    return "all" if whole else "part" if seen.out.strip() else "nothing"
