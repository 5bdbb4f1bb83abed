"""The implementations of the network, and what one becomes for a network: something to call again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Processor
from brrr.gpu import is_cpu, is_gpu
from brrr.networks.network import Network

if TYPE_CHECKING:
    import torch

    from brrr.networks.network import Weights

Need = Callable[[Network], str | None]
"""Why a network cannot be run in this way on this machine; None where it can."""


def _nothing() -> None:
    """There is nothing to free."""


@dataclass
class Prepared:
    """A network ready to run: `run()` computes the result for the weights' `x`, as it then is, and returns it.

    >>> with Prepared(lambda: 7) as made:
    ...     made.run()
    7

    On a GPU the result is not there yet when the call returns, and the next call may overwrite it. `run` is the bare
    function, so that a loop over it times nothing else. `close` gives back what it holds, more than once if need be.
    """

    run: Callable[[], Any]
    release: Callable[[], None] = field(default=_nothing, repr=False)

    def close(self) -> None:
        """Free what it holds; `run` refuses afterwards."""
        release, self.release, self.run = self.release, _nothing, _closed
        release()

    def handed_on(self) -> Prepared:
        """The same for another owner; closing this one no longer frees it."""
        release, self.release = self.release, _nothing
        return Prepared(self.run, release)

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed() -> Any:
    raise UnavailableError("Prepared.run: it was closed; build it again")


@dataclass(frozen=True)
class NetworkImplementation:
    """An implementation of the network: its name, a label for figures, where it runs, and what it needs.

    `maker` is the function that builds it, as "module:function", loaded when it is first used.
    """

    name: str
    label: str
    devices: tuple[str, ...]
    maker: str = field(repr=False)
    needs: tuple[Need, ...] = field(default=(), repr=False)
    slow_to_build: bool = False

    def why_not(self, network: Network, device: str | torch.device = "cuda") -> str | None:
        """Why this network cannot be run so here, in words; None where it can. device: "cuda" or "cpu"."""
        kind = str(device).partition(":")[0]
        if kind not in get_args(Processor):
            raise ArgumentError("why_not", "device", str(device), '"cuda" or "cpu"')
        if kind not in self.devices:
            return f"{self.name}: runs on {' and '.join(_SPELLED[each] for each in self.devices)} only"
        if network.tf32 and is_cpu(kind):
            return f"{self.name}: TF32 is a format of GPUs"
        if is_gpu(kind):
            from brrr.gpu.device import cuda_problem

            if problem := cuda_problem():
                return f"{self.name}: it needs an NVIDIA GPU, and {problem}"
        reasons = (need(network) for need in self.needs)
        return next((f"{self.name}: {reason}" for reason in reasons if reason), None)

    def build(self, network: Network, weights: Weights) -> Prepared:
        """The network with these weights, ready to run; this may compile, tune and capture.

        ArgumentError for weights of another network or on another GPU than torch's current one, UnavailableError, with
        the reason, where `why_not` has one or a library refuses. What was built halfway is freed.
        """
        if weights.network != network:
            raise ArgumentError(f"{self.name}.build", "weights", f"those of {weights.network}", f"those of {network}")
        if reason := self.why_not(network, weights.device):
            raise UnavailableError(reason)
        _require_current(self.name, weights.device)
        module, _, function = self.maker.partition(":")
        made: Prepared = getattr(import_module(module), function)(weights)
        return made


def _require_current(name: str, device: torch.device) -> None:
    """Streams, handles and kernels here are those of torch's current GPU."""
    if not is_gpu(device):
        return
    import torch

    if device.index != torch.cuda.current_device():
        current = f"cuda:{torch.cuda.current_device()}, the current GPU"
        raise ArgumentError(f"{name}.build", "weights", str(device), current, "Use torch.cuda.device(...)")


_SPELLED = {"cuda": "an NVIDIA GPU", "cpu": "a CPU"}


# ---------------------------------------------------------------------------------------------------------------------
# What a way needs of the network and of the machine; each answer is a reason, or None.


def two_rows(network: Network) -> str | None:
    """torch calls cuBLASLt, with the bias and ReLU in the product, only for true matrices.

    >>> two_rows(Network(1, 1, 64))
    'torch calls cuBLASLt only for at least 2 rows and 2 columns, and this is batch 1, hidden 64'
    """
    if min(network.batch, network.hidden) >= 2:
        return None
    size = f"batch {network.batch}, hidden {network.hidden}"
    return f"torch calls cuBLASLt only for at least 2 rows and 2 columns, and this is {size}"


def no_half(network: Network) -> str | None:
    """The CUDA C++ kernels are written for two types.

    >>> no_half(Network(1, 2, 64, "float16"))
    'its kernels take float32 and bfloat16, and this is float16'
    """
    return "its kernels take float32 and bfloat16, and this is float16" if network.dtype == "float16" else None


def narrow_enough(network: Network) -> str | None:
    """The bias kernel counts its columns in 32 bits."""
    from brrr.kernels.bias_relu import WIDEST

    return f"hidden {network.hidden} is above {WIDEST}" if network.hidden > WIDEST else None


def triton_here(network: Network) -> str | None:
    """Triton is a package of its own, and has no build for every system."""
    return None if find_spec("triton") else "Triton is not here; `pip install triton` adds it on Linux"


