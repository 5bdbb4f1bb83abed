"""The ways that launch kernels of this package: CUDA C++ through PyCUDA with cuBLAS, Triton, and the megakernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from brrr.core.callables import giving
from brrr.core.errors import UnavailableError
from brrr.networks.network import TF32_LAYER, Weights
from brrr.networks.torch_implementations import Run, buffers, in_precision
from brrr.strassen.accuracy import PLAIN


def pycuda(weights: Weights, *, fused: bool = False) -> Run:
    """Three launches a layer: cuBLAS, the bias, ReLU; each is prepared on the current stream, its buffers made once."""
    from brrr.gpu.cublas import blas_on
    from brrr.gpu.cublas_lt import fastest_product
    from brrr.kernels import bias_relu

    device = weights.x.device
    blas = blas_on(device.index, torch.cuda.current_stream(device).cuda_stream)
    sources, targets = buffers(weights)
    steps: list[Callable[[], Any]] = []
    for w, b, source, target in zip(weights.weights, weights.biases, sources, targets, strict=True):
        steps.append(fastest_product(blas, source, w, target, tf32=weights.network.tf32, among=weights.weights))
        if fused:
            steps.append(bias_relu.prepared("bias_relu", target, b))
        else:
            steps += bias_relu.prepared("bias", target, b), bias_relu.prepared("relu", target)
    return in_order(steps, targets, weights)


pycuda_fused = partial(pycuda, fused=True)
"""Two launches a layer: cuBLAS, then bias and ReLU in one kernel."""


def triton(weights: Weights) -> Run:
    """One launch a layer, on the stream that is current then: the product with bias and ReLU in it, tiles tried."""
    from brrr.kernels.linear_relu import prepared

    sources, targets = buffers(weights)
    layers = zip(sources, weights.weights, weights.biases, targets, strict=True)
    return in_order([prepared(*layer, tf32=weights.network.tf32) for layer in layers], targets, weights)


def megakernel(weights: Weights) -> Run:
    """One launch for the whole network, from x into a buffer of its own."""
    from brrr.kernels.megakernel.megakernel import Megakernel

    out = torch.empty_like(weights.x)
    kernel = Megakernel(weights.weights, weights.biases, weights.network.batch)
    return giving(out, kernel.prepare(weights.x, out), (kernel, weights))


def in_order(steps: Sequence[Callable[[], Any]], targets: Sequence[torch.Tensor], weights: Weights) -> Run:
    """All launches one after the other; the function holds every tensor whose address they know."""

    def run(kept: tuple[object, ...] = (weights, targets)) -> torch.Tensor:
        for step in steps:
            step()
        return targets[-1]

    run()  # libraries load, and kernels compile, now and not in a measurement
    return run


# ---------------------------------------------------------------------------------------------------------------------
# The ways by Strassen products, the additions between two layers in one pass with bias and ReLU.

SAFE = 0.8
"""Of a network's tolerance, what the predicted errors of its layers may come to together."""


def strassen(weights: Weights) -> Run:
    """Products of the type's own, one launch for them and one for all additions between two layers."""
    network = weights.network
    own = "tf32" if network.tf32 else PLAIN[network.dtype]
    each = TF32_LAYER if network.tf32 else SAFE * weights.tolerance / math.sqrt(network.layers)
    return _by_strassen(weights, own, accuracy=each, inner=own)


def accurate(weights: Weights) -> Run:
    """Split products, as exact as float32's, with levels outside where they pay."""
    if weights.network.dtype != "float32" or weights.network.tf32:
        raise UnavailableError(f"split products are of float32 alone, and this is {weights.network}")
    return _by_strassen(weights, PLAIN["float32"], accuracy="fp32")


def _by_strassen(weights: Weights, own: str, **asked: Any) -> Run:
    """As `StrassenMLP` runs it; UnavailableError where that is the library's own product."""
    from brrr.strassen.network import StrassenMLP

    model = StrassenMLP.of(weights.weights, weights.biases, graphs=True, **asked)
    chosen = model.explain(weights.network.batch)[0].implementation
    if chosen.classical and chosen.inner == own:
        raise UnavailableError(f"no other product than {own} is predicted to gain for {weights.network}")
    return in_precision(torch.no_grad()(partial(model, weights.x)), weights)
