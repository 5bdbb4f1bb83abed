"""Made-up measurements of the experiment `strassen`, from formulas: clearly synthetic, never written under data/."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from made_up import estimate, record

from brrr.core.measurement import Measurement, Value
from brrr.counting.cost import Cost
from brrr.strassen.cost import passes
from brrr.strassen.implementations import Problem
from brrr_course.experiments.strassen import way_of
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.plan import Step
from brrr_course.sources.recording import Machine
from brrr_course.sources.rows import Timed

GPU = Machine("h200", "NVIDIA H200", "cuda")
"""Named so that it has a datasheet; its version of torch says that nothing was measured."""

RATES = {"sgemm": 52e12, "fp16x3": 215e12, "tf32": 377e12, "bf16": 790e12, "fp16": 790e12}
ERRORS = {"sgemm": 1.6e-6, "fp16x3": 1.2e-6, "bf16x6": 1.2e-6, "tf32x3": 1.5e-6, "bf16": 3e-3}
GROWTH = {"strassen": 1.45, "winograd": 1.7, "balanced": 1.2}
CPU_RATE, COPY = 60e9, 4.2e12


def time_and_error(variant: str, n: int) -> tuple[float, float]:
    """Seconds and a relative error: products at a rate, passes over memory, an error that grows with each level."""
    way = way_of(variant)
    slower = RATES["sgemm"] / CPU_RATE if variant.startswith("cpu-") else 1.0
    if way is None:
        return slower * 2 * n**3 / RATES["fp16x3"], ERRORS["sgemm"]
    moved = sum(each.read + each.written for each in passes(Problem(way, n, n, n)))
    passes_s = moved / COPY if way.level else 0.0
    products = 2 * n**3 * (7 / 8) ** way.level / RATES.get(way.inner, 150e12)
    error = ERRORS.get(way.inner, 4e-4) * GROWTH.get(str(way.form), 1.0) ** way.level
    return slower * (2e-6 * (1 + 2 * bool(way.level)) + products + passes_s), error


def _of(name: str, variant: str, point: Mapping[str, Value]) -> tuple[float, float]:
    """Of another experiment: a network's time goes by its weights, an error by its level."""
    if name == "strassen":
        return time_and_error(variant, int(point["size"]))
    if name == "strassen_errors":
        badly = str(point["inputs"]).startswith("badly") and "scaled" not in variant
        growth = 300.0 if badly else GROWTH["winograd" if "winograd" in variant else "strassen"]
        return 1e-3, 2e-7 * growth ** int(point["level"])
    layers, batch, hidden = (int(point[axis]) for axis in ("layers", "batch", "hidden"))
    share = 0.87 if "strassen" in variant and batch >= 64 else 1.1 if "strassen" in variant else 1.0
    return share * layers * (5e-6 + 2 * batch * hidden**2 / 40e12 + 4 * hidden**2 / 4e12), 4e-7


def run(described: Experiment, variant: str, point: Mapping[str, Value]) -> Timed:
    """A variant at a point."""
    seconds, error = _of(described.name, variant, point)
    cost = described.cost_at(variant, point) or Cost(1e6, 1e6)
    each = estimate(seconds)
    if described.variant(variant).device != "cuda":
        return Timed(Measurement(host_s=each, period_s=each, latency_s=each), cost, error)
    busy = Measurement(kernel_s=each, busy_s=each, span_s=each, period_s=each, latency_s=each, kernels=3)
    return Timed(replace(busy, host_s=estimate(5e-6)), cost, error)


def measure(step: Step) -> dict[str, Timed]:
    """A measurer for the recorder."""
    return {variant: run(step.experiment, variant, step.point) for variant in step.variants}


def recording(root: Path, *names: str) -> Path:
    """A recording in `root` of every point of `strassen`, or of the experiments named."""
    record(root, GPU, names=names or ("strassen",), measure=measure)
    return root
