"""The ways that launch kernels of this package: CUDA C++ through PyCUDA with cuBLAS, Triton, and the megakernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch

from brrr.networks.implementations import Prepared
from brrr.networks.network import Weights
from brrr.networks.network_time import layer_way
from brrr.networks.torch_implementations import Run, buffers, captured, in_precision
from brrr.strassen.chain_run import ChainRun
from brrr.strassen.execution import prepare_right, run_all
from brrr.strassen.layers import Layer
from brrr.strassen.operands import Right


def pycuda(weights: Weights) -> Prepared:
    """Three launches a layer: cuBLAS, the bias, ReLU; each is prepared, its buffers made once."""
    return Prepared(in_order(pycuda_steps(weights, fused=False), weights))


def pycuda_fused(weights: Weights) -> Prepared:
    """Two launches a layer: cuBLAS, then bias and ReLU in one kernel."""
    return Prepared(in_order(pycuda_steps(weights, fused=True), weights))


def pycuda_graph(weights: Weights) -> Prepared:
    """Bias and ReLU in one kernel, and the whole as a CUDA Graph, captured on a stream that PyCUDA can use too."""
    from brrr.gpu.launching import shared_stream

    stream = shared_stream(weights.x.device.index).torch
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run = in_order(pycuda_steps(weights, fused=True), weights)
    return captured(run, weights, stream)


def triton(weights: Weights) -> Prepared:
    """One launch a layer: the product with bias and ReLU in it; its tiles are chosen by trying."""
    return Prepared(in_order(triton_steps(weights), weights))


def triton_graph(weights: Weights) -> Prepared:
    """The same as one CUDA Graph."""
    return captured(in_order(triton_steps(weights), weights), weights)


def megakernel(weights: Weights) -> Prepared:
    """One launch for the whole network."""
    return Prepared(megakernel_call(weights))


def megakernel_graph(weights: Weights) -> Prepared:
    """The same as a CUDA Graph of one kernel."""
    return captured(megakernel_call(weights), weights)


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


def megakernel_call(weights: Weights) -> Run:
    """The megakernel on these weights, from x into a buffer of its own."""
    out = torch.empty_like(weights.x)
    made = import_module("brrr.kernels.megakernel.megakernel").Megakernel
    kernel = made(weights.weights, weights.biases, weights.network.batch)
    launch = kernel.prepare(weights.x, out)

    def run(kept: tuple[object, ...] = (kernel, weights)) -> torch.Tensor:
        launch()
        return out

    return run


# ---------------------------------------------------------------------------------------------------------------------
# The ways by Strassen products, the additions between two layers in one pass with bias and ReLU.


def strassen(weights: Weights) -> Prepared:
    """Products of the type's own, one launch for them and one for all additions between two layers."""
    return Prepared(in_precision(launches(weights, "strassen"), weights))


def strassen_graph(weights: Weights) -> Prepared:
    """The same as one CUDA Graph."""
    return captured_launches(weights, "strassen")


def accurate(weights: Weights) -> Prepared:
    """Split products, as exact as float32's, with levels outside where they pay."""
    return Prepared(in_precision(launches(weights, "strassen-accurate"), weights))


def accurate_graph(weights: Weights) -> Prepared:
    """The same as one CUDA Graph."""
    return captured_launches(weights, "strassen-accurate")


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
    made = partial(_run, steps, out, (run, weights))
    made()  # libraries load, and kernels compile, now and not in a measurement
    return made


def captured_launches(weights: Weights, way: str) -> Prepared:
    """As a CUDA Graph, captured on a stream that PyCUDA can use too where it is here."""
    from brrr.core.errors import UnavailableError
    from brrr.gpu.launching import shared_stream

    try:
        stream = shared_stream(weights.x.device.index).torch
    except UnavailableError:
        stream = torch.cuda.Stream(weights.x.device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run = launches(weights, way)
    return captured(run, weights, stream)


def _run(steps: list[Callable[[], Any]], out: torch.Tensor, kept: tuple[object, ...]) -> torch.Tensor:
    with torch.inference_mode():
        run_all(steps)
    return out
