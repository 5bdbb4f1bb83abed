"""Plan a recording: which points first, and how long each will take.

A GPU is borrowed in short stretches, so what matters most is measured first, and what comes after is spread evenly: a
recording that is interrupted is coarse, but has no hole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal

from brrr.core.measurement import DeviceKind, Point, Value
from brrr.counting.cost import Cost
from brrr.gpu.probe import cpu_count
from brrr.timing.readings import MIN_SAMPLES
from brrr_course.nouns.experiment import Experiment, Variant
from brrr_course.nouns.source import Key, Source
from brrr_course.sources.claimed import WIDE, Look, claimed, claimed_points, ends_and_middle
from brrr_course.sources.rows import Row

Phase = Literal["anchor", "claim", "corner", "middle", "grid"]
PHASES: tuple[Phase, ...] = ("anchor", "claim", "corner", "middle", "grid")

CLAIM_BUDGET_S, GRID_BUDGET_S = 0.2, 0.03
"""Seconds that each variant is measured for at an anchor or a claim's point, and at any other point."""

# How long a recording takes, of which the calls are a quarter to a third: a rough rule, wrong by a factor of two or
# three at first; `DurationEstimator` then learns from what it sees. `brrr.predict` needs peaks, which may not be there.
PREPARE_S = 0.1  # a variant's inputs, its check and its warm-up, where they are small
FRESH_PROCESS_S = 8.0  # a first call needs a process of its own, which loads torch and makes a context
CALLS = 4  # the check, the warm-up and two timed calls: what most points need at least
# In each round of samples more: one for each of the times; on a GPU a run-up and a burst of issues too.
ROUND_CALLS, GPU_ROUND_CALLS = 3, 12
SETTLES = 3  # two rounds and the profiled calls, each behind a run-up
SLOW_BUDGETS = 4  # a call that takes so many budgets is made once
WIDE_SHARE = 0.25  # two of the eight slices of a budget, where a wide interval is enough
INPUT_BYTES_PER_S, RESIDENT_BYTES_PER_S = 1e9, 1e11  # random numbers are drawn on the host, or on the GPU


@dataclass(frozen=True)
class Step:
    """One point with all the variants that are measured there, interleaved."""

    experiment: Experiment
    point: Mapping[str, Value]
    variants: tuple[str, ...]
    phase: Phase
    budget_s: float
    wide: bool = False
    """Whether intervals of WIDE either way are enough."""

    @property
    def precision(self) -> float | None:
        """Half of an interval over its median at which sampling may end; None for the timers' own."""
        return WIDE if self.wide else None

    @property
    def fewest(self) -> int:
        """Rounds of samples: where a claim looks, as many as an interval of 95 % needs, however slow the call is."""
        return MIN_SAMPLES if self.phase in ("anchor", "claim") else 1

    def __str__(self) -> str:
        return f"{self.experiment.name} {', '.join(f'{name}={value}' for name, value in self.point.items())}"


def steps(
    experiments: Sequence[Experiment],
    kind: DeviceKind,
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    budget_s: float | None = None,
    quick: bool = False,
) -> list[Step]:
    """Every point to measure, the most important first; `only` keeps the points and variants with these values.

    `only` maps an axis's name, or `variant`, to the values wanted, as text; an experiment without such an axis is
    left out.
    """
    found = [step for e in experiments for step in _steps(e, kind, only or {}, budget_s, quick)]
    return sorted(found, key=lambda step: PHASES.index(step.phase))  # a stable sort: the order within a phase stays


def _steps(
    experiment: Experiment, kind: DeviceKind, only: Mapping[str, Sequence[str]], budget_s: float | None, quick: bool
) -> Iterator[Step]:
    if not set(only) <= {"variant", *(axis.name for axis in experiment.axes)}:
        return
    for point, phase in prioritized(experiment, quick=quick):
        budget = budget_s or (CLAIM_BUDGET_S if phase in ("anchor", "claim") else GRID_BUDGET_S)
        if here := wanted_at(experiment, kind, point, only):
            yield Step(experiment, point, here, phase, budget)


