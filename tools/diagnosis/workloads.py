"""Workloads from tiny to large, each with two changes of it that tell its regime without a model.

>>> [each.name for each in WORKLOADS][:2]
['relu 2^10 float32', 'relu 2^26 float32']

A workload is a family and its sizes. `fewer` are sizes or a type with about as many FLOP and about half the bytes,
`wider` those with twice the batch. Nothing here is `brrr`'s: `truth.py` measures with torch alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
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
    """The call in a CUDA Graph, warmed up on a stream of its own."""
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
        return kept

    return replay


TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HALF = {"float32": "bfloat16"}


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
    turned = [_turned(size, up, down, by) for by in (2, 4) for up, down in permutations(range(3), 2)]
    whole = [each for each in turned if min(each) >= 1]
    least, most = min(whole, key=_moved), max(whole, key=_moved)
    few = _moved(least) < 0.6 * _moved(size)
    other = {"fewer": (*least, dtype, batch)} if few else {"more": (*most, dtype, batch)}
    return Workload(name, product, (*size, dtype, batch), wider, **other)  # type: ignore[arg-type]


def _turned(size: tuple[int, ...], up: int, down: int, by: int) -> tuple[int, ...]:
    """One side `by` times as long, another as much shorter; 0 where that is no whole number."""
    made = [each * by if at == up else each for at, each in enumerate(size)]
    made[down] = made[down] // by if made[down] % by == 0 else 0
    return tuple(made)


def _moved(size: tuple[int, ...]) -> int:
    m, n, k = size
    return m * k + k * n + m * n


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


BF16, F32 = "bfloat16", "float32"
WORKLOADS: tuple[Workload, ...] = (
    _elementwise("relu", 10), _elementwise("relu", 26), _elementwise("gelu", 24, BF16), _elementwise("chain", 12),
    _elementwise("chain", 25), _elementwise("add", 27, BF16), _elementwise("dropout", 26), _elementwise("clone", 20),
    _rows("layer norm", 64, 768), _rows("layer norm", 16384, 4096), _rows("softmax", 128, 1000),
    _rows("softmax", 32768, 4096, BF16), _rows("log softmax", 8192, 32000), _rows("sum", 65536, 2048),
    _rows("cumsum", 4096, 4096), _rows("transpose", 8192, 8192),
    Workload("batch norm 64x64x56x56", batch_norm, (64, 64, 56, F32), (128, 64, 56, F32), fewer=(64, 64, 56, BF16)),
    Workload("gather 65536x1024", gather, (65536, 1024, F32), (131072, 1024, F32), fewer=(65536, 1024, BF16)),
    _product(8192, 8192, 8192, BF16), _product(1024, 1024, 1024, BF16), _product(256, 256, 256, BF16),
    _product(16, 8192, 8192, BF16), _product(1, 4096, 16384, BF16), _product(4096, 4096, 4096, F32),
    _product(512, 512, 512, F32), _product(64, 64, 64, BF16, 512), _product(128, 128, 8192, BF16),
    _product(2048, 2048, 2048, BF16, 8),
    _mlp(4, 16, 64, F32), _mlp(8, 64, 512, F32), _mlp(16, 32, 4096, BF16), _mlp(4, 8192, 4096, BF16),
    _mlp(2, 16384, 1024, F32), _mlp(4, 64, 256, F32, train=True), _mlp(4, 16384, 4096, BF16, train=True),
    _convolution(4, 32, 28, F32), _convolution(64, 128, 56, BF16), _convolution(32, 256, 56, F32, groups=256),
    _convolution(128, 256, 28, BF16),
    _cnn(2, 4, 16, 16, F32), _cnn(4, 64, 64, 56, BF16), _cnn(2, 128, 256, 28, BF16),
    _cnn(2, 8, 32, 28, F32, train=True), _cnn(2, 128, 128, 28, BF16, train=True),
    _attention(2, 8, 128, 64, BF16), _attention(8, 16, 2048, 128, BF16), _attention(4, 8, 512, 64, F32),
    Workload("decode 32x16x8192x128", decode, (32, 16, 8192, 128, BF16), (64, 16, 8192, 128, BF16),
             more=(32, 16, 8192, 128, F32)),
    _transformer(2, 4, 32, 128, 4, F32), _transformer(2, 8, 512, 768, 12, BF16),
    _transformer(1, 32, 1024, 2048, 16, BF16),
    _transformer(4, 4, 128, 256, 4, F32, train=True), _transformer(1, 16, 1024, 2048, 16, BF16, train=True),
    Workload("embedding 1000 words", embedding, (1000, 64, 64, F32), (1000, 128, 64, F32),
             fewer=(1000, 64, 64, BF16)),
    Workload("embedding 2^20 words", embedding, (2**20, 2**17, 512, F32), (2**20, 2**18, 512, F32),
             fewer=(2**20, 2**17, 512, BF16)),
    _recurrent("LSTM", 64, 4, 256, F32), _recurrent("LSTM", 128, 64, 1024, F32), _recurrent("GRU", 64, 16, 512, F32),
    _optimiser("Adam", 200, 256), _optimiser("Adam", 8, 2**24), _optimiser("SGD", 100, 512),
    Workload("cross entropy 16384x32000", loss, (16384, 32000, F32), (32768, 32000, F32), fewer=(16384, 32000, BF16)),
    _elementwise("clone", 27), _rows("softmax", 4096, 512),
    Workload("64 steps of 2048", small_steps, (64, 2048, F32), (64, 4096, F32), fewer=(64, 2048, BF16)),
)  # fmt: skip
"""By family, from tiny to large."""

UNSEEN: tuple[Workload, ...] = (
    _elementwise("sigmoid", 14), _elementwise("exp", 26, BF16), _elementwise("gelu", 27),
    _elementwise("chain", 20, BF16), _rows("log softmax", 12000, 5120), _rows("argmax", 3000, 50000),
    _rows("variance", 200, 300), _rows("concatenate", 9000, 7000), _rows("logsumexp", 5000, 12000, BF16),
    _rows("sort", 500, 3000),
    _product(6144, 2048, 4096, BF16), _product(40, 12288, 5120, BF16), _product(3000, 3000, 3000, F32),
    _product(96, 96, 96, BF16, 64), _product(192, 192, 192, BF16, 2000), _product(320, 320, 12000, BF16),
    _mlp(6, 24, 3072, BF16), _mlp(6, 12288, 3072, BF16), _mlp(6, 512, 768, F32), _mlp(6, 128, 384, F32, train=True),
    _convolution(16, 64, 112, BF16), _convolution(48, 384, 28, BF16), _cnn(3, 32, 192, 28, BF16),
    _cnn(3, 32, 64, 28, BF16, train=True),
    _attention(4, 32, 4096, 64, BF16), _attention(16, 16, 256, 64, BF16),
    Workload("decode 8x32x4096x128", decode, (8, 32, 4096, 128, BF16), (16, 32, 4096, 128, BF16),
             more=(8, 32, 4096, 128, F32)),
    _transformer(6, 4, 64, 384, 6, BF16), _transformer(2, 16, 768, 1536, 12, BF16),
    _transformer(2, 8, 512, 1024, 16, BF16, train=True),
    _recurrent("GRU", 100, 32, 768, F32), _recurrent("LSTM", 32, 512, 512, BF16),
    _optimiser("Adam", 60, 2**16), _optimiser("SGD", 16, 2**23),
    Workload("cross entropy 2048x50257", loss, (2048, 50257, F32), (4096, 50257, F32), fewer=(2048, 50257, BF16)),
    Workload("20 steps of 100000", small_steps, (20, 100000, F32), (20, 200000, F32), fewer=(20, 100000, BF16)),
)  # fmt: skip
"""Written down before any diagnosis ran on a GPU, and judged once, when the classifier was done."""

UNDERFILLED: tuple[Workload, ...] = (
    _rows("cumsum", 8, 2**20), _rows("cumsum", 2, 2**22), _rows("softmax", 8, 2**20, BF16),
    _rows("log softmax", 16, 2**18), _rows("layer norm", 4, 2**20), _rows("variance", 1, 2**22),
    Workload("cross entropy 8x2^20", loss, (8, 2**20, F32), (16, 2**20, F32), fewer=(8, 2**20, BF16)),
)  # fmt: skip
"""A few long rows, for a few multiprocessors: none of those above was limited by latency, as the truth had it."""
