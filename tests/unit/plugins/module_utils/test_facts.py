# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole state, from recorded nodes and from damaged ones."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils import facts
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe, to_bundle
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import LiveProbe, Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import LEVEL_OF, PROBES
from hypothesis import given, settings
from hypothesis import strategies as st

BUNDLES = pathlib.Path(__file__).parents[3] / "fixtures" / "bundles"
KEYS = {"schema", "gathered", "os", "container", "kernel", "compilers", "boot", "gpus", "gpu_devices", "nvswitches", "dkms", "modules", "packages",
        "package_manager", "alternatives", "libraries", "cuda", "ofed", "secure_boot", "space", "unknown", "not_recorded"}


class Recorded:
    """A bundle in memory, with some probes replaced."""

    def __init__(self, name=None, **changes):
        bundle = BundleProbe(str(BUNDLES / name), yaml.safe_load) if name else None
        self.seen = {probe: bundle.read(probe) if bundle else Observation(None, reason="nothing") for probe in PROBES}
        self.seen.update((probe, Observation(0, text) if isinstance(text, str) else text) for probe, text in changes.items())

    def start(self, names):
        assert set(names) <= set(PROBES)

    def read(self, name):
        return self.seen[name]


def state(name="debian13-550", **changes):
    return facts.assemble(Recorded(name, **changes))


def reasons(result):
    return {item["probe"] for item in result["unknown"]}


def test_debian_13():
    result = state()
    assert KEYS <= set(result) and result["unknown"] == [] and result["schema"] == 1
    assert result["os"] == {"id": "debian", "release": "13", "codename": "trixie", "arch": "x86_64", "name": "Debian GNU/Linux 13 (trixie)"}
    assert result["container"] is True and result["secure_boot"] is None and result["gpus"] == [] and result["nvswitches"] == []
    assert result["kernel"]["installed"] == [
        {"release": "6.12.117+deb13-amd64", "package": "linux-image-6.12.117+deb13-amd64", "package_version": "6.12.117-1",
         "image": True, "initramfs": True, "headers": True, "compiler": "gcc 14.2.0", "drm": True}]
    assert result["boot"]["loader"] == "none" and result["boot"]["default_kernel"] is None
    assert result["dkms"] == [{"module": "nvidia-current", "version": "550.163.01", "kernel": "6.12.117+deb13-amd64", "arch": "x86_64",
                               "state": "installed", "flags": []}]
    assert result["modules"]["loaded"] is None and {item["version"] for item in result["modules"]["files"]} == {"550.163.01"}
    assert result["package_manager"]["kind"] == "apt" and result["package_manager"]["lock_held"] is False
    assert result["package_manager"]["sources"][0]["uris"] == ["http://mirror.example/debian"]
    assert result["package_manager"]["own_pins"] == {} and result["package_manager"]["dkms_guard"] is None
    assert result["alternatives"]["nvidia"]["value"] == "/usr/lib/nvidia/current"
    assert result["alternatives"]["glx"]["mode"] == "auto"
    assert result["cuda"] == {"toolkits": [{"path": "/usr/lib/nvidia-cuda-toolkit", "version": "12.4.131", "release": "12.4.1"}],
                              "active": "/usr/lib/nvidia-cuda-toolkit", "active_release": "12.4.1"}
    assert result["ofed"] == {"kind": "inbox", "version": "56.1"}
    assert result["space"]["/"] > 0


def test_debian_12():
    result = state("debian12-535")
    assert result["unknown"] == [] and result["os"]["codename"] == "bookworm"
    assert result["dkms"][0]["version"] == "535.261.03" and result["kernel"]["installed"][0]["compiler"] == "gcc 12.2.0"
    assert {item["soname"]: item["version"] for item in result["libraries"]} == {
        "libcuda.so.1": "535.261.03", "libnvidia-ml.so.1": "535.261.03"}
    assert result["cuda"]["toolkits"][0]["release"] == "11.8.0" and result["ofed"]["version"] == "44.0"


