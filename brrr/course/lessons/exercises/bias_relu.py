"""Exercise 06-fuse: one line of CUDA C++ for bias and ReLU, in place of two.

The student's line names `x`, what the product has left (batch x hidden), and `b`, the bias; it is compiled on a GPU,
and evaluated through torch on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.course.lessons.checking import Mark
from brrr.kernels.elementwise.kernel import Elementwise, elementwise
from brrr.kernels.elementwise.parse import LineError

SHAPES = ((16, 256), (3, 33))
BIAS, RELU = "y = x + b", "y = x < 0 ? 0 : x"
"""The two lines that one is to replace."""
TOLERANCE = 1e-6


def grade(line: Any) -> Mark:
    """Right if the line gives relu(x + b) for random numbers of both signs."""
    if not isinstance(line, str):
        return Mark("wrong", f"{line!r} is not a line.", 'Write it as text: check("06-fuse", line="y = ...").')
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for shape in SHAPES:
        x, b = torch.randn(shape, device=device), torch.randn(shape[1], device=device)
        try:
            kernel = elementwise(line, x=x, b=b)
        except LineError as error:
            return Mark("wrong", f"your line does not compile.\n{error}")
        except ArgumentError as error:
            return Mark("wrong", f"your line does not fit: {error}.", "It is to use both x and b, and to give y.")
        if mistake := _mistake(kernel(), x, b):
            return Mark("wrong", *mistake)
    return Mark("right", _why(line))


def _why(line: str) -> str:
    """What the one line saves, by its bytes; and what it does with NaN."""
    x, b = torch.zeros(SHAPES[0]), torch.zeros(SHAPES[0][1])
    two = Elementwise(BIAS, {"x": x, "b": b}).bytes + Elementwise(RELU, {"x": x}).bytes
    one = Elementwise(line, {"x": x, "b": b}).bytes
    text = f"one kernel a layer less, and {units.ratio(two / one)} fewer bytes to move in between."
    kept = bool(elementwise(line, x=x * float("nan"), b=b)().isnan().all())
    return text if kept else f"{text} (Where x is NaN, this line hides it; torch's ReLU does not.)"


def _mistake(found: torch.Tensor, x: torch.Tensor, b: torch.Tensor) -> tuple[str, str] | None:
    """What is wrong with the result, and a hint for a known mistake; None if it is right."""
    expected = torch.relu(x.double() + b.double())
    if torch.allclose(found.double(), expected, rtol=TOLERANCE, atol=TOLERANCE):
        return None
    known = (
        (x + b, "negative sums are left as they are.", "The ReLU is missing: what is y where x + b is below 0?"),
        (torch.relu(x), "the bias is missing.", "Add b first."),
        (torch.relu(x) + b, "the ReLU comes before the bias.", "Add first, then cut off."),
        (-torch.relu(-(x + b)), "the negative sums are kept, and the others cut off.", "Which way does < look?"),
        (torch.where(x < 0, 0.0, x + b), "it cuts off where x is negative.", "The sum decides, not x alone."),
    )
    for other, what, hint in known:
        if torch.allclose(found, other, rtol=TOLERANCE, atol=TOLERANCE):
            return what, hint
    return "the result is not relu(x + b).", f"Put one into the other: `{BIAS}` and `{RELU}`."
