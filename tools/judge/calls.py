"""What each case calls, in torch, and what it costs."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from brrr.counting.cost import ABOVE, Cost, OperatorCost
from brrr.counting.tracing import cost
from brrr.gpu.precision import float32_recurrence
from tools.judge.cases import Case

Tensor = torch.Tensor
Sizes = tuple[int, ...]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Places:
    """The shape of an input of whole numbers."""

    shape: Sizes


@dataclass(frozen=True)
class Operator:
    """What is called with which inputs, both by its sizes; `module` makes what holds parameters of its own.

    `inputs` names shapes of floating-point numbers, or Places.
    """

    run: Function
    inputs: Callable[..., tuple[Sizes | Places, ...]]
    module: Function | None = None
    channels_last: bool = False


# ---- streams, products and chains ----


def _stream(run: Function, takes: str = "x") -> Operator:
    """An operator that takes `x` and `y`, each a matrix, or `v`, a row."""
    return Operator(run, lambda r, c: tuple((c,) if name == "v" else (r, c) for name in takes))


STREAMS: Mapping[str, Operator] = {
    "copy": _stream(torch.clone), "relu": _stream(torch.relu), "exp": _stream(torch.exp), "gelu": _stream(F.gelu),
    "silu": _stream(F.silu), "tanh": _stream(torch.tanh), "scale": _stream(lambda x: x * 1.25),
    "add": _stream(torch.add, "xy"), "add_row": _stream(torch.add, "xv"),
    "where": _stream(lambda x, y: torch.where(x > y, x, y), "xy"),
    "cast": _stream(lambda x: x.to(torch.float32 if x.dtype == torch.bfloat16 else torch.bfloat16)),
    "transpose": _stream(lambda x: x.t().contiguous()), "sum": _stream(torch.sum),
    "norm": _stream(torch.linalg.vector_norm), "sum_rows": _stream(lambda x: x.sum(-1)),
    "mean_rows": _stream(lambda x: x.mean(-1)), "max_rows": _stream(lambda x: x.amax(-1)),
    "var_rows": _stream(lambda x: x.var(-1)), "sum_columns": _stream(lambda x: x.sum(0)),
    "layer_norm": _stream(lambda x, v: F.layer_norm(x, x.shape[-1:], v, v), "xv"),
    "rms_norm": _stream(lambda x, v: F.rms_norm(x, x.shape[-1:], v), "xv"),
    "batch_norm": _stream(lambda x: F.batch_norm(x, None, None, training=True)),
    "softmax": _stream(lambda x: x.softmax(-1)), "log_softmax": _stream(lambda x: x.log_softmax(-1)),
    "softmax_columns": _stream(lambda x: x.softmax(0)),
}  # fmt: skip
PARTS: Mapping[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "add1": lambda x, y, w, v: x + 1.0, "scale": lambda x, y, w, v: x * 0.97, "relu": lambda x, y, w, v: torch.relu(x),
    "tanh": lambda x, y, w, v: torch.tanh(x), "sigmoid": lambda x, y, w, v: torch.sigmoid(x),
    "gelu": lambda x, y, w, v: F.gelu(x), "add": lambda x, y, w, v: x + y, "sub": lambda x, y, w, v: x - y,
    "add_row": lambda x, y, w, v: x + v, "scale_": lambda x, y, w, v: x.mul_(0.97),
    "add_": lambda x, y, w, v: x.add_(y), "tanh_": lambda x, y, w, v: x.tanh_(),
    "softmax": lambda x, y, w, v: x.softmax(-1), "layer_norm": lambda x, y, w, v: F.layer_norm(x, x.shape[-1:], v, v),
    "linear": lambda x, y, w, v: F.linear(x, w, v), "product": lambda x, y, w, v: x @ w,
    "flat": lambda x, y, w, v: x.view(-1).view(x.shape), "turned": lambda x, y, w, v: x.t().t(),
}  # fmt: skip
"""One operator of a chain: it takes the chain's tensor, a second one of its size, a matrix and a row."""
MIXES = {
    "pointwise": "add1 scale relu tanh gelu add sub", "in_place": "scale_ add_ tanh_",
    "norms": "layer_norm softmax add scale gelu", "mlp": "linear gelu layer_norm", "products": "product tanh add",
    "views": "flat turned add1 sigmoid add_row",
}  # fmt: skip


def parts(case: Case) -> tuple[str, ...]:
    """The operators of a chain, drawn from its mix: always the same ones for a case, in either data type.

    >>> parts(Case("chain", "in_place", (8, 8), "float32", length=3))[0]
    'scale'

    The first writes a tensor of its own, so that what works in place leaves the input alone; an mlp keeps its order.
    """
    mix, draw = MIXES[case.what].split(), random.Random(f"{case.what} {case.length} {case.sizes}")
    if case.what == "mlp":
        return tuple(mix[place % len(mix)] for place in range(case.length))
    first = {"in_place": "scale", "products": "product", "views": "add1"}.get(case.what) or draw.choice(mix)
    return (first, *(draw.choice(mix) for _ in range(case.length - 1)))


