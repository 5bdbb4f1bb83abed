"""Exercise 05-bytes: count by hand the bytes that three operators move, and those of one kernel in their place.

The work: `torch.relu(x + b) * g`, with x and g of 4096 x 1024 and b of 1024 float32. The truth is counted by
`brrr.cost`, on descriptions of the arrays.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.core import units
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu
from brrr_course.experiments.fusion.theory import bytes_ratio
from brrr_course.lessons.checking import Exercise, Mark, StudentError, ask

ROWS, WIDTH, ITEMSIZE = 4096, 1024, 4
NEAR = 0.005
"""So close an answer is right: whether the bias's few kilobytes are in it does not matter."""


def gated(x: Any, b: Any, g: Any) -> Any:
    """What is counted: a bias, a ReLU and a gate."""
    import torch

    return torch.relu(x + b) * g


@lru_cache(maxsize=1)
def counted() -> Cost:
    """The cost of the work.

    >>> counted().eager_bytes, counted().bytes
    (117444608.0, 50335744.0)
    """
    from brrr.counting.description import array
    from brrr.counting.tracing import cost

    return cost(gated, array((ROWS, WIDTH)), array(WIDTH), array((ROWS, WIDTH)))


def grade_bytes(eager: Any, fused: Any) -> Mark:
    """Bytes of the three operators, and of one fused kernel; right if both are."""
    truth = counted()
    for name, answer in (("eager", eager), ("fused", fused)):
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 < answer < math.inf:
            return Mark("wrong", f"`{name}` is {answer!r}.", "Write a number of bytes, as in 4 * 4096 * 1024.")
    if not _near(eager, truth.eager_bytes):
        return Mark("wrong", f"the three operators do not move {units.quantity(eager, 'B')}.", _about_eager(eager))
    if not _near(fused, truth.bytes):
        return Mark("wrong", f"a fused kernel does not move {units.quantity(fused, 'B')}.", _about_fused(fused))
    ratio = units.ratio(truth.eager_bytes / truth.bytes)
    return Mark("right", f"{units.quantity(truth.eager_bytes, 'B')} become {units.quantity(truth.bytes, 'B')}, {ratio} "
                "less: no kernel for large arrays that memory limits can gain more than that by fusion.")  # fmt: skip


BYTES_EXERCISE = Exercise("05-bytes", grade_bytes)


def _near(answer: float, truth: float) -> bool:
    return math.isclose(answer, truth, rel_tol=NEAR)


ARRAY = ROWS * WIDTH * ITEMSIZE


def _about_eager(answer: float) -> str:
    """A hint for a known mistake: arrays counted, elements counted, reads alone, writes alone."""
    known = (
        (7 * ARRAY / ITEMSIZE, "That many elements are moved. How many bytes has each?"),
        (2 * 7 * ARRAY, "That would be right for numbers of eight bytes; a float32 has four."),
        (4 * ARRAY, "Those are the reads. What does each operator write?"),
        (3 * ARRAY, "Those are the writes, or the bytes of a fused kernel. What does each operator read and write?"),
        (6 * ARRAY, "One array is missing: the multiplication reads two large arrays."),
        (8 * ARRAY, "One array is too many: the bias is a row, and is so small that it hardly counts."),
    )
    return _first(known, answer, "Go through the three operators: what does each read, and what does it write?")


def _about_fused(answer: float) -> str:
    known = (
        (2 * ARRAY, "One large array is missing: the kernel has two large inputs, and a result."),
        (3 * ARRAY / ITEMSIZE, "That many elements are moved. How many bytes has each?"),
        (6 * ARRAY, "That would be right for numbers of eight bytes; a float32 has four."),
        (4 * ARRAY, "One array is too many: the bias is a row, and what stands between stays in registers."),
        (7 * ARRAY, "Those are the bytes of the three operators. What stands between need not go to the memory."),
    )
    return _first(known, answer, "Every input is read once, the result is written once, and nothing else is moved.")


def _first(known: tuple[tuple[float, str], ...], answer: float, otherwise: str) -> str:
    return next((hint for value, hint in known if _near(answer, value)), otherwise)


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 05-fuse: three operators as one Triton kernel, right on every size, and as fast as its bytes allow.

SIZES = (1, 7, 127, 1024, 1025, 4099)
TIMED = 2**26
ENOUGH, TOLERANCE = 0.9, 1e-5
"""Share of the predicted ratio that is enough; relative error that float32 stays far below."""

_SAME_WORK = (
    "empty", "new_", "detach", "alias", "view", "as_strided", "copy", "clone", "zero", "full", "fill", "lift", "item",
    "resize", "set_", "local_scalar", "_to_", "contiguous", "reshape", "is_", "storage", "pin_",
)  # fmt: skip
"""What a launch may ask of torch: memory, views and copies, but no arithmetic."""

INTERPRETER = (
    "Without a GPU, Triton runs kernels in its interpreter: set os.environ['TRITON_INTERPRET'] = '1' before Triton is "
    "imported, restart the notebook's kernel and run it from the top."
)
Fused = Callable[[Any, float, Any], Any]


