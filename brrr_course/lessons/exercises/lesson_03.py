"""Exercise 03-chatty: rewrite a loop of many tiny operators so that it is at least three times as fast.

The result is compared first, on fresh inputs; then both are measured interleaved, on the GPU where there is one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.gpu import tensors_on
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero
from brrr_course.sources import source

if TYPE_CHECKING:
    import torch

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
    import torch

    rows = []
    for row in x:
        rows.append((row - row.mean()) / row.std())
    return torch.stack(rows)


def grade_chatty(quiet: Any) -> Mark:
    """Compare the function with the loop on fresh inputs, then run both, and say how many times faster it is."""
    if not callable(quiet):
        return Mark(
            "wrong", f"{quiet!r} is not a function.", 'Pass the function itself: check("03-chatty", quiet=quiet).'
        )
    import torch

    device = tensors_on(source().name)
    for shape in SHAPES:
        if mistake := _mistake(quiet, torch.randn(*shape, device=device) + 3):
            return Mark("wrong", *mistake)
    x = torch.randn(ROWS, COLUMNS, device=device)
    ratio = ask(_times_faster, quiet, x)
    if mistake := _mistake(quiet, x.normal_(mean=3)):
        return Mark("wrong", f"with new numbers in the same tensor, {mistake[0]}", "Compute the result at each call.")
    found = f"it is {units.ratio(ratio)} as fast as the loop ({_badge(device)})."
    if ratio >= WANTED:
        return Mark("right", f"{found} The work is the same, the overhead is not: a few launches for all rows.")
    hint = "Each row still gets launches of its own. mean and std take all rows at once, with dim=1 and keepdim=True."
    return Mark("wrong", f"the result is right, but {found} {units.ratio(WANTED)} is wanted.", hint)


CHATTY_EXERCISE = Exercise("03-chatty", grade_chatty)


def _times_faster(quiet: Any, x: torch.Tensor) -> float:
    """The loop's time over that of the function, both in a loop, interleaved."""
    from brrr.timing import measure_together

    place: Any = x.device.type
    loop, rewritten = measure_together([lambda: chatty(x), lambda: quiet(x)], device=place, budget_s=BUDGET_S)
    assert loop.period_s is not None and rewritten.period_s is not None
    return loop.period_s.median / max(rewritten.period_s.median, 1e-12)


def _mistake(quiet: Any, x: torch.Tensor) -> tuple[str, str] | None:
    """What is wrong with the function's result, and a hint; None if it is right."""
    import torch

    given = x.clone()
    found = ask(quiet, x)
    if not torch.equal(x, given):
        return "your function changes its input.", "Make a new tensor: an operator that ends in _ works in place."
    if not isinstance(found, torch.Tensor):
        return f"your function returned {type(found).__name__}.", "It should return a tensor, as the loop does."
    want = f"{tuple(x.shape)} {x.dtype} on {x.device}"
    have = f"{tuple(found.shape)} {found.dtype} on {found.device}"
    if have != want:
        return f"your function returned {have} for {want}.", "The result is as large as the input, and where it is."
    return _wrong_numbers(found, x)


def _wrong_numbers(found: torch.Tensor, x: torch.Tensor) -> tuple[str, str] | None:
    import torch

    centred = x.double() - x.double().mean(1, keepdim=True)
    expected = centred / x.double().std(1, keepdim=True)
    if _error(found, expected) <= TOLERANCE:
        return None
    if _error(found, centred / x.double().std(1, keepdim=True, correction=0)) <= TOLERANCE:
        return "your standard deviation divides by n; the loop's divides by n - 1.", "x.std has it that way by itself."
    if _error(found, (x.double() - x.double().mean()) / x.double().std()) <= TOLERANCE:
        return "your mean is that of all numbers, not of each row.", "Say which way to go: dim=1."
    if bool(torch.isnan(found).any()):
        return "your result holds NaN.", "Is something divided by zero, or left unfilled?"
    return "your result differs from the loop's.", "For each row: (row - row.mean()) / row.std()."


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def _badge(device: str) -> str:
    from brrr.gpu.device import this_device

    return f"LIVE · {this_device(device).name}"


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 03-ahead: from which operator size on does the GPU no longer wait for the CPU?

HOST_S, START_S, BYTES_PER_S, ELEMENT_BYTES = 5e-6, 1e-6, 4.2e12, 8
"""What the exercise states: issuing an operator, starting its kernel, and moving its numbers in and out."""
ELEMENTS = (HOST_S - START_S) * BYTES_PER_S / ELEMENT_BYTES
CLOSE = 0.03
SLIPS = {
    HOST_S / (HOST_S - START_S): "The kernel's start takes a part of the host's time.",
    2.0: "Each number is read, and written: eight bytes.",
    8.0: "Those are the bytes. How many has an element?",
}
"""What usual mistakes come to, over the right number."""


def grade_ahead(elements: Any) -> Mark:
    """The elements with which a kernel takes as long as the host needs to issue the next."""
    if mark := not_above_zero(elements=elements):
        return mark
    if math.isclose(elements, ELEMENTS, rel_tol=CLOSE):
        return Mark("right", f"from {ELEMENTS:.2g} elements on the host is ahead, and its work hidden.")
    hint = next(
        (text for factor, text in SLIPS.items() if math.isclose(elements, factor * ELEMENTS, rel_tol=CLOSE)), ""
    )
    said = "Start and bytes together take the host's time for an operator."
    return Mark("wrong", f"`elements` is {elements:g}.", hint or said)


AHEAD_EXERCISE = Exercise("03-ahead", grade_ahead)
