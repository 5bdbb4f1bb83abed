"""`against_copy`: a kernel made by `elementwise`, measured here and now beside a copy of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Measurement
from brrr.core.values import Value
from brrr.course.experiments import experiment as experiment_named
from brrr.course.lessons.answers import Ranking
from brrr.course.lessons.comparison import Comparison, measured_at, where_text
from brrr.course.lessons.guessing import Guess
from brrr.course.nouns.experiment import Experiment, Line
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as default_source
from brrr.course.view.display import static
from brrr.kernels.elementwise.kernel import Elementwise


def against_copy(kernel: Elementwise) -> Comparison:
    """The bytes a second of a student's kernel and those of a copy, measured in turns on this machine.

    The kernel's bytes are those that must move; a copy reads its array and writes it. On a CPU torch evaluates the
    line operator by operator, and the text says so. Nothing is measured in the edition that is only read.
    """
    if static():
        return Comparison("Measured where you run this cell: it is not part of the recording.")
    from datetime import date

    import torch

    from brrr.gpu.device import this_device
    from brrr.timing import measure_together

    on: Literal["cuda", "cpu"] = "cuda" if kernel.device.type == "cuda" else "cpu"
    result = kernel()
    found = measure_together([kernel, result.clone], device=on)
    moved = (kernel.bytes, 2 * result.numel() * result.element_size())
    rates = []
    for each, nbytes in zip(found, moved, strict=True):
        time = each.busy_s or each.period_s
        assert time is not None
        rates.append(nbytes / time.median)
    rows = tuple(
        (label, units.quantity(nbytes, "B"), units.quantity(rate, "B/s"))
        for label, nbytes, rate in zip((kernel.line, "a copy"), moved, rates, strict=True)
    )
    text = f"Your line moves its bytes at {units.percent(rates[0] / rates[1], 2)} of a copy's rate."
    if kernel.emulated:
        text += " Here torch runs it operator by operator, on the CPU: it is not one kernel, and pays for that."
    badge = " · ".join(("LIVE", this_device(on).name, date.today().isoformat(), f"torch {torch.__version__}"))
    return Comparison(text, ("", "must move", "a second"), rows, badge)


# ---------------------------------------------------------------------------------------------------------------------
# `compare_memory`: the time and the memory of a call side by side, line by line, with the badge.


def compare_memory(
    guess: Guess, experiment: str, lines: Sequence[str], *, source: Source | None = None, **at: Value
) -> Comparison:
    """How long a call takes and how much memory it takes at most, for each line, and over the first line's.

    >>> from brrr.course.lessons.guessing import guess
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


# ---------------------------------------------------------------------------------------------------------------------
# `compare_values`: a guessed order of an axis's values against how long each takes, with the badge.


def compare_values(
    guess: Guess, experiment: str, lines: Sequence[str], axis: str, *, source: Source | None = None, **at: Value
) -> Comparison:
    """A guessed ranking of an axis's values, the longest first, against the times that are known.

    >>> from brrr.course.lessons.guessing import guess
    >>> g = guess("Which takes longest?", ranking=["memory", "copy"])
    Which takes longest?
    Not answered yet.
    >>> compare_values(g, "first_call", ["first", "cpu first"], "part")
    Not answered yet: give your guess above, then run this cell again.

    Of `lines` the first that the source has is taken. Nothing is measured here: a live source is asked for what the
    figure above has measured, and values without a time are left out. ArgumentError for a guess that is no ranking,
    and for a line or an axis that does not exist.
    """
    described, origin = experiment_named(experiment), source or default_source()
    described.axis(axis)
    drawn = [described.line(name) for name in lines]
    if not isinstance(guess.form, Ranking):
        raise ArgumentError("compare_values", "guess", guess.form, "a ranking: guess(..., ranking=[...])")
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    badge = str(origin.badge(described))
    line = next((line for line in drawn if line.variant in origin.variants(described)), None)
    times = _times(described, origin, line, axis, at, guess.form.items) if line is not None else {}
    if len(times) < 2:
        return Comparison(
            f"{badge}: fewer than two of them are measured. Measure the points above, then run this again."
        )
    order = tuple(sorted(times, key=lambda value: -times[value].median))
    rows = tuple((value, str(times[value])) for value in order)
    return Comparison(_text(guess, order), ("the longest first", "time"), rows, badge)


def _text(guess: Guess, order: tuple[str, ...]) -> str:
    assert isinstance(guess.form, Ranking)
    if not isinstance(guess.value, tuple):
        return f"No guess given; measured, the longest first: {guess.form.show(order)}."
    judged = guess.form.judge(tuple(item for item in guess.value if item in order), order)
    return f"{judged[:1].upper()}{judged[1:]}."


def _times(
    experiment: Experiment, source: Source, line: Line, axis: str, at: Mapping[str, Value], wanted: Sequence[str]
) -> dict[str, Estimate]:
    """The known times of a line along the axis, by value."""
    names = [each.name for each in experiment.axes]
    found: dict[str, Estimate] = {}
    for key, measured in source.known(experiment, line.variant).items():
        point = dict(zip(names, key, strict=True))
        value, time = str(point.pop(axis)), measured.get(line.field)
        if value in wanted and time is not None and point == dict(at):
            found[value] = time
    return found
