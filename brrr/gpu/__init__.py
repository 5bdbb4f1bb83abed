"""The seam to the accelerator: the few questions through which other folders ask for it, and CUDA's own behind them.

>>> is_gpu("cuda"), is_gpu("mps"), is_cuda("mps"), is_gpu("cpu-queue"), tensors_on("cpu-queue")
(True, True, False, False, 'cpu')

What an accelerator is, `torch.accelerator` says: whatever it knows can be timed by the host's clock. A kind is what
torch calls the device, but "rocm" for an AMD GPU, which torch calls "cuda". Importing this loads no torch.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from brrr.core.heavy import torch
from brrr.core.measurement import Processor

CUDA: Processor = "cuda"
"""What `device=`, the recordings and torch call an NVIDIA GPU, with all that only CUDA has: gate, CUPTI, graphs."""

ROCM: Processor = "rocm"
KNOWN = (CUDA, ROCM, "xpu", "mps", "mtia", "hpu")
"""Kinds that torch has by itself; a vendor's own back end names one more."""

UNTRUSTED_EVENTS = ("mps",)
"""Whose events may hang when they are asked, or lie out of order (pytorch#193578, #196395): the host's clock tells."""


def is_gpu(device: object) -> bool:
    """Whether a kind of device, or a device of torch's, is an accelerator: its calls return before their work ends."""
    kind = getattr(device, "type", device)
    return kind in KNOWN or (isinstance(kind, str) and kind == _added_backend())


def is_cuda(device: object) -> bool:
    """Whether it is a GPU of CUDA itself, and has what only CUDA has."""
    return getattr(device, "type", device) == CUDA and (isinstance(device, str) or not _hip())


def is_cpu(device: object) -> bool:
    """Whether it is the CPU itself, at once: its queue is another kind."""
    return getattr(device, "type", device) == "cpu"


def is_queue(device: object) -> bool:
    """Whether it is the CPU queue, a CPU behind a stream of its own."""
    return device == "cpu-queue"


def kind_of(device: object) -> Processor:
    """The kind of a device of torch's, or of its name: "rocm" where torch's "cuda" is an AMD GPU."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    return ROCM if kind == CUDA and _hip() else kind


def tensors_on(kind: object) -> Processor:
    """What torch calls the device where the tensors of a kind lie: those of the CPU queue lie on the CPU."""
    if not is_gpu(kind):
        return "cpu"
    return CUDA if kind == ROCM else str(getattr(kind, "type", kind))


def backend_of(kind: object) -> str:
    """What the makers call a kind of accelerator's back end.

    >>> backend_of("rocm"), backend_of("xpu"), backend_of("npu")
    ('ROCm', 'XPU', 'NPU')
    """
    return "ROCm" if kind == ROCM else str(kind).upper()


def gpu_here() -> Processor | None:
    """The kind of the accelerator that this process's torch uses; None where it has none, or is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.cuda.is_available():
        return ROCM if _hip() else CUDA
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return None if found is None else kind_of(found)


def synchronize() -> None:
    """Wait until the current accelerator has done all that it was given."""
    torch.accelerator.synchronize()


def waiting(device: object) -> Callable[[], None] | None:
    """What waits for a device's work, from any thread; None for a CPU, whose calls have ended when they return.

    `torch.cuda.synchronize` takes longer: it changes the device in Python first (docs/timer_details.md: by how much).
    """
    if not is_gpu(device):
        return None
    return partial(torch.accelerator.synchronize, torch.accelerator.current_device_index())


def used_bytes(device: object) -> int:
    """The memory that this process holds there now; 0 where nobody tells."""
    if is_gpu(device):
        return _told(device, "memory_allocated", "current_allocated_memory") or 0
    return _host_bytes(lambda psutil: psutil.Process().memory_info().rss, 0)


def free_bytes(device: object) -> int:
    """The memory that is free there, without limit where nobody tells; what a GPU's allocator keeps is free too."""
    if is_gpu(device):
        used, kept = used_bytes(device), _told(device, "memory_reserved", "driver_allocated_memory")
        free, whole = _told(device, "mem_get_info"), _told(device, "recommended_max_memory")
        if free is not None:
            return free + max(0, (kept or used) - used)
        return sys.maxsize if whole is None else max(0, whole - used)
    return _host_bytes(lambda psutil: psutil.virtual_memory().available, sys.maxsize)


def _host_bytes(ask: Callable[[Any], int], unknown: int) -> int:
    import psutil

    try:
        return int(ask(psutil))
    except Exception:  # a sandbox without /proc, where psutil raises what comes up
        return unknown


def _told(device: object, *questions: str) -> int | None:
    """What torch's module of a device answers to the first of the questions that it knows; None where to none."""
    module: Any = torch.get_device_module(tensors_on(device))
    for name in questions:
        try:
            found = getattr(module, name)()
        except Exception:  # back ends differ in what they have, and in what they raise for what they lack
            continue
        return int(found[0] if isinstance(found, tuple) else found)
    return None


def _hip() -> bool:
    """Whether the torch that is loaded is built for AMD GPUs, which it calls "cuda"."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(getattr(torch.version, "hip", None))


def _added_backend() -> str | None:
    """The kind of accelerator that a vendor's own back end has added to the torch that is loaded."""
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch._C._get_privateuse1_backend_name())