def prioritized(experiment: Experiment, *, quick: bool = False) -> list[tuple[dict[str, Value], Phase]]:
    """Every point of the grid once, with its phase: anchors, claims' points, corners, middle, and the rest spread."""
    grid = {tuple(point.values()): point for point in experiment.points(quick=quick)}
    anchors = [tuple(experiment.point(**anchor).values()) for anchor in experiment.anchors]
    spread = [key for _, key in sorted(enumerate(grid), key=lambda item: _reversed_bits(item[0], len(grid)))]
    phases: list[tuple[Phase, list[tuple[Value, ...]]]] = [
        ("anchor", [key for key in anchors if not quick or key in grid]),
        ("claim", [key for key in claimed_points(experiment) if not quick or key in grid]),
        ("corner", _of_axes(experiment, quick, lambda values: (values[0], values[-1]))),
        ("middle", _of_axes(experiment, quick, lambda values: (values[len(values) // 2],))),
        ("grid", spread),
    ]
    names = [axis.name for axis in experiment.axes]
    first: dict[tuple[Value, ...], Phase] = {}
    for phase, keys in phases:
        for key in keys:
            first.setdefault(key, phase)
    return [(dict(zip(names, key, strict=True)), phase) for key, phase in first.items()]


def is_quick(experiment: Experiment, point: Point) -> bool:
    """Whether the small grid has these values: each is one of its axis's quick ones, or at most the largest of them."""
    for name, value in point.items():
        quick = experiment.axis(name).quick
        numbers = [each for each in quick if not isinstance(each, str)]
        if quick and value not in quick and (isinstance(value, str) or value > max(numbers)):
            return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# A recording of claims: what they look at, and the sliders' ends and middles.

CPU_FLOP = 2 * 8192**3
"""A CPU's products of more than 8192 x 8192 by 8192 x 8192 take minutes, and say nothing new."""
LONGEST_S = {"anchor": 60.0, "claim": 60.0}
"""Seconds that a point may be predicted to take which a claim names; any other OTHERWISE_S."""
OTHERWISE_S = 10.0
NAMED = 6
"""So many variants are named one by one."""
MOST_ALONG = 256
"""Curves with more points than that, together, are left out."""


def claim_steps(
    experiments: Sequence[Experiment],
    kind: DeviceKind,
    reference: Source | None,
    estimator: DurationEstimator,
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    quick: bool = False,
) -> tuple[list[Step], list[str]]:
    """What to measure so that each claim can be judged, and the sliders' ends and middles of what is shown at first.

    Only the variants that a claim looks at; each with the interval that it needs, found on the reference, a recording.
    The texts name what is left out: a CPU's largest products, points that take too long, and curves of too many points.
    """
    found: list[Step] = []
    left_out: list[str] = []
    for e in experiments:
        steps_of = list(_claim_steps(e, kind, reference, only or {}, quick))
        along = sum(step.phase == "grid" for step in steps_of)
        if along > MOST_ALONG:
            left_out.append(f"LEFT OUT {e.name}: the {along} points of curves, which `brrr record {e.name}` measures")
            steps_of = [step for step in steps_of if step.phase != "grid"]
        for step in steps_of:
            small = tuple(name for name in step.variants if not _too_large(e, name, step.point))
            taken_s = estimator.seconds(replace(step, variants=small)) if small else 0.0
            kept = small if taken_s <= LONGEST_S.get(step.phase, OTHERWISE_S) else ()
            if dropped := [name for name in step.variants if name not in kept]:
                why = "too large for a CPU" if kept or not small else f"predicted to take {taken_s:.0f} s"
                names = ", ".join(dropped) if len(dropped) <= NAMED else f"{len(dropped)} variants"
                left_out.append(f"LEFT OUT {step}: {names}, {why}")
            if kept:
                found.append(replace(step, variants=kept))
    return sorted(found, key=lambda step: PHASES.index(step.phase)), left_out


def _too_large(experiment: Experiment, variant: str, point: Point) -> bool:
    cost = None if experiment.variant(variant).on_gpu else experiment.cost_at(variant, point)
    return cost is not None and cost.flop > CPU_FLOP


def _claim_steps(
    experiment: Experiment, kind: DeviceKind, reference: Source | None, only: Mapping[str, Sequence[str]], quick: bool
) -> Iterator[Step]:
    """A step for each point, with the variants that are looked at there."""
    if not set(only) <= {"variant", *(axis.name for axis in experiment.axes)}:
        return
    looks = claimed(experiment, reference)
    anchors = [tuple(experiment.point(**anchor).values()) for anchor in experiment.anchors]
    numeric = any(axis.scale != "category" for axis in experiment.axes)
    sliders = ends_and_middle(experiment.axes) if numeric else []
    shown = [line.variant for line in experiment.lines if line.shown]
    at: dict[Key, dict[str, Look]] = {}
    for name, key in (*looks, *product(shown, sliders)):
        at.setdefault(key, {})[name] = looks.get((name, key), Look())
    for key, how in at.items():
        point = dict(zip([axis.name for axis in experiment.axes], key, strict=True))
        small = not quick or is_quick(experiment, point)
        wanted = wanted_at(experiment, kind, point, only)
        if experiment.devices > 1:  # all ways of a device are measured in turns, whichever is asked for
            places = {experiment.variant(name).device for name in how}
            how = {name: Look() for name in wanted if experiment.variant(name).device in places} | how
        if small and (there := tuple(name for name in wanted if name in how)):
            named = any(how[name].named for name in there)
            phase: Phase = "anchor" if key in anchors else "claim" if named else "corner" if key in sliders else "grid"
            wide = named and not any(how[name].narrow for name in there)
            yield Step(experiment, point, there, phase, CLAIM_BUDGET_S if named else GRID_BUDGET_S, wide)


def wanted_at(
    experiment: Experiment, kind: DeviceKind, point: Point, only: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The variants that a device of this kind has at a point, as far as they are wanted; none where it is not."""
    if not set(only) <= {"variant", *point} or any(
        str(value) not in only.get(name, (str(value),)) for name, value in point.items()
    ):
        return ()
    there = experiment.variants_on(kind)
    return tuple(v for v in there if v in only.get("variant", there) and experiment.has(v, point))


def _reversed_bits(index: int, count: int) -> int:
    """Sorting by this visits the ends of ever finer halves: 0, 4, 2, 6, 1, 5, 3, 7."""
    bits = max(1, (count - 1).bit_length())
    return int(f"{index:0{bits}b}"[::-1], 2)


def _of_axes(experiment: Experiment, quick: bool, pick: Callable[[Sequence[Value]], Sequence[Value]]) -> list[Key]:
    """What `pick` takes of every axis, in all combinations; of a category, which has no order, all values are taken."""
    axes = [(axis.quick or axis.values if quick else axis.values, axis.scale) for axis in experiment.axes]
    if all(scale == "category" for _, scale in axes):
        return []
    return list(product(*(values if scale == "category" else pick(values) for values, scale in axes)))


@dataclass
class DurationEstimator:
    """Predicts the seconds of a step from FLOP and bytes over assumed rates, and learns from what was measured.

    `cores` is the number of CPU cores that the measured machine has.
    """

    cores: int = field(default_factory=cpu_count)
    _calls: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    _predicted_s: float = 0.0
    _taken_s: float = 0.0

    def seconds(self, step: Step) -> float:
        """Predicted seconds of all variants of a step."""
        # held back by ten seconds as the model says, for the first points vary most
        return self._model_s(step) * (self._taken_s + 10) / (self._predicted_s + 10)

    def split(self, step: Step, limit_s: float) -> tuple[Step | None, Step | None]:
        """The step with the variants that fit into one run, and with those too slow for it; None for no variant."""
        slowest_last = sorted(step.variants, key=lambda name: self.seconds(replace(step, variants=(name,))))
        fitting = len(slowest_last)
        while fitting and self.seconds(replace(step, variants=tuple(slowest_last[:fitting]))) > limit_s:
            fitting -= 1
        parts = (slowest_last[:fitting], slowest_last[fitting:])
        kept, dropped = (tuple(name for name in step.variants if name in part) for part in parts)
        return (replace(step, variants=kept) if kept else None, replace(step, variants=dropped) if dropped else None)

    def learn(self, step: Step, taken_s: float) -> None:
        """A step took so many seconds: what is left will be as much faster or slower than the model as it was."""
        self._predicted_s += self._model_s(step)
        self._taken_s += taken_s

    def learn_rows(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        """What is measured replaces the assumed rates for its variant."""
        for row in rows:
            times = [e.median for e in (row.measurement.latency_s, row.measurement.period_s) if e is not None]
            if times and row.cost.flop > 0:
                self._calls.setdefault((experiment.name, row.variant), []).append((row.cost.flop, max(times)))

    def _model_s(self, step: Step) -> float:
        return sum(self._variant_s(step, step.experiment.variant(name)) for name in step.variants)

    def _variant_s(self, step: Step, variant: Variant) -> float:
        cost = step.experiment.cost_at(variant.name, step.point) or Cost(0, 0)
        call_s = self._call_s(step.experiment, variant, cost)
        fresh_s = FRESH_PROCESS_S if variant.timer == "first-call" else 0.0
        again = (step.fewest - 1) * (GPU_ROUND_CALLS if variant.on_gpu else ROUND_CALLS)
        calls = 1.2 if call_s > SLOW_BUDGETS * step.budget_s else CALLS + again
        resident = variant.on_gpu and step.experiment.resident
        drawn_s = cost.bytes / (RESIDENT_BYTES_PER_S if resident else INPUT_BYTES_PER_S)
        prepare_s = PREPARE_S + variant.prepare_s + fresh_s + drawn_s
        settle_s = SETTLES * step.experiment.settle_s(step.point)
        budget_s = step.budget_s * (WIDE_SHARE if step.wide and not settle_s else 1.0)
        return prepare_s + settle_s + max(budget_s, calls * call_s)

    def _call_s(self, experiment: Experiment, variant: Variant, cost: Cost) -> float:
        flop = cost.flop or 1.0
        measured = self._calls.get((experiment.name, variant.name), [])
        known, call_s = min(measured, key=lambda each: max(each[0] / flop, flop / each[0]), default=(math.inf, 0.0))
        if 1 / 64 <= flop / known <= 64:  # eight times the FLOP take at most eight times as long
            return call_s * max(1.0, flop / known)
        # A GPU's bytes may have to cross from the host.
        gpu = 40e12, 1e12 if experiment.resident else 20e9
        flop_per_s, bytes_per_s = gpu if variant.on_gpu else (30e9 * self.cores, 10e9)
        return cost.flop / flop_per_s + cost.bytes / bytes_per_s
