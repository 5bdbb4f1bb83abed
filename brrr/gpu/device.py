"""Which machine is this: the device in hand, and the datasheet it came with."""

import os
import platform
import re
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from brrr.core.errors import ArgumentError, UnavailableError, first_line, install
from brrr.core.measurement import DeviceKind, Processor
from brrr.core.time_limit import in_time
from brrr.gpu import CUDA, ROCM, backend_of, gpu_here, is_cpu, is_cuda, is_gpu, is_queue, kind_of, probe, tensors_on
from brrr.gpu.datasheet import DatasheetError, Hardware, find_hardware, hardware, hardware_names
from brrr.gpu.probe import max_sm_clock_hz, sm_clock_hz, throttle_reasons

__all__ = [
    "DatasheetError", "Device", "Hardware", "cuda_problem", "default_device_kind", "find_hardware", "hardware",
    "hardware_names", "max_sm_clock_hz", "sm_clock_hz", "this_device", "throttle_reasons",
]  # fmt: skip


@dataclass(frozen=True)
class Device:
    """The machine in hand; what it does not tell is None.

    `slug` names its folder of recordings; `l2_bytes` is the GPU's level-2 cache, or that of one core of a CPU;
    `cpu_count` the processors that this process may use; `runtime` what runs the system, as far as it tells.
    """

    kind: DeviceKind
    name: str
    slug: str
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    sm_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    uuid: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    torch_version: str | None = None
    python_version: str = platform.python_version()
    cpu: str = ""
    cpu_count: int = 1
    runtime: str = ""
    hardware: Hardware | None = None


def this_device(kind: str = "cuda") -> Device:
    """The accelerator that torch uses now, or this machine's CPU.

    >>> this_device("cpu").slug
    'cpu'

    `kind` is "cpu", "cpu-queue" or an accelerator's, such as "cuda" or "mps". The CPU is described without loading
    torch. Raises UnavailableError, with the reason, where the accelerator does not work.
    """
    if is_gpu(kind) or (not (is_cpu(kind) or is_queue(kind)) and kind == default_device_kind()):  # which loads torch
        if problem := accelerator_problem(kind):
            hint = "What was recorded needs no GPU; `python -m brrr doctor` names what would help."
            raise UnavailableError(f"this_device: kind is {kind!r}, but {problem}. {hint}")
        return _cuda_device() if is_cuda(kind) else _accelerator(kind)
    if not is_cpu(kind) and not is_queue(kind):
        raise ArgumentError("this_device", "kind", kind, f'{accelerators()}, "cpu" or "cpu-queue"')
    return Device(
        kind=kind, name=probe.cpu_name(), slug="cpu",
        memory_bytes=probe.memory_bytes(), l2_bytes=probe.cpu_l2_bytes(), torch_version=torch_version(),
        cpu=probe.cpu_name(), cpu_count=probe.cpu_count(), runtime=probe.runtime_hint(),
    )  # fmt: skip


def others(kind: str, count: int) -> list[tuple[str, str]]:
    """Name and UUID of the GPUs behind torch's first one, `count` at most; none of a CPU.

    >>> others("cpu", 1)
    []
    """
    if not is_cuda(kind) or count < 1:
        return []
    cuda = probe.torch_module().cuda
    return [(cuda.get_device_name(n), probe.current_uuid(n) or "") for n in range(1, cuda.device_count())][:count]


def default_device_kind() -> Processor:
    """The kind of the accelerator that works with this torch, else "cpu"."""
    if not cuda_problem():  # which loads torch
        return CUDA
    found = gpu_here()
    return "cpu" if found in (None, CUDA) else str(found)


