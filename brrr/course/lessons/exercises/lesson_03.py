"""Exercise 03-chatty: rewrite a loop of many tiny operators so that it is at least three times as fast.

The result is compared first, on fresh inputs; then both are measured interleaved, on the GPU where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr.course.experiments import experiment
from brrr.course.experiments.judging import curve
from brrr.course.experiments.run_ahead import HIDDEN, hidden_from, idle_share
from brrr.course.lessons.checking import Exercise, Mark, ask
from brrr.course.lessons.exercises.lesson_01_crossover import Bracket
from brrr.course.nouns.source import Evidence
from brrr.course.sources import source
from brrr.gpu import tensors_on

if TYPE_CHECKING:
    import torch

ROWS, COLUMNS = 128, 64
SHAPES = ((ROWS, COLUMNS), (7, 33))
"""The second shape finds out who has written the first one into the function."""
TOLERANCE = 1e-4
WANTED = 3.0
BUDGET_S = 0.2


def chatty(x: torch.Tensor) -> torch.Tensor:
    """Each row less its mean, over its standard deviation: right, but four orders for every row.

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
        return Mark("right", f"{found} The work is the same, the paper is not: a few orders for all rows.")
    hint = "Each row still gets orders of its own. mean and std take all rows at once, with dim=1 and keepdim=True."
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

RECORDING = "recorded:h200"


def grade_ahead(elements: Any) -> Mark:
    """The answer must lie above the last size at which the device waits, up to the first from which it never does."""
    if isinstance(elements, bool) or not isinstance(elements, int | float):
        return Mark("wrong", f"`elements` is {elements!r}.", "Write a number of elements, as in 2**16.")
    where, bracket = measured_bracket()
    if bracket.holds(elements):
        return Mark("right", f"from there on it is idle for less than {_hidden()} of the time ({where}).")
    text = f"`elements={elements}` does not fit ({where})."
    if elements <= bracket.loses:
        return Mark("wrong", text, f"At this size or a larger one it is still idle for {_hidden()} or more.")
    return Mark("wrong", text, f"It is idle for less than {_hidden()} already below this size.")


AHEAD_EXERCISE = Exercise("03-ahead", grade_ahead)


def _hidden() -> str:
    return units.percent(HIDDEN, 2)


def measured_bracket() -> tuple[str, Bracket]:
    """The badge and the sizes between which the device stops waiting, from the first source that shows both."""
    described = experiment("run_ahead")
    here = source()
    for found in [here] if here.name == RECORDING else [here, source(RECORDING)]:
        try:
            bracket = waiting_ends(Evidence(described, found))
            return str(found.badge(described)), bracket
        except BrrrError:
            continue
    raise NotRecordedError("check('03-ahead'): no source here holds sizes at which the device waits and does not")


def waiting_ends(evidence: Evidence) -> Bracket:
    """From the last size at which the device is idle for a tenth of the loop or more to the next one measured.

    NotRecordedError where no size was measured on one of the two sides.
    """
    busy, period = curve(evidence, "busy", "elements"), curve(evidence, "period", "elements")
    start = hidden_from(busy, period)
    waits = [size for size in busy if size in period and idle_share(busy[size], period[size]).median >= HIDDEN]
    if start is None or not waits:
        raise NotRecordedError(f"the sizes measured, {sorted(busy)}, do not show where the device stops waiting")
    return Bracket(max(waits), start)
