"""`compare_memory`: the time and the memory of a call side by side, line by line, with the badge."""

from __future__ import annotations

from collections.abc import Sequence

from brrr import units
from brrr.experiment import Line, Value
from brrr.experiments import experiment as experiment_named
from brrr.lessons.comparison import Comparison, where_text
from brrr.lessons.guessing import Guess
from brrr.lessons.measured import measured_at
from brrr.measurement import Measurement
from brrr.source import Source
from brrr.source import source as default_source


def compare_memory(
    guess: Guess, experiment: str, lines: Sequence[str], *, source: Source | None = None, **at: Value
) -> Comparison:
    """How long a call takes and how much memory it takes at most, for each line, and over the first line's.

    >>> from brrr.lessons.guessing import guess
    >>> g = guess("Computed again, the chain is faster by ...", unit="x")
    Computed again, the chain is faster by ...
    Not answered yet.
    >>> compare_memory(g, "remat", ["eager"], activation="hardswish", depth=8, elements=2**16)
    Not answered yet: give your guess above, then run this cell again.

    Lines that the source lacks are left out; so is the memory of those measured without it. ArgumentError for a line or
    an axis that does not exist.
    """
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    described, origin = experiment_named(experiment), source or default_source()
    point = described.point(**at)
    wanted = [described.line(name) for name in lines]
    found = [(line, each) for line in wanted if (each := measured_at(described, origin, line, point))]
    where, badge = where_text(point), str(origin.badge(described))
    if not found:
        return Comparison(f"{badge} has none of these lines at {where}.")
    first = found[0][1].peak_bytes
    header = ("", "time", "memory at most", f"over {found[0][0].label}")
    text = f"At {where}: time of a call, and the memory that it takes beside its inputs."
    return Comparison(text, header, tuple(_row(line, each, first) for line, each in found), badge)


def _row(line: Line, measured: Measurement, first: int | None) -> tuple[str, ...]:
    time, peak = measured.get(line.field), measured.peak_bytes
    shown = units.seconds(time.median) if time is not None else "–"
    if peak is None:
        return (line.label, shown, "not measured", "–")
    return (line.label, shown, units.quantity(peak, "B"), units.ratio(peak / first) if first else "–")
