# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What packages bring; the loader, binutils, sh and the collection's probes judge it."""
from __future__ import annotations

import ctypes
import re
import subprocess

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import cuda_probe_lib as probe
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_containers import parse_dcgm_version, parse_toolkit_version
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_fabric import parse_fabric_manager_version
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_libraries import parse_cuda_versions
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_ofed import parse_ofed_info
from stubs import contents, contents_driver, deb, repositories, tables
from stubs.payload import SCRIPTS


def _put(tmp_path, file, name="x"):
    path = tmp_path / name
    path.write_bytes(file.data)
    path.chmod(0o755)
    return path


def said(tmp_path, file, *words):
    return subprocess.run([str(_put(tmp_path, file)), *words], capture_output=True, text=True, check=False)


def test_libcuda_answers_for_its_branch(payload_of, tmp_path):
    files = payload_of("ubuntu2404-cuda", "libnvidia-compute-580", "580.126.20").files
    folder = "/usr/lib/x86_64-linux-gnu/"
    assert files[folder + "libcuda.so.1"].link == "libcuda.so.580.126.20"
    library = ctypes.CDLL(str(_put(tmp_path, files[folder + "libcuda.so.580.126.20"], "libcuda")))
    number = ctypes.c_int(0)
    assert library.cuDriverGetVersion(ctypes.byref(number)) == 0 and probe.decode_cuda(number.value) == "13.0"
    assert library.cuInit(0) == 100


def test_nvml_finds_no_driver(payload_of, tmp_path):
    files = payload_of("rhel9-cuda", "libnvidia-ml", "580.126.20").files
    library = ctypes.CDLL(str(_put(tmp_path, files["/usr/lib64/libnvidia-ml.so.580.126.20"], "libml")))
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert library.nvmlInit_v2() == 9 and library.nvmlErrorString(9) == b"Driver Not Loaded"


def test_the_loader_finds_a_soname(payload_of, tmp_path):
    path = _put(tmp_path, payload_of("debian12-cuda", "libcuda1", "590.48.01").files["/usr/lib/x86_64-linux-gnu/libcuda.so.590.48.01"])
    assert "Library soname: [libcuda.so.1]" in subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout


def test_nvidia_smi_carries_its_version(payload_of, tmp_path):
    file = payload_of("rhel9-cuda", "nvidia-driver-cuda", "580.126.20").files["/usr/bin/nvidia-smi"]
    assert probe.embedded_version(file.data) == "580.126.20"
    ran = said(tmp_path, file)
    assert ran.returncode == 9 and "couldn't communicate with the NVIDIA driver" in ran.stdout


@pytest.mark.parametrize("identifier", [name for name in repositories.ids() if name.endswith(("-cuda", "-archive"))])
def test_whoever_has_libcuda_finds_the_other_parts_of_that_driver(identifier, compiled):
    repo = repositories.get(identifier)
    maker = contents.Maker(repo, compiled)
    found = {}
    for row in repo.rows:
        # Prebuilt modules of Ubuntu bear the kernel's version.
        if re.fullmatch(r"\d{3}\.\d{2,3}(\.\d{2})?", row.upstream):
            found.setdefault(row.upstream, set()).update(path.rsplit("/", 1)[-1] for path in maker(row).files)
    drivers = {version: names for version, names in found.items() if "libcuda.so.1" in names}
    assert len(drivers) > 5
    for version, names in drivers.items():
        assert {"libcuda.so." + version, "libnvidia-ml.so." + version} <= names, version
        # Of a few versions the tables have single packages, and no whole driver.
        whole = len([row for row in repo.rows if row.upstream == version]) >= 15
        assert {"nvidia-smi", "dkms.conf", "nvidia-uvm.c"} <= names or not whole, version
    assert any({"nvidia-smi", "dkms.conf"} <= names for names in drivers.values())


