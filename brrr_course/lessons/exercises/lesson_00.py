"""Exercise 00-queue: when is the last kernel done, with a host that launches while the GPU runs?"""

import math
import random
from collections.abc import Sequence
from typing import Any

from brrr_course.lessons.marks import Wrong, ask, exercise, is_number
from brrr_course.lessons.pretend import Host, Queue

CASES = 20


def end_us(launches_us: Sequence[float], kernels_us: Sequence[float]) -> float:
    """When the last kernel is done: each starts when it is launched, and when the one before it is done.

    >>> end_us([10, 10], [2, 2]), end_us([10, 10], [50, 2])
    (22.0, 62.0)
    """
    gpu = Queue(Host(issue=0.0))
    for launch, kernel in zip(launches_us, kernels_us, strict=True):
        gpu.host.now += launch
        gpu.run(kernel)
    return gpu.free_at


@exercise("00-queue")
def queue(finished: Any) -> str:
    """Right on made-up launches and kernels, of which now the host and now the GPU is the slower."""
    for case in range(CASES):
        count, longest = random.randint(1, 9), (5, 50)[case % 2]
        launches = [random.randint(1, 20) for _ in range(count)]
        kernels = [random.randint(1, longest) for _ in range(count)]
        found, right = ask(finished, list(launches), list(kernels)), end_us(launches, kernels)
        if not is_number(found):
            raise Wrong(f"`finished` gave {found!r}.", "Return microseconds, as a number.")
        if not math.isclose(found, right):
            text = f"`finished({launches}, {kernels})` gave {found:g}; the last kernel is done after {right:g} µs."
            raise Wrong(text, _hint(found, launches, kernels))
    return (
        "a kernel waits for its launch and for the kernel before it, whichever is later. These two clocks are all that "
        "a timeline of one stream needs."
    )


def _hint(found: float, launches: Sequence[float], kernels: Sequence[float]) -> str:
    if found == sum(kernels):
        return "A kernel cannot start before it is launched."
    if found == sum(launches) + sum(kernels):
        return "The host launches the next kernel while the GPU runs this one."
    return "A kernel starts at the later of two times: when it is launched, and when the one before it is done."
