"""Launching kernels on torch's streams: by cuda-bindings, by PyCUDA, what fits at once, and the fastest of several.

>>> launch = PreparedLaunch(function, (8, 1, 1), (128, 1, 1), [ctypes.c_void_p(0)], cluster=8)    # doctest: +SKIP
>>> launch.values[0].value = x.data_ptr()                                                        # doctest: +SKIP
>>> launch(stream)                                                                               # doctest: +SKIP
"""

import atexit
import ctypes
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from brrr.core.errors import UnavailableError
from brrr.core.heavy import driver, torch
from brrr.gpu.nvrtc import F32, I32, I64, PTR, check, machine_code, make_current

T = TypeVar("T")
Dim = tuple[int, int, int]
CTYPES: dict[str, Any] = {"P": PTR, "i": I32, "q": I64, "f": F32}


def fields(**named: str) -> list[tuple[str, Any]]:
    """A ctypes structure's fields, by the letters of Python's `struct`.

    >>> [name for name, _ in fields(P="x y", i="rows")]
    ['x', 'y', 'rows']
    """
    return [(name, CTYPES[letter]) for letter, names in named.items() for name in names.split()]


def typed(letters: str, values: Iterable[float]) -> list[Any]:
    """A kernel's arguments as ctypes objects, of types in the letters of Python's `struct`."""
    return [CTYPES[letter](value) for letter, value in zip(letters, values, strict=True)]


class PreparedLaunch:
    """One kernel launch, ready but for the stream; `values` are its arguments as ctypes objects, which may be changed.

    The driver copies the arguments at each launch. Two threads must not change and launch one object at once.
    cluster: blocks of a thread-block cluster; cooperative: all blocks run at once, or the driver refuses; overlap: the
    launch may begin before the one in front of it has ended (the kernel itself waits for it where it must).
    """

    def __init__(
        self, function: Any, grid: Dim, block: Dim, values: Sequence[Any], shared_bytes: int = 0, cluster: int = 0,
        cooperative: bool = False, overlap: bool = False,
    ) -> None:  # fmt: skip
        self.values = tuple(values)
        self._pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._address = ctypes.addressof(self._pointers)
        self._function, self._launch = function, driver.cuLaunchKernelEx
        self.config, self._stream = launch_config(grid, block, shared_bytes, cluster, cooperative, overlap), 0

    def __call__(self, stream: int) -> None:
        """Launch on a stream, given as its handle. UnavailableError where the driver refuses."""
        if stream != self._stream:
            self.config.hStream = self._stream = stream
        (status,) = self._launch(self.config, self._function, self._address, 0)
        if int(status):
            check((status,), "the launch")


def launch_config(
    grid: Dim, block: Dim, shared_bytes: int = 0, cluster: int = 0, cooperative: bool = False, overlap: bool = False
) -> Any:
    """cuda-bindings' description of a launch on the default stream, with the attributes that are not the default."""
    config, kinds, made = driver.CUlaunchConfig(), driver.CUlaunchAttributeID, list[Any]()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = shared_bytes, 0

    def attribute(kind: Any) -> Any:
        made.append(driver.CUlaunchAttribute())
        made[-1].id = kind
        return made[-1].value

    if cluster:
        dimension = attribute(kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
        dimension.x, dimension.y, dimension.z = cluster, 1, 1
    if cooperative:
        attribute(kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
    if overlap:
        value = attribute(kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        value.programmaticStreamSerializationAllowed = 1
    config.attrs, config.numAttrs = made, len(made)
    return config


def allow_shared(function: Any, shared_bytes: int) -> None:
    """More shared memory for a kernel than the 48 KB that need no permission."""
    _allow(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared_bytes, f"{shared_bytes} bytes of shared memory")


def allow_clusters_of_16(function: Any) -> None:
    """Clusters of more than 8 blocks, which not every GPU can run."""
    _allow(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1, "clusters of more than 8 blocks")


def _allow(function: Any, attribute: str, value: int, what: str) -> None:
    kind = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
    check(driver.cuFuncSetAttribute(function, kind, value), what)


def active_clusters(function: Any, cluster: int, threads: int, shared_bytes: int) -> int:
    """How many clusters of a kernel run on the GPU at once; 0 where none does."""
    config = launch_config((cluster, 1, 1), (threads, 1, 1), shared_bytes, cluster)
    status, count = driver.cuOccupancyMaxActiveClusters(function, config)
    return int(count) if int(status) == 0 else 0


def active_blocks(function: Any, threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel run on one multiprocessor at once."""
    occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    return int(check(occupancy(function, threads, shared_bytes), "its occupancy"))


def raw_stream(device_index: int) -> int:
    """The handle of torch's current stream on a GPU."""
    # What torch's own compiled code calls; the public way makes a Stream object, which costs ten times as much.
    return torch._C._cuda_getCurrentRawStream(device_index)


def on_current_stream(launch: Callable[[int], None], device_index: int, *kept: object) -> Callable[[], None]:
    """A launch as a function of no arguments, on torch's current stream at each call; it keeps the tensors given."""
    return partial(_on_current_stream, launch, device_index, kept)


def _on_current_stream(launch: Callable[[int], None], device_index: int, _kept: object) -> None:
    launch(raw_stream(device_index))


def fastest(
    candidates: Iterable[T], seconds: Callable[[T, float], float], gain: float = 1.0,
    refusals: tuple[type[Exception], ...] = (),
) -> T | None:  # fmt: skip
    """The candidate that takes the least time, each tried once; None where all are refused.

    >>> fastest([3.0, 2.0, 1.0], lambda each, least: each), fastest([3.0, 2.9], lambda each, least: each, gain=0.9)
    (1.0, 3.0)

    seconds: a candidate's time; it is told the least so far. gain: the first is left only for one that takes less than
    so much of its time. refusals: the errors that say that a candidate does not run here.
    """
    best, least = None, math.inf
    for each in candidates:
        try:
            taken = seconds(each, least)
        except refusals:
            continue
        if taken < least:
            least = taken * (gain if best is None else 1.0)
            best = each
    return best


# ---------------------------------------------------------------------------------------------------------------------
# PyCUDA on torch's own context: what every kernel that it launches needs.

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
    make_current(device_index)
    stream = pycuda_driver(device_index).Stream(NON_BLOCKING)
    _forget_at_exit(shared_stream)
    return SharedStream(stream, torch.cuda.ExternalStream(stream.handle, device=f"cuda:{device_index}"))


def pycuda_stream(device_index: int) -> Any:
    """torch's current stream for PyCUDA: None for the default one, else the shared one; UnavailableError for others."""
    current = torch.cuda.current_stream(device_index).cuda_stream
    if not current:
        return None
    if shared_stream.cache_info().currsize and current == shared_stream(device_index).pycuda.handle:
        return shared_stream(device_index).pycuda
    raise UnavailableError(
        "PyCUDA launches on torch's default stream and on brrr.gpu.launching.shared_stream(...), and another "
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
    from pycuda._pvt_struct import pack

    launch, buffer = function._launch_kernel, pack(function.arg_format, *arguments)
    return lambda: launch(grid, block, buffer, 0, stream)


def _forget_at_exit(cached: Any) -> None:
    """Empty a cache before PyCUDA lets go of the context: last registered, first called."""
    atexit.unregister(cached.cache_clear)
    atexit.register(cached.cache_clear)
