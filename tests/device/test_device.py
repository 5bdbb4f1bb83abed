"""Datasheets that agree with themselves, and a device that says what it is or why it is not there."""

from __future__ import annotations

import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.files import share
from brrr.gpu import device, probe
from brrr.gpu import probe as clocks
from brrr.gpu.datasheet import DTYPES, DatasheetError, datasheets, read_datasheets
from tests.refusals import refused

FILE = share("data") / "hardware.toml"
GPUS = [one for one in datasheets().values() if one.key != "cpu"]
SPARSE = {
    ("l4", "bf16"): 242e12, ("l40s", "bf16"): 733e12, ("h100", "bf16"): 1979e12, ("h200", "tf32"): 989e12,
    ("b200", "fp8"): 9e15, ("a100", "bf16"): 624e12, ("rtx-4090", "bf16"): 330.4e12, ("rtx-3090", "bf16"): 142e12,
}  # fmt: skip
"""What the same datasheets print with sparsity: none of it may stand among the dense figures."""

# ----------------------------------------------------------------------------------------------------------------------
# Datasheets


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.key)
def test_datasheet_agrees_with_itself(gpu: device.Hardware) -> None:
    if gpu.cuda_cores and gpu.boost_clock_hz:
        assert gpu.peak("fp32", "cuda cores") == pytest.approx(2 * gpu.cuda_cores * gpu.boost_clock_hz, rel=0.05)
    if gpu.cuda_cores and gpu.sm_count:
        assert gpu.cuda_cores / gpu.sm_count in (64, 128)
    if (link := gpu.host_link) is not None:  # some share the CPU's memory, or are linked to it in another way
        transfers_per_s = {3: 8e9, 4: 16e9, 5: 32e9}[link.pcie]
        assert link.bytes_per_s == pytest.approx(transfers_per_s * link.lanes * 128 / 130 / 8, rel=1e-3)
    assert gpu.memory_bytes is None or gpu.memory_bytes % 2**30 == 0
    assert 5e10 < gpu.memory_bytes_per_s < 1e13
    assert all(source.url.startswith("https://") for source in gpu.sources)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.key)
def test_narrower_types_are_faster_on_tensor_cores(gpu: device.Hardware) -> None:
    tensor = {dtype: peak for (dtype, unit), peak in gpu.peaks.items() if unit == "tensor cores"}
    for wide, narrow in (("fp64", "tf32"), ("tf32", "fp16"), ("fp16", "fp8"), ("fp16", "int8")):
        if wide in tensor and narrow in tensor:
            assert 1.95 <= tensor[narrow] / tensor[wide] <= (32 if wide == "fp64" else 4.05)  # L40S: 183 and 362
    assert tensor.get("bf16", tensor.get("fp16")) == tensor.get("fp16")


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.key)
def test_derived_names_figures_that_are_there(gpu: device.Hardware) -> None:
    for name in gpu.derived:
        assert name in {dtype for dtype, _ in gpu.peaks} if name in DTYPES else getattr(gpu, name) is not None


@pytest.mark.parametrize(("key", "dtype"), SPARSE)
def test_no_figure_is_with_sparsity(key: str, dtype: str) -> None:
    assert device.hardware(key).peak(dtype, "tensor cores") == pytest.approx(SPARSE[key, dtype] / 2, rel=0.015)


def test_ridge_points_of_matrix_units_rise_from_v100_to_h100() -> None:
    ridges = [device.hardware(key).ridge_point("fp16", "tensor cores") for key in ("v100", "a100", "h100")]
    assert ridges == sorted(ridges)
    assert device.hardware("h200").ridge_point("fp16") < ridges[-1]  # the same GPU with more bandwidth


LOOKED_UP = {
    "h200": ("h200", "NVIDIA H200"), "t4": ("Tesla T4",), "rtx-4090": ("NVIDIA GeForce RTX 4090",),
    "gtx-1070": ("GeForce GTX 1070", "NVIDIA GeForce GTX 1070"), "v100": ("Tesla V100-SXM2-32GB",),
    "a100-40gb": ("NVIDIA A100-SXM4-40GB",), "a100": ("A100-SXM4-80GB",), "h100": ("NVIDIA H100 80GB HBM3",),
    "rtx-3090": ("RTX 3090",),
}  # fmt: skip


@pytest.mark.parametrize("key", LOOKED_UP)
def test_lookup(key: str) -> None:
    assert {device.hardware(name).key for name in LOOKED_UP[key]} == {key}


@pytest.mark.parametrize(
    "other", ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100 PCIe", "NVIDIA H200 NVL", "GeForce GTX 1070 Ti", ""]
)
def test_another_model_is_not_taken_for_one_of_ours(other: str) -> None:
    assert device.find_hardware(other) is None