def eager(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
    """The three operators.

    >>> eager(torch.tensor([1.0, -1.0]), 2.0, torch.tensor([0.5, 0.5]))
    tensor([2.5000, 0.0000])
    """
    return torch.relu(x * scale + r)


class Arithmetic(TorchDispatchMode):
    """Notes which operators of torch compute something."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).removeprefix("aten.")
        if not name.startswith(_SAME_WORK):
            self.seen.append(name.split(".")[0])
        return function(*args, **(kwargs or {}))


def grade_fuse(fused: Any) -> Mark:
    """Right if every size is and torch does none of the work; on a GPU it must also gain enough."""
    if not callable(fused):
        return Mark("wrong", f"{fused!r} is not a function.", 'Pass it itself: check("05-fuse", fused=fused).')
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (*SIZES, random.randint(5000, 9999))
    try:
        mistake = next((found for size in sizes if (found := _mistake(fused, size, device))), None)
    except StudentError as raised:
        if is_cpu(device) and _no_interpreter(str(raised)):
            return Mark("wrong", "your kernel needs a GPU as it is, and there is none here.", INTERPRETER)
        raise
    if mistake is not None:
        return Mark("wrong", *mistake)
    return Mark("right", _on_cpu(sizes)) if is_cpu(device) else _timed(fused)


FUSE_EXERCISE = Exercise("05-fuse", grade_fuse)


def _no_interpreter(text: str) -> bool:
    return any(sign in text for sign in ("active drivers", "Pointer argument", "TRITON_INTERPRET", "cuda"))


def _on_cpu(sizes: tuple[int, ...]) -> str:
    predicted = units.ratio(bytes_ratio("chain", TIMED))
    return (
        f"your kernel is right on {len(sizes)} sizes from 1 to {max(sizes)} elements, in Triton's interpreter. On a "
        f"GPU it may gain up to {predicted}, the ratio of the bytes; there its time is marked too."
    )


def _mistake(fused: Fused, size: int, device: str) -> tuple[str, str] | None:
    """What is wrong at a size, on fresh random numbers, as (what, hint)."""
    x, r = torch.randn(size, device=device), torch.randn(size, device=device)
    scale = random.uniform(0.5, 3.0)
    kept = x.clone(), r.clone()
    with Arithmetic() as torch_does:
        result = ask(fused, x, scale, r)
    if not isinstance(result, torch.Tensor):
        return f"your function returned {type(result).__name__}.", "Return the tensor that the kernel has written."
    if result.shape != x.shape or result.dtype != x.dtype or result.device != x.device:
        found = f"{result.dtype} {tuple(result.shape)} on {result.device}"
        return f"your result is {found}.", f"Expected {x.dtype} {tuple(x.shape)} on {x.device}: torch.empty_like(x)."
    if not (torch.equal(x, kept[0]) and torch.equal(r, kept[1])):
        return "your kernel changed its input.", "Write to an array of its own: torch.empty_like(x)."
    if torch_does.seen:
        return f"torch still computes: {', '.join(dict.fromkeys(torch_does.seen))}.", "Do it inside of the kernel."
    return _wrong_numbers(x, scale, r, result)


def _wrong_numbers(x: torch.Tensor, scale: float, r: torch.Tensor, y: torch.Tensor) -> tuple[str, str] | None:
    expected = torch.relu(x.double() * scale + r.double())
    wrong = ~torch.isclose(y.double(), expected, rtol=TOLERANCE, atol=TOLERANCE)
    if not bool(wrong.any()):
        return None
    first = int(wrong.nonzero()[0])
    what = f"of {x.numel()} elements {int(wrong.sum())} are wrong, the first at {first}: {float(y[first])!r} instead of"
    return f"{what} {float(expected[first]):.6g}.", _why(x, scale, r, y, wrong)


def _why(x: torch.Tensor, scale: float, r: torch.Tensor, y: torch.Tensor, wrong: torch.Tensor) -> str:
    """A hint for a known mistake: no ReLU, no r, no scale, a part of the array that was not reached."""
    known = (
        (x * scale + r, "Negative numbers are left as they are: the ReLU is missing."),
        (torch.relu(x * scale), "r is missing."),
        (torch.relu(x + r), "The scale is missing."),
        (torch.relu((x + r) * scale), "Multiply first, then add."),
    )
    for other, hint in known:
        if torch.allclose(y, other, rtol=TOLERANCE, atol=TOLERANCE):
            return hint
    first = int(wrong.nonzero()[0])
    if first and bool(wrong[first:].float().mean() > 0.4):
        return "From there on nothing is right: are there enough programs in the grid, each at its own block?"
    return "Look at the offsets and the mask: offsets < count is what a program may read and write."


def _timed(fused: Fused) -> Mark:
    """On a GPU: eager over fused at a size that no cache holds, against the ratio of the bytes."""
    from brrr.timing import measure_together

    x, r = torch.randn(TIMED, device="cuda"), torch.randn(TIMED, device="cuda")
    one, other = measure_together([lambda: eager(x, 1.5, r), lambda: ask(fused, x, 1.5, r)])
    slow, fast = one.busy_s or one.period_s, other.busy_s or other.period_s
    assert slow is not None
    assert fast is not None
    return judged(slow.median, fast.median, other.kernels)


def judged(eager_s: float, fused_s: float, kernels: int | None) -> Mark:
    """The mark for two times, in seconds: right from 90 % of the predicted ratio on.

    >>> judged(2.3e-3, 1.0e-3, 1).right, judged(1.0e-3, 1.0e-3, 1).right
    (True, False)
    """
    predicted = bytes_ratio("chain", TIMED)
    gain = eager_s / fused_s
    text = (
        f"three operators take {units.seconds(eager_s)}, your kernel {units.seconds(fused_s)}: {units.ratio(gain)}, of "
        f"{units.ratio(predicted)} that the bytes predict"
    )
    if kernels is not None and kernels > 1:
        return Mark("wrong", f"your function launches {kernels} kernels.", "One is enough.")
    if gain >= ENOUGH * predicted:
        return Mark("right", f"{text}.")
    return Mark("wrong", f"{text}. It is right, but too slow.", "Try blocks of 1024 elements and more, a power of two; "
                "neighbouring threads must read neighbouring elements.")  # fmt: skip
