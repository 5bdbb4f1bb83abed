"""What the arguments of `explore` mean: which axes get a slider, what is shown, and what lies along x and y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple, cast

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Value
from brrr_course.nouns.experiment import Axis, Experiment, Line
from brrr_course.nouns.source import Source

MOST_SLIDERS = 3
Show = str | Mapping[str, str | Mapping[str, str]]

_WORDS: Mapping[str, dict[str, str | Mapping[str, str]]] = {
    "time": {}, "bytes": {"y": "bytes"}, "rate": {"y": "rate"}, "ladder": {"ladder": "time"}, "stack": {"stack": {}},
}  # fmt: skip
_SHOWN = ("time", "rate", "share", "bytes")
_KINDS = ("y", "rate", "ratio", "speedup", "ladder", "stack")
_EXPECTED = (
    '"time", "rate", "ladder", "stack", "bytes", {"rate": "bytes"}, {"rate": "flop"}, {"rate": AXIS}, {"ratio": LINE}, '
    '{"speedup": {LINE: BASE}}, {"ladder": "rate"} or '
    '{"stack": {LINE: PART}}; over lines also {"x": AXIS}, as in {"y": "rate", "x": AXIS}, '
    'and {"y": "share"}; over lines and a stack {"y": "bytes"}'
)


def slider_names(found: Experiment, at: Mapping[str, Value], sliders: Sequence[str] | None) -> list[str]:
    """Which axes get a slider; all others must stand in `at`. An empty list, given on purpose, is a figure without."""
    axes = [axis.name for axis in found.axes]
    if sliders is None:
        names = axes if len(axes) <= MOST_SLIDERS else [name for name in axes if name not in at]
    else:
        names = [found.axis(name).name for name in sliders]
    pinned = [name for name in axes if name not in names]
    hint = "Pin the other axes with at=, as at={" + f"{axes[-1]!r}: {found.axes[-1].values[0]!r}" + "}."
    too_few = not names and sliders is None
    if too_few or len(names) > MOST_SLIDERS or len(set(names)) != len(names):
        expected = f"at most {MOST_SLIDERS} different axes of {', '.join(axes)}"
        raise ArgumentError("explore", "sliders", names, expected, hint)
    for name in pinned:
        if name not in at:
            raise ArgumentError("explore", "at", dict(at), f"a value for the axis {name!r}, which has no slider", hint)
    return names


def view_of(
    found: Experiment,
    sliders: Sequence[str],
    show: Show,
    values: Mapping[str, Sequence[Value]] | None = None,
    lines: Sequence[str] | None = None,
) -> View:
    """What is shown, in which form, along which axis, and which values of the axes are kept."""
    wanted = _wanted(show)
    along = str(wanted.get("x", next(iter(sliders), found.axes[0].name)))
    if along not in (sliders or [axis.name for axis in found.axes]):
        raise ArgumentError("explore", "show", show, f"an x that has a slider: {', '.join(sliders)}")
    bases = {found.line(line).name: found.line(base).name for line, base in _mapping(wanted, "speedup").items()}
    parts = _parts(found, wanted, lines)
    for line in lines or ():
        if (bases or parts) and line not in (bases or parts):
            expected = f"lines that `show` names: {', '.join(bases or parts)}"
            raise ArgumentError("explore", "lines", list(lines or ()), expected)
    form = next((name for name in ("ladder", "stack") if name in wanted), "lines")
    to = str(wanted.get("ratio", ""))
    return View(
        along, found.line(to).name if to else "", _kept(found, values), cast(Shows, _shows(wanted)), cast(Form, form),
        bases, parts, str(wanted.get("rate", "")),
    )  # fmt: skip


def _wanted(show: Show) -> Mapping[str, str | Mapping[str, str]]:
    """`show` as a mapping; ArgumentError where it is none of the known ones."""
    if isinstance(show, str):
        if show not in _WORDS:
            raise ArgumentError("explore", "show", show, _EXPECTED)
        return _WORDS[show]
    kinds = {*_KINDS} & {*show} - ({"y"} if "stack" in show and show.get("y") == "bytes" else set())
    times = all(show[name] in _SHOWN for name in ("y", "ladder") if name in show)
    words = all(isinstance(show.get(name, ""), str) for name in ("ratio", "rate", "x"))
    bars = "x" in show and ("ladder" in show or "stack" in show)
    if len(kinds) > 1 or not set(show) <= {"x", *_KINDS} or not times or not words or bars:
        hint = "Bars stand at the sliders' point and have no x: leave it out." * bars
        raise ArgumentError("explore", "show", dict(show), _EXPECTED, hint)
    return show


def _mapping(wanted: Mapping[str, str | Mapping[str, str]], name: str) -> Mapping[str, str]:
    """A value of `show` that must be a mapping of names; empty where it is not asked for."""
    value = wanted.get(name, {})
    if not isinstance(value, Mapping) or (name in wanted and name == "speedup" and not value):
        raise ArgumentError("explore", "show", dict(wanted), _EXPECTED)
    return value


def _parts(
    found: Experiment, wanted: Mapping[str, str | Mapping[str, str]], lines: Sequence[str] | None
) -> dict[str, str]:
    """The rungs of a stack with their parts' names: as `show` gives them, else the lines' own labels."""
    if "stack" not in wanted:
        return {}
    given = _mapping(wanted, "stack") or dict.fromkeys(lines or [line.name for line in found.lines], "")
    return {found.line(name).name: part for name, part in given.items()}


def _shows(wanted: Mapping[str, str | Mapping[str, str]]) -> str:
    if "ratio" in wanted or "speedup" in wanted:
        return "ratio" if "ratio" in wanted else "speedup"
    return "rate" if "rate" in wanted else str(wanted.get("y") or wanted.get("ladder") or "time")


def _kept(found: Experiment, values: Mapping[str, Sequence[Value]] | None) -> dict[str, tuple[Value, ...]]:
    keep = {found.axis(name).name: tuple(kept) for name, kept in (values or {}).items()}
    for name, kept in keep.items():
        if not kept:
            raise ArgumentError("explore", "values", dict(values or {}), f"at least one value of {name!r}")
        for value in kept:
            found.axis(name).checked("explore", value)
    return keep


# ---------------------------------------------------------------------------------------------------------------------
# What an explorer shows: which quantity, in which form, what lies along x, and which values are kept.

Shows = Literal["time", "bytes", "share", "rate", "ratio", "speedup"]
Form = Literal["lines", "ladder", "stack"]


class Versus(NamedTuple):
    """A comparison: a line where the sliders stand with its base (another line, or itself) at the values of `over`."""

    line: str
    base: str
    over: Mapping[str, Value]


def comparisons(found: Experiment, versus: Mapping[str, Value], first: str, moving: Sequence[str]) -> list[Versus]:
    """The comparisons that `versus` names: of the first line with itself at another place, then of pairs of lines."""
    over = {name: found.axis(name).checked("explore", versus[name]) for name in moving if name in versus}
    pairs = {name: str(base) for name, base in versus.items() if name not in over}
    named = [Versus(found.line(name).name, found.line(base).name, {}) for name, base in pairs.items()]
    return [Versus(found.line(first).name, found.line(first).name, over), *named] if over else named


class Arguments(NamedTuple):
    """A guess, where the sliders stand for it, and of which comparison it is, or of which line."""

    guess: Any
    at: Mapping[str, Value]
    of: Versus

    @property
    def unit(self) -> str:
        """The unit of what is asked; "" where it is no number."""
        return getattr(self.guess.form, "unit", "")


@dataclass(frozen=True)
class View:
    """`shows` says what a line's time is turned into, `form` how it is drawn: lines over x, a ladder, or a stack.

    >>> View("size").shows, View("batch", form="ladder").is_bars
    ('time', True)

    `x` is the axis along x (of bars: the one that "Measure all points" goes along); `to` is a ratio's line; `bases`
    name for each line of a speed-up the line that it is compared with; `parts` name, for each line of a stack from
    the cheapest to the dearest, what it adds; `keep` holds the values to keep of an axis; `rate` says of what
    a rate is, where it is not the experiment's first; `asked` is the guess that the figure waits for, and `versus` what
    the verdict compares (empty: the largest value with the smallest). `title` is empty where the experiment's will do.
    """

    x: str
    to: str = ""
    keep: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    shows: Shows = "time"
    form: Form = "lines"
    bases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    rate: str = ""
    asked: Arguments | None = None
    versus: Sequence[Versus] = ()
    title: str = ""

    @property
    def is_bars(self) -> bool:
        """Whether it draws bars at the sliders' point instead of lines over x."""
        return self.form != "lines"

    @property
    def only(self) -> tuple[str, ...]:
        """The lines that alone make sense here, in order; empty where all do."""
        return tuple(self.bases or self.parts)