def pycuda_here(network: Network) -> str | None:
    """PyCUDA, on torch's GPU."""
    import torch

    return _pycuda(torch.cuda.current_device())


def blas_here(network: Network) -> str | None:
    """cuBLAS through nvmath-python."""
    return _blas()


def megakernel_here(network: Network) -> str | None:
    """The kernel's own word on whether it takes the network."""
    try:
        kernel = import_module("brrr.kernels.megakernel.megakernel")
    except ImportError as error:
        return f"this version of the package has no megakernel ({error})"
    if network.tf32:
        return "float32 only, and this is TF32"
    reason: str | None = kernel.supports(network.layers, network.batch, network.hidden, network.dtype)
    return reason.removeprefix("megakernel: ") if reason else None


def strassen_gains(network: Network) -> str | None:
    """By prediction: Strassen's levels pay for large products only."""
    from brrr.networks.network_time import gains

    return gains("strassen", network)


def accurate_gains(network: Network) -> str | None:
    """By prediction, as for levels."""
    from brrr.networks.network_time import gains

    return gains("strassen-accurate", network)


def true_float32(network: Network) -> str | None:
    """Split products stand for float32's.

    >>> true_float32(Network(1, 2, 64, "bfloat16"))
    'float32 only, and this is bfloat16'
    """
    if network.dtype != "float32" or network.tf32:
        return f"float32 only, and this is {'TF32' if network.tf32 else network.dtype}"
    return None


def _pycuda(device_index: int) -> str | None:
    from brrr.gpu.launching import pycuda_driver

    try:
        pycuda_driver(device_index)
    except UnavailableError as error:
        return str(error)
    return None


@lru_cache(maxsize=1)
def _blas() -> str | None:
    from brrr.gpu.cublas import bindings

    try:
        bindings()
    except UnavailableError as error:
        return str(error)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# The ladder: every way of running the network, from the module that everybody writes to one kernel for all layers.

_TORCH, _LAUNCHED = "brrr.networks.torch_implementations", "brrr.networks.launched_implementations"
_BOTH, _GPU = ("cuda", "cpu"), ("cuda",)
_PYCUDA = (no_half, narrow_enough, pycuda_here, blas_here)
_ACCURATE = (true_float32, accurate_gains)

_LADDER: tuple[tuple[Any, ...], ...] = (
    ("module", "nn.Sequential", _BOTH, f"{_TORCH}:module"),
    ("functional", "functional calls", _BOTH, f"{_TORCH}:functional"),
    ("inference", "inference_mode", _BOTH, f"{_TORCH}:inference"),
    ("script", "TorchScript", _BOTH, f"{_TORCH}:script"),
    ("compile", "torch.compile", _BOTH, f"{_TORCH}:compiled", (), True),
    ("max-autotune", "torch.compile, max-autotune", _GPU, f"{_TORCH}:max_autotune", (triton_here,), True),
    ("graph", "CUDA Graph", _GPU, f"{_TORCH}:graph"),
    ("pycuda", "PyCUDA: cuBLAS, bias, ReLU", _GPU, f"{_LAUNCHED}:pycuda", _PYCUDA),
    ("pycuda-fused", "PyCUDA: cuBLAS, bias + ReLU", _GPU, f"{_LAUNCHED}:pycuda_fused", _PYCUDA),
    ("pycuda-graph", "PyCUDA fused, CUDA Graph", _GPU, f"{_LAUNCHED}:pycuda_graph", _PYCUDA),
    ("epilogue", "cuBLASLt epilogue", _GPU, f"{_TORCH}:epilogue", (two_rows,)),
    ("epilogue-graph", "cuBLASLt epilogue, CUDA Graph", _GPU, f"{_TORCH}:epilogue_graph", (two_rows,)),
    ("triton", "Triton, a kernel a layer", _GPU, f"{_LAUNCHED}:triton", (triton_here,)),
    ("triton-graph", "Triton, CUDA Graph", _GPU, f"{_LAUNCHED}:triton_graph", (triton_here,)),
    ("megakernel", "megakernel", _GPU, f"{_LAUNCHED}:megakernel", (megakernel_here,)),
    ("megakernel-graph", "megakernel, CUDA Graph", _GPU, f"{_LAUNCHED}:megakernel_graph", (megakernel_here,)),
    ("strassen", "Strassen's products", _GPU, f"{_LAUNCHED}:strassen", (strassen_gains,)),
    ("strassen-graph", "Strassen's products, CUDA Graph", _GPU, f"{_LAUNCHED}:strassen_graph", (strassen_gains,)),
    ("strassen-accurate", "split products", _GPU, f"{_LAUNCHED}:accurate", _ACCURATE),
    ("strassen-accurate-graph", "split products, CUDA Graph", _GPU, f"{_LAUNCHED}:accurate_graph", _ACCURATE),
)

_BY_NAME = {row[0]: NetworkImplementation(*row) for row in _LADDER}
IMPLEMENTATIONS: Mapping[str, NetworkImplementation] = MappingProxyType(_BY_NAME)
"""The textbook network's implementations by name: PyTorch's own first, then CUDA Graphs and the package's kernels.

Each (`NetworkImplementation`) has its label, its devices, and the conditions under which it runs.
"""
