"""All that is the GPU maker's own, and the few questions through which the other folders ask for it.

>>> is_gpu("cuda"), is_gpu("cpu-queue"), tensors_on("cpu-queue")
(True, False, 'cpu')

Importing this loads no torch.
"""

import sys
from collections.abc import Callable

from brrr.core.measurement import Processor

GPU: Processor = "cuda"
"""What `device=`, the recordings and torch call the GPU."""


def is_gpu(device: object) -> bool:
    """Whether a kind of device, or a device of torch's, is the GPU."""
    return getattr(device, "type", device) == GPU


def is_cpu(device: object) -> bool:
    """Whether it is the CPU itself, at once: its queue is another kind."""
    return getattr(device, "type", device) == "cpu"


def is_queue(device: object) -> bool:
    """Whether it is the CPU queue, a CPU behind a stream of its own."""
    return device == "cpu-queue"


def tensors_on(kind: object) -> Processor:
    """Where torch puts the tensors of a kind of device: the CPU queue's lie on the CPU."""
    return GPU if is_gpu(kind) else "cpu"


def gpu_in_use() -> bool:
    """Whether this process has loaded torch, and torch has a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


def synchronize() -> None:
    """Wait until the GPU has done all that it was given."""
    import torch

    torch.cuda.synchronize()


def waiting(device: object) -> Callable[[], None] | None:
    """What waits for a device's work; None for a CPU, whose calls have ended when they return."""
    return synchronize if is_gpu(device) else None


def used_bytes(device: object) -> int:
    """The memory that this process holds there now; 0 where nobody tells."""
    if is_gpu(device):
        import torch

        return int(torch.cuda.memory_allocated())
    import psutil

    try:
        return int(psutil.Process().memory_info().rss)
    except Exception:  # a sandbox without /proc, where psutil raises what comes up
        return 0


def free_bytes(device: object) -> int:
    """The memory that is free there, without limit where nobody tells; what a GPU's allocator keeps is free too."""
    if is_gpu(device):
        import torch

        return int(torch.cuda.mem_get_info()[0]) + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    import psutil

    try:
        return int(psutil.virtual_memory().available)
    except Exception:
        return sys.maxsize
