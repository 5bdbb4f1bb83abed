"""What the megakernel asks of a GPU and its driver: how much fits, and the compiled kernels.

>>> gpu_of(0).active_clusters[16]    # doctest: +SKIP
7
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.gpu import prepared
from brrr.gpu.nvrtc import check
from brrr.gpu.nvrtc import function as function_of
from brrr.kernels.megakernel.plan import CLUSTERS, Gpu, Plan

CLUSTER_SOURCE, CLUSTER_KERNEL = "kernels/megakernel/megakernel.cu", "brrr_mega_cluster"
GRID_SOURCE, GRID_KERNEL, GRID_THREADS = "kernels/megakernel/megakernel_grid.cu", "brrr_mega_grid", 256
NO_CLUSTERS = Gpu(0, {})


@lru_cache(maxsize=16)
def gpu_of(device_index: int) -> Gpu:
    """What a plan depends on, asked of the driver: with one block a multiprocessor, and with two."""
    import torch
    from cuda.bindings import driver

    if torch.cuda.get_device_capability(device_index) < (9, 0):
        return NO_CLUSTERS
    function = function_of(CLUSTER_SOURCE, CLUSTER_KERNEL, device_index)
    opt_in = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    shared = int(check(driver.cuDeviceGetAttribute(opt_in, driver.CUdevice(device_index)), "its shared memory"))
    prepared.allow_shared(function, shared)
    prepared.allow_clusters_of_16(function)
    with_all = Gpu(shared, {})
    one, two = (active(function, with_all.shared_of(blocks)) for blocks in (1, 2))
    return Gpu(shared, one, two)


def active(function: Any, shared: int) -> dict[int, int]:
    """Clusters of each size that run at once, with blocks of so much shared memory."""
    counts = {size: prepared.active_clusters(function, size, 128, shared) for size in CLUSTERS}
    return {size: count for size, count in counts.items() if count}


def cluster_function(made: Plan, device_index: int) -> Any:
    """The kernel compiled for a plan; UnavailableError where not even one cluster of it fits on the GPU."""
    function = function_of(CLUSTER_SOURCE, CLUSTER_KERNEL, device_index, made.defines())
    prepared.allow_shared(function, made.shared_bytes)
    if made.wide:  # the launch is cooperative: the driver refuses one that does not fit
        return function
    if made.cluster > 8:
        prepared.allow_clusters_of_16(function)
    if not prepared.active_clusters(function, made.cluster, made.threads, made.shared_bytes):
        need = f"{made.cluster} blocks of {made.shared_bytes} bytes of shared memory"
        raise UnavailableError(f"Megakernel: no cluster of {need} fits on cuda:{device_index}; choose a smaller plan")
    return function


def grid_blocks(function: Any, device_index: int) -> int:
    """As many blocks as run at once, all that a barrier of the grid allows; UnavailableError where it allows none."""
    import torch

    properties = torch.cuda.get_device_properties(device_index)
    count = prepared.active_blocks(function, GRID_THREADS, 0) * int(properties.multi_processor_count)
    if not count:
        raise UnavailableError(f"Megakernel: no block of {GRID_THREADS} threads fits on cuda:{device_index}")
    return count


def current_device() -> int:
    import torch

    if not torch.cuda.is_available():
        raise UnavailableError("megakernel: no GPU is here; a recorded measurement is shown instead")
    return int(torch.cuda.current_device())
