"""The calls of the `operators` experiment's cases: the same functions are measured, checked, counted and predicted."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree

from brrr.counting.cost import Cost
from brrr.counting.tracing import cost
from brrr.gpu.precision import float32_products, float32_recurrence
from tools.diagnosis.workloads import BasicBlock, Block
from tools.prediction.operators.cases import OperatorCase

Tensor = torch.Tensor
Sizes = tuple[int, ...]
KEPT = 0.9
"""What a dropout keeps."""


@dataclass(frozen=True)
class Places:
    """An input of whole numbers below a limit."""

    shape: Sizes
    below: int


@dataclass(frozen=True)
class Operator:
    """What is called with which inputs, both by its sizes; `module` makes what holds parameters of its own.

    `inputs` names shapes of normal numbers, or Places. `scaled` divides the second, the weights, so that results keep
    the size of the first. `seen` makes of a result and the inputs what is compared with the reference, where the result
    itself may differ from it.
    """

    run: Callable[..., Any]
    inputs: Callable[..., tuple[Sizes | Places, ...]]
    module: Callable[..., Any] | None = None
    seen: Callable[..., Any] | None = None
    channels_last: bool = False
    scaled: bool = False


def _images(n: int, c: int, h: int, w: int, *more: int) -> tuple[Sizes]:
    return ((n, c, h, w),)


def _matrix(rows: int, columns: int, *more: int) -> tuple[Sizes]:
    return ((rows, columns),)


def _filters(size: int, groups: int = 1) -> Callable[..., tuple[Sizes, ...]]:
    def inputs(n: int, c: int, h: int, w: int, out: int) -> tuple[Sizes, ...]:
        own = groups or c
        return (n, c, h, w), (out, c // own, size, size), (out,)

    return inputs


def _convolution(size: int, groups: int = 1, stride: int = 1, *, channels_last: bool = False) -> Operator:
    """`groups` 0 is depthwise."""

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.conv2d(x, w, b, stride, size // 2, 1, groups or x.shape[1])

    return Operator(run, _filters(size, groups), channels_last=channels_last, scaled=True)


def _attention(causal: bool) -> Operator:
    return Operator(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        lambda b, h, length, d: ((b, h, length, d),) * 3,
    )


def _kept(found: Tensor, x: Tensor) -> list[Tensor]:
    """A dropout's result with what was dropped put back, and how much was kept, in tenths."""
    share = (found != 0).double().mean()
    return [torch.where(found == 0, x / KEPT, found), (10 * share).round()]


def _mlp(width: int, inner: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, out))


def _encoder(b: int, length: int, width: int, heads: int, inner: int) -> nn.Module:
    return nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, activation="gelu", batch_first=True)


class Step:
    """One step of an optimizer, all parameters at once; its state is there from the first on."""

    def __init__(self, parameters: list[Tensor], adam: bool) -> None:
        made = torch.optim.Adam if adam else partial(torch.optim.SGD, momentum=0.9)
        self.parameters, self.optimizer = parameters, made(parameters, lr=1e-2, foreach=True)
        for each in parameters:
            each.grad = each.detach() / 3
        self.optimizer.step()

    def __call__(self) -> list[Tensor]:
        """The parameters, moved once more."""
        self.optimizer.step()
        return self.parameters


def _layers(count: int, width: int) -> tuple[Sizes, ...]:
    return ((width, width), (width,)) * count


