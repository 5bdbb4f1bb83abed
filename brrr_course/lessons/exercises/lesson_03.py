"""Exercise 03-chatty: rewrite a loop of many tiny operators so that it is at least three times as fast.

The result is compared first, on fresh inputs; then both are measured interleaved, on the GPU where there is one.
"""

from typing import Any

import torch

from brrr.core import units
from brrr.gpu import tensors_on
from brrr_course.lessons.marks import StudentError, Wrong, ask, exercise
from brrr_course.lessons.pretend import live
from brrr_course.lessons.tensors import close, tensor
from brrr_course.sources import source

ROWS, COLUMNS = 128, 64
SHAPES = ((ROWS, COLUMNS), (7, 33))
"""The second shape finds out who has written the first one into the function."""
TOLERANCE = 1e-4
WANTED = 3.0
BUDGET_S = 0.2


def chatty(x: torch.Tensor) -> torch.Tensor:
    """Each row less its mean, over its standard deviation: right, but four launches for every row.

    >>> import torch
    >>> chatty(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[-1.0, 0.0, 1.0]]
    """
    rows = []
    for row in x:
        rows.append((row - row.mean()) / row.std())
    return torch.stack(rows)


@exercise("03-chatty")
def few_launches(quiet: Any) -> str:
    """Compare the function with the loop on fresh inputs, then run both, and say how many times faster it is."""
    device = tensors_on(source().name)
    for shape in SHAPES:
        _look_at(quiet, torch.randn(*shape, device=device) + 3)
    x = torch.randn(ROWS, COLUMNS, device=device)
    ratio = ask(_times_faster, quiet, x)
    try:
        _look_at(quiet, x.normal_(mean=3))
    except StudentError:
        raise
    except Wrong as wrong:
        raise Wrong(f"with new numbers in the same tensor, {wrong.text}", "Compute the result at each call.") from None
    found = f"it is {units.ratio(ratio)} as fast as the loop ({live(device)})."
    if ratio >= WANTED:
        return f"{found} The work is the same, the overhead is not: a few launches for all rows."
    hint = "Each row still gets launches of its own. mean and std take all rows at once, with dim=1 and keepdim=True."
    raise Wrong(f"the result is right, but {found} {units.ratio(WANTED)} is wanted.", hint)


def _times_faster(quiet: Any, x: torch.Tensor) -> float:
    """The loop's time over that of the function, both in a loop, interleaved."""
    from brrr.timing import measure_together

    place: Any = x.device.type
    loop, rewritten = measure_together([lambda: chatty(x), lambda: quiet(x)], device=place, budget_s=BUDGET_S)
    assert loop.period_s is not None and rewritten.period_s is not None
    return loop.period_s.median / max(rewritten.period_s.median, 1e-12)


def _look_at(quiet: Any, x: torch.Tensor) -> None:
    given = x.clone()
    returned = ask(quiet, x)
    if not torch.equal(x, given):
        raise Wrong("your function changes its input.", "Make a new tensor: an operator that ends in _ works in place.")
    found = tensor(returned, "It should return a tensor, as the loop does.")
    want = f"{tuple(x.shape)} {x.dtype} on {x.device}"
    have = f"{tuple(found.shape)} {found.dtype} on {found.device}"
    if have != want:
        raise Wrong(
            f"your function returned {have} for {want}.", "The result is as large as the input, and where it is."
        )
    centred = x.double() - x.double().mean(1, keepdim=True)
    expected = centred / x.double().std(1, keepdim=True)
    if close(found, expected, TOLERANCE):
        return
    if close(found, centred / x.double().std(1, keepdim=True, correction=0), TOLERANCE):
        raise Wrong(
            "your standard deviation divides by n; the loop's divides by n - 1.", "x.std has it that way by itself."
        )
    if close(found, (x.double() - x.double().mean()) / x.double().std(), TOLERANCE):
        raise Wrong("your mean is that of all numbers, not of each row.", "Say which way to go: dim=1.")
    if bool(torch.isnan(found).any()):
        raise Wrong("your result holds NaN.", "Is something divided by zero, or left unfilled?")
    raise Wrong("your result differs from the loop's.", "For each row: (row - row.mean()) / row.std().")
