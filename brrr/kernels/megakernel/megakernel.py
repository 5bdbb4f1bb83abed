"""The textbook network, layers x (Linear + ReLU), in a single launch: a persistent kernel, float32 throughout.

>>> network = Megakernel(weights, biases, batch=16)    # doctest: +SKIP
>>> y = network(x)                                     # doctest: +SKIP

On GPUs with thread-block clusters (sm_90 on), `megakernel.cu`: activations stay in shared memory, weights are fetched
ahead, and each cluster (for wide networks, all blocks of the GPU) takes rows through all layers. On others, and for
networks too wide for that, `megakernel_grid.cu`: a cooperative launch with a barrier of the grid between layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brrr.core.errors import ArgumentError, whole
from brrr.core.heavy import torch
from brrr.gpu.launching import PreparedLaunch, on_current_stream, typed
from brrr.gpu.nvrtc import function as function_of
from brrr.kernels.checks import WORD, check_on_gpu, check_shape, check_tensors
from brrr.kernels.megakernel import device as here
from brrr.kernels.megakernel.plan import MegakernelPlan, NetworkShape

MOST_BLOCKS = 2**31 - 1


class Megakernel:
    """A network of `len(weights)` layers on `batch` rows, ready to be launched.

    weights: of shape (hidden, hidden), as in `torch.nn.Linear`: y = relu(x @ weight.T + bias); biases: of shape
    (hidden,). All float32 on one GPU. They are copied into an order that suits the kernel, once: what they hold later
    does not count. `plan` is how the work is shared out (see `megakernel_plan`); None means the cooperative kernel, as
    does `clusters=False`. Results are float32 sums of float32 products, never TF32.

    One call of an object is under way at a time: calls on one stream, or on streams that wait for each other. No call
    allocates anything but its result, and all can be captured into a CUDA Graph.

    ArgumentError for what cannot be computed; UnavailableError without the GPU's compiler, or where the launch would
    not fit on the GPU.
    """

    def __init__(
        self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], batch: int,
        plan: MegakernelPlan | None = None, clusters: bool = True,
    ) -> None:  # fmt: skip
        self.network = checked_network(weights, biases, batch)
        self.device = weights[0].device
        if self.device.index != torch.cuda.current_device():
            raise ArgumentError("Megakernel", "weights", str(self.device), "the current GPU", "See torch.cuda.device")
        gpu = here.gpu_of(self.device.index) if clusters else here.NO_CLUSTERS
        self.plan = plan if plan is not None else here.plan(self.network, gpu)
        self._kept = between_blocks(self.plan, self.network, self.device)
        self._launch()  # what does not fit on the GPU is refused here
        self._packed = packed(weights, biases, self.plan)
        torch.cuda.current_stream(self.device).synchronize()  # calls may come on any stream

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The result for `x`, of shape (batch, hidden), into `out` or a new tensor; it does not wait for it."""
        out = torch.empty_like(x) if out is None else out
        self.prepare(x, out)()
        return out

    def prepare(self, x: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        """A function of no arguments that computes `x` into `out`, both checked once, here; it must not outlive them.

        Both are contiguous float32 tensors on the network's GPU, at addresses that 16 divides, and do not overlap;
        ArgumentError for any others. It costs less on the host than a call. Each has arguments of its own.
        """
        for name, each in (("x", x), ("out", out)):
            check_tensors("Megakernel", {"weights": self._packed[0], name: each}, ("float32",))
            check_shape("Megakernel", name, each, (self.network.batch, self.network.hidden))
            check_on_gpu("Megakernel", {name: each}, WORD)
        if out.data_ptr() == x.data_ptr():
            raise ArgumentError("Megakernel", "out", "x itself", "another tensor")
        launch = self._launch()
        for value, tensor in zip(launch.values, (x, *self._packed, out), strict=False):
            value.value = tensor.data_ptr()
        return on_current_stream(launch, self.device.index, self, x, out)

    def _launch(self) -> PreparedLaunch:
        made, network, index = self.plan, self.network, self.device.index
        kept = [each.data_ptr() for each in self._kept] or [0, 0]
        if made is None:
            function = function_of(here.GRID_SOURCE, here.GRID_KERNEL, index)
            values = typed("PPPPPPiii", (0, 0, 0, 0, *kept, network.batch, network.hidden, network.layers))
            grid, block = (here.grid_blocks(function, index), 1, 1), (here.GRID_THREADS, 1, 1)
            return PreparedLaunch(function, grid, block, values, cooperative=True)
        function = here.cluster_function(made, index)
        values = typed("PPPPiiPP", (0, 0, 0, 0, network.batch, network.layers, *kept))
        blocks, cluster = made.clusters(network.batch) * made.cluster, 0 if made.wide else made.cluster
        if blocks > MOST_BLOCKS:
            raise ArgumentError("Megakernel", "batch", network.batch, f"at most {MOST_BLOCKS // made.cluster} clusters")
        return PreparedLaunch(
            function, (blocks, 1, 1), (made.threads, 1, 1), values, made.shared_bytes, cluster, cooperative=made.wide,
            overlap=made.overlap,
        )  # fmt: skip


def between_blocks(
    made: MegakernelPlan | None, network: NetworkShape, device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Where blocks exchange results, and counters, zero before the first launch; nothing where clusters do it."""
    if made is not None and not made.wide:
        return ()
    groups, rows, width = 1, network.batch, network.hidden
    if made is not None:
        groups, rows, width = made.clusters(network.batch), made.rows, made.width
    counters = torch.zeros(groups * max(2, network.layers), dtype=torch.int32, device=device)  # of the grid's kernel: 2
    return torch.empty(groups, 2, rows, width, device=device), counters


# ---------------------------------------------------------------------------------------------------------------------
# The network that tensors make, and its weights in the order in which the megakernel reads them.


def packed(
    weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], made: MegakernelPlan | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases in the order in which the kernel reads them.

    With a plan: weights as [layer][block][chunk][column][k], so that a chunk is one contiguous copy, biases as
    [layer][column], both with zeros from `hidden` to `width`. Without: stacked.
    """
    stacked, offsets = torch.stack([w.detach() for w in weights]), torch.stack([b.detach() for b in biases])
    if made is None:
        return stacked.contiguous(), offsets.contiguous()
    more = made.width - made.hidden
    wide = torch.nn.functional.pad(stacked, (0, more, 0, more))
    parts = wide.view(len(weights), made.cluster, made.columns, made.chunks, made.depth)
    return parts.transpose(2, 3).contiguous(), torch.nn.functional.pad(offsets, (0, more)).contiguous()


def checked_network(weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], batch: int) -> NetworkShape:
    """The network that these tensors make; ArgumentError where they make none."""
    call = "Megakernel"
    whole(call, "batch", batch, most=2**31 - 1)
    if not weights or len(weights) != len(biases):
        raise ArgumentError(call, "weights", f"{len(weights)} weights, {len(biases)} biases", "as many, one or more")
    hidden = max(1, weights[0].shape[0] if weights[0].ndim else 0)
    for name, tensors, shape in (("weights", weights, (hidden, hidden)), ("biases", biases, (hidden,))):
        for index, tensor in enumerate(tensors):
            where = f"{name}[{index}]"
            check_tensors(call, {"weights[0]": weights[0], where: tensor}, ("float32",), strided=True)
            check_shape(call, where, tensor, shape)
            check_on_gpu(call, {where: tensor})
    return NetworkShape(len(weights), batch, hidden)
