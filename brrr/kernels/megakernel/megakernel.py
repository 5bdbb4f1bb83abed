"""The textbook network, layers x (Linear + ReLU), in a single launch: a persistent kernel, float32 throughout.

>>> network = Megakernel(weights, biases, batch=16)    # doctest: +SKIP
>>> y = network(x)                                     # doctest: +SKIP

On GPUs with thread-block clusters (sm_90 on), `megakernel.cu`: activations stay in shared memory, weights are fetched
ahead, and each cluster (for wide networks, all blocks of the GPU) takes rows through all layers. On others, and for
networks too wide for that, `megakernel_grid.cu`: a cooperative launch with a barrier of the grid between layers.
`supports` says beforehand which of the two it will be, and why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError
from brrr.gpu.launching import PreparedLaunch, raw_stream
from brrr.gpu.nvrtc import function as function_of
from brrr.kernels.megakernel.device import (
    GRID_KERNEL,
    GRID_SOURCE,
    GRID_THREADS,
    NO_CLUSTERS,
    cluster_function,
    current_device,
    gpu_of,
    grid_blocks,
    plan,
)
from brrr.kernels.megakernel.plan import Gpu, MegakernelPlan, NetworkShape

if TYPE_CHECKING:
    import torch

MOST_BLOCKS = 2**31 - 1
WORD = 16
"""The kernels read and write words of so many bytes."""


class Megakernel:
    """A network of `len(weights)` layers on `batch` rows, ready to be launched.

    weights: of shape (hidden, hidden), as in `torch.nn.Linear`: y = relu(x @ weight.T + bias); biases: of shape
    (hidden,). All float32 on one GPU. They are copied into an order that suits the kernel, once: after a change, `load`
    them again. `plan` is how the work is shared out (see `megakernel_plan`); None means the cooperative kernel, as does
    `clusters=False`. Results are float32 sums of float32 products, never TF32.

    One call of an object is under way at a time: calls on one stream, or on streams that wait for each other. No call
    allocates anything but its result, and all can be captured into a CUDA Graph.

    ArgumentError for what cannot be computed; UnavailableError without a GPU or its compiler, or where the launch
    would not fit on the GPU.
    """

    def __init__(
        self,
        weights: Sequence[torch.Tensor],
        biases: Sequence[torch.Tensor],
        batch: int,
        plan: MegakernelPlan | None = None,
        clusters: bool = True,
    ) -> None:
        self.network = checked_network(weights, biases, batch)
        self.device = weights[0].device
        if self.device.index != current_device():
            raise ArgumentError("Megakernel", "weights", str(self.device), "the current GPU", "See torch.cuda.device")
        gpu = gpu_of(self.device.index) if clusters else NO_CLUSTERS
        self.plan = plan if plan is not None else chosen(self.network, gpu)
        self._kept: tuple[torch.Tensor, ...] = ()
        self._packed: tuple[torch.Tensor, ...] = ()
        self._launch = self._cluster_launch() if self.plan is not None else self._grid_launch()
        self._x, self._weights, self._biases, self._y = self._launch.values[:4]
        self.load(weights, biases)

    def load(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor]) -> None:
        """Take new weights and biases of the same shapes; calls and graphs from now on use them, on any stream.

        No call may be under way on another stream.
        """
        import torch

        if checked_network(weights, biases, self.network.batch) != self.network or weights[0].device != self.device:
            raise ArgumentError("Megakernel.load", "weights", len(weights), f"those of {self.network} on {self.device}")
        new = packed(weights, biases, self.plan)
        if not self._packed:
            self._packed = new
            self._weights.value, self._biases.value = (each.data_ptr() for each in new)
        else:  # in place: graphs and prepared calls hold the addresses
            for kept, value in zip(self._packed, new, strict=True):
                kept.copy_(value)
        torch.cuda.current_stream(self.device).synchronize()

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The network's result for `x`, of shape (batch, hidden), into `out` or a new tensor; it does not wait for it.

        Both are contiguous float32 tensors on the network's GPU, at addresses that 16 divides, and do not overlap;
        ArgumentError for any others.
        """
        import torch

        self._check("x", x)
        if out is None:
            out = torch.empty_like(x)
        else:
            self._check("out", out)
            if out.data_ptr() == x.data_ptr():
                raise ArgumentError("Megakernel", "out", "x itself", "another tensor")
        self._x.value, self._y.value = x.data_ptr(), out.data_ptr()
        self._launch(raw_stream(self.device.index))
        return out

    def prepare(self, x: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        """A function of no arguments that computes `x` into `out`, both checked once, here; it must not outlive them.

        It costs less on the host than a call. Each has arguments of its own.
        """
        self(x, out)
        launch = self._cluster_launch() if self.plan is not None else self._grid_launch()
        for mine, value in zip(launch.values, self._launch.values, strict=True):
            mine.value = value.value
        index, kept = self.device.index, (self, x, out)
        return lambda kept=kept: launch(raw_stream(index))  # type: ignore[misc]

    def _cluster_launch(self) -> PreparedLaunch:
        made, network = self.plan, self.network
        assert made is not None
        function = cluster_function(made, self.device.index)
        values = (*pointers(4), ctypes.c_int32(network.batch), ctypes.c_int32(network.layers), *pointers(2))
        if made.wide:
            self._kept = self._kept or between_blocks(made, network, self.device)
            values[6].value, values[7].value = (each.data_ptr() for each in self._kept)
        grid, block = (made.grid(network.batch), 1, 1), (made.threads, 1, 1)
        if grid[0] > MOST_BLOCKS:
            raise ArgumentError("Megakernel", "batch", network.batch, f"at most {MOST_BLOCKS // made.cluster} clusters")
        cluster = 0 if made.wide else made.cluster
        return PreparedLaunch(
            function, grid, block, values, made.shared_bytes, cluster, cooperative=made.wide, overlap=made.overlap
        )

    def _grid_launch(self) -> PreparedLaunch:
        import torch

        network, index = self.network, self.device.index
        function = function_of(GRID_SOURCE, GRID_KERNEL, index)
        if not self._kept:
            between = torch.empty(2, network.batch, network.hidden, device=self.device)
            self._kept = between, torch.zeros(2, dtype=torch.int32, device=self.device)
        values = (*pointers(6), *(ctypes.c_int32(n) for n in (network.batch, network.hidden, network.layers)))
        values[4].value, values[5].value = (each.data_ptr() for each in self._kept)
        grid, block = (grid_blocks(function, index), 1, 1), (GRID_THREADS, 1, 1)
        return PreparedLaunch(function, grid, block, values, cooperative=True)

    def _check(self, name: str, tensor: torch.Tensor) -> None:
        import torch

        shape = (self.network.batch, self.network.hidden)
        if tensor.dtype is not torch.float32 or tensor.device != self.device or tensor.shape != shape:
            found = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
            raise ArgumentError("Megakernel", name, found, f"torch.float32 {shape} on {self.device}")
        if not tensor.is_contiguous() or tensor.data_ptr() % WORD:
            found = f"strides {tensor.stride()} at {tensor.data_ptr():#x}"
            raise ArgumentError("Megakernel", name, found, "contiguous, at an address that 16 divides", "Use .clone()")


def supports(layers: int, batch: int, hidden: int, dtype: str = "float32", gpu: Gpu | None = None) -> str | None:
    """Why the kernel for clusters cannot run this network on this GPU, or None where it can.

    >>> supports(8, 16, 256, "bfloat16")
    'megakernel: float32 only, and this is bfloat16'

    gpu: None means torch's current one.
    """
    if dtype.removeprefix("torch.") != "float32":
        return f"megakernel: float32 only, and this is {dtype}"
    if min(layers, batch, hidden) < 1:
        return f"megakernel: layers, batch and hidden must be 1 or more, and these are {layers}, {batch}, {hidden}"
    gpu = gpu_of(current_device()) if gpu is None else gpu
    if not gpu.active_clusters:
        return "megakernel: this GPU has no thread-block clusters (sm_90 on); the cooperative kernel runs instead"
    if chosen(NetworkShape(layers, batch, hidden), gpu) is None:
        return f"megakernel: hidden {hidden} does not fit in {gpu.shared_bytes} bytes of shared memory a block"
    return None


@lru_cache(maxsize=512)
def chosen(network: NetworkShape, gpu: Gpu) -> MegakernelPlan | None:
    """The plan for a network, kept, since going through all of them takes milliseconds."""
    return plan(network, gpu)


def between_blocks(
    made: MegakernelPlan, network: NetworkShape, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the blocks of a wide plan exchange results, and the counters, which a launch leaves at zero."""
    import torch

    clusters = made.clusters(network.batch)
    results = torch.empty(clusters, 2, made.rows * made.width, device=device)
    return results, torch.zeros(clusters, network.layers, dtype=torch.int32, device=device)


def pointers(count: int) -> tuple[Any, ...]:
    """So many pointers, as arguments of a launch."""
    return tuple(ctypes.c_void_p(0) for _ in range(count))


# ---------------------------------------------------------------------------------------------------------------------
# The network that tensors make, and its weights in the order in which the megakernel reads them.


def packed(
    weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], made: MegakernelPlan | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases in the order in which the kernel reads them.

    With a plan: weights as [layer][block][chunk][column][k], so that a chunk is one contiguous copy, biases as
    [layer][column], both with zeros from `hidden` to `width`. Without: stacked.
    """
    import torch

    stacked, offsets = torch.stack([w.detach() for w in weights]), torch.stack([b.detach() for b in biases])
    if made is None:
        return stacked.contiguous(), offsets.contiguous()
    more = made.width - made.hidden
    wide = torch.nn.functional.pad(stacked, (0, more, 0, more))
    parts = wide.view(len(weights), made.cluster, made.columns, made.chunks, made.depth)
    return parts.transpose(2, 3).contiguous(), torch.nn.functional.pad(offsets, (0, more)).contiguous()


def checked_network(weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], batch: int) -> NetworkShape:
    """The network that these tensors make; ArgumentError where they make none."""
    import torch

    call = "Megakernel"
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch < 2**31:
        raise ArgumentError(call, "batch", batch, "a whole number of rows, 1 or more")
    if not weights or len(weights) != len(biases):
        raise ArgumentError(call, "weights", f"{len(weights)} weights, {len(biases)} biases", "as many, one or more")
    hidden = weights[0].shape[0] if weights[0].ndim else 0
    for name, tensors, shape in (("weights", weights, (hidden, hidden)), ("biases", biases, (hidden,))):
        for index, tensor in enumerate(tensors):
            if tensor.dtype != torch.float32 or tensor.shape != shape or not hidden:
                found = f"{tensor.dtype} {tuple(tensor.shape)}"
                raise ArgumentError(call, f"{name}[{index}]", found, f"torch.float32 {shape}: layers of one width")
            if not tensor.is_cuda or tensor.device != weights[0].device:
                raise ArgumentError(call, f"{name}[{index}]", str(tensor.device), "a tensor on the network's GPU")
    return NetworkShape(len(weights), batch, hidden)