def _chain(case: Case) -> Operator:
    names = parts(case)

    def chain(x: Tensor, y: Tensor, w: Tensor, v: Tensor) -> Tensor:
        for name in names:
            x = PARTS[name](x, y, w, v)
        return x

    return Operator(chain, lambda r, c: ((r, c), (r, c), (c, c), (c,)))


def _product(layout: str) -> Operator:
    def inputs(batch: int, m: int, n: int, k: int) -> tuple[Sizes, ...]:
        several = (batch,) if batch > 1 else ()
        return (*several, m, k), (*several, *((k, n) if layout == "nn" else (n, k)))

    return Operator(torch.matmul if layout == "nn" else _nt, inputs)


def _nt(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w) if w.dim() == 2 else x @ w.mT


# ---- operators and blocks ----


class BasicBlock(nn.Module):
    """Two convolutions with batch norms, and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.norms[1](self.second(torch.relu(self.norms[0](self.first(x))))))


class DecoderBlock(nn.Module):
    """A transformer block before whose parts the norms stand, causal as a decoder has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        widened: Tensor = self.down(F.gelu(self.up(self.norms[1](x))))
        return x + widened


class Step:
    """One step of an optimizer, all parameters at once; its state is there from the first on."""

    def __init__(self, parameters: list[Tensor], name: str) -> None:
        made = torch.optim.Adam if name == "adam" else partial(torch.optim.SGD, momentum=0.9)
        self.parameters, self.optimizer = parameters, made(parameters, lr=1e-2, foreach=True)
        for each in parameters:
            each.grad = each.detach() / 3
        self.optimizer.step()

    def __call__(self) -> list[Tensor]:
        """The parameters, moved once more."""
        self.optimizer.step()
        return self.parameters


def _images(n: int, c: int, h: int, w: int, *more: int) -> tuple[Sizes]:
    return ((n, c, h, w),)


def _matrix(rows: int, columns: int, *more: int) -> tuple[Sizes]:
    return ((rows, columns),)


def _layers(count: int, width: int) -> tuple[Sizes, ...]:
    return ((width, width), (width,)) * count


def _convolution(size: int, groups: int = 1, stride: int = 1, *, channels_last: bool = False) -> Operator:
    """`groups` 0 is depthwise."""

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.conv2d(x, w, b, stride, size // 2, 1, groups or x.shape[1])

    def inputs(n: int, c: int, h: int, w: int, out: int) -> tuple[Sizes, ...]:
        return (n, c, h, w), (out, c // (groups or c), size, size), (out,)

    return Operator(run, inputs, channels_last=channels_last)


def _attention(causal: bool) -> Operator:
    run = partial(F.scaled_dot_product_attention, is_causal=causal)
    return Operator(run, lambda b, h, length, d: ((b, h, length, d),) * 3)


def _mlp(width: int, inner: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, out))


def _encoder(b: int, length: int, width: int, heads: int, inner: int) -> nn.Module:
    return nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, activation="gelu", batch_first=True)