def test_unknown_names_and_types_name_what_there_is() -> None:
    with pytest.raises(ArgumentError, match=r"hardware: name is 'rtx-40900'.*Nearest: rtx-4090"):
        device.hardware("rtx-40900")  # whatever other GPUs the datasheets have or will have
    with pytest.raises(ArgumentError, match="'fp8 on tensor cores'; expected one of what NVIDIA A100"):
        device.hardware("a100").peak("fp8", "tensor cores")
    with pytest.raises(ArgumentError, match="fp32 on cuda cores"):
        device.hardware("a100").ridge_point("fp33")


WHOLE = '[x]\nname="X"\ngeneration="G"\nyear=2020\nmemory_bytes_per_s=1e9\n{}\nsources=[{{title="t", url="u"}}]\n{}'
PEAK = '[x.dense."cuda cores"]\nfp32=1e12'


def write(folder: Path, fields: str = "", peak: str = PEAK) -> Path:
    path = folder / "hardware.toml"
    path.write_text(WHOLE.format(fields, peak), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("fields", "peak", "message"),
    [
        ("tdp_w=-3", PEAK, r"\[x\] tdp_w is -3; expected a positive number"),
        ('tdp_w="70"', PEAK, r"\[x\] tdp_w is '70'; expected a finite number"),
        ("colour=1", PEAK, r"\[x\] colour is not a known key; known: key, name"),
        ('compute_capability="9"', PEAK, r"\[x\] compute_capability is '9'"),
        ("host_link={pcie=4, lanes=16}", PEAK, r"\[x\] host_link.bytes_per_s is missing"),
        ("", '[x.dense."cuda cores"]\nfp33=1e12', r"\[x\] dense is 'cuda cores.fp33'"),
        ("", '[x.sparse."tensor cores"]\nfp16=1e12', r"\[x\] dense is missing"),
        ("", '[x.dense."tensor cores"]\nfp16=0.0', r"\[x\] dense.tensor cores.fp16 is 0.0"),
        ("", '[x.dense."cuda cores"]', r"\[x\] dense is .* expected at least one peak"),
        ("", PEAK + '\n[y]\nname="X"', r"\[y\] generation is missing"),
        ("", PEAK + "\n[x", "cannot be read"),
    ],
)
def test_damage_is_named(tmp_path: Path, fields: str, peak: str, message: str) -> None:
    with pytest.raises(DatasheetError, match=message):
        read_datasheets(write(tmp_path, fields, peak))


def test_missing_file_and_shared_names_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasheetError, match=r"gone\.toml: cannot be read"):
        read_datasheets(tmp_path / "gone.toml")
    text = write(tmp_path).read_text(encoding="utf-8")
    (tmp_path / "two.toml").write_text(text + "\n" + text.replace("[x", "[y"), encoding="utf-8")
    with pytest.raises(DatasheetError, match=r"\[y\] name 'X' also belongs to \[x\]"):
        read_datasheets(tmp_path / "two.toml")


@pytest.mark.parametrize("field", ["name", "generation", "year", "memory_bytes_per_s", "sources", "dense"])
def test_each_required_field_is_required(tmp_path: Path, field: str) -> None:
    table: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))["t4"]
    del table[field]
    from brrr.gpu.datasheet import _hardware

    with pytest.raises(DatasheetError, match=rf"\[t4\] {field} is missing"):
        _hardware("t4", table)


# ----------------------------------------------------------------------------------------------------------------------
# The machine in hand


