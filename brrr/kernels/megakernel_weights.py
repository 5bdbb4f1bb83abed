"""The network that tensors make, and its weights in the order in which the megakernel reads them.

>>> from brrr.kernels.megakernel_weights import packed
>>> flat, offsets = packed(weights, biases, made)    # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from brrr.errors import ArgumentError
from brrr.kernels.megakernel_plan import Network, Plan

if TYPE_CHECKING:
    import torch


def packed(
    weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], made: Plan | None
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


def checked_network(weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], batch: int) -> Network:
    """The network that these tensors make; ArgumentError where they make none."""
    import torch

    call = "Megakernel"
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch < 2**31:
        raise ArgumentError(call, "batch", batch, "a whole number of rows, 1 or more")
    if not weights or len(weights) != len(biases):
        raise ArgumentError(
            call, "weights", f"{len(weights)} weights, {len(biases)} biases", "as many, and one or more"
        )
    hidden = weights[0].shape[0] if weights[0].ndim else 0
    for name, tensors, shape in (("weights", weights, (hidden, hidden)), ("biases", biases, (hidden,))):
        for index, tensor in enumerate(tensors):
            if tensor.dtype != torch.float32 or tensor.shape != shape or not hidden:
                found = f"{tensor.dtype} {tuple(tensor.shape)}"
                raise ArgumentError(call, f"{name}[{index}]", found, f"torch.float32 {shape}: layers of one width")
            if tensor.device.type != "cuda" or tensor.device != weights[0].device:
                raise ArgumentError(call, f"{name}[{index}]", str(tensor.device), "a tensor on the network's GPU")
    return Network(len(weights), batch, hidden)
