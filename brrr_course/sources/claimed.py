"""What claims look at: found by judging them, on made-up times or on a recording, and watching.

A claim that asks for a point names it; one that goes along an axis names the line's points on it; one that goes through
all there is of a line is judged on what there is, so that the ends and the middle of each axis must do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

from brrr.core.measurement import FIELDS, Badge, Estimate, Measurement, Value
from brrr.gpu import CUDA
from brrr_course.nouns.claim import Claim
from brrr_course.nouns.experiment import Axis, Experiment
from brrr_course.nouns.source import Evidence, Key, Source, fits

WIDE = 0.05
"""Half of an interval over its median where that must do."""
FEW = 4
"""So many points an expression may list and still name each: a long list is a part of the grid."""


def widened(e: Estimate) -> Estimate:
    """The estimate, its interval at least WIDE either way.

    >>> print(widened(Estimate(100.0, 99.0, 101.0, 9)))
    100 s (95 to 105 s, n=9)
    """
    return replace(e, low=min(e.low, (1 - WIDE) * e.median), high=max(e.high, (1 + WIDE) * e.median))


@dataclass(frozen=True)
class _Watching(Evidence):
    """Evidence that notes what is looked at; `wide` makes each interval at least WIDE."""

    wide: bool = False
    looks: dict[tuple[str, Key], bool] = field(default_factory=dict)
    """Variants and points in this order, and whether the point was named or is one of a curve."""
    whole: dict[str, None] = field(default_factory=dict)
    """The variants that were gone through whole."""

    def _time(self, variant: str, key: Key, measured: Measurement, name: str) -> Estimate | None:
        found = super()._time(variant, key, measured, name)
        return widened(found) if self.wide and found else found

    def known(self, variant: str) -> Mapping[Key, Measurement]:
        self.whole[variant] = None
        return super().known(variant)

    def _points(self, variant: str, at: Mapping[str, Any]) -> Mapping[Key, Measurement]:
        """The points of a table, FEW by name, of one open axis as a curve; of more open axes, all there is."""
        axes = self.experiment.axes
        free = [axis for axis in axes if axis.name not in at or callable(at[axis.name])]
        if len(free) > 1:
            self.whole[variant] = None
            return super()._points(variant, at)
        along = list(product(*(_meant(axis, at.get(axis.name)) for axis in axes)))
        for key in along:
            if self.experiment.has(variant, self._named(key)):
                named = not free and len(along) <= FEW
                self.looks[variant, key] = self.looks.get((variant, key), False) or named
        return super()._points(variant, at)

    def all_looks(self) -> dict[tuple[str, Key], bool]:
        """Variants and points: of what was gone through whole the ends and the middle."""
        return dict.fromkeys(product(self.whole, ends_and_middle(self.experiment.axes)), False) | self.looks


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
    watching = _Watching(experiment, made_up(experiment))
    for claim in experiment.claims:
        _judged(watching, claim)
    return list(dict.fromkeys(key for (_, key), named in watching.looks.items() if named))


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
        watching, status = None, "not judged"
        if reference is not None:
            watching = _Watching(experiment, reference)
            status = _judged(watching, claim)
        narrow = False
        if watching is None or status in ("not measured", "not judged"):
            watching = _Watching(experiment, made_up(experiment))
            _judged(watching, claim)
        elif reference is not None:
            narrow = status != _judged(_Watching(experiment, reference, wide=True), claim)
        for at, named in watching.all_looks().items():
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


def made_up(experiment: Experiment) -> Any:
    """What stands for a source: it has every point, all with the same times."""
    times: dict[str, Any] = {name: Estimate(1e-3, 1e-3, 1e-3, 9) for name in FIELDS}
    every = _Everywhere([tuple(point.values()) for point in experiment.points()], Measurement(**times))
    no_badge = Badge("PREDICTED", "", "", "")
    names = tuple(variant.name for variant in experiment.variants)
    given = {"known": every, "badge": no_badge, "traced": (), "variants": names}
    return SimpleNamespace(kind=CUDA, **{name: (lambda *_, it=it: it) for name, it in given.items()})


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