def fake_torch(
    cuda: str | None = "13.0",
    available: bool = True,
    capability: tuple[int, int] = (9, 0),
    archs: tuple[str, ...] = ("sm_75", "sm_80", "sm_90", "sm_100", "compute_120"),
    addition: Callable[[], float] = lambda: 2.0,
    complaint: str = "",
) -> SimpleNamespace:
    """As much of torch as the device asks for."""

    def is_available() -> bool:
        if complaint:
            warnings.warn(complaint, stacklevel=2)
        return available

    class One:
        def __add__(self, other: int) -> One:
            return self

        def item(self) -> float:
            return addition()

    properties = SimpleNamespace(
        name="NVIDIA H200",
        total_memory=150 * 10**9,
        L2_cache_size=60 * 2**20,
        multi_processor_count=132,
        major=9,
        minor=0,
        uuid="1-2-3",
    )
    gpu = SimpleNamespace(
        is_available=is_available,
        is_initialized=lambda: available,
        get_device_capability=lambda: capability,
        get_device_name=lambda: "NVIDIA H200",
        get_arch_list=lambda: list(archs) if available else [],
        get_device_properties=lambda index: properties,
        current_device=lambda: 0,
    )
    return SimpleNamespace(
        __version__="2.13.0" if cuda else "2.13.0+cpu",
        version=SimpleNamespace(cuda=cuda, hip=None),
        cuda=gpu,
        ones=lambda n, device: One(),
        _C=SimpleNamespace(_cuda_getArchFlags=lambda: " ".join(archs)),
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the probes see."""

    def set_up(
        torch: object = None,
        smi: list[tuple[str, str]] | probe.ProbeError | None = None,
        driver: tuple[int, int] | None = None,
        seen: bool = False,
    ) -> None:
        def answer(value: object) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(probe, "torch_module", lambda: answer(torch or probe.ProbeError("not installed")))
        missing = probe.ProbeError("nvidia-smi is not on the PATH")
        monkeypatch.setattr(probe, "nvidia_smi", lambda: answer(smi or missing))
        monkeypatch.setattr(probe, "driver_cuda", lambda: driver)
        monkeypatch.setattr(probe, "gpu_seen", lambda: seen)

    return set_up


H200 = [("NVIDIA H200", "580.65")]


OLD = "The NVIDIA driver is too old"
BROKEN = probe.BrokenError("nvidia-smi fails: couldn't communicate with the NVIDIA driver")
HERE: dict[str, Any] = {"smi": H200, "driver": (13, 0), "seen": True}
PROBLEMS: list[tuple[dict[str, Any] | None, dict[str, Any], str | None]] = [
    (None, {}, 'torch is not installed: pip install "brrr-gpu[torch]"'),
    ({"cuda": None}, {}, "torch 2.13.0+cpu is built without CUDA"),
    ({"cuda": None}, {"smi": H200, "seen": True}, "torch 2.13.0+cpu is built without CUDA, though NVIDIA H200 is here"),
    ({"available": False}, {}, "there is no NVIDIA GPU"),
    ({"available": False, "complaint": OLD}, {**HERE, "driver": (12, 4)},
     "the NVIDIA driver is too old: it runs CUDA up to 12.4, torch needs 13.0"),
    ({"cuda": "12.8"}, {**HERE, "driver": (12, 2)}, None),  # of the same major version
    ({"available": False}, {"smi": BROKEN, "seen": True}, "its driver does not answer: nvidia-smi fails: couldn't"),
    ({"available": False, "complaint": "CUDA initialization: error 802"}, HERE,
     "torch cannot use NVIDIA H200: CUDA initialization: error 802"),
    ({"available": False}, {**HERE, "hidden": ""}, "CUDA_VISIBLE_DEVICES is '', which hides every GPU"),
    ({"capability": (12, 0), "archs": ("sm_80", "sm_90")}, HERE, "not among the architectures"),
]  # fmt: skip


@pytest.mark.parametrize(("torch", "here", "problem"), PROBLEMS, ids=[str(problem) for *_, problem in PROBLEMS])
def test_what_is_wrong_with_cuda_is_said(
    machine: Callable[..., None], torch: Any, here: dict[str, Any], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(None if torch is None else fake_torch(**torch), **{k: v for k, v in here.items() if k != "hidden"})
    if "hidden" in here:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", here["hidden"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = device.cuda_problem()
    assert found is None if problem is None else problem in str(found)
    assert torch is not None or device.default_device_kind() == "cpu"


@pytest.mark.parametrize(
    ("capability", "works"), [((6, 1), False), ((7, 5), True), ((8, 6), True), ((9, 0), True), ((12, 1), True)]
)
def test_old_gpu(machine: Callable[..., None], capability: tuple[int, int], works: bool) -> None:
    machine(fake_torch(capability=capability), smi=H200, driver=(13, 0), seen=True)
    problem = device.cuda_problem()
    assert (problem is None) == works
    if problem:
        assert "compute capability 6.1, too old for torch 2.13.0, which is built for 7.5, 8.0, 9.0" in problem


def failing() -> float:
    raise RuntimeError("CUDA error: no kernel image\nmore lines")


@pytest.mark.parametrize(
    ("addition", "problem"),
    [(failing, "a first addition on the GPU fails: CUDA error: no kernel image"), (lambda: 3.0, "wrong result")],
)
def test_first_addition(machine: Callable[..., None], addition: Callable[[], float], problem: str) -> None:
    machine(fake_torch(addition=addition), smi=H200, seen=True)
    assert problem in (device.cuda_problem() or "")


def test_unavailable_cuda_says_why_and_what_is_shown(machine: Callable[..., None]) -> None:
    machine(fake_torch(available=False))
    with pytest.raises(UnavailableError, match=r"there is no NVIDIA GPU\. What was recorded needs no GPU"):
        device.this_device("cuda")


def test_cuda_device(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch()
    machine(torch, smi=H200, driver=(13, 0), seen=True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    here = device.this_device("cuda")
    assert (here.slug, here.sm_count, here.l2_bytes, here.uuid) == ("h200", 132, 60 * 2**20, "GPU-1-2-3")
    assert (here.driver_version, here.cuda_version, here.torch_version) == ("580.65", "13.0", "2.13.0")
    assert here.hardware is device.hardware("h200")


@pytest.mark.parametrize("kind", ["cpu", "cpu-queue"])
def test_cpu_device(kind: str) -> None:
    here = device.this_device(kind)
    assert (here.kind, here.slug) == (kind, "cpu")
    assert here.name
    assert here.cpu_count >= 1
    assert here.memory_bytes is None or here.memory_bytes > 2**28


def test_unknown_kind() -> None:
    with refused("kind", "tpu"):
        device.this_device("tpu")


# ----------------------------------------------------------------------------------------------------------------------
# Clocks


class FakeNvml:
    """As much of pynvml as the clocks ask for; `wanted` proves that the GPU is found by its UUID."""

    NVML_CLOCK_SM = 1

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.wanted = fails, ""

    def nvmlInit(self) -> None:
        if self.fails:
            raise RuntimeError("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.wanted = uuid
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return 1755

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 643_210

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.65.06"

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return 0x4 | 0x40


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[object], None]]:
    def set_up(library: object) -> None:
        clocks._gpu.cache_clear()
        monkeypatch.setitem(sys.modules, "torch", fake_torch())
        monkeypatch.setitem(sys.modules, "pynvml", library)

    yield set_up
    clocks._gpu.cache_clear()


def test_clocks_are_those_of_torchs_gpu(nvml: Callable[[object], None], monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml()
    nvml(library)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert (device.sm_clock_hz(), device.max_sm_clock_hz()) == (1755e6, 1980e6)
    assert clocks.power_w() == 643.21
    assert device.throttle_reasons() == {"power-cap", "thermal"}
    assert clocks.driver_version() == "580.65.06"
    assert library.wanted == "GPU-1-2-3"


@pytest.mark.parametrize("library", [FakeNvml(fails=True), SimpleNamespace(), None])
def test_clocks_that_cannot_be_read_are_none(nvml: Callable[[object], None], library: object) -> None:
    nvml(library)
    assert device.sm_clock_hz() is None
    assert device.max_sm_clock_hz() is None
    assert clocks.power_w() is None
    assert device.throttle_reasons() == frozenset()
    assert clocks.driver_version() is None


# ----------------------------------------------------------------------------------------------------------------------
# Probes


def test_output_of_a_command_that_fails_hangs_or_is_missing() -> None:
    with pytest.raises(probe.ProbeError, match="no-such-command is not on the PATH") as missing:
        probe.output("no-such-command")
    assert not isinstance(missing.value, probe.BrokenError)
    with pytest.raises(probe.BrokenError, match="fails: broken driver"):
        probe.output(sys.executable, "-c", "import sys; sys.exit('broken driver\\nmore')")
    with pytest.raises(probe.BrokenError, match=r"gave no answer in 0\.05 s"):
        probe.output(sys.executable, "-c", "import time; time.sleep(5)", timeout_s=0.05)


def test_module_that_is_missing_or_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "half_there.py").write_text("import not_there_at_all", encoding="utf-8")
    (tmp_path / "broken_here.py").write_text("raise OSError('libx.so: cannot open')", encoding="utf-8")
    with pytest.raises(probe.ProbeError, match="not installed"):
        probe.module("not_there_at_all")
    with pytest.raises(probe.BrokenError, match="does not load: No module named 'not_there_at_all'"):
        probe.module("half_there")
    with pytest.raises(probe.BrokenError, match=r"does not load: libx\.so"):
        probe.module("broken_here")


def test_nvidia_smi_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "output", lambda *command: "NVIDIA H200, 580.65.06\nTesla T4, 535.1")
    assert probe.nvidia_smi() == [("NVIDIA H200", "580.65.06"), ("Tesla T4", "535.1")]
    monkeypatch.setattr(probe, "output", lambda *command: "No devices were found")
    with pytest.raises(probe.ProbeError, match="lists no GPU"):
        probe.nvidia_smi()


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_a_quota_limits_the_processors(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], processors: int) -> None:
    monkeypatch.setattr(probe.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(probe, "text", lambda path: files.get(path.removeprefix("/sys/fs/cgroup/")))
    assert probe.cpu_count() == processors


def test_the_process_that_waits_for_this_one_is_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    running = [SimpleNamespace(pid=pid) for pid in (os.getpid(), os.getppid(), 2**22)]
    nvml = SimpleNamespace(nvmlDeviceGetComputeRunningProcesses=lambda gpu: running)
    monkeypatch.setattr(probe, "_ask", lambda question: question(nvml, None))
    assert probe.compute_processes() == 2
    monkeypatch.setattr(probe, "_ask", lambda question: None)
    assert probe.compute_processes() is None