def test_no_two_packages_of_a_node_have_one_path(compiled):
    """Those that a driver of one version and flavour consists of, in the repository's own relations."""
    for identifier, names in (
            ("ubuntu2404-cuda", r"(lib)?nvidia-(?!.*(server|headless)).*-580(-open)?|nvidia-(modprobe|persistenced|fabricmanager|imex)|libnvidia-(nscq|cfg1)"),
            ("rhel9-cuda", r"nvidia-.*|libnvidia-.*|kmod-nvidia-open-dkms"), ("debian12-cuda", r"nvidia-(?!kernel-dkms).*|lib(cuda|nvidia).*")):
        repo = repositories.get(identifier)
        maker = contents.Maker(repo, compiled)
        owners = {}
        for row in repo.rows:
            proprietary = identifier.startswith("ubuntu") and re.fullmatch(r"nvidia-(kernel-source|dkms)-580", row.name)
            if row.upstream == "580.126.20" and re.fullmatch(names, row.name) and not proprietary:
                for path in maker(row).files:
                    owners.setdefault(path, []).append(row.name)
        assert {path: rows for path, rows in owners.items() if len(rows) > 1} == {}, identifier


def test_sources_of_a_module_say_version_and_licence(payload_of):
    for name, module_license in (("nvidia-kernel-source-580-open", "Dual MIT/GPL"), ("nvidia-kernel-source-580", "NVIDIA")):
        files = payload_of("ubuntu2404-cuda", name, "580.126.20").files
        text = files["/usr/src/nvidia-580.126.20/nvidia-uvm.c"].data.decode()
        assert 'MODULE_VERSION("580.126.20")' in text and 'MODULE_LICENSE("%s")' % module_license in text


@pytest.mark.parametrize("identifier, name, version, module, first", [
    ("ubuntu2404-cuda", "nvidia-dkms-580-open", "580.126.20", "nvidia-580.126.20", "nvidia"),
    ("ubuntu2404-archive", "nvidia-dkms-570-server", "570.133.20", "nvidia-srv-570.133.20", "nvidia"),
    ("debian12-cuda", "nvidia-kernel-dkms", "550.90.07", "nvidia-current-550.90.07", "nvidia-current"),
    ("debian12-cuda", "nvidia-kernel-open-dkms", "590.48.01", "nvidia-590.48.01", "nvidia"),
    ("rhel9-cuda", "kmod-nvidia-open-dkms", "570.133.20", "nvidia-open-570.133.20", "nvidia"),
    ("rhel9-cuda", "kmod-nvidia-open-dkms", "580.126.20", "nvidia-580.126.20", "nvidia"),
    ("rhel9-cuda", "kmod-nvidia-latest-dkms", "570.133.20", "nvidia-570.133.20", "nvidia"),
    ("mlnx-ofed-ubuntu2204-24.10-1.1.4.0", "mlnx-ofed-kernel-dkms", "24.10", "mlnx-ofed-kernel-24.10.OFED.24.10.1.1.4.1", "mlx_compat")])
def test_dkms_conf(payload_of, tmp_path, identifier, name, version, module, first):
    made = payload_of(identifier, name, version)
    conf = _put(tmp_path, made.files["/usr/src/%s/dkms.conf" % module])
    # bash is what reads it in DKMS, too.
    ask = '. "$0"; echo "$PACKAGE_NAME-$PACKAGE_VERSION ${DEST_MODULE_NAME[0]:-${BUILT_MODULE_NAME[0]}} ${#BUILT_MODULE_NAME[@]}"'
    told = subprocess.run(["bash", "-c", ask, conf], capture_output=True, text=True, check=True).stdout.split()
    assert told == [module, first, "5"] and "dkms" in made.scripts["postinst"] and "dkms remove" in made.scripts["prerm"]


def _modinfo(path):
    text = subprocess.run(["readelf", "-p", ".modinfo", str(path)], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"\]  (\w+)=([^\n]*)", text))


@pytest.mark.parametrize("identifier, name, path, want", [
    ("ubuntu2404-archive", "linux-modules-nvidia-580-open-6.8.0-138-generic", "/lib/modules/6.8.0-138-generic/kernel/nvidia-580-open/nvidia-uvm.ko",
     {"version": "580.173.02", "license": "Dual MIT/GPL", "name": "nvidia_uvm"}),
    ("rhel9-cuda", "kmod-nvidia-580.126.20-5.14.0-570.18.1", "/lib/modules/5.14.0-570.18.1.el9_6.x86_64/extra/drivers/video/nvidia/nvidia.ko",
     {"version": "580.126.20", "license": "NVIDIA", "name": "nvidia"})])
