"""The implementations of the network by name, and which device runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType

from brrr.core.errors import ArgumentError, UnavailableError, extras
from brrr.core.heavy import torch
from brrr.gpu import CUDA, is_cpu, is_cuda, is_gpu, kind_of
from brrr.networks.network import Network, Weights
from brrr.networks.prepared import Prepared, captured


@dataclass(frozen=True)
class NetworkImplementation:
    """An implementation of the network: its name, and where it runs.

    `maker` is the function that gives its call for some weights, as "module:function", loaded when it is first used;
    with `graph` the call is captured as a CUDA Graph.
    """

    name: str
    maker: str = field(repr=False)
    devices: tuple[str, ...] = (CUDA,)
    graph: bool = False
    slow_to_build: bool = False

    def why_not(self, network: Network, device: str | torch.device = CUDA) -> str | None:
        """Why a device, such as "mps" or "cpu", cannot run it so; None where it can, unless `build` finds more."""
        kind = kind_of(device)
        if not is_cpu(kind) and not is_gpu(kind):
            raise ArgumentError("why_not", "device", str(device), "an accelerator's kind, or 'cpu'")
        alike = kind if is_cuda(kind) else "cpu"  # whose ways are of torch alone, and run on any accelerator
        if alike not in self.devices:
            return f"{self.name}: runs on an NVIDIA GPU only"
        if network.tf32 and is_cpu(kind):
            return f"{self.name}: TF32 is a format of GPUs"
        if is_cuda(kind):
            from brrr.gpu.device import cuda_problem

            if problem := cuda_problem():
                return f"{self.name}: it needs an NVIDIA GPU, and {problem}"
        return None

    def build(self, weights: Weights) -> Prepared:
        """The network with these weights, ready to run; this may compile, tune and capture.

        ArgumentError for weights on another GPU than torch's current one, or that its kernels do not take;
        UnavailableError, with the reason, where `why_not` has one, where a library is missing or refuses, and where
        nothing is gained by it.
        """
        device = weights.device
        if reason := self.why_not(weights.network, device):
            raise UnavailableError(reason)
        if is_cuda(device) and device.index != torch.cuda.current_device():  # whose streams and handles are used
            current = f"cuda:{torch.cuda.current_device()}, the current GPU"
            raise ArgumentError(f"{self.name}.build", "weights", str(device), current, "Use torch.cuda.device(...)")
        module, _, function = self.maker.partition(":")
        with extras(self.name):
            make = getattr(import_module(module), function)
            return captured(make, weights) if self.graph else Prepared(make(weights))


# ---------------------------------------------------------------------------------------------------------------------
# The ladder: every way of running the network, from the module that everybody writes to one kernel for all layers.

_TORCH, _LAUNCHED = "brrr.networks.torch_implementations", "brrr.networks.launched_implementations"
_BOTH = (CUDA, "cpu")

_LADDER = (
    NetworkImplementation("module", f"{_TORCH}:module", _BOTH),
    NetworkImplementation("functional", f"{_TORCH}:functional", _BOTH),
    NetworkImplementation("inference", f"{_TORCH}:inference", _BOTH),
    NetworkImplementation("script", f"{_TORCH}:script", _BOTH),
    NetworkImplementation("compile", f"{_TORCH}:compiled", _BOTH, slow_to_build=True),
    NetworkImplementation("max-autotune", f"{_TORCH}:max_autotune", slow_to_build=True),
    NetworkImplementation("reduce-overhead", f"{_TORCH}:reduce_overhead", slow_to_build=True),
    NetworkImplementation("graph", f"{_TORCH}:inference", graph=True),
    NetworkImplementation("pycuda", f"{_LAUNCHED}:pycuda"),
    NetworkImplementation("pycuda-fused", f"{_LAUNCHED}:pycuda_fused"),
    NetworkImplementation("pycuda-graph", f"{_LAUNCHED}:pycuda_fused", graph=True),
    NetworkImplementation("epilogue", f"{_TORCH}:epilogue"),
    NetworkImplementation("epilogue-graph", f"{_TORCH}:epilogue", graph=True),
    NetworkImplementation("triton", f"{_LAUNCHED}:triton"),
    NetworkImplementation("triton-graph", f"{_LAUNCHED}:triton", graph=True),
    NetworkImplementation("megakernel", f"{_LAUNCHED}:megakernel"),
    NetworkImplementation("megakernel-graph", f"{_LAUNCHED}:megakernel", graph=True),
    NetworkImplementation("strassen-graph", f"{_LAUNCHED}:strassen", graph=True),
    NetworkImplementation("strassen-accurate-graph", f"{_LAUNCHED}:accurate", graph=True),
)
IMPLEMENTATIONS = MappingProxyType({each.name: each for each in _LADDER})
"""The textbook network's implementations by name: PyTorch's own first, then CUDA Graphs and the package's kernels.

Each (`NetworkImplementation`) has its devices, and what builds it.
"""
