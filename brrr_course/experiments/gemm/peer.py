"""What another estimator says of a product: NVIDIA's nvMatmulHeuristics, where the package is installed."""

from functools import lru_cache
from importlib import import_module
from typing import Any

from brrr.counting.cost import Matmul

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
