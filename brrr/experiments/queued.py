"""A workload of the CPU as one order to the toy accelerator, which stands in for a GPU where there is none."""

from __future__ import annotations

from typing import Any

from brrr.experiment import Workload
from brrr.timing.cpu_queue import CpuQueue


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
