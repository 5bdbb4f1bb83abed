"""The calls of the `prediction` experiment's cases: the same functions are measured, counted and predicted."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F

from brrr.counting.cost import Cost
from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.gpu.precision import float32_products
from tools.prediction.cases import Case

Tensor = torch.Tensor
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Stream:
    """An operator: which inputs it takes (`x` and `y` of the full size, `v` a row), and how to check a part of it.

    `along` is the dimension of the inputs along which parts are independent, `result_along` that of the result; None
    where only the whole can be checked.
    """

    run: Function
    takes: str = "x"
    along: int | None = 0
    result_along: int = 0


STREAMS: Mapping[str, Stream] = {
    "copy": Stream(torch.clone), "relu": Stream(torch.relu), "exp": Stream(torch.exp), "gelu": Stream(F.gelu),
    "silu": Stream(F.silu), "tanh": Stream(torch.tanh), "scale": Stream(lambda x: x * 1.25),
    "add": Stream(torch.add, "xy"), "add_row": Stream(torch.add, "xv"),
    "where": Stream(lambda x, y: torch.where(x > y, x, y), "xy"),
    "cast": Stream(lambda x: x.to(torch.float32 if x.dtype == torch.bfloat16 else torch.bfloat16)),
    "transpose": Stream(lambda x: x.t().contiguous(), result_along=1), "sum": Stream(torch.sum, along=None),
    "norm": Stream(torch.linalg.vector_norm, along=None), "sum_rows": Stream(lambda x: x.sum(-1)),
    "mean_rows": Stream(lambda x: x.mean(-1)), "max_rows": Stream(lambda x: x.amax(-1)),
    "var_rows": Stream(lambda x: x.var(-1)), "sum_columns": Stream(lambda x: x.sum(0), along=1),
    "layer_norm": Stream(lambda x, v: F.layer_norm(x, x.shape[-1:], v, v), "xv"),
    "rms_norm": Stream(lambda x, v: F.rms_norm(x, x.shape[-1:], v), "xv"),
    "batch_norm": Stream(lambda x: F.batch_norm(x, None, None, training=True), along=1, result_along=1),
    "softmax": Stream(lambda x: x.softmax(-1)), "log_softmax": Stream(lambda x: x.log_softmax(-1)),
    "softmax_columns": Stream(lambda x: x.softmax(0), along=1, result_along=1),
}  # fmt: skip

ChainOperator = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""One operator of a chain: it takes the chain's tensor, a second one of its size, a matrix and a row."""

STEPS: Mapping[str, ChainOperator] = {
    "add1": lambda x, y, w, v: x + 1.0,
    "scale": lambda x, y, w, v: x * 0.97,
    "relu": lambda x, y, w, v: torch.relu(x),
    "tanh": lambda x, y, w, v: torch.tanh(x),
    "sigmoid": lambda x, y, w, v: torch.sigmoid(x),
    "gelu": lambda x, y, w, v: F.gelu(x),
    "add": lambda x, y, w, v: x + y,
    "sub": lambda x, y, w, v: x - y,
    "add_row": lambda x, y, w, v: x + v,
    "scale_": lambda x, y, w, v: x.mul_(0.97),
    "add_": lambda x, y, w, v: x.add_(y),
    "tanh_": lambda x, y, w, v: x.tanh_(),
    "softmax": lambda x, y, w, v: x.softmax(-1),
    "layer_norm": lambda x, y, w, v: F.layer_norm(x, x.shape[-1:], v, v),
    "linear": lambda x, y, w, v: F.linear(x, w, v),
    "product": lambda x, y, w, v: x @ w,
    "flat": lambda x, y, w, v: x.view(-1).view(x.shape),
    "turned": lambda x, y, w, v: x.t().t(),
}
MIXES: Mapping[str, tuple[str, ...]] = {
    "pointwise": ("add1", "scale", "relu", "tanh", "gelu", "add", "sub"),
    "in_place": ("scale_", "add_", "tanh_"),
    "norms": ("layer_norm", "softmax", "add", "scale", "gelu"),
    "mlp": ("linear", "gelu", "layer_norm"),
    "products": ("product", "tanh", "add"),
    "views": ("flat", "turned", "add1", "sigmoid", "add_row"),
}


def steps(case: Case) -> tuple[str, ...]:
    """The operators of a chain, drawn from its mix: always the same ones for a case, in either data type.

    >>> steps(Case("chain", "in_place", (8, 8), "float32", 3))[0]
    'scale'

    The first writes a tensor of its own, so that what works in place leaves the input alone; an mlp keeps its order.
    """
    mix = MIXES[case.what]
    draw = random.Random(f"{case.what} {case.length} {case.sizes}")
    if case.what == "mlp":
        return tuple(mix[place % len(mix)] for place in range(case.length))
    first = {"in_place": "scale", "products": "product", "views": "add1"}.get(case.what) or draw.choice(mix)
    return (first, *(draw.choice(mix) for _ in range(case.length - 1)))


@lru_cache(maxsize=1024)
def function_of(case: Case) -> Function:
    """What is called, with the tensors that `shapes` describes."""
    if case.kind == "stream":
        return STREAMS[case.what].run
    if case.kind == "product":
        return _nt if case.what == "nt" else torch.matmul
    parts = [STEPS[name] for name in steps(case)]

    def chain(x: Tensor, y: Tensor, w: Tensor, v: Tensor) -> Tensor:
        for part in parts:
            x = part(x, y, w, v)
        return x

    return chain


def _nt(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w) if w.dim() == 2 else x @ w.mT


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """The inputs of the call, in its order: their names and shapes.

    >>> shapes(Case("product", "nt", (4, 8, 16, 32), "bfloat16"))
    {'x': (4, 8, 32), 'y': (4, 16, 32)}
    """
    if case.kind == "product":
        batch, m, n, k = case.sizes
        several = (batch,) if batch > 1 else ()
        return {"x": (*several, m, k), "y": (*several, k, n) if case.what == "nn" else (*several, n, k)}
    rows, columns = case.sizes
    known = {"x": (rows, columns), "y": (rows, columns), "w": (columns, columns), "v": (columns,)}
    return {name: known[name] for name in (STREAMS[case.what].takes if case.kind == "stream" else "xywv")}


def dtype_of(case: Case) -> torch.dtype:
    """torch's data type: TF32 is a way to multiply float32."""
    found = torch.float32 if case.dtype == "tf32" else getattr(torch, case.dtype)
    assert isinstance(found, torch.dtype)
    return found


@lru_cache(maxsize=2048)
def cost_of(case: Case) -> Cost:
    """FLOP and bytes of a case, operator by operator, as `brrr.cost` counts them on descriptions of its inputs."""
    dtype = str(dtype_of(case)).removeprefix("torch.")
    return cost(function_of(case), *(array(shape, dtype) for shape in shapes(case).values()))


@contextmanager
def surroundings(case: Case) -> Iterator[None]:
    """No gradients, and products of float32 in TF32 if the case says so, in full precision if not; then as before.

    A compiled function is compiled anew in other surroundings, so checks and measurements use the same.
    """
    with float32_products(case.dtype == "tf32"), torch.no_grad():
        yield
