"""The ladder: every way of running the network, from the module that everybody writes to one kernel for all layers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from brrr.networks.way import (
    Way,
    accurate_gains,
    blas_here,
    megakernel_here,
    narrow_enough,
    no_half,
    pycuda_here,
    strassen_gains,
    triton_here,
    true_float32,
    two_rows,
)

_TORCH, _LAUNCHED = "brrr.networks.torch_ways", "brrr.networks.launched_ways"
_BOTH, _GPU = ("cuda", "cpu"), ("cuda",)
_STRASSEN = "brrr.networks.launched_ways"
_PYCUDA = (no_half, narrow_enough, pycuda_here, blas_here)
_ACCURATE = (true_float32, accurate_gains)

_LADDER = (
    Way("module", "nn.Sequential", _BOTH, f"{_TORCH}:module"),
    Way("functional", "functional calls", _BOTH, f"{_TORCH}:functional"),
    Way("inference", "inference_mode", _BOTH, f"{_TORCH}:inference"),
    Way("script", "TorchScript", _BOTH, f"{_TORCH}:script"),
    Way("compile", "torch.compile", _BOTH, f"{_TORCH}:compiled", slow_to_build=True),
    Way("max-autotune", "torch.compile, max-autotune", _GPU, f"{_TORCH}:max_autotune", (triton_here,), True),
    Way("graph", "CUDA Graph", _GPU, f"{_TORCH}:graph"),
    Way("pycuda", "PyCUDA: cuBLAS, bias, ReLU", _GPU, f"{_LAUNCHED}:pycuda", _PYCUDA),
    Way("pycuda-fused", "PyCUDA: cuBLAS, bias + ReLU", _GPU, f"{_LAUNCHED}:pycuda_fused", _PYCUDA),
    Way("pycuda-graph", "PyCUDA fused, CUDA Graph", _GPU, f"{_LAUNCHED}:pycuda_graph", _PYCUDA),
    Way("epilogue", "cuBLASLt epilogue", _GPU, f"{_TORCH}:epilogue", (two_rows,)),
    Way("epilogue-graph", "cuBLASLt epilogue, CUDA Graph", _GPU, f"{_TORCH}:epilogue_graph", (two_rows,)),
    Way("triton", "Triton, a kernel a layer", _GPU, f"{_LAUNCHED}:triton", (triton_here,)),
    Way("triton-graph", "Triton, CUDA Graph", _GPU, f"{_LAUNCHED}:triton_graph", (triton_here,)),
    Way("megakernel", "megakernel", _GPU, f"{_LAUNCHED}:megakernel", (megakernel_here,)),
    Way("megakernel-graph", "megakernel, CUDA Graph", _GPU, f"{_LAUNCHED}:megakernel_graph", (megakernel_here,)),
    Way("strassen", "Strassen's products", _GPU, f"{_STRASSEN}:strassen", (strassen_gains,)),
    Way("strassen-graph", "Strassen's products, CUDA Graph", _GPU, f"{_STRASSEN}:strassen_graph", (strassen_gains,)),
    Way("strassen-accurate", "split products", _GPU, f"{_STRASSEN}:accurate", _ACCURATE),
    Way("strassen-accurate-graph", "split products, CUDA Graph", _GPU, f"{_STRASSEN}:accurate_graph", _ACCURATE),
)

WAYS: Mapping[str, Way] = MappingProxyType({way.name: way for way in _LADDER})
"""By name, in the order of the ladder."""

TORCH_WAYS = ("module", "functional", "inference", "script", "compile", "max-autotune", "graph")
"""Those that need nothing but torch."""
