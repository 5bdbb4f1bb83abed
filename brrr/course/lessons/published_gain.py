"""`compare_published`: what the source saw of Strassen in its network, beside a guess and beside what counting says."""

from __future__ import annotations

from brrr.core import units
from brrr.course.experiments.published import mlp_speedups
from brrr.course.lessons.comparison import Comparison
from brrr.course.lessons.drawings.layer_traffic import Layer
from brrr.course.lessons.guessing import Guess
from brrr.gpu.datasheet import hardware

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
    found = {row.variant: row.speedup for row in mlp_speedups() if (row.layers, row.batch, row.hidden) ==
             (LAYERS, batch, hidden)}  # fmt: skip
    return found["strassen"] / found["fusion"]


def counted_gain(batch: int, hidden: int) -> float:
    """The same of one layer by counting alone.

    >>> round(counted_gain(128, 4096), 2), round(counted_gain(2, 4096), 2)
    (1.46, 0.57)
    """
    gpu = hardware(GPU)
    return Layer(batch, hidden, False, gpu).time_s / Layer(batch, hidden, True, gpu).time_s


def compare_published(guess: Guess) -> Comparison:
    """The guessed factor at the source's best point, then its whole table, each cell beside what counting says.

    >>> from brrr.course.lessons.guessing import guess
    >>> compare_published(guess("By how much?", unit="x"))
    By how much?
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.
    """
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    gain = published_gain(*BEST)
    said = f"no guess given; published: {guess.form.show(gain)}"
    if guess.value is not None:
        said = guess.form.judge(guess.value, gain).replace("measured", "published")
    header = ("batch", *(f"hidden {size}" for size in HIDDEN))
    rows = tuple((str(batch), *(_cell(batch, size) for size in HIDDEN)) for batch in BATCHES)
    return Comparison(f"{said}. With Strassen over without, {LAYERS} layers:", header, rows, BADGE)


def _cell(batch: int, hidden: int) -> str:
    return f"{units.ratio(published_gain(batch, hidden))} ({units.ratio(counted_gain(batch, hidden))})"
