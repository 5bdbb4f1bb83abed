"""PyCUDA on torch's own context: what every kernel that it launches needs."""

from __future__ import annotations

from typing import Any

from brrr.errors import UnavailableError


def pycuda_driver(device_index: int) -> Any:
    """PyCUDA's driver module on the primary context of a GPU, the one that torch uses.

    UnavailableError where PyCUDA is missing, finds no GPU, or uses another one.
    """
    try:
        import pycuda.autoprimaryctx as primary
        import pycuda.driver as driver
    except ImportError as error:
        raise UnavailableError(
            f"PyCUDA is not here ({error}); only its line is missing. `pip install pycuda` adds it"
        ) from None
    except Exception as error:  # pycuda raises its own errors where the driver refuses
        reason = f"{type(error).__name__}: {error}"
        raise UnavailableError(f"PyCUDA found no GPU ({reason}); only its line is missing") from None
    if primary.device.pci_bus_id() != driver.Device(device_index).pci_bus_id():
        raise UnavailableError(f"PyCUDA uses another GPU than cuda:{device_index}; set CUDA_DEVICE={device_index}")
    return driver


def require_default_stream() -> None:
    """UnavailableError where torch's current stream is not its default one: PyCUDA takes no other library's streams."""
    import torch

    if torch.cuda.current_stream().cuda_stream:
        raise UnavailableError(
            "PyCUDA launches on torch's default stream only, and another one is current; leave its `with` block"
        )