def test_prebuilt_modules(payload_of, tmp_path, identifier, name, path, want):
    told = _modinfo(_put(tmp_path, payload_of(identifier, name).files[path]))
    assert dict(told, vermagic=told["vermagic"].split()[0]) == dict(want, depends="", vermagic=path.split("/")[3])


def test_a_kernel_comes_with_what_boot_loaders_and_depmod_look_for(payload_of, tmp_path):
    release = "6.8.0-138-generic"
    image, modules, headers = (payload_of("ubuntu2404-archive", "linux-%s-%s" % (part, release)) for part in ("image", "modules", "headers"))
    assert "/boot/vmlinuz-" + release in image.files and "/boot/config-" + release in modules.files
    assert headers.files["/lib/modules/%s/build" % release].link == "/usr/src/linux-headers-" + release
    told = _modinfo(_put(tmp_path, modules.files["/lib/modules/%s/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko" % release]))
    assert told["vermagic"].split()[0] == release and "version" not in told
    release = "5.14.0-570.18.1.el9_6.x86_64"
    assert "/lib/modules/%s/vmlinuz" % release in payload_of("el9-baseos", "kernel-core", "570.18.1").files
    assert payload_of("el9-baseos", "kernel-devel", "570.18.1").files["/lib/modules/%s/build" % release].link == "/usr/src/kernels/" + release