def processor_for(call: str, asked: object = None, instead: str = "`brrr doctor` names what would help") -> Processor:
    """Where a call works: as it was asked to, else on the accelerator that torch uses, else on the CPU.

    ArgumentError for what is no kind of device; UnavailableError, with the reason, where that is one that does not work
    here, or is too old for its torch. `instead` is what to do then.
    """
    if is_cpu(asked):
        return "cpu"
    if asked is not None and not is_gpu(asked):
        raise ArgumentError(call, "device", asked, f"{accelerators()} or 'cpu'")
    wanted = kind_of(asked) if asked is not None else gpu_here() or CUDA
    problem = accelerator_problem(wanted)
    if problem and (asked is not None or gpu_here()):
        raise UnavailableError(f"{call}: device is {asked!r}, but {problem}. {instead}.")
    return "cpu" if problem else wanted


def accelerators() -> str:
    """The kinds of accelerators that can be asked for, for a message."""
    return ", ".join(map(repr, (CUDA, ROCM, "mps", "xpu")))


def accelerator_problem(kind: str) -> str | None:
    """Why a kind of accelerator does not work here; None if it does.

    >>> accelerator_problem("mps") is None or "torch" in accelerator_problem("mps")
    True
    """
    if is_cuda(kind):
        problem = cuda_problem()
        return problem and f"CUDA does not work here: {problem}"
    try:
        torch = probe.torch_module()
        if (here := gpu_here()) != kind:
            return f"torch {torch.__version__} has {f'only {here!r}' if here else 'no accelerator'} here"
        found: list[float] = []
        in_time(lambda: found.append((torch.ones(1, device=tensors_on(kind)) + 1).item()))
    except Exception as error:  # a torch that does not load, a back end that refuses or hangs
        return f"a first addition on it fails: {first_line(error)}"
    return None if found == [2.0] else "a first addition on it gives a wrong result"