OPERATORS: Mapping[str, Operator] = {
    "mm": Operator(torch.mm, lambda m, n, k: ((m, k), (k, n))),
    "bmm": Operator(torch.bmm, lambda b, m, n, k: ((b, m, k), (b, k, n))),
    "linear": Operator(F.linear, lambda rows, width, out: ((rows, width), (out, width), (out,))),
    "layer_norm": Operator(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), lambda r, c: ((r, c), (c,), (c,))),
    "group_norm": Operator(lambda groups, x, w, b: F.group_norm(x, groups, w, b),
                           lambda n, c, h, w, groups: ((n, c, h, w), (c,), (c,))),
    "batch_norm": Operator(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
                           lambda n, c, h, w: ((n, c, h, w), (c,), (c,))),
    "rms_norm": Operator(lambda x, w: F.rms_norm(x, x.shape[-1:], w), lambda r, c: ((r, c), (c,))),
    "softmax_rows": Operator(lambda x: x.softmax(-1), _matrix),
    "softmax_columns": Operator(lambda x: x.softmax(0), _matrix),
    "log_softmax": Operator(lambda x: x.log_softmax(-1), _matrix),
    "conv1d": Operator(lambda x, w, b: F.conv1d(x, w, b, padding=2),
                       lambda n, c, length, out: ((n, c, length), (out, c, 5), (out,)), scaled=True),
    "conv1x1": _convolution(1),
    "conv1x1_channels_last": _convolution(1, channels_last=True),
    "conv3x3": _convolution(3),
    "conv3x3_channels_last": _convolution(3, channels_last=True),
    "conv7x7": _convolution(7, stride=2),
    "conv7x7_channels_last": _convolution(7, stride=2, channels_last=True),
    "depthwise3x3": _convolution(3, 0),
    "grouped3x3": _convolution(3, 4),
    "grouped3x3_channels_last": _convolution(3, 4, channels_last=True),
    "attention": _attention(False),
    "attention_causal": _attention(True),
    "embedding": Operator(lambda table, at: F.embedding(at, table), lambda n, c, count: ((n, c), Places((count,), n))),
    "index_select": Operator(lambda x, at: x.index_select(0, at), lambda n, c, count: ((n, c), Places((count,), n))),
    "gather": Operator(lambda x, at: x.gather(1, at), lambda r, c, count: ((r, c), Places((r, count), c))),
    "scatter_add": Operator(lambda x, at, y: x.scatter_add(1, at, y),
                            lambda r, c, count: ((r, c), Places((r, count), c), (r, count))),
    "index_add": Operator(lambda x, at, y: x.index_add(0, at, y),
                          lambda r, c, count: ((r, c), Places((count,), r), (count, c))),
    "sort": Operator(lambda x: x.sort(-1), _matrix),
    "topk": Operator(lambda k, x: x.topk(k), _matrix),
    "cumsum": Operator(lambda x: x.cumsum(-1), _matrix),
    "argmax": Operator(lambda x: x.argmax(-1), _matrix, seen=lambda found, x: x.gather(1, found[:, None])),
    "cross_entropy": Operator(F.cross_entropy, lambda rows, classes: ((rows, classes), Places((rows,), classes))),
    "max_pool": Operator(lambda x: F.max_pool2d(x, 3, 2, 1), _images),
    "avg_pool": Operator(lambda x: F.avg_pool2d(x, 2), _images),
    "interpolate": Operator(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), _images),
    "pad": Operator(lambda x: F.pad(x, (1, 1, 1, 1)), _images),
    "cat": Operator(lambda *parts: torch.cat(parts, 1), lambda r, c: ((r, c),) * 3),
    "transpose": Operator(lambda x: x.t().contiguous(), _matrix),
    "permute": Operator(lambda x: x.permute(0, 2, 3, 1).contiguous(), _images),
    "dropout": Operator(lambda x: F.dropout(x, 1 - KEPT), _matrix, seen=_kept),
    "mlp": Operator(torch.nn.Module.__call__, _matrix, lambda rows, width, inner: _mlp(width, inner, width)),
    "encoder_layer": Operator(nn.Module.__call__, lambda b, length, width, *more: ((b, length, width),), _encoder),
    "decoder_block": Operator(nn.Module.__call__, lambda b, length, width, heads: ((b, length, width),),
                              lambda b, length, width, heads: Block(width, heads, causal=True)),
    "basic_block": Operator(nn.Module.__call__, _images, lambda n, c, h, w: BasicBlock(c)),
    "lstm_cell": Operator(nn.Module.__call__, _matrix, lambda b, width, hidden: nn.LSTMCell(width, hidden)),
    "mlp_loss": Operator(lambda module, x, at: F.cross_entropy(module(x), at),
                         lambda rows, width, inner, classes: ((rows, width), Places((rows,), classes)),
                         lambda rows, width, inner, classes: _mlp(width, inner, classes)),
    "sgd": Operator(Step.__call__, _layers),
    "adam": Operator(Step.__call__, _layers),
}  # fmt: skip
SIZED = {"group_norm": 4, "topk": 2}
"""Which of its sizes an operator takes before its inputs."""
STEPS = ("sgd", "adam")


@dataclass(frozen=True)
class Made:
    """A case with what it is called on; `wanted` are the tensors whose gradients it computes."""

    call: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    wanted: tuple[Tensor, ...] = ()


