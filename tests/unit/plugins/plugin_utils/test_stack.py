# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stacks: what is read, and how everything else is refused."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, stack
from hypothesis import given
from hypothesis import strategies as st

BASE = {"os": "debian-13"}


def refused(value, **kwargs):
    with pytest.raises(stack.StackError) as caught:
        stack.expand(value, **kwargs)
    assert "\n" not in str(caught.value)
    return caught.value


SHIPPED = ["debian12-535", "debian12-nvidia-580", "debian13-535", "debian13-550", "debian13-550-cloud", "debian13-550-open", "rocky10-580",
           "rocky9-570", "rocky9-580", "ubuntu2204-550", "ubuntu2204-580", "ubuntu2204-server-580", "ubuntu2404-580", "ubuntu2404-595",
           "ubuntu2404-archive-580"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_stack_expands_and_stays_the_same(name):
    long_form = stack.expand(name)
    assert long_form["name"] == name
    assert stack.expand(long_form) == long_form
    assert stack.expand(long_form, exact=False) == long_form


def test_the_shipped_stacks_are_these():
    assert stack.names() == SHIPPED


def test_short_strings_become_the_long_form():
    value = dict(BASE, driver="550.163.01", cuda="12.4.1", ofed=56.1, nccl="2.22.3", fabric="550.163.01")
    assert stack.expand(value) == {
        "os": {"id": "debian", "release": "13", "arch": "x86_64"},
        "driver": {"version": "550.163.01", "flavour": "auto", "source": "distribution", "module": "dkms", "options": {}},
        "cuda": {"versions": ["12.4.1"], "active": "12.4.1", "profile": "toolkit"},
        "ofed": {"provider": "inbox", "version": "56.1"},
        "nccl": {"version": "2.22.3"},
        "fabric": {"manager": "550.163.01", "imex": "auto", "nscq": "auto", "nvlsm": "auto"},
    }


def test_no_fabric_is_none_of_its_parts():
    assert stack.expand(dict(BASE, fabric="none"))["fabric"] == dict.fromkeys(("manager", "imex", "nscq", "nvlsm"), "none")
    for one in ({"fabric": {"manager": "none"}}, {"fabric_manager": "none"}):
        assert stack.expand(dict(BASE, **one))["fabric"] == {"manager": "none", "imex": "auto", "nscq": "auto", "nvlsm": "auto"}


def test_other_spellings_mean_the_same():
    one = stack.expand(dict(BASE, driver={"version": "550.163.01", "flavor": "open"}, fabricmanager="550.163.01"))
    other = stack.expand(dict(BASE, driver={"version": "550.163.01", "flavour": "open"}, fabric={"manager": "550.163.01"}))
    assert one == other


def test_a_missing_or_empty_component_is_left_alone():
    assert set(stack.expand(dict(BASE, driver="550.163.01", nccl=None))) == {"os", "driver"}


def test_defaults_are_not_shared_between_stacks():
    first = stack.expand(dict(BASE, driver="550.163.01"))
    first["driver"]["options"]["NVreg_x"] = 1
    assert stack.expand(dict(BASE, driver="550.163.01"))["driver"]["options"] == {}


@pytest.mark.parametrize(("value", "key", "shown", "candidate"), [
    # a glob, a range, a word
    (dict(BASE, driver="550.*"), "driver.version", "550.*", "550.163.01"),
    (dict(BASE, driver=">=550.163.01"), "driver.version", ">=550.163.01", "550.163.01"),
    (dict(BASE, driver="latest"), "driver.version", "latest", "535.274.02"),
    (dict(BASE, cuda="12.4.*"), "cuda.versions[0]", "12.4.*", "12.4.1"),
    (dict(BASE, nccl="*"), "nccl.version", "*", "2.22.3"),
    (dict(BASE, kernel="6.12*"), "kernel.release", "6.12*", "6.12.117+deb13-amd64"),
    # a branch or a series, also as a number
    (dict(BASE, driver="535"), "driver.version", "535", "535.274.02"),
    (dict(BASE, driver=535), "driver.version", "535", "535.274.02"),
    (dict(BASE, driver="535.274"), "driver.version", "535.274", "535.274.02"),
    (dict(BASE, cuda="12.4"), "cuda.versions[0]", "12.4", "12.4.1"),
    (dict(BASE, cuda=12.4), "cuda.versions[0]", "12.4", "12.4.1"),
    (dict(BASE, driver=550.12), "driver.version", "550.12", "550.120"),
    (dict(BASE, kernel="6.12.117"), "kernel.release", "6.12.117", "6.12.117+deb13-amd64"),
    (dict(BASE, ofed="56"), "ofed.version", "56", "56.1"),
    # a typo
    (dict(BASE, driver="550.163.o1"), "driver.version", "550.163.o1", "550.163.01"),
    (dict(BASE, driver="550.163.1"), "driver.version", "550.163.1", "550.163.01"),
    (dict(BASE, cuda="12,4,1"), "cuda.versions[0]", "12,4,1", "12.4.1"),
    (dict(BASE, driver="5" * 1000), "driver.version", "endless", None),
    (dict(BASE, drivr="550.163.01"), "drivr", "drivr", "driver"),
    (dict(BASE, driver={"verson": "550.163.01"}), "driver.verson", "verson", "driver.version"),
    (dict(BASE, driver={"version": "550.163.01", "flavour": "opn"}), "driver.flavour", "opn", "open"),
    # an unknown stack
    ("debian13-55", "lockstep_stack", "debian13-55", "debian13-550"),
    ("../stacks/debian13-550", "lockstep_stack", "../stacks/debian13-550", "debian13-550"),
    # a missing component version
    (dict(BASE, driver={}), "driver.version", "missing", "550.163.01"),
    (dict(BASE, cuda={"profile": "toolkit"}), "cuda.versions", "missing", "12.4.1"),
    (dict(BASE, ofed={"provider": "inbox"}), "ofed.version", "missing", "56.1"),
    (dict(BASE, nccl={"cuda": "12.4"}), "nccl.version", "missing", "2.22.3"),
    (dict(BASE, kernel="6.12.117+deb13-amd64"), "kernel.package_version", "missing", "6.12.117-1"),
    ({"driver": "550.163.01"}, "os", "missing", "debian-13"),
    ({"os": {"id": "debian"}}, "os.release", "missing", "debian-13"),
    (dict(BASE, cuda=["12.4.1", "11.8.0"]), "cuda.active", "missing", "11.8.0"),
    # a wrong type
    (dict(BASE, nccl=["2.22.3"]), "nccl", "a list", "version"),
    (dict(BASE, driver=True), "driver", "a boolean", "version"),
    (dict(BASE, cuda={"versions": {"a": 1}}), "cuda.versions", "a mapping", None),
    (dict(BASE, kernel={"release": ["6.12.117+deb13-amd64"], "package_version": "6.12.117-1"}), "kernel.release", "a list", None),
    (dict(BASE, expect={"gpus": "eight"}), "expect.gpus", "text", None),
    (dict(BASE, expect={"secure_boot": 1}), "expect.secure_boot", "a number", None),
    ([], "lockstep_stack", "a list", "debian13-550"),
    (None, "lockstep_stack", "nothing", "debian13-550"),
    # contradictions
    (dict(BASE, driver={"version": "550.163.01", "flavor": "open", "flavour": "open"}), "driver.flavour", "say it once", None),
    (dict(BASE, fabric="auto", fabric_manager="auto"), "fabric_manager", "say it once", None),
    (dict(BASE, cuda={"versions": ["12.4.1"], "active": "11.8.0"}), "cuda.active", "11.8.0", "12.4.1"),
])
def test_a_refusal_names_the_key_the_value_and_the_candidates(value, key, shown, candidate):
    error = refused(value)
    assert error.key == key
    assert (key if key == "lockstep_stack" else "'%s'" % key) in str(error)
    assert shown in str(error)
    if candidate:
        assert candidate in error.candidates
        assert candidate in str(error) or "more" in str(error)


def test_a_claim_may_be_coarse_and_partial():
    assert stack.expand({"driver": "535", "cuda": "12.4"}, exact=False) == {
        "driver": {"version": "535"}, "cuda": {"versions": ["12.4"], "active": "12.4"}}
    assert refused({"driver": "535.*"}, exact=False).key == "driver.version"


def test_a_new_patch_level_of_a_known_branch_is_exact():
    assert stack.expand(dict(BASE, driver="535.999.01"))["driver"]["version"] == "535.999.01"


def test_own_folder_is_searched_first(tmp_path):
    (tmp_path / "ours.yml").write_text("os: debian-13\ndriver: '550.163.01'\n")
    assert stack.expand("ours", str(tmp_path))["driver"]["version"] == "550.163.01"
    assert stack.expand("debian13-550", [str(tmp_path), None])["name"] == "debian13-550"
    assert "ours" in refused("our", stacks_dir=str(tmp_path)).candidates


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"- 1", b"", b"a: !!python/object:os.system {}"])
def test_a_broken_file_is_one_clear_error(tmp_path, content):
    (tmp_path / "bad.yml").write_bytes(content)
    refused("bad", stacks_dir=str(tmp_path))