# ---------------------------------------------------------------------------------------------------------------------
# What an explorer can show of an experiment with a source: which lines, which values, and the ratio of two.


def available(
    experiment: Experiment, source: Source, lines: Sequence[str] | None, only: Sequence[str] = ()
) -> list[Line]:
    """The lines asked for that this source can show; all that it can show, where it has none of them.

    `queue unsynchronized` stands in for `unsynchronized` where there is no GPU, and so with every line of the queue.
    `only` names, in order, the lines that alone make sense in this view: then there may be none.
    """
    here = source.variants(experiment)
    can = [line for line in experiment.lines if line.variant in here]
    wanted = [experiment.available(name, here) for name in lines or only]
    if only:
        found = dict.fromkeys(experiment.available(name, here) for name in only)
        return [line for line in found if line and line in wanted]
    return [line for line in can if line in wanted] or can


def slider_values(
    experiment: Experiment, source: Source, lines: Sequence[Line], keep: Mapping[str, Sequence[Value]]
) -> dict[str, tuple[Value, ...]]:
    """The values that each slider takes: those of the source at which at least one line may have a point.

    `keep` holds, by axis, the values to keep; where the source has none of them, it has no say. Raises
    NotRecordedError where an axis has none.
    """
    values = {axis.name: source.values(experiment, axis.name) for axis in experiment.axes}
    values = {name: tuple(v for v in all_ if v in keep.get(name, all_)) or all_ for name, all_ in values.items()}
    if lines:
        variants = dict.fromkeys(line.variant for line in lines)
        points = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
        there = [point for point in points if any(experiment.has(variant, point) for variant in variants)]
        found = {name: {point[name] for point in there} for name in values}
        values = {name: tuple(v for v in all_ if v in found[name]) for name, all_ in values.items()}
    for name, left in values.items():
        if not left:
            raise NotRecordedError(f"explore: {source.name} has no point of {experiment.name!r} along {name!r}")
    return values


