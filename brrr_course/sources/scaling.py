"""`scaling_test`: does twice the batch take twice as long, and if not, which of lesson 03's three causes is it?

>>> scaling_test("scaling", 64, variant="gemm")  # doctest: +SKIP
The weights set the pace: 2x the batch takes 1.04x the time.
...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from brrr.core import units
from brrr.core.callables import require_callable
from brrr.core.cards import Card, Carded
from brrr.core.errors import ArgumentError, NotRecordedError, whole
from brrr.core.measurement import Estimate, Measurement, Value
from brrr.counting.cost import Cost
from brrr.diagnosis.timed import timed
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source

FLAT, PROPORTIONAL = 0.25, 0.75
"""Shares of a growth in proportion: up to the first the time hardly grew, from the second on it grew with the work."""

IDLE = 0.5
"""Where nothing better is known, a device that is idle for half of the time waits for its orders."""

Regime = Literal[
    "the host pays", "under-filled GPU", "the weights set the pace", "grows with size", "between",
    "inconclusive: host or weights", "inconclusive: bytes unknown", "inconclusive: too noisy",
]  # fmt: skip

MEANS: dict[Regime, str] = {
    "the host pays": "What a call costs before the work begins sets the time.",
    "under-filled GPU": "The GPU is busy, but the batch does not fill all of it.",
    "the weights set the pace": "The GPU is busy, mostly reading what is the same for any batch, as weights are.",
    "grows with size": "Compute or memory sets the time.",
    "between": "Part of the time grows with the work, part does not; try other batches.",
    "inconclusive: host or weights": "It reads hardly more for twice the batch, as a matmul of few rows does, so its "
    "time need not grow, whether the host pays or not. Only the device's own times can tell.",
    "inconclusive: bytes unknown": "Nothing is known of the bytes that it moves: give cost=, or torch tensors.",
    "inconclusive: too noisy": "The times vary too much to tell; give a larger budget_s=, or close other programs.",
}


@dataclass(frozen=True, repr=False)
class Scaling(Carded):
    """A function measured at a batch and at a multiple of it, and what follows from the two.

    >>> from brrr.core.measurement import Estimate, Measurement
    >>> one, two = (Measurement(period_s=Estimate(t, t, t, 9)) for t in (1e-3, 2e-3))
    >>> Scaling(8, 2, one, two, 2.0).regime
    'grows with size'

    `scaling_test` returns it; it prints as a sentence.

    Attributes
    ----------
    batch : int
        The smaller batch.
    factor : int
        How many times as large the other is.
    small, large : Measurement
        The two measurements.
    bytes_growth : float or None
        The bytes that the larger batch moves over those of the smaller one, if that is known.
    badge : str
        Where the measurements come from.
    """

    batch: int
    factor: int
    small: Measurement
    large: Measurement
    bytes_growth: float | None = None
    badge: str = ""

    @property
    def growth(self) -> Estimate:
        """How many times as long the larger batch takes in a loop."""
        assert self.small.period_s is not None and self.large.period_s is not None
        return self.large.period_s / self.small.period_s

    @property
    def idle_share(self) -> float | None:
        """The share of the smaller batch's time in which the device is idle; None if the device's times are missing."""
        return self.small.idle_share

    @property
    def regime(self) -> Regime:
        """What sets the time at this batch, in lesson 03's words: "the host pays" or "grows with size", say."""
        found = self.growth
        flat, proportional = self._grown(FLAT), self._grown(PROPORTIONAL)
        if found.low <= flat and found.high >= proportional:
            return "inconclusive: too noisy"
        if flat < found.median < proportional:
            return "between"
        return "grows with size" if found.median >= proportional else self._why_flat()

    def _why_flat(self) -> Regime:
        """The time hardly grew: the host pays, unless the device was at work, or moves the same bytes anyway."""
        same_bytes = self.bytes_growth is not None and self.bytes_growth <= self._grown(FLAT)
        if self.idle_share is None:
            if self.bytes_growth is None:
                return "inconclusive: bytes unknown"
            return "inconclusive: host or weights" if same_bytes else "the host pays"
        waits = self.small.host_bound if self.small.host_bound is not None else self.idle_share >= IDLE
        if waits:
            return "the host pays"
        return "the weights set the pace" if same_bytes else "under-filled GPU"

    def _grown(self, share: float) -> float:
        return 1 + share * (self.factor - 1)

    def _card(self) -> Card:
        regime, idle = self.regime, self.idle_share
        moved = "" if self.bytes_growth is None else f", {units.ratio(self.bytes_growth)} the bytes"
        took = f"{units.ratio(self.factor)} the batch takes {units.ratio(self.growth.median)} the time"
        title = f"{regime[0].upper()}{regime[1:].replace(': ', ', ')}: {took}."
        grown = f"Batch {self.batch} to {self.factor * self.batch}: {self.growth:x} the time{moved}."
        shares = {} if idle is None else {"GPU busy": 1 - idle, "GPU idle": idle}
        accent = "overhead" if regime == "the host pays" else "unknown" if "inconclusive" in regime else "compute"
        return Card(title, [MEANS[regime], grown], shares, self.badge, accent=accent)


