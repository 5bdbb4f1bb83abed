"""What the GPU's tests share: another stream; and of experiments every variant of a point, checked and timed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Field, Point
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point


@contextmanager
def aside() -> Iterator[Any]:
    """On a stream of its own, behind what was queued; all of it is done at the end."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield stream
    stream.synchronize()


def on_gpu(described: Experiment, point: Point) -> list[str]:
    """The variants that the GPU has there."""
    return [v.name for v in described.variants if v.device == "cuda" and described.has(v.name, point)]


def timed(
    described: Experiment,
    point: Point,
    names: list[str] | None = None,
    budget_s: float = 0.05,
    lacks: tuple[str, ...] = (),
) -> dict[str, Timed]:
    """The GPU's variants (or those named), each right and with its times, but for errors that say what it lacks."""
    found = measure_point(described, on_gpu(described, point) if names is None else names, point, budget_s=budget_s)
    errors = {name: run for name, run in found.items() if isinstance(run, BrrrError)}
    wrong = {name: run for name, run in errors.items() if not any(each in str(run) for each in lacks)}
    assert wrong == {}, point
    return {name: run for name, run in found.items() if isinstance(run, Timed)}


def judged(described: Experiment, names: list[str], point: Point, required: tuple[str, ...], field: Field) -> None:
    """Each is right and has this time, or is not here and not required."""
    for name, run in measure_point(described, names, point, budget_s=0.02).items():
        if isinstance(run, BrrrError):
            assert name not in required and isinstance(run, UnavailableError), f"{name} at {point}: {run}"
            print(f"{name} at {point}: {run}")
        else:
            assert run.measurement.get(field) is not None
            print(f"{name} at {point}: {run.measurement.get(field)}, error {run.error:.1e}")
