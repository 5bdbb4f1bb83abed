"""Made-up measurements from formulas, for tests without a GPU: clearly synthetic, never written under data/."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.measurement import Cache, Estimate, Measurement, Value
from brrr.counting.cost import Cost
from brrr_course.experiments import experiment
from brrr_course.nouns.claim import Claim
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.ledger import ABSENT, Entry
from brrr_course.sources.folders import Store
from brrr_course.sources.plan import DurationEstimator, Step, steps
from brrr_course.sources.recorder import Outcome, Recorder
from brrr_course.sources.recording import Machine, RunDevice, RunInfo
from brrr_course.sources.rows import Timed

ERROR = 1e-7
GPU = Machine("h200", "Synthetic H200", "cuda")
CPU = Machine("cpu", "Synthetic CPU", "cpu")


def estimate(median_s: float, n: int = 40) -> Estimate:
    """A time with an interval of a half percent."""
    return Estimate(median_s, median_s * 0.9975, median_s * 1.0025, n)


def made_up(experiment: Experiment, variant: str, point: Mapping[str, Value], slower: float = 1.0) -> Timed:
    """A GPU of 50 TFLOP/s with 9 GB/s to the host, a CPU of 0.8 TFLOP/s, a queue that takes 20 us to fill."""
    cost = experiment.cost_at(variant, point) or Cost(1e6, 1e6)
    device = experiment.variant(variant).device
    if device == "cpu":
        latency = 1e-6 + cost.flop / 0.8e12
        m = Measurement(host_s=estimate(latency), period_s=estimate(latency), latency_s=estimate(latency * slower))
        return Timed(m, cost, ERROR)
    if device == "cpu-queue":
        latency = 30e-6 + cost.flop / 0.05e12
        worked, issued = estimate(latency - 10e-6), estimate(20e-6)
        m = Measurement(issued, worked, period_s=estimate(latency), latency_s=estimate(latency * slower))
        return Timed(m, cost, ERROR)
    kernel = (2e-6 + cost.flop / 50e12) * slower
    sending = cost.bytes / 9e9 + 20e-6 if variant != "gpu" else 0.0
    if variant == "gpu-first":
        return Timed(Measurement(latency_s=estimate(0.9 + 8e-6 + kernel + sending)), cost, ERROR)
    return Timed(
        Measurement(
            host_s=estimate(6e-6),
            kernel_s=estimate(kernel),
            busy_s=estimate(kernel + sending),
            span_s=estimate(kernel + sending + 1e-6),
            period_s=estimate(max(6e-6, kernel + sending + 1e-6)),
            latency_s=estimate(8e-6 + kernel + sending),
            kernels=1,
            sm_clock_hz=1.98e9,
        ),
        cost,
        ERROR,
    )


def claim(**fields: Any) -> Claim:
    """A claim; fields of its entry by name."""
    return Claim(Entry(**{**ABSENT, "id": "made-up.x", "sentence": "text", "source": "me", **fields}), "source")


def measure(step: Step, slower: float = 1.0) -> dict[str, Timed | BrrrError]:
    """A measurer for `Recorder`; each measurement is in the cache state that its point asks for."""
    runs = {variant: made_up(step.experiment, variant, step.point, slower) for variant in step.variants}
    cache: Cache = "cold" if step.point.get("cache") == "cold" else "hot"
    return {variant: replace(run, measurement=replace(run.measurement, cache=cache)) for variant, run in runs.items()}


SOFTWARE = {"cuda": ("580.1", "13.0", "2.11.0+cu130"), "cpu": ("", "", "2.13.0+cpu")}
"""Driver, CUDA and torch of a made-up machine."""


def run_info(
    run_id: str = "run-1", date: str = "2000-01-01T00:00:00+00:00", machine: Machine = GPU, **other: Any
) -> RunInfo:
    """A run of a made-up brrr."""
    software = dict(zip(("driver", "cuda", "torch"), SOFTWARE[machine.kind], strict=True))
    devices = (RunDevice(machine.device, "GPU-made-up"),)
    given = {"devices": devices, "cpu": "Synthetic CPU", "cpu_cores": 16, **software, **other}
    return RunInfo(run_id, date, "0.0.test", **given)


def recorder(root: Path, machine: Machine, names: Sequence[str] = ("matmul",), **options: object) -> Recorder:
    """A recorder of made-up measurements into `root/<slug>`."""
    store = Store(root / machine.slug, machine, [experiment(name) for name in names])
    given: dict[str, object] = {
        "run": run_info(machine=machine),
        "measure": measure,
        "estimator": DurationEstimator(16),
        "limit_s": 1e9,
        **options,
    }
    return Recorder(store, **given)  # type: ignore[arg-type]


def record(root: Path, machine: Machine, only: Mapping[str, Sequence[str]] | None = None, **options: object) -> Outcome:
    """Record made-up measurements of `matmul` (or of `names=`) through the real writer."""
    made = recorder(root, machine, **options)
    experiments = [recording.experiment for recording in made.store.recordings.values()]
    return made.record(steps(experiments, "cuda" if machine.kind == "cuda" else "cpu", only=only))