def dtype_of(case: OperatorCase) -> torch.dtype:
    """torch's data type: TF32 is a way to multiply float32."""
    found = torch.float32 if case.dtype == "tf32" else getattr(torch, case.dtype)
    assert isinstance(found, torch.dtype)
    return found


def made(case: OperatorCase, device: str, *, empty: bool = False, wide: bool = False) -> Made:
    """A case's call with its inputs, the same numbers each time; `empty` without numbers, `wide` in float64."""
    operator = OPERATORS[case.what]
    torch.manual_seed(0)
    tensors = [_tensor(case, each, place, device, empty) for place, each in enumerate(operator.inputs(*case.sizes))]
    module = None if operator.module is None else _module(case, operator.module, device, empty, wide)
    if wide:
        tensors = [each.double() if each.is_floating_point() else each for each in tensors]
    run: Callable[..., Any] = operator.run if module is None else partial(operator.run, module)
    if case.what in STEPS:
        return Made(Step(tensors, case.what == "adam"), ())
    if case.what in SIZED:
        run = partial(run, case.sizes[SIZED[case.what]])
    if case.direction == "forward":
        return Made(run, tuple(tensors))
    leaves = [each.requires_grad_() for each in tensors if each.is_floating_point()]
    return Made(run, tuple(tensors), (*leaves, *(() if module is None else module.parameters())))


def _tensor(case: OperatorCase, each: Sizes | Places, place: int, device: str, empty: bool) -> Tensor:
    if isinstance(each, Places):
        at = torch.empty(each.shape, dtype=torch.int64, device=device)
        return at if empty else at.random_(each.below)
    operator, dtype = OPERATORS[case.what], dtype_of(case)
    if empty and case.what not in STEPS:  # an optimizer takes its first step
        found = torch.empty(each, dtype=dtype, device=device)
    else:
        found = torch.randn(each, dtype=dtype, device=device)
    if operator.scaled and place == 1 and not empty:
        found /= math.sqrt(math.prod(each[1:]))
    return found.contiguous(memory_format=torch.channels_last) if operator.channels_last and len(each) == 4 else found


def _module(case: OperatorCase, make: Callable[..., Any], device: str, empty: bool, wide: bool) -> Any:
    """The module, in inference where no gradient is asked for; a wide one never takes torch's short cut for that."""
    with torch.device("meta" if empty else device):
        found = make(*case.sizes).to(dtype_of(case))
    found = found.to_empty(device=device) if empty else found.double() if wide else found
    return found.train(wide or case.direction == "backward" or case.what == "basic_block")


def measured_call(case: OperatorCase, of: Made) -> Callable[[], Any]:
    """What is timed: forward, or forward and all gradients for one that comes from above; nothing adds up."""
    if case.direction == "forward":
        return partial(of.call, *of.inputs)
    above = [_above(each, case) for each in floating(of.call(*of.inputs))]

    def both_ways() -> Any:
        results = floating(of.call(*of.inputs))
        return results, torch.autograd.grad(results, of.wanted, above)

    return both_ways


def _above(result: Tensor, case: OperatorCase) -> Tensor:
    """A gradient from above: normal numbers, the same for a result in float64; of equal ones a softmax's cancels."""
    drawn = torch.Generator(result.device).manual_seed(1)
    numbers = torch.randn(result.shape, dtype=torch.float64, device=result.device, generator=drawn)
    return numbers.to(dtype_of(case)).to(result.dtype)


def floating(found: Any) -> list[Tensor]:
    """The tensors of floating-point numbers within a result."""
    leaves = _pytree.tree_leaves(found)
    return [each for each in leaves if isinstance(each, Tensor) and each.is_floating_point()]


@lru_cache(maxsize=2048)
def cost_of(case: OperatorCase) -> Cost:
    """FLOP and bytes operator by operator, as `brrr.cost` counts them; nothing runs, and no memory is touched."""
    with surroundings(case):
        of = made(case, "cpu", empty=True)
        return cost(of.call, *of.inputs, backward=case.direction == "backward")


@contextmanager
def surroundings(case: OperatorCase) -> Iterator[None]:
    """Gradients where they are asked for, and float32 in full precision but where the case says TF32."""
    with ExitStack() as stack:
        stack.enter_context(float32_products(case.dtype == "tf32"))
        stack.enter_context(float32_recurrence())
        stack.enter_context(torch.set_grad_enabled(case.direction == "backward"))
        yield