@pytest.mark.parametrize("identifier", [name for name in repositories.ids() if repositories.get(name).kind == "deb" or name.startswith("el")])
def test_scripts_are_sh(identifier, compiled):
    repo = repositories.get(identifier)
    maker = contents.Maker(repo, compiled)
    texts = {deb.script(SCRIPTS[name] or "true", lines) for row in repo.rows if re.match("linux|kernel|nvidia|cuda-toolkit|mlnx|lib", row.name)
             for name, lines in maker(row).scripts.items()}
    ran = subprocess.run(["sh", "-n"], input="\n".join(sorted(texts)), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_nvcc_says_and_makes(payload_of, tmp_path):
    nvcc = payload_of("ubuntu2404-cuda", "cuda-nvcc-12-8", "12.8.93").files["/usr/local/cuda-12.8/bin/nvcc"]
    assert probe.parse_nvcc(said(tmp_path, nvcc, "--version").stdout) == {"release": "12.8", "version": "12.8.93"}
    program = tmp_path / "add"
    assert said(tmp_path, nvcc, "-ccbin", "g++-12", "-o", str(program), str(program) + ".cu").returncode == 0
    assert subprocess.run([str(program)], capture_output=True, check=False).returncode == 3


@pytest.mark.parametrize("identifier, version, want", [("ubuntu2404-cuda", "12.8.90", ("12.8.1", "12.8.93")), ("rhel9-cuda", "12.8.55", ("12.8.0", "12.8.61"))])
def test_a_toolkit_says_its_release(payload_of, identifier, version, want):
    text = payload_of(identifier, "cuda-documentation-12-8", version).files["/usr/local/cuda-12.8/version.json"].data.decode()
    assert parse_cuda_versions(text).value == {"/usr/local/cuda": {"release": want[0], "version": want[1]}}


def test_libcudart_and_libnccl(payload_of, tmp_path):
    files = payload_of("ubuntu2404-cuda", "cuda-cudart-12-8", "12.8.90").files
    folder = "/usr/local/cuda-12.8/targets/x86_64-linux/lib/"
    assert files[folder + "libcudart.so.12"].link == "libcudart.so.12.8.90"
    number = ctypes.c_int(0)
    ctypes.CDLL(str(_put(tmp_path, files[folder + "libcudart.so.12.8.90"], "a"))).cudaRuntimeGetVersion(ctypes.byref(number))
    assert probe.decode_cuda(number.value) == "12.8"
    files = payload_of("rhel9-cuda", "libnccl", "2.21.5").files
    ctypes.CDLL(str(_put(tmp_path, files["/usr/lib64/libnccl.so.2.21.5"], "b"))).ncclGetVersion(ctypes.byref(number))
    assert probe.decode_nccl(number.value) == "2.21.5"


CTK, DCGM, FM = "nvidia-container-toolkit-base", "datacenter-gpu-manager-4-core", "nvidia-fabricmanager"


@pytest.mark.parametrize("identifier, name, version, words, parser, want", [
    ("container-toolkit-deb", CTK, "1.17.8", ["/usr/bin/nvidia-ctk", "--version"], parse_toolkit_version, "1.17.8"),
    ("container-toolkit-rpm", "libnvidia-container-tools", "1.17.8", ["/usr/bin/nvidia-container-cli", "--version"], parse_toolkit_version, "1.17.8"),
    ("rhel9-cuda", DCGM, "4.4.2", ["/usr/bin/dcgmi", "-v"], parse_dcgm_version, {"version": "4.4.2", "host_engine": None}),
    ("ubuntu2404-cuda", FM, "580.126.20", ["/usr/bin/nv-fabricmanager", "--version"], parse_fabric_manager_version, "580.126.20")])
def test_tools_say_their_versions(payload_of, tmp_path, identifier, name, version, words, parser, want):
    assert parser(said(tmp_path, payload_of(identifier, name, version).files[words[0]], *words[1:]).stdout).value == want


def test_rdma_tools(payload_of, tmp_path):
    for release, name in (("24.10-1.1.4.0", "ofed-scripts"), ("24.10-2.1.8.0", "mlnx-ofed-kernel-utils")):
        mlnx = said(tmp_path, payload_of("mlnx-ofed-ubuntu2204-" + release, name).files["/usr/bin/ofed_info"], "-s").stdout
        assert mlnx == "MLNX_OFED_LINUX-%s:\n" % release and parse_ofed_info(mlnx).value["kind"] == "mlnx"
    assert "/usr/bin/ofed_info" not in payload_of("mlnx-ofed-ubuntu2204-24.10-1.1.4.0", "mlnx-ofed-kernel-utils").files
    doca = said(tmp_path, payload_of("doca-ubuntu2204-3.2.1-044000", "mlnx-ofed-kernel-utils").files["/usr/bin/ofed_info"], "-s").stdout
    assert doca == "OFED-internal-25.10-1.7.1:\n" and parse_ofed_info(doca).value["kind"] == "doca"
    devices = said(tmp_path, payload_of("ubuntu2204-archive", "ibverbs-utils").files["/usr/bin/ibv_devinfo"], "-l")
    assert "HCAs found:" in devices.stdout or (devices.returncode, devices.stdout) == (255, "No IB devices found\n")


def test_a_daemon_runs_only_beside_its_driver(payload_of, tmp_path):
    made = payload_of("ubuntu2404-cuda", "nvidia-fabricmanager", "580.126.20")
    ran = said(tmp_path, made.files["/usr/bin/nv-fabricmanager"])
    assert ran.returncode == 1 and "no NVIDIA driver 580.126.20 is loaded" in ran.stderr
    assert "ExecStart=/usr/bin/nv-fabricmanager\n" in made.files["/lib/systemd/system/nvidia-fabricmanager.service"].data.decode()


def test_files_that_collide_differ(payload_of):
    path = "/usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.580.95.05"
    one, other = (payload_of(identifier, "libnvidia-cfg1-580", "580.95.05").files[path].data for identifier in ("ubuntu2404-cuda", "ubuntu2404-archive"))
    assert one[:4] == b"\x7fELF" and other[:4] == b"\x7fELF"


def test_pin_packages_bring_their_preferences(payload_of):
    text = payload_of("ubuntu2404-cuda", "nvidia-driver-pinning-580").files["/etc/apt/preferences.d/nvidia-driver-pin"].data.decode()
    assert text.startswith("Package: ") and "Pin: version 580.*" in text


def test_every_branch_of_the_tables_has_a_cuda_api():
    branches = {tables.parts(row.version).get("b") for name in repositories.DIRECT if name.endswith(("-cuda", "-archive")) for row in tables.load(name).rows
                if re.match("libcuda1|libnvidia-compute|nvidia-driver-cuda-libs", row.name)}
    assert branches - {None} <= set(contents_driver.CUDA_API)
