"""PyCUDA on torch's own context: what every kernel that it launches needs."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from brrr.core.errors import UnavailableError
from brrr.gpu.nvrtc import machine_code, make_current

NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING, as torch's own streams: it never waits for the default stream by itself."""


def pycuda_driver(device_index: int) -> Any:
    """PyCUDA's driver module on the primary context of a GPU, the one that torch uses.

    UnavailableError where PyCUDA is missing, finds no GPU, or uses another one; and in another thread than the main
    one, such as those in which torch runs backward: PyCUDA knows its context in the thread alone that made it.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UnavailableError(f"PyCUDA works in the main thread only, and this is {threading.current_thread().name!r}")
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


class SharedStream(NamedTuple):
    """One stream as PyCUDA's object and as torch's."""

    pycuda: Any
    torch: Any


@lru_cache(maxsize=16)
def shared_stream(device_index: int) -> SharedStream:
    """A stream on which both libraries work: PyCUDA takes no other library's streams, but torch does.

    >>> with torch.cuda.stream(shared_stream(0).torch):    # doctest: +SKIP
    ...     bias_relu(y, b)

    One for each GPU, kept; a CUDA Graph of PyCUDA's launches is captured on it. UnavailableError without PyCUDA.
    """
    import torch

    make_current(device_index)
    stream = pycuda_driver(device_index).Stream(NON_BLOCKING)
    _forget_at_exit(shared_stream)
    return SharedStream(stream, torch.cuda.ExternalStream(stream.handle, device=f"cuda:{device_index}"))


def pycuda_stream(device_index: int) -> Any:
    """torch's current stream for PyCUDA: None for the default one, else the shared one; UnavailableError for others."""
    import torch

    current = torch.cuda.current_stream(device_index).cuda_stream
    if not current:
        return None
    if shared_stream.cache_info().currsize and current == shared_stream(device_index).pycuda.handle:
        return shared_stream(device_index).pycuda
    raise UnavailableError(
        "PyCUDA launches on torch's default stream and on brrr.gpu.pycuda_context.shared_stream(...), and another "
        "one is current; leave its `with` block"
    )


@lru_cache(maxsize=64)
def pycuda_function(source_name: str, name: str, arguments: str, device_index: int, head: str = "") -> Any:
    """A kernel of a `.cu` file of this package as PyCUDA's prepared function.

    `arguments` are their types in the letters of Python's `struct`, such as "PPq"; head: as of `nvrtc.function`. It
    lives in torch's own context: `pycuda.autoprimaryctx` takes the primary one, and gives it back at exit, before which
    the functions must be gone. (`pycuda.autoinit` would make a second context and fight with torch's.)
    UnavailableError without PyCUDA.
    """
    code = machine_code(source_name, make_current(device_index), head=head)
    function = pycuda_driver(device_index).module_from_buffer(code).get_function(name)
    function.prepare(arguments)
    _forget_at_exit(pycuda_function)
    return function


def packed_launch(
    function: Any, grid: tuple[int, int], block: tuple[int, int, int], arguments: tuple[int, ...], stream: Any
) -> Callable[[], None]:
    """A launch of a prepared function with everything packed beforehand; `stream` is PyCUDA's, or None.

    A prepared call packs its arguments each time, which costs the host about as much as the launch itself. Where PyCUDA
    has no such entry as this uses, the prepared call is taken.
    """
    launch = getattr(function, "_launch_kernel", None)
    if launch is None:
        return lambda: function.prepared_async_call(grid, block, stream, *arguments)
    from pycuda._pvt_struct import pack

    buffer = pack(function.arg_format, *arguments)
    return lambda: launch(grid, block, buffer, 0, stream)


def _forget_at_exit(cached: Any) -> None:
    """Empty a cache before PyCUDA lets go of the context: last registered, first called."""
    atexit.unregister(cached.cache_clear)
    atexit.register(cached.cache_clear)
