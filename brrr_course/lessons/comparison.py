"""What a comparison is made of: the guess, lines of an experiment, and the source that they are asked of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from brrr.core.errors import DeviceMemoryError, NotRecordedError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr_course.lessons.answers import Answer
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment, Line
from brrr_course.nouns.source import Evidence, Source
from brrr_course.view.words import drifted

Timed = tuple[Line, Estimate]
UNGUESSED = "no guess given; "
"""What stands before a measurement in the edition for reading."""


@dataclass(frozen=True)
class Subject:
    """What is compared: a guess with lines of an experiment at a point, as a source has them.

    `of` is the word of the quantity, `truth` the line that readings are held against; `guessed` is None in the edition
    for reading, where nobody has guessed.
    """

    form: Any
    guessed: Answer | None
    experiment: Experiment
    source: Source
    lines: Sequence[str] | Mapping[str, str]
    at: Mapping[str, Any]
    of: str = "time"
    truth: str = ""
    held: list[Answer] = field(default_factory=list)
    """What the guess was held against, once it was."""

    @property
    def badge(self) -> str:
        """Where the measurements come from."""
        return str(self.source.badge(self.experiment))

    @property
    def evidence(self) -> Evidence:
        """The source, asked of this experiment."""
        return Evidence(self.experiment, self.source)

    @property
    def point(self) -> dict[str, Value]:
        """The whole point that was asked for."""
        return self.experiment.point(**self.at)

    def judged(self, measured: Answer, verb: str = "measured") -> str:
        """The guess beside what it should have been, of an order only what was measured; without one, that alone."""
        self.held.append(measured)
        if self.guessed is None:
            return f"{UNGUESSED}{verb}: {self.form.show(measured)}"
        value = self.guessed
        if isinstance(value, tuple) and isinstance(measured, tuple):
            value = tuple(item for item in value if item in measured)
        return str(self.form.judge(value, measured)).replace("measured", verb)

    def timed(self, name: str, point: Mapping[str, Value]) -> Timed | None:
        """A line with its time at the point, or its twin on the CPU queue; None where the source has neither."""
        line = self.experiment.available(name, self.source.variants(self.experiment))
        return (line, time) if line and (time := self.time(line, point)) else None

    def time(self, line: Line, point: Mapping[str, Value]) -> Estimate | None:
        """A line's time at the point; None where the source has none."""
        return time_at(self.experiment, self.source, line, point)

    def missing(self, point: Mapping[str, Value]) -> Comparison:
        """What is said where the source has none of the lines at the point."""
        return Comparison(f"{self.badge} has none of these lines at {self.experiment.place(point)}.")

    def table(
        self, text: str, header: Sequence[str], rows: Iterable[Sequence[str]], lines: Collection[Line] = ()
    ) -> Comparison:
        """The comparison with its badge; the text ends with how much the lines' times differed when measured again."""
        drift = drifted(self.experiment, self.source, lines) if lines else ""
        return Comparison(f"{text} {drift}".rstrip(), tuple(header), tuple(map(tuple, rows)), self.badge)


def lines_here(experiment: Experiment, source: Source, names: Sequence[str]) -> list[Line]:
    """The lines that a source has, or those of the CPU queue that stand in for them; each once."""
    variants = source.variants(experiment)
    found = dict.fromkeys(experiment.available(name, variants) for name in names)
    return [line for line in found if line is not None]


# ---------------------------------------------------------------------------------------------------------------------
# What a comparison asks of a source, which may lack it.


def measured_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Measurement | None:
    """The measurement behind a line at a point, measured now by a live source; None where the source has none.

    >>> measured_at(experiment, source, experiment.line("eager"), {"elements": 1024})    # doctest: +SKIP

    None, too, where a live source lacks what the line needs (a library, a device, memory): a comparison leaves it out.
    """
    if line.variant not in source.variants(experiment) or not experiment.has(line.variant, point):
        return None
    with suppress(NotRecordedError, UnavailableError, DeviceMemoryError):
        return source.measure(experiment, line.variant, point)
    return None


def time_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Estimate | None:
    """The time that the line shows, in seconds; None where there is none."""
    measured = measured_at(experiment, source, line, point)
    return measured.get(line.field) if measured is not None else None
