"""What lesson 07 asks of products: `compare_data`, what their numbers do to time, clock and power; `model_lines`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brrr.core import units
from brrr.core.measurement import Measurement, Value
from brrr.counting.cost import Matmul
from brrr.roofline.shapes import product_time_s
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.gemm import DTYPES
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source
from brrr_course.sources import source as default_source

SIZE, COLUMNS = 8192, 4096
HEADER = ("", "random", "zeros", "zeros over random", "clocks", "power")


def compare_data(*, source: Source | None = None) -> Comparison:
    """A large product of random numbers and of zeros in each type, with the GPU's clock and power beside.

    >>> compare_data()  # doctest: +SKIP
    M = K = 8192, 4096 columns, random numbers and zeros. ...

    What the source has not measured is left out; a sentence says so where it has nothing.
    """
    described, origin = experiment_named("gemm"), source or default_source()
    badge = str(origin.badge(described))
    both = [(dtype, *_measured(described, origin, dtype)) for dtype in DTYPES]
    rows = tuple(_row(dtype, random, zeros) for dtype, random, zeros in both if random and zeros)
    if not rows:
        return Comparison(f"{badge} has no such product of zeros: it takes a GPU.")
    return Comparison(f"M = K = {SIZE}, {COLUMNS} columns, random numbers and zeros.", HEADER, rows, badge)


def _measured(described: Experiment, origin: Source, dtype: str) -> tuple[Measurement | None, Measurement | None]:
    key: tuple[Value, ...] = (COLUMNS, SIZE, dtype)
    one, other = (origin.known(described, variant).get(key) for variant in ("nn", "zeros"))
    return one, other


def _row(dtype: str, random: Measurement, zeros: Measurement) -> tuple[str, ...]:
    one, other = random.span_s, zeros.span_s
    assert one is not None
    assert other is not None
    clocks = " and ".join(units.quantity(each.sm_clock_hz or 0.0, "Hz") for each in (random, zeros))
    watts = " and ".join("?" if each.power_w is None else units.quantity(each.power_w, "W") for each in (random, zeros))
    return dtype, units.seconds(one.median), units.seconds(other.median), f"{other / one:x}", clocks, watts


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 07-slow-line: which of four products is slow, and what would mend it.

TOKENS, WIDTH, WORDS = 12287, 768, 50257


def model_lines() -> dict[str, tuple[int, int, int]]:
    """The products of a small language model, whose tokens are odd in number: (M, N, K) by name.

    >>> model_lines()["head"]
    (12287, 50257, 768)
    """
    columns = {"qkv": 3 * WIDTH, "out": WIDTH, "up": 4 * WIDTH, "head": WORDS}
    return {name: (TOKENS, each, WIDTH) for name, each in columns.items()}


def padded(answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What exercise 07-slow-line says of a vocabulary of so many words: those to spare, and the predicted gain.

    >>> padded({"line": "head", "words": 50264})[0]["spare"]
    7
    """
    words = max(answers.get("words", WORDS), 1)  # what is below is wrong, and told without this
    lines = (Matmul(TOKENS, each, WIDTH, dtype="bfloat16", transposed=(False, True)) for each in (WORDS, words))
    before, after = (product_time_s(line, "h200") for line in lines)
    return [{"spare": words - WORDS, "faster": before / after}]
