"""What claims look at: found by judging them, on made-up times or on a recording, and watching.

A claim that asks for a point names it; one that goes along an axis names the line's points on it; one that goes through
all there is of a line is judged on what there is, so that the ends and the middle of each axis must do.
"""

from __future__ import annotations

import contextlib
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import FIELDS, Badge, Estimate, Measurement, Point, Value
from brrr.gpu import CUDA
from brrr_course.nouns.claim import Claim
from brrr_course.nouns.experiment import Axis, Experiment
from brrr_course.nouns.source import Evidence, Key, Source, fits

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline

WIDE = 0.05
"""Half of an interval over its median where that must do."""
FEW = 4
"""So many points an expression may list and still name each: a long list is a part of the grid."""


@dataclass
class Reads:
    """What was looked at, in this order: experiment, variant and point, and whether the point was named or is one of a
    curve; and the variants that were gone through whole.
    """

    looks: dict[tuple[str, str, Key], bool] = field(default_factory=dict)
    whole: dict[tuple[str, str], None] = field(default_factory=dict)

    def of(self, experiment: Experiment) -> dict[tuple[str, Key], bool]:
        """Variants and points of an experiment: of what was gone through whole the ends and the middle."""
        whole = [variant for name, variant in self.whole if name == experiment.name]
        found = dict.fromkeys(product(whole, ends_and_middle(experiment.axes)), False)
        return found | {(variant, key): named for (name, variant, key), named in self.looks.items()
                        if name == experiment.name}  # fmt: skip


class Watched:
    """A source as it is, of which is noted what is looked at; `wide` makes each interval at least WIDE."""

    def __init__(self, source: Source, *, wide: bool = False) -> None:
        self._source, self._wide = source, wide
        self.reads, self.noted = Reads(), True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def known(self, experiment: Experiment, variant: str) -> Mapping[Key, Measurement]:
        """What the source knows, each look at it noted."""
        return _Known(self, experiment.name, variant, self._source.known(experiment, variant))

    def seen(self, measured: Measurement) -> Measurement:
        """A measurement as it is shown."""
        if not self._wide:
            return measured
        times = {name: widened(e) for name in FIELDS if (e := measured.get(name)) is not None}
        return replace(measured, **times)  # type: ignore[arg-type]


def widened(e: Estimate) -> Estimate:
    """The estimate, its interval at least WIDE either way.

    >>> print(widened(Estimate(100.0, 99.0, 101.0, 9)))
    100 s (95 to 105 s, n=9)
    """
    return replace(e, low=min(e.low, (1 - WIDE) * e.median), high=max(e.high, (1 + WIDE) * e.median))


class _Known(Mapping[Key, Measurement]):
    def __init__(self, watched: Watched, experiment: str, variant: str, inner: Mapping[Key, Measurement]) -> None:
        self._watched, self._of, self._inner = watched, (experiment, variant), inner

    def __getitem__(self, key: Key) -> Measurement:
        looks, place = self._watched.reads.looks, (*self._of, key)
        if self._watched.noted and not looks.get(place):
            looks.pop(place, None)  # it stands behind what was named before, also where it was one of a curve
            looks[place] = True
        return self._watched.seen(self._inner[key])

    def __iter__(self) -> Iterator[Key]:
        if self._watched.noted:
            self._watched.reads.whole[self._of] = None
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def items(self) -> ItemsView[Key, Measurement]:
        return {key: self._watched.seen(self._inner[key]) for key in self}.items()


@dataclass(frozen=True)
class _Watching(Evidence):
    """Evidence that notes a curve, or a table with one open axis, as its points."""

    source: Watched

    def curve(self, line: str, axis: str, **at: Value) -> dict[Value, Estimate]:
        self.source.noted = False
        try:
            return super().curve(line, axis, **at)
        finally:
            self.source.noted = True
            along = [self.experiment.axis(axis).values if each.name == axis else (at.get(each.name),)
                     for each in self.experiment.axes]  # fmt: skip
            variant = self.experiment.line(line).variant
            looks: list[Any] = [(self.experiment.name, variant, key) for key in product(*along)]
            self.source.reads.looks = dict.fromkeys(looks, False) | self.source.reads.looks

    def _points(self, variant: str, at: Mapping[str, Any]) -> Mapping[Key, Measurement]:
        self.source.noted = False
        try:
            return super()._points(variant, at)
        finally:
            self.source.noted = True
            self._note(variant, at)

    def _note(self, variant: str, at: Mapping[str, Any]) -> None:
        """The points of a table, FEW by name, of one open axis as a curve; of more open axes, all there is."""
        axes, reads = self.experiment.axes, self.source.reads
        free = [place for place, axis in enumerate(axes) if axis.name not in at or callable(at[axis.name])]
        if len(free) > 1:
            reads.whole[self.experiment.name, variant] = None
            return
        along = list(product(*(_meant(axis, at.get(axis.name)) for axis in axes)))
        keys = [key for key in along
                if self.experiment.has(variant, {a.name: v for a, v in zip(axes, key, strict=True)})]  # fmt: skip
        for key in keys:
            look = (self.experiment.name, variant, key)
            reads.looks[look] = reads.looks.get(look, False) or (not free and len(along) <= FEW)


