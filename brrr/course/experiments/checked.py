"""A workload of the CPU as one order to the toy accelerator, which stands in for a GPU where there is none."""

from __future__ import annotations

from typing import Any

import torch

from brrr.core import units
from brrr.core.errors import DeviceMemoryError
from brrr.course.nouns.experiment import Workload
from brrr.timing.cpu_queue import CpuQueue


def refuse_too_large(needed_bytes: int, device: str, what: str) -> None:
    """DeviceMemoryError before anything is allocated, with what is needed and what is free."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0] if torch.cuda.is_initialized() else needed_bytes
    else:
        import psutil

        free = psutil.virtual_memory().available
    if needed_bytes > free:
        raise DeviceMemoryError(
            f"{what} needs {units.nbytes(needed_bytes)} and {units.nbytes(free)} is free on the "
            f"{'GPU' if device == 'cuda' else 'CPU'}; choose a smaller size"
        )


def queued(made: Workload) -> Workload:
    """The same work, cost and check, submitted to a queue of its own; `kernel_s` is then the work's own time.

    >>> from brrr.counting.cost import Cost
    >>> toy = queued(Workload(lambda: 3, Cost(0, 0), lambda result: abs(result - 3), 0.0))
    >>> toy.check()
    0
    >>> toy.close()
    """
    queue, kept = CpuQueue(), dict[str, Any]()

    def order() -> None:
        kept["result"] = made.run()

    def run() -> dict[str, Any]:
        queue.submit(order)
        return kept

    def close() -> None:
        queue.close()
        made.close()

    def error(found: dict[str, Any]) -> float:
        return made.error(found.get("result"))

    return Workload(
        run, made.cost, error, made.tolerance, synchronize=queue.synchronize, close=close, queue=queue
    )  # fmt: skip
