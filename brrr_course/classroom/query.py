"""What a student may ask for: variants of an experiment at a point, checked before anything else looks at it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from brrr.core import __version__
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.files import digest
from brrr.core.measurement import DeviceKind, Value
from brrr_course.experiments import experiment
from brrr_course.nouns.experiment import Axis, Experiment
from brrr_course.nouns.places import COURSE
from brrr_course.sources.plan import DurationEstimator, Step

CALL = "measure"
BUDGET_S = 0.2
"""Seconds that each variant is measured for: those of `Live`."""


@dataclass(frozen=True)
class Query:
    """Variants of an experiment at one point; what a worker measures in one go, interleaved.

    >>> Query("matmul", {"size": 64}, ("cpu", "queue")).key
    '["matmul", 64]'
    """

    experiment: str
    point: Mapping[str, Value]
    variants: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """The experiment and the point, as text: what the variants are measured together at."""
        return json.dumps([self.experiment, *self.point.values()])

    def step(self) -> Step:
        """The same as the recorder knows it, with the budget of `Live`."""
        return Step(experiment(self.experiment), self.point, self.variants, "grid", BUDGET_S)


def parse(content: Mapping[str, Any], kind: DeviceKind, longest_s: float = float("inf")) -> Query:
    """A request's content as a `Query`, its point in the order of the axes, its variants in the experiment's.

    >>> parse({"experiment": "matmul", "variants": ["cpu"], "point": {"size": 64}}, "cpu").variants
    ('cpu',)

    ArgumentError names what the experiment does not know, a value outside its axis, and a variant that does not exist
    there; UnavailableError a point that probably takes longer than `longest_s`.
    """
    wanted = fields(CALL, content, experiment=str, variants=list, point=dict)
    found = experiment(wanted["experiment"])
    point = _point(found, wanted["point"])
    variants = _variants(found, wanted["variants"], kind)
    for name in variants:
        if not found.has(name, point):
            raise ArgumentError(CALL, "variants", name, f"one that exists at {point}")
    asked = Query(found.name, point, variants)
    seconds = DurationEstimator().seconds(asked.step())
    if seconds > longest_s:
        raise UnavailableError(
            f"{CALL}: {found.name} at {point} probably takes {seconds:.0f} s, and this class measures at most "
            f"{longest_s:.0f} s a point: choose a smaller one, or look at a recording"
        )
    return asked


def fields(call: str, content: object, **kinds: type) -> dict[str, Any]:
    """The content's values, one of each kind, in the order named; ArgumentError for any other content."""
    expected = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
    if not isinstance(content, dict) or set(content) != set(kinds):
        raise ArgumentError(call, "body", content, f"an object with {expected}")
    for name, kind in kinds.items():
        if type(content[name]) is not kind:
            raise ArgumentError(call, name, content[name], f"a {kind.__name__}")
    return {name: content[name] for name in kinds}


def _point(found: Experiment, at: dict[str, Any]) -> dict[str, Value]:
    names = [axis.name for axis in found.axes]
    if set(at) != set(names):
        raise ArgumentError(CALL, "point", at, f"a value for each of {', '.join(names)}, and no other")
    return {axis.name: _value(axis, at[axis.name]) for axis in found.axes}


def _value(axis: Axis, given: Any) -> Value:
    """A value that the axis's slider could reach: `Axis.checked` has no upper end, for a laptop is its owner's."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ArgumentError(CALL, axis.name, given, "a number or a text")
    value = axis.checked(CALL, given)
    every = (*axis.values, *axis.quick)
    if axis.scale == "category":
        return every[every.index(value)]  # 1.0 is in a list with 1, and would be another point
    low, high = (pick(each for each in every if not isinstance(each, str)) for pick in (min, max))
    if isinstance(value, str) or not low <= value <= high:
        raise ArgumentError(CALL, axis.name, value, f"{low} to {high}")
    return value


def _variants(found: Experiment, names: list[Any], kind: DeviceKind) -> tuple[str, ...]:
    here = found.variants_on(kind)
    if not names or any(not isinstance(name, str) or name not in here for name in names):
        raise ArgumentError(CALL, "variants", names, f"some of {', '.join(here)}")
    return tuple(name for name in here if name in names)


def loads(text: bytes) -> Any:
    """JSON as Python's values; ArgumentError for what is none, NaN and too deeply nested lists among it."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise ArgumentError(CALL, "body", text[:40], f"JSON ({why})") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


@lru_cache
def version(name: str) -> str:
    """The experiment's own version: what its code is, so that no change of it meets older measurements.

    >>> len(version("matmul"))
    16
    """
    path = COURSE / "experiments" / f"{experiment(name).name}.py"  # a name that is known, and no path
    return digest(__version__ + path.read_text("utf-8"))
