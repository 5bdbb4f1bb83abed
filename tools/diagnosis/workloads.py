"""Workloads from tiny to large, each with two changes of it that tell its regime without a model.

>>> [each.name for each in WORKLOADS][:2]
['relu 2^10 float32', 'relu 2^26 float32']

A workload is a family and its sizes. `fewer` are sizes or a type with about as many FLOP and about half the bytes,
`wider` those with twice the batch. Nothing here is `brrr`'s: `truth.py` measures with torch alone.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Call = Callable[[], object]
Make = Callable[..., Call]


@dataclass(frozen=True)
class Workload:
    """One piece of work: `make(*sizes, device=...)` builds the call.

    `fewer` moves about half the bytes at as many FLOP. Where a type cannot be halved, `more` are sizes with about twice
    the bytes. `wider` has twice the batch. `captured`: a CUDA Graph can hold the call.
    """

    name: str
    make: Make
    sizes: tuple[Any, ...]
    wider: tuple[Any, ...]
    fewer: tuple[Any, ...] | None = None
    more: tuple[Any, ...] | None = None
    captured: bool = True

    def call(self, which: str = "sizes", device: str = "cuda") -> Call:
        """The workload as it is ("sizes"), or as `fewer`, `more` or `wider`."""
        torch.manual_seed(0)
        return self.make(*getattr(self, which), device=device)


def graph_of(call: Call) -> Call:
    """The call in a CUDA Graph, warmed up on a stream of its own, and kept alive with all that the graph reads."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay() -> object:
        graph.replay()
        return kept, call

    return replay


TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HALF = {"float32": "bfloat16"}
FEWER = 0.6
"""Sizes that move less than this share of the bytes are taken for half of them."""


def _numbers(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    return torch.randn(shape, dtype=TYPES[dtype], device=device)


# ---- elementwise, norms, reductions: arithmetic in float32 whatever the type, so that the type halves the bytes -----

ELEMENTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "chain": lambda x: torch.relu(x * 1.5 + x).mul(0.5),
    "add": lambda x: x + x,
    "dropout": lambda x: F.dropout(x, 0.5),
    "clone": torch.clone,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
}
ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "softmax": lambda x: x.softmax(-1),
    "log softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "transpose": lambda x: x.t().contiguous(),
    "argmax": lambda x: x.argmax(-1),
    "variance": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "concatenate": lambda x: torch.cat([x, x], -1),
    "sort": lambda x: x.sort(-1).values,
}


def elementwise(name: str, elements: int, dtype: str, *, device: str) -> Call:
    x = _numbers((elements,), dtype, device)
    return lambda: ELEMENTWISE[name](x)


def rows(name: str, count: int, width: int, dtype: str, *, device: str) -> Call:
    x = _numbers((count, width), dtype, device)
    return lambda: ROWS[name](x)


def batch_norm(batch: int, channels: int, side: int, dtype: str, *, device: str) -> Call:
    x, layer = _numbers((batch, channels, side, side), dtype, device), nn.BatchNorm2d(channels, device=device)
    return lambda: layer(x)


def gather(count: int, width: int, dtype: str, *, device: str) -> Call:
    table = _numbers((count, width), dtype, device)
    index = torch.randint(count, (count,), device=device)
    return lambda: table.index_select(0, index)


# ---- products of matrices: other sizes with as many FLOP have other bytes --------------------------------------------


def product(m: int, n: int, k: int, dtype: str, batch: int = 1, *, device: str) -> Call:
    a, b = _numbers((batch, m, k), dtype, device), _numbers((batch, k, n), dtype, device)
    return (lambda: torch.bmm(a, b)) if batch > 1 else (lambda: torch.mm(a[0], b[0]))


def mlp(layers: int, batch: int, hidden: int, dtype: str, train: bool = False, *, device: str) -> Call:
    parts = [part for _ in range(layers) for part in (nn.Linear(hidden, hidden), nn.ReLU())]
    model = nn.Sequential(*parts).to(device, TYPES[dtype])
    return _step(model, _numbers((batch, hidden), dtype, device), train)


def _step(model: nn.Module, x: torch.Tensor, train: bool) -> Call:
    if not train:
        model.requires_grad_(False)
        return lambda: model(x)
    parameters = list(model.parameters())

    def step() -> object:
        found = model(x)
        return torch.autograd.grad(found.float().square().mean(), parameters)

    return step


# ---- convolutions, attention, blocks ---------------------------------------------------------------------------------


def convolution(batch: int, channels: int, side: int, dtype: str, groups: int = 1, *, device: str) -> Call:
    layer = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, device=device, dtype=TYPES[dtype])
    return _step(layer, _numbers((batch, channels, side, side), dtype, device), False)


