"""`compare_data`: what the numbers in a product do to its time, its clock and its power."""

from __future__ import annotations

from brrr.core import units
from brrr.core.measurement import Measurement, Value
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
