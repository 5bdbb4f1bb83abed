"""What the operating system and the driver say about this machine: small questions, each answered or failed alone."""

import ctypes
import functools
import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from brrr.core.errors import first_line


class ProbeError(Exception):
    """A probe found nothing it could use; the message is for the reader."""


class BrokenError(ProbeError):
    """What a probe looked for is there, but does not work."""


def output(*command: str, timeout_s: float = 2.0) -> str:
    """What a command prints; ProbeError if it is not there, fails or hangs.

    >>> output(sys.executable, "-c", "print('here')")
    'here'
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ProbeError(f"{command[0]} is not on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise BrokenError(f"{command[0]} gave no answer in {timeout_s:g} s") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise BrokenError(f"{command[0]} fails: {words[0] if words else f'exit status {done.returncode}'}")
    return done.stdout.strip()


def text(path: str) -> str | None:
    """A small file's text, or None where it is not there or not readable."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip("\0\n\t ")
    except OSError:
        return None


def torch_module() -> ModuleType:
    """torch; ProbeError says whether it is missing or broken. Nothing waits here for one that is being installed."""
    if "torch" not in sys.modules:
        package_version("torch")
    return module("torch")


def module(name: str) -> ModuleType:
    """An imported module; ProbeError if it is missing, or there but does not load."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == name.split(".")[0]:
            raise ProbeError("not installed") from error
        raise BrokenError(f"installed, but does not load: {error}") from error
    except Exception as error:  # a broken binary raises anything from ImportError to RuntimeError
        raise BrokenError(f"installed, but does not load: {first_line(error)}") from error


def package_version(*names: str) -> str:
    """The version of the first of these packages that is installed, without importing it.

    >>> package_version("no-such-package", "pytest") != ""
    True
    """
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    raise ProbeError("not installed")


def nvidia_smi() -> list[tuple[str, str]]:
    """(name, driver version) of each GPU that nvidia-smi lists; ProbeError if it is missing, fails or lists none."""
    lines = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    gpus = [(name.strip(), driver.strip()) for name, comma, driver in (line.rpartition(",") for line in lines) if comma]
    if not gpus:
        raise ProbeError("nvidia-smi lists no GPU")
    return gpus


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version that the driver can run, or None without a driver."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        version = ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def gpu_seen() -> bool:
    """Whether the system shows a trace of an NVIDIA GPU, a working driver or not."""
    if any(Path(path).exists() for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0")):
        return True
    vendors = Path("/sys/bus/pci/devices").glob("*/vendor")
    display = ("0x030000", "0x030200")  # a screen's card, a 3D accelerator: not the sound chip of the same vendor
    return any(text(str(v)) == "0x10de" and text(str(v.with_name("class"))) in display for v in vendors)


def cpu_name() -> str:
    """The processor's model name, or its architecture where the system does not tell."""
    for line in (text("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    try:
        return output("sysctl", "-n", "machdep.cpu.brand_string") if sys.platform == "darwin" else _other_cpu()
    except ProbeError:
        return _other_cpu()


def _other_cpu() -> str:
    return platform.processor() or f"{platform.machine()} CPU"


def cpu_count() -> int:
    """The processors that this process may use: its affinity and a container's quota count.

    More threads than a quota pays for are all stopped until its next period, however short the call.
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = (*(text("/sys/fs/cgroup/cpu.max") or "max").split(), "")[:2]
    if not period:  # the older layout of cgroups; -1 is no limit
        quota, period = (text(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    limited = quota.isdecimal() and period.isdecimal() and int(period)
    return max(1, min(here, int(quota) // int(period))) if limited else here


def memory_bytes() -> int | None:
    """The main memory that this process may use: a container's limit counts."""
    sizes = [_physical_bytes()]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = text(path)
        sizes.append(int(limit) if limit and limit.isdecimal() else None)
    return min((size for size in sizes if size), default=None)


def _physical_bytes() -> int | None:
    if sys.platform == "win32":
        # GlobalMemoryStatusEx fills MEMORYSTATUSEX: two 32-bit words, the first its own size, then seven 64-bit ones.
        status = (ctypes.c_uint64 * 8)(64)
        ctypes.windll.kernel32.GlobalMemoryStatusEx(status)
        return int(status[1])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def cpu_l2_bytes() -> int | None:
    """The level-2 cache of one core."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if text(str(index / "level")) == "2":
            size = text(str(index / "size")) or ""
            return int(size[:-1]) * {"K": 1024, "M": 1024**2}[size[-1]] if size[:-1].isdecimal() else None
    if sys.platform == "darwin":
        try:
            return int(output("sysctl", "-n", "hw.l2cachesize"))
        except (ProbeError, ValueError):
            return None
    return None


def runtime_hint() -> str:
    """What runs this system, as far as it tells: a hypervisor's name, a container, Colab or WSL, and the kernel."""
    vendor = " ".join(filter(None, (text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name"))))
    virtual = " hypervisor" in (text("/proc/cpuinfo") or "") or text("/sys/hypervisor/type") is not None
    parts = [f"virtual machine ({vendor or 'unnamed'})" if virtual else vendor or "no hypervisor seen"]
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        parts.append("container")
    if "COLAB_RELEASE_TAG" in os.environ:
        parts.append("Colab")
    if "microsoft" in platform.release().lower():
        parts.append("WSL")
    return ", ".join([*parts, f"{platform.system()} {platform.release()}"])


# ---------------------------------------------------------------------------------------------------------------------
# A GPU's clock and what holds it back, read through nvidia-ml-py; nothing is ever set.

# The bits of NVML's clocks event reasons.
_REASONS = {
    0x001: "idle", 0x002: "application-clocks", 0x004: "power-cap", 0x008: "hardware-slowdown", 0x010: "sync-boost",
    0x020: "thermal", 0x040: "thermal", 0x080: "power-brake", 0x100: "display-clocks",
}  # fmt: skip


def sm_clock_hz() -> float | None:
    """The clock of the multiprocessors now, in Hz; None where it cannot be read."""
    return _over(1, lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) * 1e6)


def max_sm_clock_hz() -> float | None:
    """The highest clock that the multiprocessors may reach, in Hz; None where it cannot be read."""
    return _over(1, lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM) * 1e6)


def power_w() -> float | None:
    """The GPU's power in W, the mean of the last second; None where it cannot be read."""
    return _over(1000, lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu))


def energy_j() -> float | None:
    """The joules that the GPU has taken since the driver was loaded; None where it does not count them."""
    return _over(1000, lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu))


def utilisation() -> float | None:
    """The share of the last moments in which a kernel was running, as the driver tells; None where it does not.

    NVML counts a sixth of a second to a second, by the model.
    """
    return _over(100, lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu)


def throttle_reasons() -> frozenset[str]:
    """Why the clock is not higher: "power-cap", "thermal", "idle", ...; empty where nothing holds it back or tells."""
    bits = _ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    return frozenset(name for bit, name in _REASONS.items() if bits and int(bits) & bit)


def compute_processes() -> int | None:
    """How many programs compute on the GPU, this one counted; None where it cannot be told.

    The process that started this one is not counted: one that measures in processes of their own waits for each.
    """
    found = _ask(lambda nvml, gpu: [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)])
    return None if found is None else sum(pid != os.getppid() for pid in found)


def driver_version() -> str | None:
    """The driver's version, such as "580.65.06"; None where NVML does not answer."""
    version = _ask(lambda nvml, gpu: nvml.nvmlSystemGetDriverVersion())
    return version.decode() if isinstance(version, bytes) else version


def _over(unit: float, question: Callable[[Any, Any], Any]) -> float | None:
    found = _ask(question)
    return None if found is None else float(found) / unit


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
    nvml = module("pynvml")
    nvml.nvmlInit()
    return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)


def current_uuid(index: int | None = None) -> str | None:
    """The UUID of torch's current GPU, or of that number, as NVML has it; None while this process has not used CUDA."""
    torch = sys.modules.get("torch")  # never load torch only to read a clock
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        uuid = str(torch.cuda.get_device_properties(index).uuid)
    except Exception:  # torch without CUDA, a lost device, a property of a newer torch
        return None
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
