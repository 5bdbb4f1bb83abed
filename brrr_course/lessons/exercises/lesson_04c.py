"""Exercise 04c-mend: fix a benchmark that times three things too many.

The student's function is called as `benchmark(randn, weight, bias, relu, synchronize, clock)`. What it is given only
keeps account: every operation is an order to an imaginary device with a clock of its own, and a tensor is the formula
that made it. So the mark depends on no machine.
"""

import math
from typing import Any

from brrr.core.units import seconds
from brrr_course.lessons.marks import Wrong, ask, exercise, is_number
from brrr_course.lessons.pretend import OPERATION_S, Formula, PretendRecorder, Tensor

TRUE_S = 2 * OPERATION_S
"""One product and one sum a call."""

CLOSE = 0.1
X, WEIGHT, BIAS = "x", "weight", "bias"
LAYER: Formula = ("+", frozenset({("*", frozenset({X, WEIGHT})), BIAS}))


@exercise("04c-mend")
def benchmark(benchmark: Any) -> str:
    """Run the benchmark on the imaginary device and say what it still times too much, if anything."""
    device = PretendRecorder()
    device.order("earlier work")
    weight, bias = Tensor(device, WEIGHT), Tensor(device, BIAS)
    said = ask(benchmark, device.randn, weight, bias, device.relu, device.synchronize, device.clock)
    if not is_number(said) or not math.isfinite(said):
        raise Wrong(f"your benchmark returned {said!r}.", "It should return one number: seconds a call.")
    truth = f"Your benchmark says {seconds(float(said))} a call; by construction the layer takes {seconds(TRUE_S)}"
    if mistake := _mistake(device, float(said)):
        raise Wrong(f"{mistake[0]} {truth}.", mistake[1])
    return f"{truth}. It times the layer and nothing else."


def _mistake(device: PretendRecorder, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil the time, as (what, hint)."""
    if len(device.readings) < 2 or not device.timed:
        return "your benchmark times nothing.", "Read the `clock()` before and after the calls."
    right = math.isclose(said, TRUE_S, rel_tol=CLOSE)
    timed = device.timed
    if X in timed and not right:
        return "the random data is made inside what is timed.", "Make it once, before the clock starts."
    if any(formula[0] == "+" and X in formula[1] for formula in timed):
        return "what is timed adds `x` once more.", "The layer is `x * weight + bias`."
    if any(formula[0] == "relu" for formula in timed) and not right:
        return "a ReLU is still timed.", "It costs the same with any layer, and hides how two layers differ."
    if LAYER not in timed:
        return "the layer itself is not computed.", "Keep `x * weight + bias`: it is what should be timed."
    if right:
        return None
    if not device.readings[-1][0]:
        return "the clock stops while the work is still running.", "Keep the `synchronize()` after the calls."
    if not device.readings[0][0]:
        return "the clock starts while earlier work is still in the queue.", "Wait before you read it first."
    return "the number is not the time of one call.", "Divide the time by the number of calls."
