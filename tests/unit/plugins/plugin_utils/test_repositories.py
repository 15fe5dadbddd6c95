# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories that a stack needs: whose text is written, which keys are asked for, what is refused."""
from __future__ import annotations

import configparser

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, repositories, stack

FACTS = knowledge.load()
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/%s/x86_64/"
PRINT = "0123456789ABCDEF0123456789ABCDEF01234567"
UBUNTU = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "container_toolkit": "1.18.2"}
ROCKY = {"os": "rocky-9", "driver": {"version": "580.126.20", "flavour": "open"}, "container_toolkit": "1.18.2"}
DOCA = {"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1", "doca": "3.2.1-044000"}}
MLNX = {"os": "ubuntu-22.04", "ofed": {"provider": "mlnx", "version": "24.10-2.1.8.0"}}
MLNX_URL = "https://linux.mellanox.com/public/repo/mlnx_ofed/24.10-2.1.8.0/ubuntu22.04/x86_64/"


def planned(value, overrides=None, sources=(), own=None):
    need = plan.wanted(stack.expand(value), FACTS, overrides=overrides)
    return plan.plan(need, {"packages": {}, "package_manager": {"sources": list(sources), "own_sources": own}})


def entry(uri, **more):
    return dict({"file": "/etc/apt/sources.list.d/cuda.list", "types": ["deb"], "uris": [uri], "suites": ["/"], "components": [], "enabled": True}, **more)


def stanzas(text):
    return [dict(line.split(": ", 1) for line in part.splitlines() if not line.startswith("#")) for part in text.split("\n\n")]


def test_flat_repositories_of_apt_are_signed_by_a_key_of_their_own():
    found = planned(UBUNTU)
    assert stanzas(found["repositories"]) == [
        {"Types": "deb", "URIs": CUDA % "ubuntu2404", "Suites": "/", "Signed-By": "/usr/share/keyrings/lockstep-gpu-cuda.gpg"},
        {"Types": "deb", "URIs": "https://nvidia.github.io/libnvidia-container/stable/deb/amd64/", "Suites": "/",
         "Signed-By": "/usr/share/keyrings/lockstep-gpu-container_toolkit.gpg"}]
    assert found["keys"] == [
        {"path": "/usr/share/keyrings/lockstep-gpu-cuda.gpg", "key": CUDA % "ubuntu2404" + "3bf863cc.pub",
         "fingerprints": ["EB693B3035CD5710E231E123A4B469963BF863CC"]},
        {"path": "/usr/share/keyrings/lockstep-gpu-container_toolkit.gpg", "key": "https://nvidia.github.io/libnvidia-container/gpgkey",
         "fingerprints": ["C95B321B61E88C1809C4F759DDCAE044F796ECB0"]}]
    assert {"action": "configure_repository", "target": "/etc/apt/sources.list.d/lockstep-gpu.sources"} in found["actions"]


def test_repositories_of_dnf_have_their_packages_and_metadata_checked():
    found = planned(ROCKY)
    parsed = configparser.ConfigParser()
    parsed.read_string(found["repositories"])
    assert parsed.sections() == ["lockstep-gpu-cuda", "lockstep-gpu-container_toolkit"]
    assert dict(parsed["lockstep-gpu-cuda"]) == {
        "name": "lockstep-gpu-cuda", "baseurl": CUDA % "rhel9", "enabled": "1", "gpgcheck": "1", "repo_gpgcheck": "1",
        "gpgkey": "file:///etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-gpu-cuda"}
    assert [key["fingerprints"] for key in found["keys"]] == [["610C7B14E068A878070DA4E99CD0A493D42D0685"], ["C95B321B61E88C1809C4F759DDCAE044F796ECB0"]]
    assert {"action": "configure_repository", "target": "/etc/yum.repos.d/lockstep-gpu.repo"} in found["actions"]


