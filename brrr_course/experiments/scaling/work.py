"""What the `scaling` experiment runs: a chain of pointwise operators, and a product with a square of weights."""

import torch

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.checked import error_against, refuse_too_large
from brrr_course.experiments.scaling import DIMENSION, OPERATORS, cost, rows, width
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = {"chain": 1e-5, "gemm": 1e-4}
BIAS = 0.125


def workload(variant: Variant, point: Point) -> Workload:
    """The chain or the product, on a fresh random batch (and He-scaled weights)."""
    batch, device = rows(variant, point), variant.processor
    wait = waiting(device)
    refuse_too_large(5 * 4 * batch * width(variant), device, f"scaling {batch}")
    x, made = torch.randn(batch, width(variant), device=device), cost(variant, point)
    if variant.kind == "gemm":
        weights = torch.randn(DIMENSION, DIMENSION, device=device) * (2 / DIMENSION) ** 0.5
        return Workload(lambda: x @ weights, made, product_error(x, weights), TOLERANCE["gemm"], synchronize=wait)
    return Workload(lambda: chain(x), made, error_against(chain, (x,)), TOLERANCE["chain"], synchronize=wait)


def chain(x: torch.Tensor) -> torch.Tensor:
    """Pointwise operators, a ReLU and an addition in turn.

    >>> chain(torch.tensor([-1.0, 1.0])).tolist()
    [0.5, 1.5]
    """
    for _ in range(OPERATORS // 2):
        x = torch.relu(x) + BIAS
    return x
