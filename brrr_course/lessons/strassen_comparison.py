"""Tables of lesson 09b: how errors grow with levels, and a fused network beside the one it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brrr.core import units
from brrr.gpu.datasheet import hardware
from brrr_course.experiments.published import mlp_speedups
from brrr_course.lessons.comparison import judged
from brrr_course.lessons.drawings.layer_traffic import Layer
from brrr_course.lessons.drawings.strassen_panel import described, kinds_of, rows, sizes_with_errors
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, fills_in
from brrr_course.nouns.source import Source
from brrr_course.sources import source as default_source

if TYPE_CHECKING:
    import torch


@fills_in
def compare_errors(guess: Guess, *, level: int, source: Source | None = None) -> Comparison:
    """A guessed growth of the error against that of so many levels, for each kind of product, at the largest size.

    >>> from brrr_course.lessons.guessing import guess
    >>> compare_errors(guess("The error grows by ...", unit="x"), level=2)
    The error grows by ...
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.

    The first kind that the source has is compared with the guess. Errors are over those of the same inner product
    without levels.
    """
    if not guess.answered:
        return UNANSWERED
    origin = source or default_source()
    sizes, badge = sizes_with_errors(origin), str(origin.badge(described()))
    for size in reversed(sizes):
        found = {kind: rows(origin, kind, size).get(level) for kind in kinds_of(origin)}
        there = {kind: row for kind, row in found.items() if row is not None}
        if there:
            break
    else:
        return Comparison(f"{badge} has no error of {level} levels beside that of none.")
    first, grown = next((kind, row[1]) for kind, row in there.items())
    table = tuple(
        (kind, units.ratio(error), units.ratio(error ** (1 / level)), units.ratio(speed))
        for kind, (speed, error, _) in there.items()
    )
    header = ("product", f"error, {level} levels over none", "a level", "speed over none")
    return Comparison(f"At size {size}, {first}: {judged(guess, grown)}.", header, table, badge)


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


# ---------------------------------------------------------------------------------------------------------------------
# `compare_published`: what the source saw of Strassen in its network, beside a guess and beside what counting says.

BADGE = "PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1; in brackets COUNTED from tiles, bytes and the datasheet's rates"
LAYERS, GPU = 8, "gtx-1070"
BATCHES, HIDDEN = (2, 8, 16, 32, 64, 128), (1024, 2048, 4096)
BEST = (128, 4096)
"""Batch and hidden size that the guess is about."""


def published_gain(batch: int, hidden: int) -> float:
    """The source's network with Strassen over the same with bias and ReLU fused, both of 8 layers.

    >>> round(published_gain(128, 4096), 2)
    1.53
    """
    here = (LAYERS, batch, hidden)
    found = {row.variant: row.speedup for row in mlp_speedups() if (row.layers, row.batch, row.hidden) == here}
    return found["strassen"] / found["fusion"]


def counted_gain(batch: int, hidden: int) -> float:
    """The same of one layer by counting alone.

    >>> round(counted_gain(128, 4096), 2), round(counted_gain(2, 4096), 2)
    (1.46, 0.57)
    """
    plain, level = (Layer(batch, hidden, strassen, hardware(GPU)) for strassen in (False, True))
    return plain.time_s / level.time_s


@fills_in
def compare_published(guess: Guess) -> Comparison:
    """The guessed factor at the source's best point, then its whole table, each cell beside what counting says.

    >>> from brrr_course.lessons.guessing import guess
    >>> compare_published(guess("By how much?", unit="x"))
    By how much?
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.
    """
    if not guess.answered:
        return UNANSWERED
    said = judged(guess, published_gain(*BEST), "published")
    header = ("batch", *(f"hidden {size}" for size in HIDDEN))
    rows = tuple((str(batch), *(_cell(batch, size) for size in HIDDEN)) for batch in BATCHES)
    return Comparison(f"{said}. With Strassen over without, {LAYERS} layers:", header, rows, BADGE)


def _cell(batch: int, hidden: int) -> str:
    return f"{units.ratio(published_gain(batch, hidden))} ({units.ratio(counted_gain(batch, hidden))})"