class BasicBlock(nn.Module):
    """Two convolutions with batch norms, and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.norms[1](self.second(torch.relu(self.norms[0](self.first(x))))))


def cnn(blocks: int, batch: int, channels: int, side: int, dtype: str, train: bool = False, *, device: str) -> Call:
    model = nn.Sequential(*(BasicBlock(channels) for _ in range(blocks))).to(device, TYPES[dtype])
    return _step(model, _numbers((batch, channels, side, side), dtype, device), train)


def attention(batch: int, heads: int, length: int, width: int, dtype: str, *, device: str) -> Call:
    q, k, v = (_numbers((batch, heads, length, width), dtype, device) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v)


def decode(batch: int, heads: int, length: int, width: int, dtype: str, *, device: str) -> Call:
    """One new token against a cache of keys and values."""
    q = _numbers((batch, heads, 1, width), dtype, device)
    k, v = (_numbers((batch, heads, length, width), dtype, device) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v)


class Block(nn.Module):
    """A transformer block before whose parts the norms stand; `causal`: as a decoder has it."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))
        widened: torch.Tensor = self.down(F.gelu(self.up(self.norms[1](x))))
        return x + widened


def transformer(
    blocks: int, batch: int, length: int, width: int, heads: int, dtype: str, train: bool = False, *, device: str
) -> Call:
    model = nn.Sequential(*(Block(width, heads) for _ in range(blocks))).to(device, TYPES[dtype])
    return _step(model, _numbers((batch, length, width), dtype, device), train)


# ---- embeddings, recurrent layers, optimisers, odd ones --------------------------------------------------------------


def embedding(words: int, count: int, width: int, dtype: str, *, device: str) -> Call:
    table, index = _numbers((words, width), dtype, device), torch.randint(words, (count,), device=device)
    return lambda: F.embedding(index, table)


def recurrent(kind: str, steps: int, batch: int, hidden: int, dtype: str, *, device: str) -> Call:
    layer = getattr(nn, kind)(hidden, hidden).to(device, TYPES[dtype])
    return _step(layer, _numbers((steps, batch, hidden), dtype, device), False)


def optimiser(name: str, tensors: int, size: int, dtype: str, *, device: str) -> Call:
    parameters = [nn.Parameter(_numbers((size,), dtype, device)) for _ in range(tensors)]
    for each in parameters:
        each.grad = torch.randn_like(each)
    options: dict[str, Any] = {"capturable": True} if name != "SGD" and device == "cuda" else {}
    made = getattr(torch.optim, name)(parameters, lr=1e-3, foreach=True, **options)
    return made.step  # type: ignore[no-any-return]


def loss(count: int, words: int, dtype: str, *, device: str) -> Call:
    x, wanted = _numbers((count, words), dtype, device), torch.randint(words, (count,), device=device)
    return lambda: F.cross_entropy(x, wanted)


def small_steps(count: int, elements: int, dtype: str, *, device: str) -> Call:
    """A recurrence of tiny operators, each waiting for the one before."""
    x, a = _numbers((elements,), dtype, device), _numbers((elements,), dtype, device)

    def call() -> torch.Tensor:
        y = x
        for _ in range(count):
            y = torch.tanh(y * a)
        return y

    return call


def _elementwise(name: str, power: int, dtype: str = "float32") -> Workload:
    n = 2**power
    other = {"fewer": (name, n, HALF[dtype])} if dtype in HALF else {"more": (name, n, "float32")}
    return Workload(f"{name} 2^{power} {dtype}", elementwise, (name, n, dtype), (name, 2 * n, dtype), **other)  # type: ignore[arg-type]


def _rows(name: str, count: int, width: int, dtype: str = "float32") -> Workload:
    other = {"fewer": (name, count, width, HALF[dtype])} if dtype in HALF else {"more": (name, count, width, "float32")}
    sizes, wider = (name, count, width, dtype), (name, 2 * count, width, dtype)
    return Workload(f"{name} {count}x{width} {dtype}", rows, sizes, wider, **other)  # type: ignore[arg-type]


def _product(m: int, n: int, k: int, dtype: str, batch: int = 1) -> Workload:
    """One side longer and another as much shorter: fewer bytes where that halves them, else more, as of a cube."""
    name = f"product {f'{batch} of ' if batch > 1 else ''}{m}x{n}x{k} {dtype}"
    wider = (m, n, k, dtype, 2 * batch) if batch > 1 else (2 * m, n, k, dtype)
    size = (m, n, k)
    whole = turns(size)
    least, most = min(whole, key=moved), max(whole, key=moved)
    few = moved(least) < FEWER * moved(size)
    other = {"fewer": (*least, dtype, batch)} if few else {"more": (*most, dtype, batch)}
    return Workload(name, product, (*size, dtype, batch), wider, **other)  # type: ignore[arg-type]


