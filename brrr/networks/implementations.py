"""The implementations of the network by name, and which device runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from brrr.core.errors import ArgumentError, UnavailableError, extras
from brrr.core.heavy import torch
from brrr.gpu import CUDA, is_cpu, is_cuda, is_gpu, kind_of
from brrr.networks.network import Network, Weights
from brrr.networks.prepared import Prepared, captured


@dataclass(frozen=True)
class NetworkImplementation:
    """An implementation of the network: its name, a label for figures, and where it runs.

    `maker` is the function that gives its call for some weights, as "module:function", loaded when it is first used;
    with `graph` the call is captured as a CUDA Graph.
    """

    name: str
    label: str
    devices: tuple[str, ...]
    maker: str = field(repr=False)
    graph: bool = False
    slow_to_build: bool = False

    def why_not(self, network: Network, device: str | torch.device = CUDA) -> str | None:
        """Why a device, such as "mps" or "cpu", cannot run it so; None where it can, unless `build` finds more."""
        kind = kind_of(device)
        if not is_cpu(kind) and not is_gpu(kind):
            raise ArgumentError("why_not", "device", str(device), "an accelerator's kind, or 'cpu'")
        alike = kind if is_cuda(kind) else "cpu"  # whose ways are of torch alone, and run on any accelerator
        if alike not in self.devices:
            return f"{self.name}: runs on {' and '.join(_SPELLED[each] for each in self.devices)} only"
        if network.tf32 and is_cpu(kind):
            return f"{self.name}: TF32 is a format of GPUs"
        if is_cuda(kind):
            from brrr.gpu.device import cuda_problem

            if problem := cuda_problem():
                return f"{self.name}: it needs an NVIDIA GPU, and {problem}"
        return None

    def build(self, network: Network, weights: Weights) -> Prepared:
        """The network with these weights, ready to run; this may compile, tune and capture.

        ArgumentError for weights of another network, on another GPU than torch's current one, or that its kernels do
        not take; UnavailableError, with the reason, where `why_not` has one, where a library is missing or refuses, and
        where nothing is gained by it.
        """
        if weights.network != network:
            raise ArgumentError(f"{self.name}.build", "weights", f"those of {weights.network}", f"those of {network}")
        if reason := self.why_not(network, weights.device):
            raise UnavailableError(reason)
        _require_current(self.name, weights.device)
        module, _, function = self.maker.partition(":")
        with extras(self.name):
            make = getattr(import_module(module), function)
            if not self.graph:
                return Prepared(make(weights))
            return captured(make, weights)


def _require_current(name: str, device: torch.device) -> None:
    """Streams, handles and kernels here are those of torch's current GPU."""
    if not is_cuda(device):
        return
    if device.index != torch.cuda.current_device():
        current = f"cuda:{torch.cuda.current_device()}, the current GPU"
        raise ArgumentError(f"{name}.build", "weights", str(device), current, "Use torch.cuda.device(...)")


_SPELLED = {CUDA: "an NVIDIA GPU", "cpu": "a CPU"}


# ---------------------------------------------------------------------------------------------------------------------
# The ladder: every way of running the network, from the module that everybody writes to one kernel for all layers.

_TORCH, _LAUNCHED = "brrr.networks.torch_implementations", "brrr.networks.launched_implementations"
_BOTH, _GPU = (CUDA, "cpu"), (CUDA,)

_LADDER: tuple[tuple[Any, ...], ...] = (
    ("module", "nn.Sequential", _BOTH, f"{_TORCH}:module"),
    ("functional", "functional calls", _BOTH, f"{_TORCH}:functional"),
    ("inference", "inference_mode", _BOTH, f"{_TORCH}:inference"),
    ("script", "TorchScript", _BOTH, f"{_TORCH}:script"),
    ("compile", "torch.compile", _BOTH, f"{_TORCH}:compiled", False, True),
    ("max-autotune", "torch.compile, max-autotune", _GPU, f"{_TORCH}:max_autotune", False, True),
    ("reduce-overhead", "torch.compile, reduce-overhead", _GPU, f"{_TORCH}:reduce_overhead", False, True),
    ("graph", "CUDA Graph", _GPU, f"{_TORCH}:inference", True),
    ("pycuda", "PyCUDA: cuBLAS, bias, ReLU", _GPU, f"{_LAUNCHED}:pycuda"),
    ("pycuda-fused", "PyCUDA: cuBLAS, bias + ReLU", _GPU, f"{_LAUNCHED}:pycuda_fused"),
    ("pycuda-graph", "PyCUDA fused, CUDA Graph", _GPU, f"{_LAUNCHED}:pycuda_fused", True),
    ("epilogue", "cuBLASLt epilogue", _GPU, f"{_TORCH}:epilogue"),
    ("epilogue-graph", "cuBLASLt epilogue, CUDA Graph", _GPU, f"{_TORCH}:epilogue", True),
    ("triton", "Triton, a kernel a layer", _GPU, f"{_LAUNCHED}:triton"),
    ("triton-graph", "Triton, CUDA Graph", _GPU, f"{_LAUNCHED}:triton", True),
    ("megakernel", "megakernel", _GPU, f"{_LAUNCHED}:megakernel"),
    ("megakernel-graph", "megakernel, CUDA Graph", _GPU, f"{_LAUNCHED}:megakernel", True),
    ("strassen-graph", "Strassen's products, CUDA Graph", _GPU, f"{_LAUNCHED}:strassen", True),
    ("strassen-accurate-graph", "split products, CUDA Graph", _GPU, f"{_LAUNCHED}:accurate", True),
)

IMPLEMENTATIONS = MappingProxyType({row[0]: NetworkImplementation(*row) for row in _LADDER})
"""The textbook network's implementations by name: PyTorch's own first, then CUDA Graphs and the package's kernels.

Each (`NetworkImplementation`) has its label, its devices, and what builds it.
"""
