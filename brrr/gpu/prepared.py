"""A kernel whose arguments and launch attributes are described once, so that a call costs little on the host.

>>> launch = PreparedLaunch(function, (8, 1, 1), (128, 1, 1), [ctypes.c_void_p(0)], cluster=8)    # doctest: +SKIP
>>> launch.values[0].value = x.data_ptr()                                                        # doctest: +SKIP
>>> launch(stream)                                                                               # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from brrr.gpu.nvrtc import F32, I32, I64, PTR, check

T = TypeVar("T")
Dim = tuple[int, int, int]


CTYPES: dict[str, Any] = {"P": PTR, "i": I32, "q": I64, "f": F32}


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
        self,
        function: Any,
        grid: Dim,
        block: Dim,
        values: Sequence[Any],
        shared_bytes: int = 0,
        cluster: int = 0,
        cooperative: bool = False,
        overlap: bool = False,
    ) -> None:
        from cuda.bindings import driver

        self.values = tuple(values)
        self._pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._address = ctypes.addressof(self._pointers)
        self._function, self._launch = function, driver.cuLaunchKernelEx
        self.config, self._stream = launch_config(grid, block, shared_bytes), 0
        attributes = launch_attributes(cluster, cooperative, overlap)
        self.config.attrs, self.config.numAttrs = attributes, len(attributes)

    def __call__(self, stream: int) -> None:
        """Launch on a stream, given as its handle. UnavailableError where the driver refuses."""
        if stream != self._stream:
            self.config.hStream = self._stream = stream
        (status,) = self._launch(self.config, self._function, self._address, 0)
        if int(status):
            check((status,), "the launch")


def launch_config(grid: Dim, block: Dim, shared_bytes: int = 0) -> Any:
    """cuda-bindings' description of a launch on the default stream."""
    from cuda.bindings import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = shared_bytes, 0
    return config


def launch_attributes(cluster: int, cooperative: bool, overlap: bool) -> list[Any]:
    """The attributes of a launch that are not the default."""
    from cuda.bindings import driver

    made, kinds = [], driver.CUlaunchAttributeID
    if cluster:
        made.append(driver.CUlaunchAttribute())
        made[-1].id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimension = made[-1].value.clusterDim
        dimension.x, dimension.y, dimension.z = cluster, 1, 1
    if cooperative:
        made.append(driver.CUlaunchAttribute())
        made[-1].id = kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        made[-1].value.cooperative = 1
    if overlap:
        made.append(driver.CUlaunchAttribute())
        made[-1].id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        made[-1].value.programmaticStreamSerializationAllowed = 1
    return made


def allow_shared(function: Any, shared_bytes: int) -> None:
    """More shared memory for a kernel than the 48 KB that need no permission."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(driver.cuFuncSetAttribute(function, attribute, shared_bytes), f"{shared_bytes} bytes of shared memory")


def allow_clusters_of_16(function: Any) -> None:
    """Clusters of more than 8 blocks, which not every GPU can run."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    check(driver.cuFuncSetAttribute(function, attribute, 1), "clusters of more than 8 blocks")


def active_clusters(function: Any, cluster: int, threads: int, shared_bytes: int) -> int:
    """How many clusters of a kernel run on the GPU at once; 0 where none does."""
    from cuda.bindings import driver

    config = launch_config((cluster, 1, 1), (threads, 1, 1), shared_bytes)
    attributes = launch_attributes(cluster, cooperative=False, overlap=False)
    config.attrs, config.numAttrs = attributes, len(attributes)
    status, count = driver.cuOccupancyMaxActiveClusters(function, config)
    return int(count) if int(status) == 0 else 0


def active_blocks(function: Any, threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel run on one multiprocessor at once."""
    from cuda.bindings import driver

    occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    return int(check(occupancy(function, threads, shared_bytes), "its occupancy"))


@lru_cache(maxsize=1)
def _raw_stream() -> Callable[[int], int]:
    import torch

    # What torch's own compiled code calls; the public way makes a Stream object, which costs ten times as much.
    fast: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return fast or (lambda index: int(torch.cuda.current_stream(index).cuda_stream))


def raw_stream(device_index: int) -> int:
    """The handle of torch's current stream on a GPU."""
    return _raw_stream()(device_index)


def on_current_stream(launch: Callable[[int], None], device_index: int, *kept: object) -> Callable[[], None]:
    """A launch as a function of no arguments, on torch's current stream at each call; it keeps the tensors given."""
    return partial(_on_current_stream, launch, device_index, kept)


def _on_current_stream(launch: Callable[[int], None], device_index: int, _kept: object) -> None:
    launch(raw_stream(device_index))


def fastest(
    candidates: Iterable[T],
    seconds: Callable[[T, float], float],
    gain: float = 1.0,
    refusals: tuple[type[Exception], ...] = (),
) -> T | None:
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