@pytest.mark.parametrize(("system", "folder"), [("ubuntu-22.04", "ubuntu2204"), ("ubuntu-24.04", "ubuntu2404"), ("debian-12", "debian12"),
                                                ("rhel-9.4", "rhel9"), ("ol-9", "rhel9")])
def test_cudas_repository_is_the_distributions(system, folder):
    value = {"os": system, "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}}
    assert CUDA % folder in planned(value)["repositories"]


def test_a_release_of_doca_is_a_repository():
    found = planned(DOCA)
    assert stanzas(found["repositories"])[0]["URIs"] == "https://linux.mellanox.com/public/repo/doca/3.2.1/ubuntu22.04/x86_64/"
    assert stanzas(found["repositories"])[0]["Suites"] == "./"
    assert found["keys"][0]["key"].endswith("/3.2.1/ubuntu22.04/x86_64/doca_keyring.gpg")


def test_a_point_release_has_its_releases_folder():
    value = dict(DOCA, os={"id": "ubuntu", "release": "22.04.5", "arch": "x86_64"})
    assert "/doca/3.2.1/ubuntu22.04/x86_64/" in planned(value)["repositories"]


def test_an_architecture_without_packages_is_refused():
    with pytest.raises(plan.PlanError, match="stack key 'os.arch'.*candidates: x86_64"):
        planned(dict(UBUNTU, os={"id": "ubuntu", "release": "24.04", "arch": "aarch64"}))


@pytest.mark.parametrize("uri", [CUDA % "ubuntu2404", (CUDA % "ubuntu2404").rstrip("/"), (CUDA % "ubuntu2404").upper()])
def test_a_source_of_the_nodes_own_is_used_and_not_doubled(uri):
    found = planned(UBUNTU, sources=[entry(uri)])
    assert [one["URIs"] for one in stanzas(found["repositories"])] == ["https://nvidia.github.io/libnvidia-container/stable/deb/amd64/"]
    assert [key["path"] for key in found["keys"]] == ["/usr/share/keyrings/lockstep-gpu-container_toolkit.gpg"]


@pytest.mark.parametrize("source", [entry(CUDA % "ubuntu2404", enabled=False), entry(CUDA % "ubuntu2204"),
                                    entry(CUDA % "ubuntu2404", types=["deb-src"]),
                                    entry(CUDA % "ubuntu2404", file="/etc/apt/sources.list.d/lockstep-gpu.sources")])
def test_a_source_that_is_off_elsewhere_or_ours_does_not_count(source):
    assert len(stanzas(planned(UBUNTU, sources=[source])["repositories"])) == 2


def test_the_own_file_of_dnf_does_not_answer_for_itself():
    own = {"file": "/etc/yum.repos.d/lockstep-gpu.repo", "id": "lockstep-gpu-cuda", "types": ["rpm"], "uris": [CUDA % "rhel9"], "enabled": True}
    assert planned(ROCKY)["repositories"] == planned(ROCKY, sources=[own])["repositories"]
    assert "lockstep-gpu-cuda" not in planned(ROCKY, sources=[dict(own, file="/etc/yum.repos.d/cuda-rhel9.repo", id="cuda-rhel9-x86_64")])["repositories"]


def test_a_file_that_says_what_is_wanted_needs_no_step():
    text = planned(UBUNTU)["repositories"]
    assert not [step for step in planned(UBUNTU, own=text)["actions"] if step["action"] == "configure_repository"]
    assert [step for step in planned(UBUNTU, own=text + "#")["actions"] if step["action"] == "configure_repository"]


def test_a_mirror_keeps_the_makers_key_unless_it_has_its_own():
    found = planned(UBUNTU, {"cuda": {"url": "https://mirror.example/cuda"}})
    assert "URIs: https://mirror.example/cuda/\n" in found["repositories"]
    assert found["keys"][0] == {"path": "/usr/share/keyrings/lockstep-gpu-cuda.gpg", "key": "https://mirror.example/cuda/3bf863cc.pub",
                                "fingerprints": ["EB693B3035CD5710E231E123A4B469963BF863CC"]}
    found = planned(UBUNTU,
                    {"cuda": {"url": "file:///srv/cuda", "suite": "./", "key": "/srv/key.asc",
                              "fingerprint": "0123 4567 89ab cdef 0123 4567 89ab cdef 0123 4567",
                              "options": {"Architectures": "amd64"}}})
    assert found["keys"][0] == {"path": "/usr/share/keyrings/lockstep-gpu-cuda.gpg", "key": "/srv/key.asc", "fingerprints": [PRINT]}
    assert stanzas(found["repositories"])[0] == {"Types": "deb", "URIs": "file:///srv/cuda/", "Suites": "./", "Architectures": "amd64",
                                                 "Signed-By": "/usr/share/keyrings/lockstep-gpu-cuda.gpg"}


@pytest.mark.parametrize("system", ["ubuntu-24.04", "rocky-9"])
def test_a_role_alone_leaves_what_another_one_declared(system):
    """Roles that are used one after the other, each with a stack of its own, agree on one file."""
    one, other = {"os": system, "nccl": {"version": "2.25.1", "cuda": "12.8"}}, {"os": system, "container_toolkit": "1.18.2"}
    text = planned(other, own=planned(one)["repositories"])["repositories"]
    assert text == planned({**one, **other})["repositories"]
    for value in (one, other):
        assert not any(row["action"] == "configure_repository" for row in planned(value, own=text)["actions"])
    # What became the owner's own source is no longer ours.
    theirs = entry(CUDA % {"ubuntu-24.04": "ubuntu2404", "rocky-9": "rhel9"}[system])
    assert "cuda" not in planned(other, own=text, sources=[theirs])["repositories"]


def test_a_key_without_a_fingerprint_is_refused_with_the_line_to_add():
    with pytest.raises(plan.PlanError) as caught:
        planned(MLNX)
    assert MLNX_URL in str(caught.value) and "lockstep_repositories: {mlnx: {fingerprint: <40 digits" in str(caught.value)
    assert planned(MLNX, {"mlnx": {"fingerprint": PRINT}})["keys"][0]["fingerprints"] == [PRINT]
    # Whoever has the source has chosen its key, too.
    assert planned(MLNX, sources=[entry(MLNX_URL)])["keys"] == []


@pytest.mark.parametrize(("overrides", "words"), [
    ({"cudaa": {"url": "https://m.example"}}, "lockstep_repositories.cudaa: is not known; candidates: doca"), ([], "expected repositories by id"),
    ({"cuda": "https://m.example"}, "each a mapping"), ({"cuda": {"uri": "https://m.example"}},
                                                        "lockstep_repositories.cuda.uri: is not known; candidates: url"),
    ({"cuda": {"url": "https://m.example\nTrusted: yes"}}, "expected an address on one line"),
    ({"cuda": {"url": "https://m.example /x"}}, "expected an address on one line"),
    ({"cuda": {"fingerprint": "3BF863CC"}}, "3BF863CC' is not the 40 digits"), ({"cuda": {"fingerprints": [PRINT, "x"]}}, "'X' is not the 40 digits"),
    ({"cuda": {"options": {"Trusted": "yes"}}}, "cuda.options"), ({"cuda": {"options": {"gpgcheck": 0}}}, "cuda.options"),
    ({"cuda": {"options": {"a": "b\nc"}}}, "cuda.options"), ({"cuda": {"options": {"Architectures": ""}}}, "cuda.options"),
    ({"cuda": {"options": {"Allow-Downgrade-To-Insecure": "yes"}}}, "cuda.options"), ({"cuda": {"options": {"URIs": "https://m.example/"}}}, "cuda.options"),
    ({"cuda": {"options": {"Enabled": "no"}}}, "cuda.options"), ({"cuda": {"options": {"pkg_gpgcheck": 0}}}, "cuda.options"),
    ({"cuda": {"url": "mirror.example/cuda"}}, "with its scheme"), ({"cuda": {"url": "[trusted=yes]http://m.example"}}, "with its scheme"),
    ({"cuda": {"suite": "noble", "components": "main"}}, "cuda.components: expected a list of words"),
    ({"cuda": {"suite": "noble", "components": ["main\nTrusted: yes"]}}, "cuda.components"), ({"cuda": {"components": 5}}, "cuda.components"),
    ({"cuda": {"suite": "noble", "components": [5]}}, "cuda.components"), ({"cuda": {"suite": "noble"}}, "'noble' and none"),
    ({"cuda": {"suite": "./", "components": ["main"]}}, "'./' and main"),
    ({"cuda": {"key": 5}}, "cuda.key: expected a key in ASCII armour"), ({"cuda": {"key": ["a"]}}, "cuda.key"),
    ({"cuda": {"key": "keys/cuda.asc"}}, "cuda.key"), ({"cuda": {"key": "https://m.example/a\nb"}}, "cuda.key"),
    ({"cuda": {"fingerprint": PRINT, "fingerprints": [PRINT]}}, "say it once"),
])
def test_a_slip_in_the_users_repositories_is_told(overrides, words):
    if overrides == []:
        overrides = ["cuda"]
    with pytest.raises(plan.PlanError) as caught:
        planned(UBUNTU, overrides)
    assert words in str(caught.value)


@pytest.mark.parametrize("own", [
    {"suite": "noble", "components": ["main", "contrib"]}, {"key": "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxyz\n"}, {"key": "/srv/key.gpg"}, {"key": None},
    {"fingerprint": ":".join(PRINT[at:at + 2] for at in range(0, 40, 2))}, {"fingerprint": "0x" + PRINT}, {"fingerprint": "", "components": None},
    {"url": "copy:/srv/cuda"}, {"options": {"By-Hash": False, "Check-Valid-Until": "no"}},
])
def test_what_sites_write_is_taken(own):
    found = planned(UBUNTU, {"cuda": own})
    assert len(stanzas(found["repositories"])) == 2 and found["keys"][0]["fingerprints"][0] in (PRINT, "EB693B3035CD5710E231E123A4B469963BF863CC")
    assert stanzas(found["repositories"])[0].get("Components") == (" ".join(own.get("components") or []) or None)


def test_a_distributions_own_stack_needs_no_vendor():
    assert planned("debian13-550")["repositories"] == "" and planned("debian13-550")["keys"] == []


def test_no_row_has_a_fingerprint_without_a_public_source():
    for row in FACTS["repositories"]["repositories"]:
        assert not row["fingerprints"] or row["source"].startswith("https://github.com/"), row["id"]
        assert all(repositories.FINGERPRINT.fullmatch(one) for one in row["fingerprints"])


def test_ubuntus_own_components_are_added_where_its_driver_is_wanted():
    jammy = {"file": "/etc/apt/sources.list.d/ubuntu.sources", "types": ["deb"], "uris": ["http://mirror.example/ubuntu"], "suites": ["jammy", "jammy-updates"],
             "components": ["main", "universe"], "signed_by": "/usr/share/keyrings/ubuntu-archive-keyring.gpg", "options": {}, "enabled": True}
    state = {"os": {"codename": "jammy"}, "packages": {}, "package_manager": {"sources": [jammy]}}
    own = {"os": "ubuntu-22.04", "driver": {"version": "580.126.09", "flavour": "open"}}
    text = plan.plan(plan.wanted(stack.expand(own), FACTS), state)["repositories"]
    assert text.count("Components: restricted\n") == 2 and "universe" not in text
    other = dict(own, driver=dict(own["driver"], source="nvidia"))
    assert "restricted" not in plan.plan(plan.wanted(stack.expand(other), FACTS), state)["repositories"]
