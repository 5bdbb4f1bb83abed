"""Measuring many points without holding up the notebook: one slice at a time, with room between for Cancel."""

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

from brrr.core.errors import BrrrError
from brrr.core.measurement import Measurement, Point, Value, median
from brrr.gpu import is_queue
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.ranks import end_ranks
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Shared, Source
from brrr_course.sources import source as source_named

# ---------------------------------------------------------------------------------------------------------------------
# How long a measurement will probably take, so that a slow one is asked about before it starts.

ASK_ABOVE_S = 2.0
"""Live on a CPU, a point that probably takes longer asks first."""
LEAST_S, CALLS = 0.15, 18
"""What a point takes at least, and about how often a function is called: check, warm-up and samples."""
SINGLE_S, SINGLE_CALLS = 0.8, 1.5
"""A call that takes longer is sampled once, besides the reference that its result is compared with."""
YARDSTICK = 1024
"""The size of the product that tells how much slower than a recorded machine this one is now."""
FAR = 4
"""So many times what is recorded, and a smaller point was too small to tell."""
STEEPEST = 3
"""Where an experiment does not tell its cost: nothing in the course grows faster than the cube of a slider's value."""

Known = Mapping[tuple[Value, ...], Measurement]


def expected_s(experiment: Experiment, source: Source, variants: Sequence[str], point: Mapping[str, Value]) -> float:
    """Seconds that measuring the variants at a point probably takes; infinite where nothing is known.

    A smaller point measured in this session decides; without one, the recording of a CPU machine.
    """
    return sum(_one_s(experiment, source, variant, tuple(point.values())) for variant in variants)


def _one_s(experiment: Experiment, source: Source, variant: str, key: tuple[Value, ...]) -> float:
    known = source.known(experiment, variant)
    if key in known:
        return 0.0
    call = _extrapolated(experiment, variant, known, key)
    if call is None or call > ASK_ABOVE_S / CALLS:
        recorded = _recorded_s(experiment, variant, key)
        if recorded is not None and (call is None or call > FAR * recorded):
            call = recorded
    return float("inf") if call is None else taken_s(call, is_queue(experiment.variant(variant).device))


def pace(experiment: Experiment, source: Source, taken: Mapping[tuple[Value, ...], float]) -> float:
    """How many times longer than predicted the next points will take, after these took so many seconds each.

    Of the slowest of them the root of its factor: beside other programs, a longer call's own time tells the rest.
    """
    key = max(taken, key=lambda each: taken[each], default=())
    known = [(each, source.known(experiment, each.name).get(key)) for each in experiment.variants]
    expected = sum(taken_s(call, is_queue(each.device)) for each, m in known if m and (call := _call_s(m)))
    return math.sqrt(taken[key] / expected) if expected else 1.0


def taken_s(call_s: float, queue: bool) -> float:
    """What measuring a function takes, of which one call takes so long; a slow one on a queue is called more often.

    >>> taken_s(1e-6, False) < 0.2, taken_s(0.1, False), taken_s(10.0, False)
    (True, 1.95, 15.15)
    """
    return LEAST_S + call_s * (CALLS if call_s <= SINGLE_S else SINGLE_CALLS * (3 if queue else 1))