def cuda_problem() -> str | None:
    """Why CUDA does not work here, in words for the reader; None if it does.

    Asks torch for one tiny addition on the GPU, the only proof that driver, torch and GPU fit together.
    """
    try:
        torch = probe.torch_module()
    except probe.ProbeError as error:
        return f"torch is {error}" + (f": {install('torch')}" if str(error) == "not installed" else "")
    if torch.version.cuda is None:
        return _built_without_cuda(torch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if torch.cuda.is_available():
                return too_old_gpu(torch) or _addition_fails(torch)
        except Exception as error:  # a broken driver: torch raises RuntimeError, ctypes OSError
            return f"torch cannot use CUDA: {first_line(error)}"
    return _unavailable(torch, [first_line(one.message) for one in caught])


def torch_version() -> str | None:
    """torch's version, without loading torch; once it is loaded, with its build, as "2.13.0+cpu"; None if not here."""
    try:
        return str(getattr(sys.modules.get("torch"), "__version__", "")) or probe.package_version("torch")
    except probe.ProbeError:
        return None


def arch_list(torch: ModuleType) -> list[str]:
    """The GPU architectures that this torch has code for, such as "sm_90"; empty where it does not tell."""
    try:
        return list(torch.cuda.get_arch_list()) or torch._C._cuda_getArchFlags().split()  # the first: only with a GPU
    except Exception:  # a build without CUDA has neither
        return []


def too_old_gpu(torch: ModuleType) -> str | None:
    """What is wrong if this torch has no code for its GPU's architecture."""
    capability = tuple(torch.cuda.get_device_capability())
    built = [(kind, _capability(number)) for kind, _, number in (a.partition("_") for a in arch_list(torch))]
    # Machine code (sm) runs on the same major version from its own minor version on, PTX (compute) on all newer GPUs.
    fits = [c <= capability and (kind == "compute" or c[0] == capability[0]) for kind, c in built]
    if not built or any(fits):
        return None
    oldest = min(c for _, c in built)
    age = "too old" if capability < oldest else "not among the architectures"
    return (
        f"{torch.cuda.get_device_name()} has compute capability {_dotted(capability)}, {age} for torch "
        f"{torch.__version__}, which is built for {', '.join(_dotted(c) for _, c in built)}"
    )


def too_old_driver(torch: ModuleType) -> str | None:
    """What is wrong if the driver cannot run the CUDA version of this torch."""
    newest, needed = probe.driver_cuda(), torch.version.cuda
    # Within one major version CUDA runs on older drivers too (minor version compatibility).
    if newest is None or needed is None or newest[0] >= int(needed.split(".")[0]):
        return None
    return f"the NVIDIA driver is too old: it runs CUDA up to {_dotted(newest)}, torch needs {needed}"


def _cuda_device() -> Device:
    torch = probe.torch_module()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Device(
        kind="cuda", name=properties.name, slug=slug(properties.name), memory_bytes=properties.total_memory,
        l2_bytes=getattr(properties, "L2_cache_size", None), sm_count=properties.multi_processor_count,
        compute_capability=(properties.major, properties.minor), uuid=probe.current_uuid(),
        driver_version=probe.driver_version() or next((each for _, each in _smi()), None),
        cuda_version=torch.version.cuda, torch_version=torch.__version__, cpu=probe.cpu_name(),
        cpu_count=probe.cpu_count(), runtime=probe.runtime_hint(), hardware=find_hardware(properties.name),
    )  # fmt: skip


def _accelerator(kind: str) -> Device:
    """What torch tells of an accelerator without CUDA; its back end stands in its name."""
    torch = probe.torch_module()
    module, told = torch.get_device_module(tensors_on(kind)), dict[str, Any]()
    for name in ("get_device_name", "get_device_properties"):
        with suppress(Exception):  # back ends differ in what they have, and in what they raise for what they lack
            told[name] = getattr(module, name)(torch.accelerator.current_device_index())
    name, properties = str(told.get("get_device_name") or probe.cpu_name()), told.get("get_device_properties")
    return Device(
        kind=kind, name=f"{name} ({backend_of(kind)})", slug=kind, torch_version=torch.__version__,
        memory_bytes=getattr(properties, "total_memory", None), cpu=probe.cpu_name(), cpu_count=probe.cpu_count(),
        runtime=probe.runtime_hint(), hardware=find_hardware(name),
    )  # fmt: skip


def slug(name: str) -> str:
    """A device's short name for folders: its datasheet's, else made from the name that the driver reports.

    >>> slug("NVIDIA H200"), slug("NVIDIA GeForce RTX 3060 Laptop GPU")
    ('h200', 'rtx-3060-laptop-gpu')
    """
    known = find_hardware(name)
    words = [word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in ("nvidia", "geforce", "tesla")]
    return known.key if known else "-".join(words) or "gpu"


def _built_without_cuda(torch: ModuleType) -> str:
    if getattr(torch.version, "hip", None):
        return f"torch {torch.__version__} is built for AMD GPUs: there the device is {ROCM!r}"
    here = ", ".join(name for name, _ in _smi())
    return f"torch {torch.__version__} is built without CUDA" + (f", though {here} is here" if here else "")


def _addition_fails(torch: ModuleType) -> str | None:
    try:
        fine = (torch.ones(1, device="cuda") + 1).item() == 2.0
    except Exception as error:  # no kernel image, a lost GPU, no free memory at all
        return f"a first addition on the GPU fails: {first_line(error)}"
    return None if fine else "a first addition on the GPU gives a wrong result"


def _unavailable(torch: ModuleType, complaints: list[str]) -> str:
    """The likeliest of the reasons for which torch sees no GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1") and probe.gpu_seen():
        return f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides every GPU"
    if old := too_old_driver(torch):
        return old
    try:
        gpus = probe.nvidia_smi()
    except probe.ProbeError as error:
        if not probe.gpu_seen():
            return "there is no NVIDIA GPU"
        return f"an NVIDIA GPU is here, but its driver does not answer: {error}"
    said = "; ".join(complaints) or "it gives no reason"
    return f"torch cannot use {gpus[0][0]}: {said}"


def _smi() -> list[tuple[str, str]]:
    """Names and driver's versions, as far as nvidia-smi tells."""
    try:
        return probe.nvidia_smi()
    except probe.ProbeError:
        return []


def _capability(number: str) -> tuple[int, int]:
    """ "90" -> (9, 0), "120a" -> (12, 0)."""
    digits = re.sub(r"\D", "", number) or "0"
    return int(digits[:-1] or 0), int(digits[-1])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