def _meant(axis: Axis, wanted: Any) -> Sequence[Value]:
    """The values of an axis that are meant, also those that are not on its grid."""
    if wanted is None or callable(wanted):
        return [each for each in axis.values if fits(each, wanted)]
    return wanted if isinstance(wanted, list) else [wanted]


def claimed_points(experiment: Experiment) -> list[Key]:
    """The points that the experiment's claims name, found on made-up times.

    >>> from brrr_course.experiments import experiment
    >>> (1,) in claimed_points(experiment("matmul"))
    True

    A claim about a whole curve names no point of it.
    """
    watched = Watched(MadeUp(experiment))
    for claim in experiment.claims:
        _judged(_Watching(experiment, watched), claim)
    return list(dict.fromkeys(key for (name, _, key), named in watched.reads.looks.items()
                              if named and name == experiment.name))  # fmt: skip


def _judged(evidence: Evidence, claim: Claim) -> str:
    """The verdict's status; a claim that cannot be judged here only loses its priority."""
    with contextlib.suppress(Exception):
        return claim.verdict(evidence).status
    return "not judged"


@dataclass(frozen=True)
class Look:
    """How claims look at a variant at a point: by name, or as at one of many; and whether WIDE would be too wide."""

    named: bool = False
    narrow: bool = False

    def __or__(self, other: Look) -> Look:
        return Look(self.named or other.named, self.narrow or other.narrow)


def claimed(experiment: Experiment, reference: Source | None) -> dict[tuple[str, Key], Look]:
    """The variants and points that the experiment's claims look at.

    An interval is too wide where it leaves a claim undecided which is decided on the reference, a recording.
    """
    every: dict[tuple[str, Key], Look] = {}
    for claim in experiment.claims:
        narrow, reads = False, None
        if reference is not None:
            watched = Watched(reference)
            status = _judged(_Watching(experiment, watched), claim)
            if status not in ("not measured", "not judged"):
                reads = watched.reads
                narrow = status != _judged(Evidence(experiment, Watched(reference, wide=True)), claim)
        if reads is None:
            watched = Watched(MadeUp(experiment))
            _judged(_Watching(experiment, watched), claim)
            reads = watched.reads
        for at, named in reads.of(experiment).items():
            every[at] = every.get(at, Look()) | Look(named, narrow)
    return every


def ends_and_middle(axes: Sequence[Axis]) -> list[Key]:
    """The middle of all axes, and the ends of each with the others in the middle; of a category every value.

    >>> ends_and_middle([Axis("size", (1, 2, 4)), Axis("batch", (8, 9)), Axis("cell", ("gru",), scale="category")])
    [(2, 9, 'gru'), (1, 9, 'gru'), (4, 9, 'gru'), (2, 8, 'gru')]
    """
    middle = [axis.values if axis.scale == "category" else axis.values[len(axis.values) // 2 :][:1] for axis in axes]
    found = dict.fromkeys(product(*middle))
    for at, axis in enumerate(axes):
        found |= dict.fromkeys(product(*middle[:at], (axis.values[0], axis.values[-1]), *middle[at + 1 :]))
    return list(found)


class MadeUp:
    """A source that has every point, all with the same times."""

    name, kind, live = "made up", CUDA, False

    def __init__(self, experiment: Experiment) -> None:
        times: dict[str, Any] = {name: Estimate(1e-3, 1e-3, 1e-3, 9) for name in FIELDS}
        self._every = _Everywhere([tuple(point.values()) for point in experiment.points()], Measurement(**times))

    def badge(self, experiment: Experiment, shown: object = None) -> Badge:
        return Badge("PREDICTED", "", "", "")

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(variant.name for variant in experiment.variants)

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        return experiment.axis(axis).values

    def known(self, experiment: Experiment, variant: str) -> Mapping[Key, Measurement]:
        return self._every

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        return self._every[tuple(point.values())]

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """No claim asks for a measurement."""

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        return {}

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        return ()

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        raise NotRecordedError("there is no made-up timeline")


class _Everywhere(Mapping[Key, Measurement]):
    """The same measurement at every point that is asked for; going through them gives those of the grid."""

    def __init__(self, keys: Sequence[Key], same: Measurement) -> None:
        self._keys, self._same = keys, same

    def __getitem__(self, key: Key) -> Measurement:
        return self._same

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
