"""A GPU's clock and what holds it back, read through nvidia-ml-py; nothing is ever set."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from brrr.gpu import probe

# The bits of NVML's clocks event reasons; older drivers call the same bits throttle reasons.
_REASONS = {
    0x001: "idle",
    0x002: "application-clocks",
    0x004: "power-cap",
    0x008: "hardware-slowdown",
    0x010: "sync-boost",
    0x020: "thermal",
    0x040: "thermal",
    0x080: "power-brake",
    0x100: "display-clocks",
}


def sm_clock_hz() -> float | None:
    """The clock of the multiprocessors now, in Hz; None where it cannot be read."""
    return _mhz(lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))


def max_sm_clock_hz() -> float | None:
    """The highest clock that the multiprocessors may reach, in Hz; None where it cannot be read."""
    return _mhz(lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM))


def throttle_reasons() -> frozenset[str]:
    """Why the clock is not higher: "power-cap", "thermal", "idle", ...; empty where nothing holds it back or tells."""
    bits = _ask(lambda nvml, gpu: _reasons(nvml)(gpu))
    return frozenset(name for bit, name in _REASONS.items() if bits and int(bits) & bit)


def compute_processes() -> int | None:
    """How many programs compute on the GPU, this one counted; None where it cannot be told."""
    return _ask(lambda nvml, gpu: len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)))  # type: ignore[no-any-return]


def driver_version() -> str | None:
    """The driver's version, such as "580.65.06"; None where NVML does not answer."""
    version = _ask(lambda nvml, gpu: nvml.nvmlSystemGetDriverVersion())
    return version.decode() if isinstance(version, bytes) else version


def _reasons(nvml: Any) -> Callable[[Any], int]:
    new = "nvmlDeviceGetCurrentClocksEventReasons"
    return getattr(nvml, new, None) or nvml.nvmlDeviceGetCurrentClocksThrottleReasons  # type: ignore[no-any-return]


def _mhz(question: Callable[[Any, Any], int]) -> float | None:
    mhz = _ask(question)
    return None if mhz is None else float(mhz) * 1e6


def _ask(question: Callable[[Any, Any], Any]) -> Any:
    """NVML's answer about torch's GPU, or None: a clock that cannot be read must never stop a measurement."""
    uuid = current_uuid()
    try:
        return None if uuid is None else question(*_gpu(uuid))
    except Exception:  # NVMLError has one class per code, and a missing library or function raises others
        return None


@functools.lru_cache(maxsize=8)
def _gpu(uuid: str) -> tuple[Any, Any]:
    """NVML and its handle of the GPU: found by UUID, because CUDA_VISIBLE_DEVICES renumbers torch's GPUs only."""
    nvml = probe.module("pynvml")
    nvml.nvmlInit()
    return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)


def current_uuid() -> str | None:
    """The UUID of torch's current GPU as NVML writes it; None as long as this process has not used CUDA."""
    torch = sys.modules.get("torch")  # never load torch only to read a clock
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    except Exception:  # torch without CUDA, a lost device, a property of a newer torch
        return None
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