def turns(size: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A product's sizes with as many FLOP: one side two or four times as long, another as much shorter.

    >>> turns((2, 2, 1))
    [(4, 1, 1), (1, 4, 1), (1, 2, 2), (2, 1, 2)]
    """
    ways = ((by, up, down) for by in (2, 4) for up, down in permutations(range(len(size)), 2) if size[down] % by == 0)
    return [tuple(s * by if at == up else s // by if at == down else s for at, s in enumerate(size))
            for by, up, down in ways]  # fmt: skip


def moved(size: tuple[int, ...]) -> int:
    """The numbers that a product (batch, rows, columns, depth) reads and writes."""
    m, n, k = size[-3:]
    return prod(size[:-3]) * (m * k + k * n + m * n)


def _mlp(layers: int, batch: int, hidden: int, dtype: str, train: bool = False) -> Workload:
    """Half the layers on twice the batch read half the weights; of a large batch, which moves more than the weights,
    layers twice as wide on a quarter of it."""
    name = f"mlp {layers} layers of {hidden}, batch {batch} {dtype}{', training' * train}"
    sizes, wider = (layers, batch, hidden, dtype, train), (layers, 2 * batch, hidden, dtype, train)
    many = batch >= 2 * hidden
    fewer = (layers, batch // 4, 2 * hidden, dtype, train) if many else (layers // 2, 2 * batch, hidden, dtype, train)
    return Workload(name, mlp, sizes, wider, fewer=fewer)


def _convolution(batch: int, channels: int, side: int, dtype: str, groups: int = 1) -> Workload:
    """Twice the channels on a quarter of the images; each channel by itself has no other way than the type."""
    name = f"convolution {batch}x{channels}x{side}x{side} {dtype}{f', {groups} groups' if groups > 1 else ''}"
    sizes, wider = (batch, channels, side, dtype, groups), (2 * batch, channels, side, dtype, groups)
    fewer = (batch, channels, side, "bfloat16", groups) if groups > 1 else (batch // 4, 2 * channels, side, dtype)
    return Workload(name, convolution, sizes, wider, fewer=fewer)


def _cnn(blocks: int, batch: int, channels: int, side: int, dtype: str, train: bool = False) -> Workload:
    name = f"cnn {blocks} blocks {batch}x{channels}x{side}x{side} {dtype}{', training' * train}"
    sizes, wider = (blocks, batch, channels, side, dtype, train), (blocks, 2 * batch, channels, side, dtype, train)
    return Workload(name, cnn, sizes, wider, fewer=(blocks, batch // 4, 2 * channels, side, dtype, train))


def _attention(batch: int, heads: int, length: int, width: int, dtype: str) -> Workload:
    """Twice the length on a quarter of the batch or of the heads."""
    sizes, wider = (batch, heads, length, width, dtype), (2 * batch, heads, length, width, dtype)
    quarter = (batch // 4, heads) if batch >= 4 else (batch, heads // 4)
    name = f"attention {batch}x{heads}x{length}x{width} {dtype}"
    return Workload(name, attention, sizes, wider, fewer=(*quarter, 2 * length, width, dtype))


def _transformer(
    blocks: int, batch: int, length: int, width: int, heads: int, dtype: str, train: bool = False
) -> Workload:
    """Twice the width on a quarter of the batch."""
    name = f"transformer {blocks} blocks {batch}x{length}x{width} {dtype}{', training' * train}"
    sizes, wider = ((blocks, count, length, width, heads, dtype, train) for count in (batch, 2 * batch))
    fewer = (blocks, batch // 4, length, 2 * width, 2 * heads, dtype, train)
    return Workload(name, transformer, sizes, wider, fewer=fewer)


def _recurrent(kind: str, steps: int, batch: int, hidden: int, dtype: str) -> Workload:
    """Half the steps on twice the batch read half the weights."""
    sizes, wider = (kind, steps, batch, hidden, dtype), (kind, steps, 2 * batch, hidden, dtype)
    name = f"{kind} {steps} steps {batch}x{hidden} {dtype}"
    return Workload(name, recurrent, sizes, wider, fewer=(kind, steps // 2, 2 * batch, hidden, dtype))


def _optimiser(name: str, tensors: int, size: int) -> Workload:
    sizes, wider = (name, tensors, size, "float32"), (name, tensors, 2 * size, "float32")
    return Workload(f"{name} {tensors} x {size}", optimiser, sizes, wider, fewer=(name, tensors, size, "bfloat16"))


def _workload(name: str, make: str, sizes: list[Any], wider: list[Any], **other: list[Any]) -> Workload:
    """One whose changes are written out."""
    changed: dict[str, Any] = {which: tuple(each) for which, each in other.items()}
    return Workload(name, ONES[make], tuple(sizes), tuple(wider), **changed)


ONES = {each.__name__: each for each in (batch_norm, gather, decode, embedding, loss, small_steps)}
FAMILIES: dict[str, Callable[..., Workload]] = {
    each.__name__[1:]: each
    for each in (_elementwise, _rows, _product, _mlp, _convolution, _cnn, _attention, _transformer, _recurrent,
                 _optimiser, _workload)
}  # fmt: skip


def _listed(name: str) -> tuple[Workload, ...]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[name]
    named = [each.pop() if isinstance(each[-1], dict) else {} for each in rows]
    return tuple(FAMILIES[kind](*sizes, **more) for (kind, *sizes), more in zip(rows, named, strict=True))


WORKLOADS, UNSEEN, UNDERFILLED = (_listed(name) for name in ("workloads", "unseen", "underfilled"))
"""By family; written down before any diagnosis ran on a GPU, and judged once; a few long rows for few processors."""