def scaling_test(
    make: Callable[[int], Callable[[], Any]] | str, batch: int, *, factor: int = 2, device: str | None = None,
    cost: Callable[[int], Cost] | None = None, variant: str = "", source: str | Source | None = None,
    budget_s: float = 0.2,
) -> Scaling:  # fmt: skip
    """Measure a function at a batch and at a multiple of it, and say what sets its time.

    >>> import torch
    >>> def make(batch):
    ...     x = torch.zeros(batch, 16)
    ...     return lambda: torch.relu(x)
    >>> scaling_test(make, 4, device="cpu", budget_s=0.02).bytes_growth
    2.0

    Parameters
    ----------
    make : callable or str
        ``make(batch)`` makes the inputs and returns the function to time, which takes no arguments. Or the name of an
        experiment whose variants are a function at a batch and at twice it, such as "scaling".
    batch : int
        The smaller batch; for an experiment, the nearest one that the data have.
    factor : int
        How many times as large the other batch is.
    device : str, optional
        As for `brrr.measure`.
    cost : callable, optional
        ``cost(batch)`` gives the `Cost` of a call. By default the bytes of all tensors that torch's operators read and
        write are counted in one call; a CUDA graph and kernels of your own are not seen.
    variant : str
        For an experiment, the variant.
    source : str or Source, optional
        For an experiment, where the measurements come from, as for `explore`.
    budget_s : float
        About how many seconds to measure each of the two.

    Returns
    -------
    Scaling
        It prints how much longer the larger batch takes, and what that means.

    Raises
    ------
    ArgumentError
        If an argument cannot be used. What `make` and its functions raise passes through.

    Notes
    -----
    A time that hardly grows is a sign that the host pays, but no proof: a matmul of few rows with a large weight matrix
    reads the same weights for any batch. So the test also compares the bytes, and on a GPU whether it waits for the
    host.

    References
    ----------
    Doubling the batch as a test is from H. He, "Making Deep Learning Go Brrrr From First Principles" (2022).
    """
    whole("scaling_test", "batch", batch)
    whole("scaling_test", "factor", factor, 2)
    if isinstance(make, str):
        return _of_experiment(make, batch, factor, variant, source)
    require_callable("scaling_test", "make", make, "a function of the batch, or an experiment's name")
    sizes = batch, factor * batch
    small, large = (timed(make(each), device=device, budget_s=budget_s) for each in sizes)
    one, two = map(cost, sizes) if cost is not None else (small.cost, large.cost)
    growth = two.eager_bytes / one.eager_bytes if one and two and one.eager_bytes else None
    return Scaling(batch, factor, small.measurement, large.measurement, growth)


def _of_experiment(name: str, batch: int, factor: int, variant: str, source: str | Source | None) -> Scaling:
    """The same judgement on an experiment's pair of variants, `NAME` and `NAME-double`, from a source."""
    from brrr_course.experiments import experiment
    from brrr_course.sources import source_for

    found = experiment(name)
    pair = _pair(found, variant)
    origin = source_for(source, found.name)
    if variant not in origin.variants(found):
        pair = _pair(found, f"cpu-{variant}")
    if factor != 2:
        raise ArgumentError("scaling_test", "factor", factor, f"2, as {pair[1]!r} has it")
    point = _nearest(found, origin, pair, batch)
    origin.measure_together(found, pair, point)
    small, large = (origin.measure(found, each, point) for each in pair)
    one, two = (found.cost_at(each, point) for each in pair)
    growth = two.bytes / one.bytes if one and two else None
    return Scaling(int(point["batch"]), factor, small, large, growth, str(origin.badge(found)))


def _pair(found: Experiment, variant: str) -> tuple[str, str]:
    """The variant and the one with twice its batch; ArgumentError that names the variants that have such a twin."""
    names = [each.name for each in found.variants]
    if variant in names and f"{variant}-double" in names and [axis.name for axis in found.axes] == ["batch"]:
        return variant, f"{variant}-double"
    twins = [each for each in names if f"{each}-double" in names]
    expected = f"one of {', '.join(twins)}" if twins else "one with a twin NAME-double; this experiment has none"
    raise ArgumentError("scaling_test", "variant", variant, expected)


def _nearest(found: Experiment, origin: Source, pair: tuple[str, str], batch: int) -> dict[str, Value]:
    """The batch nearest to the one asked for that the source has and that both variants exist at."""
    axis = found.axis("batch")
    here = tuple(v for v in origin.values(found, "batch") if all(found.has(each, {"batch": v}) for each in pair))
    if not here:
        raise NotRecordedError(f"scaling_test: {origin.name} has no batch of {pair[0]!r}")
    return {"batch": axis.nearest(batch, here)}
