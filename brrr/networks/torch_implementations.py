"""The ways that need nothing but torch: eager, scripted, compiled, and cuBLASLt's epilogue."""

import io
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from typing import Any

import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.core.private import keep_compiled_code_private
from brrr.gpu.precision import float32_products, in_full_precision
from brrr.networks.network import Weights

Run = Callable[[], torch.Tensor]
"""The network's call: it returns the output."""


def module(weights: Weights) -> Run:
    """The network as everybody writes it; no parameter wants a gradient."""
    network, x = sequential(weights), weights.x
    return in_precision(lambda: network(x), weights)


def functional(weights: Weights) -> Run:
    """The same operators without modules."""
    layers, x = list(zip(weights.weights, weights.biases, strict=True)), weights.x

    def run() -> torch.Tensor:
        y = x
        for w, b in layers:
            y = torch.relu_(nn.functional.linear(y, w, b))
        return y

    return in_precision(run, weights)


def inference(weights: Weights) -> Run:
    """The module in `inference_mode`, entered once a call."""
    network, x = sequential(weights), weights.x

    def run() -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = network(x)
        return result

    return in_precision(run, weights)


def script(weights: Weights) -> Run:
    """The module as TorchScript; its first calls, in which it looks for what to fuse, are made here."""
    with warnings.catch_warnings(), refusing("TorchScript"):
        warnings.simplefilter("ignore")  # that it is on its way out; it is still what the source tried
        scripted = torch.jit.script(sequential(weights))
    x = weights.x
    run = in_precision(lambda: scripted(x), weights)
    for _ in range(3):
        run()
    return run


def compiled(weights: Weights, mode: str = "default") -> Run:
    """torch.compile as it comes, or in another of its modes."""
    network, x = sequential(weights), weights.x
    keep_compiled_code_private()
    forward = with_own_code(lambda given: network(given))  # a function, of which there is a copy for each network
    call = torch.compile(forward, mode=mode, dynamic=False, fullgraph=True)
    with refusing("torch.compile"), float32_products(weights.network.tf32):
        for _ in range(3):  # the first compiles; with graphs, the second warms up and the third captures
            call(x)
    return in_precision(lambda: call(x), weights)  # what was compiled goes with its function


max_autotune = partial(compiled, mode="max-autotune")
"""torch.compile with a search for the best kernels, in CUDA Graphs of its own; building it takes a minute."""
reduce_overhead = partial(compiled, mode="reduce-overhead")
"""torch.compile in CUDA Graphs of its own."""


def epilogue(weights: Weights) -> Run:
    """A call a layer, from one of two buffers to the other: cuBLASLt adds the bias and takes ReLU in the product.

    By torch's own binding, `_addmm_activation`, and not through nvmath-python: it keeps handle, workspace and the
    choice of algorithm, works where nvmath-python is missing, and where cuBLASLt refuses it takes two kernels instead.
    """
    steps = [
        (b, source, w.t(), target)
        for w, b, source, target in zip(weights.weights, weights.biases, *buffers(weights), strict=True)
    ]

    def run() -> torch.Tensor:
        for b, source, w, target in steps:
            torch._addmm_activation(b, source, w, out=target)
        return steps[-1][3]

    return in_precision(run, weights)


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


def in_precision(run: Run, weights: Weights) -> Run:
    """The run itself where torch multiplies so anyway, else one that asks for it and puts the setting back."""
    tf32 = weights.network.tf32
    if not tf32 and in_full_precision():
        return run

    def asking() -> torch.Tensor:
        with float32_products(tf32):
            return run()

    return asking


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


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """A compiler's complaint in one line, and no report of its search, which has a line for every trial."""
    try:
        with redirect_stderr(io.StringIO()):
            yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line and not line.endswith("raised:")]
        reason = f"{type(error).__name__}: {lines[0] if lines else ''}"
        raise UnavailableError(f"{what} does not work here ({reason}); only its line is missing") from error