def test_nothing_is_known():
    result = facts.assemble(Recorded())
    assert KEYS <= set(result)
    assert reasons(result) >= {"os_release", "uname_r", "dpkg_list", "dkms_status", "kernel_files", "modinfo", "pci_devices", "space"}
    assert reasons(result) <= {name for name in PROBES if LEVEL_OF[name] == "local"}
    for key in ("container", "compilers", "gpus", "gpu_devices", "nvswitches", "dkms", "packages", "alternatives", "libraries", "secure_boot", "space"):
        assert result[key] is None, key
    assert result["kernel"] == {"running": None, "cmdline": None, "installed": None}
    assert set(result["package_manager"].values()) == {None} and set(result["os"].values()) == {None}
    assert result["cuda"] == {"toolkits": None, "active": None, "active_release": None} and result["ofed"] == {"kind": None, "version": None}
    json.dumps(result)


def test_an_empty_node_is_known_to_be_empty():
    gone = Observation(1, "", "x: No such file or directory\n")
    result = state(dkms_status=Observation(127, "", "dkms: command not found"), modinfo="", alternatives_admin=gone, alternatives_links="",
                   apt_sources=gone, cuda_paths="", loader_libraries="", apt_extended_states=gone,
                   dpkg_list="dpkg\tamd64\t1\tdpkg\t1\tinstall\tok\tinstalled\n")
    assert result["unknown"] == [] and result["dkms"] == [] and result["packages"] == {} and result["alternatives"] == {}
    assert result["package_manager"]["sources"] == [] and result["libraries"] == [] and result["modules"]["files"] == []
    assert result["ofed"] == {"kind": "none", "version": None} and result["cuda"] == {"toolkits": [], "active": None, "active_release": None}


def test_a_command_that_fails_is_not_an_empty_answer():
    failed = Observation(2, "", "dpkg-query: error: the package list is damaged\nNo such file or directory")
    result = state(dpkg_list=failed, dkms_status=Observation(1, "", "Error! cannot read"))
    assert result["packages"] is None and result["package_manager"]["holds"] is None and result["dkms"] is None
    assert {"probe": "dkms_status", "reason": "exit status 1: Error! cannot read"} in result["unknown"]
    assert "dpkg_list" in reasons(result)


def test_modinfo_with_one_damaged_file_keeps_the_others():
    result = state(modinfo=Observation(1, "filename: /lib/modules/6.1/nvidia.ko\nversion: 550.1\n", "modinfo: ERROR: could not get modinfo\n"))
    assert result["modules"]["files"][0]["version"] == "550.1" and reasons(result) == {"modinfo"}


def test_loaded_driver():
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build\n"
    assert state(proc_driver_version=text)["modules"]["loaded"] == {"version": "565.57.01", "flavour": "open", "arch": "x86_64", "gcc": None}
    half = state(sys_module_version="565.57.01\n")
    assert half["modules"]["loaded"] == {"version": "565.57.01", "flavour": None} and reasons(half) == {"proc_driver_version"}


def test_own_files():
    own = "==> /etc/apt/sources.list.d/lockstep-gpu.sources <==\nTypes: deb\nURIs: u\nSuites: s\n"
    pref = "==> /etc/apt/preferences.d/lockstep-gpu.pref <==\nPackage: libcuda1\nPin: version 1-1\nPin-Priority: 1001\n"
    result = state(apt_sources=own, apt_preferences=pref, dkms_guard="# Written by lockstep.gpu\n")["package_manager"]
    assert result["own_sources"] == "Types: deb\nURIs: u\nSuites: s\n" and result["own_pins"] == {"libcuda1": "1-1"}
    assert result["dkms_guard"] == "ours" and state(dkms_guard="")["package_manager"]["dkms_guard"] == "foreign"


