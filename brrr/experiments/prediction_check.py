"""Whether a case's result is right: a sample of its rows and columns against float64.

A whole reference would take longer than the measurement, so a result is checked at SAMPLED places of a dimension
drawn anew each time, its first and last always among them, where kernels that end at an odd size go wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from brrr.experiments.prediction_calls import STREAMS, Function, Tensor, function_of, shapes
from brrr.experiments.prediction_cases import Case

SAMPLED = 32
BATCHES = 3

PRODUCT = {"float64": 1e-12, "float32": 3e-5, "tf32": 3e-3, "float16": 5e-3, "bfloat16": 2e-2}
"""float32 stays far below; products in TF32 that were to be in float32 (3e-4) would be found out."""
STREAM = {"float32": 1e-4, "bfloat16": 2e-2}
CHAIN = {"float32": 1e-4, "bfloat16": 5e-2}
"""A chain of 200 operators in bfloat16 rounds 200 times."""


def tolerance(case: Case) -> float:
    """The relative error that is still right."""
    return {"stream": STREAM, "product": PRODUCT, "chain": CHAIN}[case.kind][case.dtype]


def sampled(size: int, device: Any, most: int = SAMPLED) -> Tensor:
    """Some places of a dimension in order, its first and last among them.

    >>> sampled(3, "cpu").tolist()
    [0, 1, 2]
    """
    inner = torch.randint(size, (max(0, most - 2),)).tolist() if size > most else range(size)
    return torch.tensor(sorted({0, size - 1, *inner}), device=device)


def error_of(case: Case, inputs: Mapping[str, Tensor], found: Any) -> float:
    """||found - reference|| / ||reference|| at sampled places; NaN for what is no tensor, or has the wrong shape."""
    if not isinstance(found, torch.Tensor):
        return math.nan
    return (_product_error if case.kind == "product" else _sliced_error)(case, inputs, found)


def _relative(found: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """The relative error; relative to `least` where the reference is smaller."""
    if found.shape != expected.shape:
        return math.nan
    wrong, right = float((found.double() - expected).norm()), max(least, float(expected.norm()))
    return wrong / right if right else (math.nan if wrong != 0 else 0.0)


def _product_error(case: Case, inputs: Mapping[str, Tensor], found: Tensor) -> float:
    _, m, n, _ = case.sizes
    x, y = inputs["x"], inputs["y"] if case.what == "nn" else inputs["y"].mT
    if found.shape != (*x.shape[:-1], n):
        return math.nan
    rows, columns = sampled(m, x.device), sampled(n, x.device)
    if x.dim() == 3:
        batches = sampled(x.shape[0], x.device, BATCHES)
        x, y, found = x[batches], y[batches], found[batches]
    part = found.index_select(-2, rows).index_select(-1, columns)
    return _relative(part, x.index_select(-2, rows).double() @ y.index_select(-1, columns).double())


def _sliced_error(case: Case, inputs: Mapping[str, Tensor], found: Tensor) -> float:
    """The same function in float64 on a slice along a dimension in which the parts are independent."""
    along, result_along = 0, 0
    if case.kind == "stream":
        stream = STREAMS[case.what]
        if stream.along is None:
            wide = [each.double() for each in inputs.values()]
            size = float(wide[0].norm())  # what a sum of random numbers comes to; by chance it may be near zero
            return _relative(found, function_of(case)(*wide), size)
        along, result_along = stream.along, stream.result_along
    if found.shape != _expected_shape(function_of(case), case):
        return math.nan
    places = sampled(inputs["x"].shape[along], found.device)
    part = partial(_part, places=places, along=along, rows=inputs["x"].shape[0])
    expected = function_of(case)(*(part(name, each).double() for name, each in inputs.items()))
    return _relative(found.index_select(result_along, places), expected.double())


def _part(name: str, each: Tensor, *, places: Tensor, along: int, rows: int) -> Tensor:
    """The slice of what has the full size; a row or a matrix of weights is needed whole."""
    return each.index_select(along, places) if name in "xy" else each


def _expected_shape(function: Function, case: Case) -> torch.Size:
    """The shape of the result, found without memory."""
    with torch.device("meta"):
        return function(*(torch.empty(shape) for shape in shapes(case).values())).shape