LEAVES = (st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
          | st.sampled_from(["535", "550.163.01", "12.4.1", "debian-13", "*", "latest", "6.12.117+deb13-amd64"]))
KEYS = st.sampled_from(["os", "kernel", "driver", "cuda", "ofed", "nccl", "fabric", "fabricmanager", "modules", "expect", "remarks",
                        "version", "versions", "active", "release", "id", "flavor", "options", "name"]) | st.text(max_size=6) | st.integers()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)


@given(value=VALUES | st.dictionaries(KEYS, VALUES, max_size=5), exact=st.booleans())
def test_whatever_comes_gives_a_stack_or_a_stack_error(value, exact):
    try:
        result = stack.expand(value, exact=exact)
    except stack.StackError as error:
        assert str(error).isprintable()
    else:
        assert stack.expand(result, exact=exact) == result


@given(version=st.sampled_from([name for row in knowledge.load()["drivers"]["branches"] for name in row["versions"]]))
def test_every_known_driver_version_is_exact(version):
    assert stack.expand(dict(BASE, driver=version))["driver"]["version"] == version


@pytest.mark.parametrize("value", [{"driver": {"version": 10 ** 5000}}, {"os": {"id": "debian", "release": 10 ** 5000}}, {10 ** 5000: 1},
                                   {"os": "debian-13", "expect": {"gpus": 10 ** 5000}}], ids=["driver", "release", "key", "count"])
def test_a_number_that_python_refuses_to_print_is_refused(value):
    assert refused(value, exact=False).code == "stack_invalid"


@pytest.mark.parametrize("version, exact", [
    ("6.8.0-84.84~22.04.1", True), ("6.8.0-84.84", True), ("~6.8.0-84", False), ("6.8.0~", False), ("6.8.0-84.84~22.04.*", False)])
def test_a_tilde_belongs_to_ubuntu_s_kernels(version, exact):
    mapping = {"os": "ubuntu-22.04", "kernel": {"release": "6.8.0-84-generic", "package_version": version}}
    if exact:
        assert stack.expand(mapping)["kernel"]["package_version"] == version
    else:
        with pytest.raises(stack.StackError):
            stack.expand(mapping)