GRUB = {"boot_files": "/boot/grub/grub.cfg\n/boot/grub/grubenv\n", "container_marks": "",
        "grub_default": "==> /etc/default/grub <==\nGRUB_DEFAULT=saved\n", "secure_boot": "SecureBoot disabled\n",
        "grubenv": "# GRUB Environment Block\nsaved_entry=1\n", "proc_mounts": "/dev/sda1 / ext4 rw 0 0\n",
        "grub_cfg": "set default=\"${saved_entry}\"\nmenuentry 'a' {\n\tlinux /boot/vmlinuz-6.1 ro\n}\nmenuentry 'b' {\n\tlinux /boot/vmlinuz-6.2 ro\n}\n"}


def test_grub():
    result = state(**GRUB)
    entries = [{"id": None, "title": title, "kernel": kernel, "machine_id": None, "rescue": False} for title, kernel in (("a", "6.1"), ("b", "6.2"))]
    assert result["boot"] == {"loader": "grub", "grub_default": "saved", "saved_entry": "1", "next_entry": None, "default_kernel": "6.2",
                              "env_writable": True, "grub_settings": {"GRUB_DEFAULT": "saved"}, "environment": {"saved_entry": "1"},
                              "menu_default": "${saved_entry}", "env_refused": None, "entries": entries, "machine_id": None}
    assert result["secure_boot"] is False and result["unknown"] == []


@pytest.mark.parametrize("change,key,value,noted", [
    ({"proc_mounts": "/dev/mapper/vg-root / ext4 rw 0 0\n"}, "env_writable", False, False),
    ({"proc_mounts": "host / 9p rw 0 0\n"}, "env_writable", None, True),
    ({"grub_default": "==> /g <==\nGRUB_DEFAULT=$(x)\n"}, "grub_default", None, True),
    ({"grub_default": "==> /g <==\nGRUB_DEFAULT=\"open\n"}, "grub_default", None, True),
    ({"grub_default": "no settings\n"}, "grub_default", None, True),
    ({"grub_default": "no settings\n"}, "default_kernel", "6.2", True),
    ({"grub_default": "GRUB_DEFAULT=saved\n"}, "grub_default", "saved", False),
    ({"grub_default": "==> /g <==\nGRUB_TIMEOUT=1\n"}, "grub_default", "0", False),
    ({"grub_cfg": GRUB["grub_cfg"].replace("${saved_entry}", "0")}, "default_kernel", "6.1", False),    # settings not taken over yet
    ({"grub_cfg": GRUB["grub_cfg"].replace("${saved_entry}", "${mine}")}, "default_kernel", None, True),
    ({"grubenv": "torn"}, "default_kernel", None, True), ({"grub_cfg": ""}, "default_kernel", None, True),
    ({"boot_files": "/boot/grub/grub.cfg\n"}, "env_writable", None, True),
    ({"boot_files": "/boot/efi/loader/loader.conf\n"}, "loader", "systemd-boot", False),
    ({"boot_files": ""}, "loader", None, True)])
def test_grub_troubles(change, key, value, noted):
    result = state(**dict(GRUB, **change))
    assert result["boot"][key] == value and bool(result["unknown"]) is noted


def test_kernels():
    packages = "".join("%s\tamd64\t6.1-1\tlinux\t6.1-1\tinstall\tok\tinstalled\n" % name for name in (
        "dpkg", "linux-image-amd64", "linux-image-6.1-amd64", "linux-image-unsigned-6.2-generic", "linux-headers-6.3",
        "linux-image-6.1-amd64-dbg", "linux-image-6.1-amd64-unsigned", "linux-image-6.8.0-31-generic-dbgsym"))
    packages += "linux-image-6.7-686\ti386\t6.7-1\tlinux\t6.7-1\tinstall\tok\tinstalled\n"
    result = state(dpkg_list=packages, kernel_files="/boot/vmlinuz-6.1-amd64\n/boot/vmlinuz-6.9-own\n/lib/modules/6.3/build/Makefile\n")
    assert [(item["release"], item["package"], item["image"]) for item in result["kernel"]["installed"]] == [
        ("6.1-amd64", "linux-image-6.1-amd64", True), ("6.2-generic", "linux-image-unsigned-6.2-generic", False), ("6.9-own", None, True)]


