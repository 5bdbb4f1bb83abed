"""Exercise 05b-fuse: three operators as one Triton kernel."""

import random
from collections.abc import Callable
from typing import Any

import torch

from brrr.core import units
from brrr.gpu import is_cpu
from brrr_course.experiments.fusion import moved
from brrr_course.lessons.marks import StudentError, Wrong, ask, exercise
from brrr_course.lessons.tensors import Watching, first_like, tensor

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
NO_INTERPRETER = ("active drivers", "Pointer argument", "TRITON_INTERPRET", "cuda")
"""What a kernel that finds no GPU complains of."""
Fused = Callable[[Any, float, Any], Any]


def eager(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
    """The three operators.

    >>> eager(torch.tensor([1.0, -1.0]), 2.0, torch.tensor([0.5, 0.5]))
    tensor([2.5000, 0.0000])
    """
    return torch.relu(x * scale + r)


@exercise("05b-fuse")
def fuse(fused: Any) -> str:
    """Right if every size is and torch does none of the work; on a GPU it must also gain enough."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (*SIZES, random.randint(5000, 9999))
    try:
        for size in sizes:
            _look_at(fused, size, device)
    except StudentError as raised:
        if is_cpu(device) and any(sign in str(raised) for sign in NO_INTERPRETER):
            raise Wrong("your kernel needs a GPU as it is, and there is none here.", INTERPRETER) from None
        raise
    return _on_cpu(sizes) if is_cpu(device) else _timed(fused)


def _on_cpu(sizes: tuple[int, ...]) -> str:
    predicted = units.ratio(bytes_ratio())
    return (
        f"your kernel is right on {len(sizes)} sizes from 1 to {max(sizes)} elements, in Triton's interpreter. On a "
        f"GPU it may gain up to {predicted}, the ratio of the bytes; there its time is marked too."
    )


def _look_at(fused: Fused, size: int, device: str) -> None:
    """Run it at a size, on fresh random numbers."""
    x, r = torch.randn(size, device=device), torch.randn(size, device=device)
    scale = random.uniform(0.5, 3.0)
    kept = x.clone(), r.clone()
    seen: list[str] = []
    with Watching(lambda function, *_: seen.append(str(function).removeprefix("aten."))):
        result = tensor(ask(fused, x, scale, r), "Return the tensor that the kernel has written.")
    computed = [name.split(".")[0] for name in seen if not name.startswith(_SAME_WORK)]
    if result.shape != x.shape or result.dtype != x.dtype or result.device != x.device:
        found = f"{result.dtype} {tuple(result.shape)} on {result.device}"
        raise Wrong(
            f"your result is {found}.", f"Expected {x.dtype} {tuple(x.shape)} on {x.device}: torch.empty_like(x)."
        )
    if not (torch.equal(x, kept[0]) and torch.equal(r, kept[1])):
        raise Wrong("your kernel changed its input.", "Write to an array of its own: torch.empty_like(x).")
    if computed:
        raise Wrong(f"torch still computes: {', '.join(dict.fromkeys(computed))}.", "Do it inside the kernel.")
    _look_at_numbers(x, scale, r, result)


def _look_at_numbers(x: torch.Tensor, scale: float, r: torch.Tensor, y: torch.Tensor) -> None:
    expected = torch.relu(x.double() * scale + r.double())
    wrong = ~torch.isclose(y.double(), expected, rtol=TOLERANCE, atol=TOLERANCE)
    if not bool(wrong.any()):
        return
    first = int(wrong.nonzero()[0])
    what = f"of {x.numel()} elements {int(wrong.sum())} are wrong, the first at {first}: {float(y[first])!r} instead of"
    what = f"{what} {float(expected[first]):.6g}."
    known = (
        (x * scale + r, "Negative numbers are left as they are: the ReLU is missing."),
        (torch.relu(x * scale), "r is missing."),
        (torch.relu(x + r), "The scale is missing."),
        (torch.relu((x + r) * scale), "Multiply first, then add."),
    )
    other = "Look at the offsets and the mask: offsets < count is what a program may read and write."
    if first and bool(wrong[first:].float().mean() > 0.4):
        other = "From there on nothing is right: are there enough programs in the grid, each at its own block?"
    raise Wrong(what, first_like(y, known, other, TOLERANCE))


def _timed(fused: Fused) -> str:
    """On a GPU: eager over fused at a size that no cache holds, against the ratio of the bytes."""
    from brrr.timing import measure_together

    x, r = torch.randn(TIMED, device="cuda"), torch.randn(TIMED, device="cuda")
    one, other = measure_together([lambda: eager(x, 1.5, r), lambda: ask(fused, x, 1.5, r)])
    slow, fast = one.busy_s or one.period_s, other.busy_s or other.period_s
    assert slow is not None and fast is not None
    return judged(slow.median, fast.median, other.kernels)


def bytes_ratio() -> float:
    """Bytes of the three operators one by one over those of one kernel: the most that is gained by moving less.

    >>> round(bytes_ratio(), 2)
    2.33
    """
    eager, fused = moved("chain", TIMED)
    return eager / fused


def judged(eager_s: float, fused_s: float, kernels: int | None) -> str:
    """What is said of two times, in seconds: right from 90 % of the predicted ratio on.

    >>> judged(2.3e-3, 1.0e-3, 1)
    'three operators take 2.3 ms, your kernel 1 ms: 2.3x, of 2.33x that the bytes predict.'
    """
    predicted = bytes_ratio()
    gain = eager_s / fused_s
    text = (
        f"three operators take {units.seconds(eager_s)}, your kernel {units.seconds(fused_s)}: {units.ratio(gain)}, of "
        f"{units.ratio(predicted)} that the bytes predict"
    )
    if kernels is not None and kernels > 1:
        raise Wrong(f"your function launches {kernels} kernels.", "One is enough.")
    if gain >= ENOUGH * predicted:
        return f"{text}."
    raise Wrong(f"{text}. It is right, but too slow.", "Try blocks of 1024 elements and more, a power of two; "
                "neighbouring threads must read neighbouring elements.")  # fmt: skip
