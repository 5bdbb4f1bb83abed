"""What is estimated of products of matrices: by the predictor, and by NVIDIA's nvMatmulHeuristics where it is here."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from brrr.counting.cost import Matmul
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


# ---- another estimator ----

PRECISIONS = {"bfloat16": "TST", "float16": "HSH", "float32": "SSS"}
"""Types of operands, sums and result, as cuBLAS's kernels name them."""


def heuristics_s(product: Matmul, gpu: str = "H200_SXM") -> float | None:
    """Estimated seconds of a product's fastest kernel; None without the package, or for a type that it does not name.

    >>> heuristics_s(Matmul(64, 64, 64, dtype="float64")) is None
    True
    """
    precision, library = PRECISIONS.get(product.dtype), _library()
    if precision is None or library is None:
        return None
    layout = "".join("NT"[each] for each in product.transposed)
    named = library.NvMatmulHeuristicsMatmulLayout[f"{layout}_ROW_MAJOR"]
    estimator = _estimator(gpu)
    problem = estimator.makeNvMatmulHeuristicsProblem(product.m, product.n, product.k, named, product.batch)
    found = estimator.get(problem, 1, precision=precision)
    return float(found[0]["runtime"]) if found else None


def _library() -> Any:
    try:
        return import_module("nvMatmulHeuristics")
    except ImportError:
        return None


@lru_cache(maxsize=4)
def _estimator(gpu: str) -> Any:
    """Kernels of any library, chosen by its model of their times."""
    library = _library()
    flags = library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING
    target, device = library.NvMatmulHeuristicsTarget.GENERIC, library.NvMatmulHeuristicsNvidiaGpu[gpu]
    return library.NvMatmulHeuristicsInterfaceEx(backend=target, flags=flags, gpu=device)