def test_vendor_cuda_and_ofed():
    result = state(cuda_paths="/usr/local/cuda-12.4/bin/nvcc\n/usr/local/cuda-13/bin/nvcc\n/usr/local/cuda -> /usr/local/cuda-12.4\n",
                   cuda_versions='==> /usr/local/cuda-12.4/version.json <==\n{"cuda": {"version": "12.4.1"}}\n',
                   ofed_info="MLNX_OFED_LINUX-5.4-3.1.0.0:\n")
    assert result["cuda"]["active"] == "/usr/local/cuda-12.4" and result["cuda"]["toolkits"][0]["release"] == "12.4.1"
    assert result["ofed"] == {"kind": "mlnx", "version": "5.4-3.1.0.0", "release": "5.4", "build": "3.1.0.0"} and reasons(result) == {"cuda_versions"}


def test_levels():
    smi = "0, NVIDIA H100, GPU-1, 550.163.01, 00000000:17:00.0\n"
    both = facts.result(Recorded("debian13-550", nvidia_smi_query=smi), ["local", "gpu"])
    assert both["ansible_facts"]["lockstep"]["gpu_query"][0]["address"] == "0000:17:00.0" and both["unknown"] == 0
    checked = facts.result(Recorded("debian13-550", nvidia_smi_query=smi), ["local", "gpu"], ask_gpu=False)
    assert "gpu_query" not in checked["ansible_facts"]["lockstep"] and checked["unknown"] == 1
    assert checked["ansible_facts"]["lockstep"]["gathered"] == ["local"] and checked["changed"] is False


def test_a_flood_of_problems_is_cut():
    result = state(dkms_status="noise\n" * 1000)
    assert len(result["unknown"]) == 6 and result["unknown"][-1]["reason"] == "and 995 more of the kind"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_recording_makes_it_raise(data):
    other = Recorded(data.draw(st.sampled_from(["debian13-550", "debian12-535"])))
    for name in data.draw(st.lists(st.sampled_from(sorted(PROBES)), max_size=8)):
        text = other.seen[data.draw(st.sampled_from(sorted(PROBES)))].out
        cut = data.draw(st.integers(0, len(text)))
        rc = data.draw(st.sampled_from([0, 0, 1, 127, None]))
        other.seen[name] = Observation(rc, text[:cut], data.draw(st.text(max_size=20)), None)
    result = facts.assemble(other, ["local", "gpu"])
    assert KEYS < set(result) and json.dumps(result)


def test_this_machine_and_its_bundle_agree(tmp_path):
    live = LiveProbe()
    names = [name for name in PROBES if name not in ("nvidia_smi_query", "space", "apt_locks")]
    live.start(names)
    seen = {name: live.read(name) for name in names}
    manifest, texts = to_bundle(seen)
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "bundle.yml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    replayed = facts.assemble(BundleProbe(str(tmp_path), yaml.safe_load))
    direct = Recorded(**seen)
    direct.seen.update((name, Observation(None, reason="not in the bundle")) for name in ("space", "apt_locks"))
    assert replayed == facts.assemble(direct)


def test_device_nodes_tell_whether_a_container_has_a_gpu():
    assert state()["gpu_devices"] is False
    assert state(gpu_devices="/dev/nvidia0\n/dev/nvidiactl\n")["gpu_devices"] is True


def test_vendors_assignments_in_os_release():
    text = "ID=debian\nVERSION_ID=\"13\"\nbuild_id=12\nVENDOR_THING=a b $(c)\n"
    assert state(os_release=text)["unknown"] == []
    assert reasons(state(os_release=text + "PRETTY_NAME=\"open\n")) == reasons(state(os_release=text + "noise\n")) == {"os_release"}