def snap(axis: Axis, values: Sequence[Value], value: Value) -> Value:
    """The value of the source closest to the one asked for: by ratio on a log axis."""
    axis.checked("explore", value)
    if axis.scale == "category" or value in values:
        if value not in values:
            raise ArgumentError("explore", axis.name, value, f"one of {', '.join(map(str, values))}")
        return value
    return axis.nearest(value, values)


def reachable(experiment: Experiment, source: Source, at: Mapping[str, Value]) -> dict[str, Value]:
    """The point nearest to the wanted one that the source has, in the order of the axes."""
    return {axis.name: _nearest(experiment, source, axis, at[axis.name]) for axis in experiment.axes if axis.name in at}


def _nearest(experiment: Experiment, source: Source, axis: Axis, wanted: Value) -> Value:
    """The source's value of an axis closest to the wanted one; of a category the first, where it lacks the wanted one.

    A live source has the axis's own values, also those at which nothing runs on its device.
    """
    here = tuple(source.values(experiment, axis.name))
    found = wanted if axis.scale == "category" else axis.nearest(wanted, here)
    if found in here and (not source.live or _exists(experiment, source, axis, found)):
        return found
    there = tuple(value for value in here if _exists(experiment, source, axis, value)) or here
    return there[0] if axis.scale == "category" else axis.nearest(wanted, there)


def _exists(experiment: Experiment, source: Source, axis: Axis, value: Value) -> bool:
    """Whether any variant of the source exists at any point with this value."""
    points = (point for point in experiment.points() if point[axis.name] == value)
    return any(experiment.has(variant, point) for variant in source.variants(experiment) for point in points)
