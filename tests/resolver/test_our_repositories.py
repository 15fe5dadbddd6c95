# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that has only its distribution's archive: the plan brings NVIDIA's repository, from a mirror, with its key."""
from __future__ import annotations

import os
import shutil

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from ansible_collections.lockstep.gpu.plugins.plugin_utils import repositories as sources
from collection import need_of

V = "580.126.20-1ubuntu1"
STACK = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "container_toolkit": "1.17.8"}
IDS = {"cuda": "ubuntu2404-cuda", "container_toolkit": "container-toolkit-deb"}


@pytest.fixture
def node(apt_node):
    return apt_node("ubuntu2404-archive")


def planned(node, folders, fingerprint=None):
    """(need, {sources, keys}) with the vendors' repositories at these folders; paths are those below the node's root."""
    key = node.root.key.read_text(encoding="ascii")
    mirrors = {name: {"url": "file:%s" % folders[repository], "key": key, "fingerprint": fingerprint or (
        next(iter(folders.values())).parent / "key.fingerprint").read_text(encoding="ascii").strip()} for name, repository in IDS.items()}
    need = need_of(STACK, overrides=mirrors)
    text, keys = sources.vendors(need["repositories"], {})
    root = str(node.root.folder)
    return need, {"sources": text.replace("/usr/share/keyrings", root + "/usr/share/keyrings"), "keys": [dict(row, path=root + row["path"]) for row in keys]}


def test_resolved_aside_and_then_written(node, on, repositories):
    need, more = planned(node, repositories(*IDS.values()))
    ours, file = on(node), node.root.folder / "etc/apt/sources.list.d/lockstep-gpu.sources"
    assert ours.resolve(need, **more).managed()["nvidia-dkms-580-open"] == V
    assert not file.exists() and not list(node.root.folder.glob("usr/share/keyrings/*"))
    made = ours.apply(need, **more)
    assert set(made.managed("driver").values()) == {V} and made.managed("container_toolkit") == expected.each(expected.TOOLKIT, "1.17.8-1")
    assert file.read_text(encoding="utf-8") == more["sources"] and len(list(node.root.folder.glob("usr/share/keyrings/*.gpg"))) == 2
    assert ours.due(need, **more) == [] and ours.moves(made) == []


def test_a_key_that_nobody_expects_ends_the_run_before_any_change(node, on, repositories):
    need, more = planned(node, repositories(*IDS.values()), fingerprint="0" * 40)
    with pytest.raises(acting.Refused) as refused:
        on(node).apply(need, **more)
    assert refused.value.problems[0]["code"] == "repository_key_unknown"
    assert not (node.root.folder / "etc/apt/sources.list.d/lockstep-gpu.sources").exists() and node.state == {}


def test_an_index_that_its_key_did_not_sign_is_not_read(node, on, repositories, tmp_path):
    folders = dict(repositories(*IDS.values()))
    mirror = tmp_path / "mirror"
    shutil.copytree(folders["ubuntu2404-cuda"], mirror, copy_function=os.link)
    signed = (mirror / "InRelease").read_text(encoding="utf-8")
    (mirror / "InRelease").unlink()
    (mirror / "InRelease").write_text(signed.replace("NVIDIA CUDA", "NVIDIA CUBA"), encoding="utf-8")
    need, more = planned(node, folders)
    more["sources"] = more["sources"].replace(str(folders["ubuntu2404-cuda"]), str(mirror))
    with pytest.raises(acting.PackageError) as failed:
        on(node).resolve(need, **more)
    assert "cannot be read" in str(failed.value)


def test_what_the_node_has_already_is_used_as_it_is(apt_node, on, repositories):
    folders = repositories(*IDS.values())
    node = apt_node("ubuntu2404-archive", *IDS.values())
    need, dummy = planned(node, folders)
    own = [{"file": "/etc/apt/sources.list.d/cuda.list", "types": ["deb"], "uris": ["file:%s" % folders[name]], "suites": ["/"], "components": [],
            "enabled": True} for name in IDS.values()]
    assert sources.vendors(need["repositories"], {"package_manager": {"sources": own}}) == ("", [])
    ours = on(node)
    made = ours.apply(need, sources="")
    assert set(made.managed("driver").values()) == {V} and ours.due(need, sources="") == []
