"""Operators that move data, draw random numbers, or add up what they move."""

from __future__ import annotations

import torch

from brrr.counting.call import Call, Formula, free, table

EMPTY = "empty empty_like empty_strided new_empty new_empty_strided resize"

_COPY = (
    "copy _to_copy clone contiguous fill zero zeros ones full zeros_like ones_like full_like new_zeros new_ones "
    "new_full arange linspace logspace eye scalar_tensor cat stack split_copy split_with_sizes_copy unbind_copy "
    "slice_backward select_backward diagonal_backward roll flip repeat tril triu constant_pad_nd reflection_pad1d "
    "reflection_pad2d replication_pad1d replication_pad2d pixel_shuffle pixel_unshuffle slice_scatter select_scatter "
    "diagonal_scatter as_strided_scatter view_copy expand_copy permute_copy transpose_copy t_copy as_strided_copy "
    "slice_copy select_copy _reshape_copy lift_fresh_copy _local_scalar_dense equal _linalg_check_errors "
    "channel_shuffle upsample_nearest1d upsample_nearest2d tril_indices triu_indices set "
    "_foreach_copy _foreach_zero native_channel_shuffle _pin_memory"
)
_INDEX = (
    "embedding gather index_select index take index_copy index_fill masked_select masked_scatter nonzero "
    "nonzero_static _unsafe_index one_hot _unsafe_masked_index"
)
_RANDOM = (
    "bernoulli normal uniform exponential random log_normal cauchy geometric rand randn randint randperm "
    "rand_like randn_like randint_like multinomial poisson"
)


def _index_put(call: Call) -> float:
    return float(indexed_elements(call)) if call.args.get("accumulate") else 0.0


def _scatter(call: Call) -> float:
    """`scatter` with a reduction combines once for each index; without, it only moves."""
    return float(call.tensor("index").numel() * (call.args.get("reduce") is not None))


def _per_index(call: Call) -> float:
    return float(call.tensor("index").numel())


def _per_source(call: Call) -> float:
    """self + alpha * source, one element of the source at a time."""
    return float(call.tensor("source").numel() * (1 if call.args.get("alpha", 1) == 1 else 2))


def _per_gradient(call: Call) -> float:
    """Each row of the gradient is added to the row that its index names."""
    return float(call.tensor("grad_output").numel())


def _dropout(call: Call) -> float:
    """Drawing the mask counts 0; multiplying by it and by 1 / (1 - p) counts 2."""
    return 2.0 * call.output.numel()


def indexed_elements(call: Call) -> int:
    """How many elements of `self` the indices of `index_put` name: their broadcast shape, times the other dims."""
    given = [index for index in call.args["indices"] if index is not None]
    if any(index.dtype == torch.bool for index in given):
        return call.tensor("self").numel()  # at most
    elements = 1
    for size in torch.broadcast_shapes(*(index.shape for index in given)):
        elements *= size
    places = list(call.args["indices"]) + [None] * call.tensor("self").dim()
    for size, index in zip(call.tensor("self").shape, places, strict=False):
        elements *= size if index is None else 1
    return elements


def movement() -> dict[str, Formula]:
    """Copies and fills, indexing, random numbers."""
    return {
        **free("copy", _COPY),
        **free("view", EMPTY),
        **free("index", _INDEX),
        **free("random", _RANDOM),
        **table("random", {"native_dropout": _dropout}),
        **table(
            "index",
            {
                "index_put _index_put_impl _unsafe_index_put": _index_put,
                "scatter": _scatter,
                "scatter_add scatter_reduce": _per_index,
                "index_add index_reduce": _per_source,
                "embedding_dense_backward": _per_gradient,
            },
        ),
    }
