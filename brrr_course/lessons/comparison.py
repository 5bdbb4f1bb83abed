"""What a comparison is made of: the guess, lines of an experiment, and the source that they are asked of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from brrr.core.errors import ArgumentError, DeviceMemoryError, NotRecordedError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons.answers import Answer
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Axis, Experiment, Line
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as default_source
from brrr_course.view.words import drifted

Timed = tuple[Line, Estimate]


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
        if self.guessed is None:
            return f"no guess given; {verb}: {self.form.show(measured)}"
        value = self.guessed
        if isinstance(value, tuple) and isinstance(measured, tuple):
            value = tuple(item for item in value if item in measured)
        return str(self.form.judge(value, measured)).replace("measured", verb)

    def timed(self, name: str, point: Mapping[str, Value]) -> Timed | None:
        """A line with its time at the point, or its twin on the CPU queue; None where the source has neither."""
        self.experiment.line(name)
        return next(((line, time) for line in self.experiment.twins(name) if (time := self.time(line, point))), None)

    def time(self, line: Line, point: Mapping[str, Value]) -> Estimate | None:
        """A line's time at the point; None where the source has none."""
        return time_at(self.experiment, self.source, line, point)

    def missing(self, point: Mapping[str, Value]) -> Comparison:
        """What is said where the source has none of the lines at the point."""
        return Comparison(f"{self.badge} has none of these lines at {where_text(point)}.")

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


def reachable(experiment: str, *, source: Source | None = None, **at: Value | Sequence[Value]) -> dict[str, Value]:
    """Find the point nearest to the wanted one that the data have.

    >>> reachable("matmul", size=2048)  # doctest: +SKIP
    {'size': 2048}

    A lesson then runs unchanged on any source: the result is what ``explore(at=...)`` and ``compare(**...)`` take.

    Parameters
    ----------
    experiment : str
        The experiment.
    source : Source, optional
        Where the measurements come from, as for `explore`.
    **at
        The wanted values by axis. A list, as in ``function=["relu-64x1024", "product-512"]``, stands for the first of
        its values that the data have.

    Returns
    -------
    dict of str
        The value of each axis.

    Raises
    ------
    ArgumentError
        If an axis does not take such a value.
    """
    described, origin = experiment_named(experiment), source or default_source()
    return {axis.name: _nearest(described, origin, axis, at[axis.name]) for axis in described.axes if axis.name in at}


def _nearest(experiment: Experiment, source: Source, axis: Axis, wanted: Value | Sequence[Value]) -> Value:
    """The source's value of an axis closest to the wanted one, or the first of the wanted ones that it has."""
    here = tuple(source.values(experiment, axis.name))
    for value in (wanted,) if isinstance(wanted, str | int | float) else wanted:
        axis.checked("reachable", value)
        if axis.scale != "category":
            return _closest(experiment, source, axis, value, here)
        if value in here and _exists(experiment, source, axis, value):
            return value
    return here[0]


def _closest(experiment: Experiment, source: Source, axis: Axis, value: Value, here: tuple[Value, ...]) -> Value:
    """The closest value; a live source has the axis's own ones, also those at which nothing runs on its device."""
    found = axis.nearest(value, here)
    if not source.live or _exists(experiment, source, axis, found):
        return found
    variants = source.variants(experiment)
    there = {p[axis.name] for p in experiment.points() if any(experiment.has(variant, p) for variant in variants)}
    return axis.nearest(value, tuple(each for each in here if each in there) or here)


def _exists(experiment: Experiment, source: Source, axis: Axis, value: Value) -> bool:
    """Whether any variant of the source exists at any point with this value."""
    points = (point for point in experiment.points() if point[axis.name] == value)
    return any(experiment.has(variant, point) for variant in source.variants(experiment) for point in points)


def where_text(point: Mapping[str, Value]) -> str:
    """The point in words, sizes as the sliders show them."""
    from brrr.drawing.style import readable

    return ", ".join(f"{name} {readable(value)}" for name, value in point.items())


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


# ---------------------------------------------------------------------------------------------------------------------
# `first_available`: which of several sets of lines to show, by what the source has.

Lines = TypeVar("Lines", bound=Collection[str])


def first_available(experiment: str, *choices: Lines, source: Source | None = None) -> Lines:
    """Pick the first of several choices of lines that the data have.

    >>> first_available("cos_cos", ["compile", "triton"], ["cpu blocks"])  # doctest: +SKIP
    ['compile', 'triton']

    A figure then shows the GPU's lines where there are some, else the CPU's own, and never both in one ratio.

    Parameters
    ----------
    experiment : str
        The experiment.
    *choices : sequence or mapping of str
        Lists of lines, or mappings from them; the first one of which the data have any line is taken.
    source : Source, optional
        Where the measurements come from, as for `explore`.

    Returns
    -------
    sequence or mapping of str
        That choice, or the first one if the data have none of the lines.

    Raises
    ------
    ArgumentError
        If a line does not exist, or if there is no choice.
    """
    if not choices:
        raise ArgumentError("first_available", "choices", (), "at least one list of lines")
    described, origin = experiment_named(experiment), source or default_source()
    there = set(origin.variants(described))
    variants = [{described.line(name).variant for name in names} for names in choices]
    return next((names for names, own in zip(choices, variants, strict=True) if own & there), choices[0])
