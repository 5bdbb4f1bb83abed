"""Measuring many points without holding up the notebook: one slice at a time, with room between for Cancel."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from brrr.core.errors import BrrrError
from brrr.core.values import Point
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source

STOPPED = "Stopped: what was measured before is kept."
BREATH_S = 0.02
"""Between two slices the kernel's loop runs this long, so that a pressed Cancel arrives."""


@dataclass(frozen=True)
class Slice:
    """One variant at one point: the least that is measured without a pause."""

    variant: str
    point: Point


class Job:
    """A list of slices being measured; `cancel` stops before the next, an interrupt stops in the middle of one.

    `step(done, of)` is called after each slice, `end(message)` once, whatever happened; an error that brrr raises on
    purpose becomes part of the message, any other is kept in `unexpected`.
    """

    def __init__(
        self, experiment: Experiment, source: Source, slices: Sequence[Slice],
        step: Callable[[int, int], None], end: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.experiment, self.source, self.slices = experiment, source, list(slices)
        self._step, self._end = step, end
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
                    self._measure(piece)
                    self._step(done + 1, len(self.slices))
        except KeyboardInterrupt:
            self._cancelled = True
        except Exception as error:  # nobody waits for this task: what it raises must be kept, or it is lost
            self.unexpected = error
            self._said.append(f"Measuring failed: {type(error).__name__}: {error}")
        finally:
            self.running = False
            self._end(" ".join([*([STOPPED] if self._cancelled else []), *self._said]))

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
            if str(known) not in self._said:
                self._said.append(str(known))
        finally:
            self._measuring = False

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
