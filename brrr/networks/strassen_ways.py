"""The ways by Strassen products, the additions between two layers in one pass with bias and ReLU.

"strassen" has the type's own products inside, without tensor cores for float32; "strassen-accurate" any that is as
exact as float32's, which are split products on the tensor cores. Levels and form are chosen by prediction.

Strassen's algorithm is less exact than the classical product: a layer is given no way whose predicted error, over all
layers, comes near the network's tolerance. What is built is checked against float64 before it is used, as every way is.
"""

from __future__ import annotations

from functools import partial

import torch

from brrr.networks.strassen_plans import layer_way
from brrr.networks.torch_ways import Run, captured, in_precision
from brrr.networks.way import Prepared
from brrr.networks.weights import Weights
from brrr.strassen.execution import prepare_right, run_all
from brrr.strassen.layers import Layer
from brrr.strassen.operands import Right
from brrr.strassen.running import ChainRun
from brrr.strassen.sums import Step


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
    from brrr.errors import UnavailableError
    from brrr.kernels.pycuda_context import shared_stream

    try:
        stream = shared_stream(weights.x.device.index).torch
    except UnavailableError:
        stream = torch.cuda.Stream(weights.x.device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run = launches(weights, way)
    return captured(run, weights, stream)


def _run(steps: list[Step], out: torch.Tensor, kept: tuple[object, ...]) -> torch.Tensor:
    with torch.inference_mode():
        run_all(steps)
    return out
