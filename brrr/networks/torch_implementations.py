"""The ways that need nothing but torch: eager, scripted, compiled, captured, and cuBLASLt's epilogue."""

import io
import types
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.core.private import keep_compiled_code_private
from brrr.gpu.precision import float32_products, in_full_precision
from brrr.networks.implementations import Prepared
from brrr.networks.network import Weights

Run = Callable[[], torch.Tensor]
"""The network's call: it returns the output."""


def module(weights: Weights) -> Prepared:
    """The network as everybody writes it; no parameter wants a gradient."""
    network, x = sequential(weights), weights.x
    return eager(lambda: network(x), weights)


def functional(weights: Weights) -> Prepared:
    """The same operators without modules."""
    layers, x = list(zip(weights.weights, weights.biases, strict=True)), weights.x

    def run() -> torch.Tensor:
        y = x
        for w, b in layers:
            y = torch.relu_(nn.functional.linear(y, w, b))
        return y

    return eager(run, weights)


def inference(weights: Weights) -> Prepared:
    """The module in `inference_mode`, entered once a call."""
    network, x = sequential(weights), weights.x

    def run() -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = network(x)
        return result

    return eager(run, weights)


def script(weights: Weights) -> Prepared:
    """The module as TorchScript; its first calls, in which it looks for what to fuse, are made here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is on its way out; it is still what the source tried
        try:
            scripted = torch.jit.script(sequential(weights))
        except Exception as error:
            raise refused("TorchScript", error) from error
    x = weights.x
    prepared = eager(lambda: scripted(x), weights)
    for _ in range(3):
        prepared.run()
    return prepared


def compiled(weights: Weights) -> Prepared:
    """torch.compile as it comes."""
    return _compiled(weights, "default")


def max_autotune(weights: Weights) -> Prepared:
    """torch.compile with a search for the best kernels, in CUDA Graphs of its own; building it takes a minute."""
    return _compiled(weights, "max-autotune")


def graph(weights: Weights) -> Prepared:
    """The module as one CUDA Graph."""
    network, x = sequential(weights), weights.x
    return captured(torch.inference_mode()(lambda: network(x)), weights)


def epilogue(weights: Weights) -> Prepared:
    """A call a layer: cuBLASLt adds the bias and takes ReLU before it writes the product.

    By torch's own binding, `_addmm_activation`, and not through nvmath-python: it keeps handle, workspace and the
    choice of algorithm, works where nvmath-python is missing, and where cuBLASLt refuses it takes two kernels instead.
    """
    return eager(layer_calls(weights), weights)


def epilogue_graph(weights: Weights) -> Prepared:
    """The same as one CUDA Graph."""
    return captured(layer_calls(weights), weights)


def layer_calls(weights: Weights) -> Run:
    """All layers by `_addmm_activation`, from one of two buffers to the other."""
    steps = [
        (b, source, w.t(), target)
        for w, b, source, target in zip(weights.weights, weights.biases, *buffers(weights), strict=True)
    ]

    def run() -> torch.Tensor:
        for b, source, w, target in steps:
            torch._addmm_activation(b, source, w, out=target)
        return steps[-1][3]

    return run


def buffers(weights: Weights) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Where each layer reads and where it writes: x first, then to and fro between two buffers."""
    pair = [torch.empty_like(weights.x) for _ in range(min(2, weights.network.layers))]
    targets = [pair[place % 2] for place in range(weights.network.layers)]
    return [weights.x, *targets[:-1]], targets


def sequential(weights: Weights) -> nn.Sequential:
    """Linear and ReLU in place, again and again, on these very weights: nothing is copied."""
    layers: list[nn.Module] = []
    for w, b in zip(weights.weights, weights.biases, strict=True):
        linear = nn.Linear(w.shape[1], w.shape[0], device="meta")
        linear.weight, linear.bias = (nn.Parameter(each, requires_grad=False) for each in (w, b))
        layers += [linear, nn.ReLU(inplace=True)]
    return nn.Sequential(*layers).eval()


def eager(run: Run, weights: Weights, release: Callable[[], None] | None = None) -> Prepared:
    """A run with torch's products in the network's precision, whatever torch is set to."""
    exact = in_precision(run, weights)
    return Prepared(exact) if release is None else Prepared(exact, release)


def captured(run: Run, weights: Weights, stream: Any = None) -> Prepared:
    """A run as a CUDA Graph, whose memory goes back when it is closed."""
    from brrr.running.graphs import capture

    with float32_products(weights.network.tf32):
        held = capture(run, stream=stream)

    def release() -> None:
        torch.cuda.synchronize(weights.device)  # a replay may be under way, and its memory is about to go
        held.graph.reset()
        held.output = None

    # The graph knows addresses only: the run holds the tensors that lie there.
    return Prepared(lambda replay=held.replay, kept=(run, weights): replay(), release)  # type: ignore[misc]


def in_precision(run: Run, weights: Weights) -> Run:
    """The run itself where torch multiplies so anyway, else one that asks for it and puts the setting back."""
    tf32 = weights.network.tf32
    if not tf32 and in_full_precision():
        return run

    def asking() -> torch.Tensor:
        with float32_products(tf32):
            return run()

    return asking


def _compiled(weights: Weights, mode: str) -> Prepared:
    network, x = sequential(weights), weights.x

    def forward(given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = network(given)
        return result

    keep_compiled_code_private()
    call = torch.compile(with_own_code(forward), mode=mode, dynamic=False, fullgraph=True)
    try:
        with (
            float32_products(weights.network.tf32),
            redirect_stderr(io.StringIO()),
        ):  # the search reports every trial there
            for _ in range(3):  # the first compiles; with graphs, the second warms up and the third captures
                call(x)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise refused("torch.compile", error) from error
    return eager(lambda: call(x), weights)  # what was compiled goes with its function


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a code object of its own: torch keeps what it compiled by code object, and after eight kinds
    of input it runs eager without a word.

    >>> with_own_code(with_own_code).__code__ is with_own_code.__code__
    False
    """
    if not isinstance(function, types.FunctionType):
        return function
    return types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip


def refused(what: str, error: Exception) -> UnavailableError:
    """A compiler's complaint in one line."""
    lines = [line for line in str(error).strip().splitlines() if line and not line.endswith("raised:")]
    reason = lines[0] if lines else ""
    return UnavailableError(f"{what} does not work here ({type(error).__name__}: {reason}); only its line is missing")
