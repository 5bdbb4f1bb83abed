"""Tables of lesson 09b: how errors grow with levels, and a fused network beside the one it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brrr.core import units
from brrr.course.lessons.comparison import Comparison
from brrr.course.lessons.drawings.strassen_measured import Seen, described, kinds_of, sizes_with_errors
from brrr.course.lessons.drawings.strassen_panel import rows
from brrr.course.lessons.guessing import Guess
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as default_source

if TYPE_CHECKING:
    import torch

Row = tuple[Seen, float, float]


def compare_growth(guess: Guess, *, level: int, source: Source | None = None) -> Comparison:
    """A guessed growth of the error against that of so many levels, for each kind of product, at the largest size.

    >>> from brrr.course.lessons.guessing import guess
    >>> compare_growth(guess("The error grows by ...", unit="x"), level=2)
    The error grows by ...
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.

    The first kind that the source has is compared with the guess. Errors are over those of the same inner product
    without levels.
    """
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    origin = source or default_source()
    sizes, badge = sizes_with_errors(origin), str(origin.badge(described()))
    at = [(size, kind, rows(origin, kind, size)) for size in reversed(sizes) for kind in kinds_of(origin)]
    largest = next((size for size, _, found in at if {0, level} <= set(found)), None)
    there = [(kind, found) for size, kind, found in at if size == largest and {0, level} <= set(found)]
    if not there:
        return Comparison(f"{badge} has no error of {level} levels beside that of none.")
    grown = _grown(there[0][1], level)
    said = "no guess given; measured: " + guess.form.show(grown)
    if guess.value is not None:
        said = guess.form.judge(guess.value, grown)
    table = tuple(_row(kind, found, level) for kind, found in there)
    header = ("product", f"error, {level} levels over none", "a level", "speed over none")
    return Comparison(f"At size {largest}, {there[0][0]}: {said}.", header, table, badge)


def _grown(found: dict[int, Row], level: int) -> float:
    return found[level][2]


def _row(kind: str, found: dict[int, Row], level: int) -> tuple[str, ...]:
    grown = _grown(found, level)
    return kind, units.ratio(grown), units.ratio(grown ** (1 / level)), units.ratio(found[level][1])


def compare_fused(model: torch.nn.Module, fused: torch.nn.Module, x: torch.Tensor) -> Comparison:
    """A model and a fused copy of it on the same input: output and gradients, each against the model in float64.

    >>> import torch
    >>> model = torch.nn.Linear(4, 4)
    >>> compare_fused(model, model, torch.randn(2, 4)).header
    ('', 'the model', 'fused')
    """
    from copy import deepcopy

    exact = _results(deepcopy(model).double(), x.double())
    plain, made = _results(model, x), _results(fused, x)
    table = tuple(
        (name, f"{_away(plain[name], wanted):.1e}", f"{_away(made[name], wanted):.1e}")
        for name, wanted in exact.items()
    )
    worst = max(float(row[2]) for row in table)
    text = f"Relative errors against float64, forward and backward; the fused network's largest is {worst:.1e}."
    return Comparison(text, ("", "the model", "fused"), table, f"LIVE on this machine's {x.device.type.upper()}")


def _results(model: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The output, and the gradients of the sum of its squares."""
    model.zero_grad()
    given = x.clone().requires_grad_()
    output = model(given)
    output.square().sum().backward()
    found = {"output": output.detach(), "gradient of the input": given.grad}
    found |= {
        f"gradient of {name}": each.grad.clone() for name, each in model.named_parameters() if each.grad is not None
    }
    return {name: value for name, value in found.items() if value is not None}


def _away(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())
