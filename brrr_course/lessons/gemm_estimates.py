"""What is predicted of products of matrices, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable

from brrr_course.experiments.gemm import SIZE
from brrr_course.nouns.source import Evidence


def foretold(
    evidence: Evidence, dtype: str, size: int = SIZE, some: Callable[[int], bool] = bool
) -> tuple[dict[int, float], dict[int, float]]:
    """Measured and predicted seconds of W x, by the number of columns; predicted for `some`, as a call takes long."""
    from brrr.roofline.shapes import product_time_s

    device, kind = evidence.datasheet().key, evidence.experiment.variant("nn")
    curve = evidence.curve("nn", "columns", size=size, dtype=dtype)
    measured = {int(n): time.median for n, time in curve.items()}
    predicted = {}
    for n in filter(some, measured):
        run = evidence.experiment.predicted_run(kind.name, {"columns": n, "size": size, "dtype": dtype})
        assert run is not None
        predicted[n] = product_time_s(run.cost.matmuls[0], device)
    return measured, predicted