OPERATORS: Mapping[str, Operator] = {
    "mm": Operator(torch.mm, lambda m, n, k: ((m, k), (k, n))),
    "bmm": Operator(torch.bmm, lambda b, m, n, k: ((b, m, k), (b, k, n))),
    "linear": Operator(F.linear, lambda rows, width, out: ((rows, width), (out, width), (out,))),
    "layer_norm": Operator(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), lambda r, c: ((r, c), (c,), (c,))),
    "group_norm": Operator(lambda groups, x, w, b: F.group_norm(x, groups, w, b),
                           lambda n, c, h, w, groups: ((n, c, h, w), (c,), (c,))),
    "batch_norm": Operator(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
                           lambda n, c, h, w: ((n, c, h, w), (c,), (c,))),
    "rms_norm": STREAMS["rms_norm"], "log_softmax": STREAMS["log_softmax"], "transpose": STREAMS["transpose"],
    "softmax_rows": STREAMS["softmax"], "softmax_columns": STREAMS["softmax_columns"],
    "conv1d": Operator(lambda x, w, b: F.conv1d(x, w, b, padding=2),
                       lambda n, c, length, out: ((n, c, length), (out, c, 5), (out,))),
    "conv1x1": _convolution(1), "conv1x1_channels_last": _convolution(1, channels_last=True),
    "conv3x3": _convolution(3), "conv3x3_channels_last": _convolution(3, channels_last=True),
    "conv7x7": _convolution(7, stride=2), "conv7x7_channels_last": _convolution(7, stride=2, channels_last=True),
    "depthwise3x3": _convolution(3, 0), "grouped3x3": _convolution(3, 4),
    "grouped3x3_channels_last": _convolution(3, 4, channels_last=True),
    "attention": _attention(False), "attention_causal": _attention(True),
    "embedding": Operator(lambda table, at: F.embedding(at, table), lambda n, c, count: ((n, c), Places((count,)))),
    "index_select": Operator(lambda x, at: x.index_select(0, at), lambda n, c, count: ((n, c), Places((count,)))),
    "gather": Operator(lambda x, at: x.gather(1, at), lambda r, c, count: ((r, c), Places((r, count)))),
    "scatter_add": Operator(lambda x, at, y: x.scatter_add(1, at, y),
                            lambda r, c, count: ((r, c), Places((r, count)), (r, count))),
    "index_add": Operator(lambda x, at, y: x.index_add(0, at, y),
                          lambda r, c, count: ((r, c), Places((count,)), (count, c))),
    "sort": Operator(lambda x: x.sort(-1), _matrix),
    "topk": Operator(lambda k, x: x.topk(k), _matrix),
    "cumsum": Operator(lambda x: x.cumsum(-1), _matrix),
    "argmax": Operator(lambda x: x.argmax(-1), _matrix),
    "cross_entropy": Operator(F.cross_entropy, lambda rows, classes: ((rows, classes), Places((rows,)))),
    "max_pool": Operator(lambda x: F.max_pool2d(x, 3, 2, 1), _images),
    "avg_pool": Operator(lambda x: F.avg_pool2d(x, 2), _images),
    "interpolate": Operator(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), _images),
    "pad": Operator(lambda x: F.pad(x, (1, 1, 1, 1)), _images),
    "cat": Operator(lambda *each: torch.cat(each, 1), lambda r, c: ((r, c),) * 3),
    "permute": Operator(lambda x: x.permute(0, 2, 3, 1).contiguous(), _images),
    "dropout": Operator(lambda x: F.dropout(x, 0.1), _matrix),
    "mlp": Operator(nn.Module.__call__, _matrix, lambda rows, width, inner: _mlp(width, inner, width)),
    "encoder_layer": Operator(nn.Module.__call__, lambda b, length, width, *more: ((b, length, width),), _encoder),
    "decoder_block": Operator(nn.Module.__call__, lambda b, length, width, heads: ((b, length, width),),
                              lambda b, length, width, heads: DecoderBlock(width, heads)),
    "basic_block": Operator(nn.Module.__call__, _images, lambda n, c, h, w: BasicBlock(c)),
    "lstm_cell": Operator(nn.Module.__call__, _matrix, lambda b, width, hidden: nn.LSTMCell(width, hidden)),
    "mlp_loss": Operator(lambda module, x, at: F.cross_entropy(module(x), at),
                         lambda rows, width, inner, classes: ((rows, width), Places((rows,))),
                         lambda rows, width, inner, classes: _mlp(width, inner, classes)),
    "sgd": Operator(Step.__call__, _layers), "adam": Operator(Step.__call__, _layers),
}  # fmt: skip
SIZED = {"group_norm": 4, "topk": 2}
"""Which of its sizes an operator takes before its inputs."""
STEPS = ("sgd", "adam")


@lru_cache(maxsize=1024)
def operator_of(case: Case) -> Operator:
    """The operator of a case."""
    if case.family == "chain":
        return _chain(case)
    if case.family == "product" and case.way in ("nn", "nt"):
        return _product(case.way)
    return (STREAMS if case.family == "stream" else OPERATORS)[case.what]


@lru_cache(maxsize=4096)
def cost_of(case: Case) -> Cost:
    """FLOP and bytes operator by operator, as `brrr.cost` counts them; nothing runs, and no memory is touched.

    TraceError for what cannot be counted without running it, as Adam's steps, which it counts on the host.
    """
    operator, dtype = operator_of(case), dtype_of(case)
    with float32_recurrence(), torch.set_grad_enabled(case.backward):
        if case.what in STEPS:
            return cost(Step([torch.randn(shape, dtype=dtype) for shape in _layers(*case.sizes)], case.what))
        call = operator.run
        if operator.module is not None:
            with torch.device("meta"):
                module = operator.module(*case.sizes).to(dtype).train(case.backward or case.what == "basic_block")
            call = partial(call, module.to_empty(device="cpu"))
        if case.what in SIZED:
            call = partial(call, case.sizes[SIZED[case.what]])
        inputs = [_described(operator, shape, dtype) for shape in operator.inputs(*case.sizes)]
        for each in inputs:
            each.requires_grad_(case.backward and each.is_floating_point())
        found = cost(call, *inputs, backward=case.backward)
        return replace(found, operators=tuple(map(_from_above, found.operators)))


def _from_above(each: OperatorCost) -> OperatorCost:
    """As it was recorded: the gradient from above lay channel by channel, whatever the images did."""
    return replace(each, form=replace(each.form, name=each.form.name.removesuffix(ABOVE)))


def _described(operator: Operator, shape: Sizes | Places, dtype: torch.dtype) -> Tensor:
    if isinstance(shape, Places):
        return torch.empty(shape.shape, dtype=torch.int64)
    found = torch.empty(shape, dtype=dtype)
    last = operator.channels_last and len(shape) == 4
    return found.contiguous(memory_format=torch.channels_last) if last else found


def dtype_of(case: Case) -> torch.dtype:
    """torch's data type: TF32 is a way to multiply float32."""
    found = torch.float32 if case.dtype == "tf32" else getattr(torch, case.dtype)
    assert isinstance(found, torch.dtype)
    return found
