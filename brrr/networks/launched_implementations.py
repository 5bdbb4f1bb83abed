"""The ways that launch kernels of this package: CUDA C++ through PyCUDA with cuBLAS, Triton, and the megakernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.callables import giving
from brrr.core.errors import UnavailableError
from brrr.networks.network import Weights
from brrr.networks.network_time import gains, layer_way
from brrr.networks.torch_implementations import Run, buffers, in_precision
from brrr.strassen.chain_run import ChainRun
from brrr.strassen.execution import prepare_right
from brrr.strassen.launcher import run_all
from brrr.strassen.layers import Layer
from brrr.strassen.operands import Right


def pycuda(weights: Weights) -> Run:
    """Three launches a layer: cuBLAS, the bias, ReLU; each is prepared, its buffers made once."""
    return in_order(pycuda_steps(weights, fused=False), weights)


def pycuda_fused(weights: Weights) -> Run:
    """Two launches a layer: cuBLAS, then bias and ReLU in one kernel."""
    return in_order(pycuda_steps(weights, fused=True), weights)


def triton(weights: Weights) -> Run:
    """One launch a layer: the product with bias and ReLU in it; its tiles are chosen by trying."""
    return in_order(triton_steps(weights), weights)


def megakernel(weights: Weights) -> Run:
    """One launch for the whole network, from x into a buffer of its own."""
    from brrr.kernels.megakernel.megakernel import Megakernel

    out = torch.empty_like(weights.x)
    kernel = Megakernel(weights.weights, weights.biases, weights.network.batch)
    return giving(out, kernel.prepare(weights.x, out), (kernel, weights))


Steps = tuple[list[Callable[[], Any]], list[torch.Tensor]]
"""The launches of all layers, and where each layer writes."""


def pycuda_steps(weights: Weights, *, fused: bool) -> Steps:
    """On torch's current stream, as it is now."""
    from brrr.gpu.cublas import blas_on
    from brrr.gpu.cublas_lt import fastest_product
    from brrr.kernels import bias_relu

    device = weights.x.device
    blas = blas_on(device.index, torch.cuda.current_stream(device).cuda_stream)
    sources, targets = buffers(weights)
    steps: list[Callable[[], Any]] = []
    for w, b, source, target in zip(weights.weights, weights.biases, sources, targets, strict=True):
        product = fastest_product(blas, source, w, target, tf32=weights.network.tf32, among=weights.weights)
        steps.append(product)
        if fused:
            steps.append(bias_relu.prepared("bias_relu", target, b))
        else:
            steps += bias_relu.prepared("bias", target, b), bias_relu.prepared("relu", target)
    return steps, targets


def triton_steps(weights: Weights) -> Steps:
    """On the stream that is current at each call."""
    from brrr.kernels.linear_relu import prepared

    sources, targets = buffers(weights)
    layers = zip(sources, weights.weights, weights.biases, targets, strict=True)
    return [prepared(*layer, tf32=weights.network.tf32) for layer in layers], targets


def in_order(made: Steps, weights: Weights) -> Run:
    """All launches one after the other; the function holds every tensor whose address they know."""
    steps, targets = made
    out = targets[-1]

    def run(kept: tuple[object, ...] = (weights, targets)) -> torch.Tensor:
        for step in steps:
            step()
        return out

    run()  # libraries load, and kernels compile, now and not in a measurement
    return run


# ---------------------------------------------------------------------------------------------------------------------
# The ways by Strassen products, the additions between two layers in one pass with bias and ReLU.


def strassen(weights: Weights) -> Run:
    """Products of the type's own, one launch for them and one for all additions between two layers."""
    return _where_it_gains(weights, "strassen")


def accurate(weights: Weights) -> Run:
    """Split products, as exact as float32's, with levels outside where they pay."""
    return _where_it_gains(weights, "strassen-accurate")


def _where_it_gains(weights: Weights, way: str) -> Run:
    if reason := gains(way, weights.network):
        raise UnavailableError(f"{way}: {reason}")
    return in_precision(launches(weights, way), weights)


def launches(weights: Weights, way: str) -> Run:
    """All launches, their buffers and the weights' part made once, on the stream that is torch's current one now."""
    network, x = weights.network, weights.x
    chain = tuple(Layer(w, b, relu=True) for w, b in zip(weights.weights, weights.biases, strict=True))
    chosen = layer_way(network, way, x.device.type)
    with torch.inference_mode():
        lying = [Right(w, True) for w in weights.weights]
        rights = [prepare_right(each, chosen) for each in lying] if chosen.prepared else lying
        run = ChainRun(chain, [chosen] * network.layers, rights, x)
        out = torch.empty_like(x)
        steps = run.steps(x, out)
    made = giving(out, torch.inference_mode()(partial(run_all, steps)), (run, weights))
    made()  # libraries load, and kernels compile, now and not in a measurement
    return made