def _recorded_s(experiment: Experiment, variant: str, key: tuple[Value, ...]) -> float | None:
    """One call's seconds by the recording of a CPU machine, as much longer as this one takes for a product now."""
    for device in ("cpu", "h200"):  # the H200 machine's own CPU was recorded too
        with suppress(BrrrError):
            source = source_named(f"recorded:{device}")
            call = _extrapolated(experiment, variant, source.known(experiment, variant), key)
            there = _call_s(source.measure(experiment_named("matmul"), "cpu", {"size": YARDSTICK}))
            if call and there and not experiment.variant(variant).on_gpu:
                return call * _product_s(int(time.monotonic() // 60)) / there
    return None


@cache
def _product_s(minute: int) -> float:
    """What the yardstick takes here in this minute, beside all else that runs."""
    import torch

    x, times = torch.ones(YARDSTICK, YARDSTICK), []
    for _ in range(4):
        start = time.perf_counter()
        x @ x
        times.append(time.perf_counter() - start)
    return median(times[1:])


def _extrapolated(experiment: Experiment, variant: str, known: Known, key: tuple[Value, ...]) -> float | None:
    """One call's seconds: the least that the known points promise, each scaled by how much more work there is."""
    best: float | None = None
    for other, measured in known.items():
        call = _call_s(measured)
        growth = _growth(experiment, variant, key, other)
        if call is not None and growth is not None:
            best = call * growth if best is None else min(best, call * growth)
    return best


def _growth(experiment: Experiment, variant: str, to: tuple[Value, ...], start: tuple[Value, ...]) -> float | None:
    """How many times longer a point may take than a known one, at least once; None for another category."""
    names = [axis.name for axis in experiment.axes]
    pairs = list(zip(to, start, strict=True))
    if any(a != b for a, b in pairs if isinstance(a, str) or isinstance(b, str)):
        return None
    more, less = (experiment.cost_at(variant, dict(zip(names, key, strict=True))) for key in (to, start))
    if more is not None and less is not None and less.flop and less.bytes:
        return max(1.0, more.flop / less.flop, more.bytes / less.bytes)
    return math.prod(max(1.0, float(a) / float(b)) ** STEEPEST for a, b in pairs if not isinstance(a, str))


def _call_s(measured: Measurement) -> float | None:
    estimate = measured.latency_s or measured.period_s or measured.host_s
    return estimate.median if estimate else None


STOPPED = "Stopped: what was measured before is kept."
BREATH_S = 0.02
"""Between two slices the kernel's loop runs this long, so that a pressed Cancel arrives."""


LOOK_S = 0.1
"""How often a job that waits for a shared device looks whether it was cancelled."""


@dataclass(frozen=True)
class Slice:
    """One variant at one point: the least that is measured without a pause."""

    variant: str
    point: Point


class SliderJob:
    """A list of slices being measured; `cancel` stops before the next, an interrupt stops in the middle of one.

    `step(done, of)` is called after each slice, `end(message)` once, whatever happened; an error that brrr raises on
    purpose becomes part of the message, any other is kept in `unexpected`. On a shared device `wait(text)` tells where
    a measurement stands in the queue, and `cancel` takes it back.
    """

    def __init__(
        self, experiment: Experiment, source: Source, slices: Sequence[Slice],
        step: Callable[[int, int], None], end: Callable[[str], None], wait: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.experiment, self.source, self.slices = experiment, source, list(slices)
        self._step, self._end, self._wait = step, end, wait
        self._cancelled = self._measuring = False
        self._together: Point | None = None
        self._said: list[str] = []
        self.unexpected: BaseException | None = None
        self.running = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Measure beside the kernel's loop; to the end at once where no loop runs, as in a plain script."""
        self.running = True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self._run(0.0))
        else:
            self.task = loop.create_task(self._run(BREATH_S))

    def cancel(self) -> None:
        """Stop before the next slice; what was measured stays."""
        self._cancelled = True

    async def _run(self, breath_s: float) -> None:
        try:
            with self._interrupts():
                for done, piece in enumerate(self.slices):
                    await asyncio.sleep(breath_s)
                    if self._cancelled:
                        break
                    if isinstance(self.source, Shared):
                        await self._take_turn(self.source, piece)
                    self._measure(piece)
                    self._step(done + 1, len(self.slices))
        except KeyboardInterrupt:
            self._cancelled = True
        except Exception as error:  # nobody waits for this task: what it raises must be kept, or it is lost
            self.unexpected = error
            self._said.append(f"Measuring failed: {type(error).__name__}: {error}")
        finally:
            self.running = False
            if self._cancelled:
                end_ranks()  # processes that nobody waits for would hold their memory on
            self._end(" ".join([*([STOPPED] if self._cancelled else []), *self._said]))

    async def _take_turn(self, shared: Shared, piece: Slice) -> None:
        """Wait for a shared device beside the kernel's loop, so that sliders go on moving and Cancel arrives."""
        variants = [each.variant for each in self.slices if each.point == piece.point]
        known = (self.source.known(self.experiment, name) for name in variants)
        key = tuple(piece.point.values())
        missing = [name for name, there in zip(variants, known, strict=True) if key not in there]
        if not missing or piece.point == self._together:
            return
        self._together = piece.point
        try:
            turn = await asyncio.to_thread(shared.turn, self.experiment, missing, piece.point)
            asked = asyncio.ensure_future(asyncio.to_thread(turn.done))
            while not (asked.done() and asked.result()):
                if asked.done():
                    asked = asyncio.ensure_future(asyncio.to_thread(turn.done))
                self._wait(turn.said)
                await asyncio.sleep(LOOK_S)
                if self._cancelled:
                    await asyncio.to_thread(turn.cancel)
        except BrrrError as known_error:
            self._note(known_error)

    def _measure(self, piece: Slice) -> None:
        """Measure one slice; what brrr itself refuses (too large, not available) becomes a part of the message."""
        self._measuring = True
        try:
            if piece.point != self._together:  # the first slice of a point measures them all, interleaved
                self._together = piece.point
                others = [each.variant for each in self.slices if each.point == piece.point]
                self.source.measure_together(self.experiment, others, piece.point)
            self.source.measure(self.experiment, piece.variant, piece.point)
        except BrrrError as known:
            self._note(known)
        finally:
            self._measuring = False

    def _note(self, known: BrrrError) -> None:
        if str(known) not in self._said:
            self._said.append(str(known))

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Take the kernel's interrupt as a Cancel that need not wait: between cells Jupyter ignores it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            self._cancelled = True
            if self._measuring:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
