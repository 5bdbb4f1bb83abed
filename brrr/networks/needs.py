"""What a way needs of the network and of the machine; each answer is a reason, or None."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec

from brrr.errors import UnavailableError
from brrr.networks.network import Network


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
        kernel = import_module("brrr.kernels.megakernel")
    except ImportError as error:
        return f"this version of the package has no megakernel ({error})"
    if network.tf32:
        return "float32 only, and this is TF32"
    reason: str | None = kernel.supports(network.layers, network.batch, network.hidden, network.dtype)
    return reason.removeprefix("megakernel: ") if reason else None


def strassen_gains(network: Network) -> str | None:
    """By prediction: Strassen's levels pay for large products only."""
    from brrr.networks.strassen_plans import gains

    return gains("strassen", network)


def accurate_gains(network: Network) -> str | None:
    """By prediction, as for levels."""
    from brrr.networks.strassen_plans import gains

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
    from brrr.kernels.pycuda_context import pycuda_driver

    try:
        pycuda_driver(device_index)
    except UnavailableError as error:
        return str(error)
    return None


@lru_cache(maxsize=1)
def _blas() -> str | None:
    from brrr.kernels.cublas import bindings

    try:
        bindings()
    except UnavailableError as error:
        return str(error)
    return None
