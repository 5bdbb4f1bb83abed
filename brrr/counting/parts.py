"""Operators of torch that are whole layers, by the operators that a GPU runs for them; loops and branches by theirs."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.nn import functional as f

from brrr.gpu import CUDA, is_cuda

Tensor = torch.Tensor


def _encoder_layer(
    x: Tensor, width: int, heads: int, qkv: Tensor, qkv_bias: Tensor, out: Tensor, out_bias: Tensor, use_gelu: bool,
    norm_first: bool, eps: float, norm_1: Tensor, norm_1_bias: Tensor, norm_2: Tensor, norm_2_bias: Tensor,
    inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor, mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    """A transformer's encoder layer in inference, as torch calls it on a GPU (`native/transformers/transformer.cpp`).

    Its biases are added and its activation is taken by the products; attention reads the three parts where they lie.
    """

    def normed(each: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return f.layer_norm(each, (width,), weight, bias, eps)

    given = normed(x, norm_1, norm_1_bias) if norm_first else x
    x = _self_attention(given, heads, qkv, qkv_bias, out, out_bias, _mask(mask, mask_type)).add_(x)
    if not norm_first:
        x = normed(x, norm_1, norm_1_bias)
    given = normed(x, norm_2, norm_2_bias) if norm_first else x
    wide = torch._addmm_activation(inner_bias, given.flatten(0, 1), inner.t(), use_gelu=use_gelu)
    x = torch.addmm(outer_bias, wide, outer.t()).view_as(x).add_(x)
    return x if norm_first else normed(x, norm_2, norm_2_bias)


def _self_attention(
    x: Tensor, heads: int, qkv: Tensor, qkv_bias: Tensor, out: Tensor, out_bias: Tensor, shown: Tensor | None
) -> Tensor:
    """One product for all three parts, attention where they lie, and one product of what it gives."""
    parts = f.linear(x, qkv, qkv_bias).chunk(3, -1)
    query, key, value = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in parts)
    attended = f.scaled_dot_product_attention(query, key, value, attn_mask=shown)
    return f.linear(attended.transpose(1, 2).reshape(x.shape), out, out_bias)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, qkv: Tensor, qkv_bias: Tensor, out: Tensor,
    out_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of several heads in inference, batch first: to itself as an encoder layer's, where nobody asks for the
    weights (`native/transformers/cuda/attention.cu`); else by the function that a layer calls while it learns.
    """
    if query is key is value and not need_weights:
        return _self_attention(query, heads, qkv, qkv_bias, out, out_bias, _mask(mask, mask_type)), None
    query, key, value = (each.transpose(0, 1) for each in (query, key, value))
    found, weights = f.multi_head_attention_forward(
        query, key, value, width, heads, qkv, qkv_bias, None, None, False, 0.0,
        out, out_bias, False, mask if mask_type == _OF_KEYS else None, need_weights,
        None if mask_type == _OF_KEYS else mask, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return found.transpose(0, 1), weights


_OF_KEYS = 1
"""torch's type of a mask with a row for each sequence."""


def _mask(mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """What a layer hides, as attention itself wants it: True is seen there."""
    if mask is None:
        return None
    shown = mask.logical_not() if mask.dtype == torch.bool else mask
    return shown[:, None, None, :] if mask_type == _OF_KEYS else shown


def _unpacked(x: Tensor, *others: object, **named: object) -> Tensor:
    """Sequences packed by a mask of their padding, or unpacked: they count as long as the longest, as they are given.

    How long each is are values of the mask, which nobody knows here; a packed tensor has no sizes to count.
    """
    return x.clone()


def _written_out(names: str) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Operators that torch writes in others, which run on the device; autograd does not take these apart."""
    keys = torch._C.DispatchKey
    for own in (keys.CompositeExplicitAutograd, keys.CompositeExplicitAutogradNonFunctional):
        for packet in (getattr(torch.ops.aten, name) for name in names.split()):
            each = (getattr(packet, overload) for overload in packet.overloads())
            yield from ((one, partial(one._op_dk, own)) for one in each if one.has_kernel_for_dispatch_key(own))


PARTS: Mapping[Any, Callable[..., Any]] = {
    **dict(_written_out("_trilinear _euclidean_dist bartlett_window hann_window hamming_window blackman_window")),
    torch.ops.aten.channel_shuffle.default: lambda x, n: x.unflatten(1, (n, -1)).transpose(1, 2).flatten(1, 2),
    torch.ops.aten._nested_tensor_from_mask_left_aligned.default: lambda x, mask: False,  # so that nothing is packed
    torch.ops.aten._nested_tensor_from_mask.default: _unpacked,
    torch.ops.aten.to_padded_tensor.default: _unpacked,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    torch.ops.aten._native_multi_head_attention.default: _attention,
}


# ---------------------------------------------------------------------------------------------------------------------
# Operators that torch computes, but whose results it describes wrongly, or not at all.

_OPTIM = sys.modules["torch.optim.optimizer"]
_RNN, _GROUPED = torch.ops.aten._cudnn_rnn.default, torch.ops.aten._grouped_mm.default


def _recurrent(x: Tensor, weight: Sequence[Tensor], *others: Any) -> tuple[Tensor, ...]:
    """cuDNN's layer; torch's description has no buffer of the weights, which the backward takes.

    Here it is empty: each weight is read where it lies. How much cuDNN keeps for the backward pass is assumed.
    """
    found = _RNN(x, weight, *others)
    gates = weight[0].shape[0] // weight[1].shape[1]
    # each step's gates, cell and state, for a layer
    kept = found[0].numel() * others[7] * (gates + 2) * bool(others[10])
    return *found[:3], x.new_empty(kept), x.new_empty(0)


def _recurrent_backward(
    x: Tensor, weight: Sequence[Tensor], stride: int, buffer: Tensor, hx: Tensor, cx: Tensor | None, *others: Any
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """The gradients of a layer of cuDNN, which finds those of its input and states in any case."""
    of_weights = [torch.empty_like(each) for each in weight] if others[-1][3] else []
    of_cell = hx.new_empty(0) if cx is None else torch.empty_like(cx)
    return torch.empty_like(x), torch.empty_like(hx), of_cell, of_weights


def _as_cudnn(own: Callable[..., Any], mode: int, x: Tensor, *given: Any) -> Any:
    """torch's call of a recurrent layer, of sequences that are packed or not, as its call of cuDNN.

    How long packed sequences are may be values that nobody knows here: then all steps have as many rows as another.
    """
    if is_cuda(x.device):  # where torch calls it itself
        return own(x, *given)
    sizes, hx, weights, _, layers, dropout, train, both, *first = given if _is_list(given[2]) else (None, *given)
    h, c = hx if _is_list(hx) else (hx, None)
    hidden, steps = (h if c is None else c).shape[2], 0 if sizes is None else len(sizes)
    if isinstance(sizes, FakeTensor):
        rows = [len(x) // steps + (step < len(x) % steps) for step in range(steps)]
    else:
        with unset_fake_temporarily():
            rows = [] if sizes is None else sizes.tolist()
    about = hidden, h.shape[2] % hidden, layers, any(first), dropout, train, both, rows, None
    return _RNN(x, weights, len(weights) // len(h), None, h, c, mode, *about)[: 2 + (c is not None)]


def _is_list(given: object) -> bool:
    return isinstance(given, list | tuple)


@contextmanager
def by_cudnn() -> Iterator[None]:
    """What torch chooses on a GPU, also where there is none: recurrent layers by cuDNN, where it may be used, and
    optimizers that take all tensors at once.
    """
    with ExitStack() as all_of_them:
        for mode, name in enumerate(("rnn_relu", "rnn_tanh", "lstm", "gru") if torch.backends.cudnn.enabled else ()):
            by = partial(_as_cudnn, getattr(torch._VF, name), mode)
            all_of_them.enter_context(replaced(torch._VF, name, by))
        all_of_them.enter_context(replaced(_OPTIM, "_get_foreach_kernels_supported_devices", lambda: [CUDA, "cpu"]))
        yield


def _grouped(
    a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Any:
    """Products of groups, which torch computes in three types and describes in bfloat16 alone."""
    if a.dtype != b.dtype or a.dtype not in (torch.float32, torch.float16):
        return _GROUPED(a, b, offs, bias, out_dtype)
    torch._check(a.shape[-1] == b.shape[-2], lambda: "contraction dimension of mat_a and mat_b must match")
    torch._check((offs is None) == (a.dim() == b.dim() == 3), lambda: "offs goes with a matrix of two dimensions")
    groups = () if a.dim() != b.dim() else (len(a if offs is None else offs),)
    return a.new_empty((*groups, a.shape[-2], b.shape[-1]), dtype=out_dtype)


DESCRIBED: Mapping[Any, Callable[..., Any]] = {
    _RNN: _recurrent,
    torch.ops.aten._cudnn_rnn_backward.default: _recurrent_backward,
    _GROUPED: _grouped,
}


# ---------------------------------------------------------------------------------------------------------------------
# Loops and branches that torch has as operators (`torch.cond`, `scan`): they run as Python would run them, so that what
# is inside is counted and has its gradients. A branch or an end that depends on a value needs it.


def _scanned(combine: Any, init: Any, xs: Any, others: Any = ()) -> tuple[Any, ...]:
    carried, rows = list(init), []
    for place in range(xs[0].shape[0]):
        found = combine(*carried, *(x[place] for x in xs), *others)
        carried = list(found[: len(init)])
        rows.append(found[len(init) :])
    return (*carried, *map(torch.stack, zip(*rows, strict=True)))


_BODIES: Mapping[str, Callable[..., Any]] = {
    "cond": lambda wanted, then, otherwise, inputs=(): (then if wanted else otherwise)(*inputs),
    "scan": _scanned,
    "invoke_subgraph": lambda body, name, *inputs: body(*inputs),
}
_LOOPS = ("while_loop", "map_impl", "associative_scan")
"""Those whose own loop, which torch runs when nobody looks on, can be run as it is."""


_ATTENDED = f.scaled_dot_product_attention


def _kept(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, *given: Any,
    **named: Any,
) -> Tensor:  # fmt: skip
    """Attention without its dropout, which a GPU's kernel draws as it goes; a CPU has no single kernel with it."""
    return _ATTENDED(query, key, value, attn_mask, dropout_p * (not query.is_cpu), *given, **named)


@contextmanager
def as_written() -> Iterator[None]:
    """Loops and branches by their bodies, compiled functions as they are written, checkpoints of the older kind, and
    attention that drops out as one kernel.
    """
    call: Any = torch._ops.HigherOrderOperator.__call__

    def by_body(operator: Any, /, *args: Any, **kwargs: Any) -> Any:
        name = str(operator)
        own = operator.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd) if name in _LOOPS else None
        body = _BODIES.get(name, own)
        return call(operator, *args, **kwargs) if body is None else body(*args, **kwargs)

    with (
        replaced(torch._ops.HigherOrderOperator, "__call__", by_body),
        # A re-entrant checkpoint refuses `autograd.grad`, since it leaves gradients in its leaves: there they are.
        replaced(torch.autograd, "_is_checkpoint_valid", lambda: True),
        replaced(f, "scaled_dot_product_attention", _kept),
        torch.compiler.set_stance("force_eager"),
    ):
        yield


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of torch's, another one for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
