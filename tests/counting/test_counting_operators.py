"""FLOP and bytes of torch operators against counts made by hand."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from brrr.counting.cost import Form, Matmul
from brrr.counting.description import Description, array
from brrr.counting.mode import CostMode, prepared
from brrr.counting.tracing import cost

F32 = 4  # bytes


class Case(NamedTuple):
    """A callable with what it costs: FLOP, compulsory bytes, eager bytes."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    flop: float
    bytes: float
    eager: float


def case(name: str, fn: Callable[..., Any], args: Any, flop: float, moved: float, eager: float | None = None) -> Case:
    args = args if isinstance(args, tuple) else (args,)
    return Case(name, fn, args, flop, moved, moved if eager is None else eager)


def ints(*shape: int) -> Description:
    return array(shape, "int64")


def a(*shape: int) -> Description:
    return array(shape)


def g(*shape: int) -> Description:
    return array(shape, requires_grad=True)


def two_in_place(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2).add_(1)


def overwrite(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.copy_(y)


def zeroed_then_read(x: torch.Tensor) -> torch.Tensor:
    return x.zero_() + 1


def halves(x: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=1)
    return left * right


def put(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    x[index] = values
    return x


def set_column(x: torch.Tensor) -> torch.Tensor:
    x[:, 0] = 1.0
    return x


N = 1000
MB, K, H, OUT = 8, 16, 32, 4  # an MLP's batch and widths

PRODUCTS = [
    case("mm", torch.mm, (a(3, 4), a(4, 5)), 2 * 3 * 4 * 5, F32 * (12 + 20 + 15)),
    case("matmul of vectors", torch.dot, (a(7), a(7)), 14, F32 * (7 + 7 + 1)),
    case("matrix times vector", torch.mv, (a(3, 4), a(4)), 24, F32 * (12 + 4 + 3)),
    case("bmm", torch.bmm, (a(2, 3, 4), a(2, 4, 5)), 2 * 2 * 3 * 4 * 5, F32 * (24 + 40 + 30)),
    case("addmm", torch.addmm, (a(5), a(3, 4), a(4, 5)), 120 + 15, F32 * (5 + 12 + 20 + 15)),
    case("addmm, alpha 2", lambda c, x, y: torch.addmm(c, x, y, alpha=2), (a(3, 5), a(3, 4), a(4, 5)), 150, F32 * 62),
    case("addmm, beta 3", lambda c, x, y: torch.addmm(c, x, y, beta=3), (a(3, 5), a(3, 4), a(4, 5)), 150, F32 * 62),
    case("baddbmm", torch.baddbmm, (a(2, 3, 5), a(2, 3, 4), a(2, 4, 5)), 240 + 30, F32 * (30 + 24 + 40 + 30)),
    case("x.t() @ x", lambda x: x.t() @ x, a(6, 4), 2 * 4 * 6 * 4, F32 * (24 + 16)),
    case("matmul broadcast", torch.matmul, (a(2, 3, 4), a(4, 5)), 2 * 6 * 4 * 5, F32 * (24 + 20 + 30)),
    case("linear", nn.Linear(4, 5), a(3, 4), 2 * 3 * 4 * 5 + 15, F32 * (12 + 20 + 5 + 15)),
    case(
        "conv2d, stride 2, two groups",
        lambda x, w: F.conv2d(x, w, stride=2, groups=2),
        (a(2, 4, 9, 9), a(6, 2, 3, 3)),
        2 * (2 * 6 * 4 * 4) * (2 * 9),
        F32 * (2 * 4 * 81 + 6 * 2 * 9 + 2 * 6 * 16),
    ),
    case(
        "transposed conv1d",
        F.conv_transpose1d,
        (a(2, 3, 5), a(3, 4, 3)),
        2 * (2 * 3 * 5) * (4 * 3),
        F32 * (30 + 36 + 2 * 4 * 7),
    ),
    case(
        "attention",
        F.scaled_dot_product_attention,
        (a(2, 4, 16, 8), a(2, 4, 16, 8), a(2, 4, 16, 8)),
        4 * 2 * 4 * 16 * 16 * 8,
        F32 * 4 * 1024,
        F32 * (4 * 1024 + 128),  # and the logarithms of the sums
    ),
]

POINTWISE = [
    case("x * 2", lambda x: x * 2, a(N), N, 8 * N),
    case("x * 2 in bf16", lambda x: x * 2, array(N, "bf16"), N, 4 * N),
    case("x + y", torch.add, (a(N), a(N)), N, 12 * N),
    case("x + x", lambda x: x + x, a(N), N, 8 * N),
    case("x + 3 y", lambda x, y: torch.add(x, y, alpha=3), (a(N), a(N)), 2 * N, 12 * N),
    case("cos cos", lambda x: x.cos().cos(), a(N), 2 * N, 8 * N, 16 * N),
    case("relu", F.relu, a(N), N, 8 * N),
    case("silu", F.silu, a(N), 4 * N, 8 * N),
    case("gelu", F.gelu, a(N), 5 * N, 8 * N),
    case("gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), a(N), 9 * N, 8 * N),
    case("sigmoid", torch.sigmoid, a(N), 4 * N, 8 * N),
    case("clamp", lambda x: x.clamp(0, 1), a(N), 2 * N, 8 * N),
    case("addcmul", torch.addcmul, (a(N), a(N), a(N)), 2 * N, 16 * N),
    case("addcmul, value 2", lambda x, y, z: torch.addcmul(x, y, z, value=2), (a(N), a(N), a(N)), 3 * N, 16 * N),
    case("lerp", lambda x, y: torch.lerp(x, y, 0.3), (a(N), a(N)), 3 * N, 12 * N),
    case("where", torch.where, (array(N, "bool"), a(N), a(N)), N, N + 12 * N),
    case("masked_fill", lambda x, m: x.masked_fill(m, 0.0), (a(N), array(N, "bool")), N, 9 * N),
    case("compare", lambda x, y: x > y, (a(N), a(N)), N, 9 * N),
    case("whole numbers", lambda x: x * 2 + 1, ints(N), 0, 16 * N, 32 * N),
    case("broadcast row", lambda x, b: x + b, (a(20, 50), a(50)), N, F32 * (N + 50 + N)),
    case("broadcast both", lambda x, y: x * y, (a(20, 1), a(1, 50)), N, F32 * (20 + 50 + N)),
    case("expand reads once", lambda x: x.expand(20, 50) * 2, a(50), N, F32 * (50 + N)),
    case("float to bf16", lambda x: x.bfloat16(), a(N), 0, 6 * N),
    case("mixed types", lambda x, y: x * y, (array(N, "bf16"), a(N)), N, (2 + 4 + 4) * N),
    case("dropout", lambda x: F.dropout(x, 0.5), a(N), 2 * N, 8 * N, F32 * (N + 2 * N + 3 * N)),
    case("foreach", lambda x, y: torch._foreach_mul([x, y], 2.0), (a(N), a(10)), N + 10, 8 * (N + 10)),
]

MOVEMENT = [
    case("identity", lambda x: x, a(N), 0, 0),
    case("view", lambda x: x.view(10, 100).t()[3:], a(N), 0, 0),
    case("contiguous transpose", lambda x: x.t().contiguous(), a(20, 50), 0, 8 * N),
    case("clone", torch.clone, a(N), 0, 8 * N),
    case("fill", lambda x: x.fill_(1), a(N), 0, 4 * N),
    case("copy_", overwrite, (a(N), a(N)), 0, 8 * N),
    case("in-place chain", two_in_place, a(N), 2 * N, 8 * N, 16 * N),
    case("in place, then returned out of place", zeroed_then_read, a(N), N, 8 * N, 12 * N),
    case("empty and zeros", lambda: torch.zeros_like(torch.empty(N)), (), 0, 4 * N),
    case("cat", lambda x, y: torch.cat([x, y]), (a(3, 4), a(5, 4)), 0, F32 * 64),
    case("cat of one twice", lambda x: torch.cat([x, x]), a(6), 0, F32 * 18),
    case("chunk", halves, a(20, 50), N // 2, F32 * (N + N // 2)),
    case("split and add", lambda x: x.split(25)[1] + 1, a(100), 25, F32 * 50),
    case("overlapping slices", lambda x: x[1:] - x[:-1], a(100), 99, F32 * (100 + 99)),
    case("a slice is all that is returned", lambda x: (x * 2)[:10], a(N), N, F32 * (N + 10), 8 * N),
    case("column set", set_column, a(20, 50), 0, F32 * 20, F32 * 21),  # the 1.0 is a tensor
    case("embedding", F.embedding, (ints(3, 4), a(100, 8)), 0, 8 * 12 + F32 * (96 + 96)),
    case("embedding of every row, often", F.embedding, (ints(300), a(10, 8)), 0, 8 * 300 + F32 * (80 + 2400)),
    case("gather", lambda x, i: x.gather(1, i), (a(10, 100), ints(10, 3)), 0, 8 * 30 + F32 * 60),
    case("index_select", lambda x, i: x.index_select(0, i), (a(10, 8), ints(3)), 0, 8 * 3 + F32 * 48),
    case("advanced index", lambda x, i: x[i], (a(10, 8), ints(3)), 0, 8 * 3 + F32 * 48),
    case("index_put", put, (a(10, 8), ints(3), a(3, 8)), 0, 8 * 3 + F32 * (24 + 24)),
    case("index_add_", lambda x, i, y: x.index_add_(0, i, y), (a(10, 8), ints(3), a(3, 8)), 24, 24 + F32 * 72),
    case(
        "scatter out=",
        lambda x, i, y, o: torch.scatter(x, 0, i, y, out=o),
        (a(100), ints(7), a(7), a(100)),
        0,
        56 + F32 * 207,
    ),
    case("empty_permuted", lambda x: torch.empty_permuted((9, 9), (1, 0)), (a(3),), 0, 0),
    case("scatter_add_", lambda x, i, y: x.scatter_add_(0, i, y), (a(100), ints(7), a(7)), 7, 56 + F32 * 21),
    case("triu", lambda x: x.triu(), a(20, 50), 0, 8 * N),
    case("out=", lambda x, y: torch.exp(x, out=y), (a(N), a(N)), N, 8 * N),
]

REDUCTIONS = [
    case("sum", torch.sum, a(N), N - 1, F32 * (N + 1)),
    case("sum of rows", lambda x: x.sum(1), a(20, 50), N - 20, F32 * (N + 20)),
    case("mean", torch.mean, a(N), N, F32 * (N + 1)),
    case("amax", lambda x: x.amax(0), a(20, 50), N - 50, F32 * (N + 50)),
    case("max with index", lambda x: x.max(1), a(20, 50), N - 20, F32 * (N + 20) + 8 * 20),
    case("var", torch.var, a(N), 4 * N, F32 * (N + 1)),
    case("std", torch.std, a(N), 4 * N + 1, F32 * (N + 1)),
    case("norm", torch.linalg.vector_norm, a(N), 2 * N, F32 * (N + 1)),
    case("1-norm", lambda x: torch.linalg.vector_norm(x, 1), a(N), 2 * N - 1, F32 * (N + 1)),
    case("logsumexp", lambda x: x.logsumexp(1), a(20, 50), 4 * N, F32 * (N + 20)),
    case("cumsum", lambda x: x.cumsum(1), a(20, 50), N - 20, 8 * N),
    case("softmax", lambda x: x.softmax(1), a(20, 50), 20 * (5 * 50 - 2), 8 * N),
    case("softmax of columns", lambda x: x.softmax(0), a(20, 50), 50 * (5 * 20 - 2), 8 * N),
    case("log_softmax", lambda x: x.log_softmax(1), a(20, 50), 20 * (5 * 50 - 1), 8 * N),
    case("max_pool2d", lambda x: F.max_pool2d(x, 2), a(1, 3, 8, 8), 48 * 3, F32 * (192 + 48), F32 * 240 + 8 * 48),
    case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), a(1, 3, 8, 8), 48 * 4, F32 * (192 + 48)),
]

NORMS = [
    case(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, (50,), w, b),
        (a(20, 50), a(50), a(50)),
        20 * (7 * 50 + 2),
        F32 * (2 * N + 100),
        F32 * (2 * N + 100 + 40),  # mean and rstd
    ),
    case(
        "group_norm",
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (a(3, 4, 10), a(4), a(4)),
        6 * (5 * 20 + 2) + 2 * 120,
        F32 * (240 + 8),
        F32 * (360 + 8 + 12),  # read twice
    ),
    case(
        "batch_norm, training",  # its count of batches is one number of 8 bytes, read and written
        nn.BatchNorm1d(5),
        a(8, 5),
        7 * 40 + 2 * 5 + 7 * 5,
        F32 * ((40 + 4 * 5) + (40 + 2 * 5)) + 16,
        F32 * ((2 * 40 + 4 * 5) + (40 + 2 * 5 + 2 * 5)) + 16,
    ),
    case("batch_norm, evaluation", nn.BatchNorm1d(5).eval(), a(8, 5), 4 * 40 + 2 * 5, F32 * (80 + 20)),
    case(
        "rms_norm, operator by operator",
        lambda x, w: F.rms_norm(x, (50,), w),
        (a(20, 50), a(50)),
        20 * (4 * 50 + 2),  # square, mean, times rstd, times weight; + eps and rsqrt a row
        F32 * (2 * N + 50),
        F32 * (2 * N + (N + 20) + 40 + 40 + (2 * N + 20) + (2 * N + 50)),
    ),
    case(
        "cross_entropy",
        F.cross_entropy,
        (a(20, 50), ints(20)),
        20 * (5 * 50 - 1) + 2 * 20,
        F32 * N + 8 * 20 + F32,
        8 * N + F32 * 20 + 8 * 20 + 2 * F32,
    ),
    case("mse_loss", F.mse_loss, (a(N), a(N)), 3 * N, F32 * (2 * N + 1)),
]


@pytest.mark.parametrize("one", [*PRODUCTS, *POINTWISE, *MOVEMENT, *REDUCTIONS, *NORMS], ids=lambda one: one.name)
def test_forward_by_hand(one: Case) -> None:
    found = cost(one.fn, *one.args)
    assert (found.flop, found.bytes, found.eager_bytes) == (one.flop, one.bytes, one.eager), found.details()
    assert not found.unknown


BACKWARD = [
    case("x * 2", lambda x: x * 2, g(N), 2 * N, F32 * 4 * N),
    case("x * y", lambda x, y: x * y, (g(N), g(N)), 3 * N, F32 * 6 * N, F32 * 9 * N),
    case("relu", F.relu, g(N), 3 * N, F32 * 4 * N, F32 * 5 * N),
    case("tanh", torch.tanh, g(N), 4 * N, F32 * 4 * N, F32 * 5 * N),
    case("gelu", F.gelu, g(N), 16 * N, F32 * 4 * N, F32 * 5 * N),
    case("silu", F.silu, g(N), 13 * N, F32 * 4 * N, F32 * 5 * N),
    case("cos", torch.cos, g(N), 4 * N, F32 * 4 * N, F32 * (2 + 2 + 2 + 3) * N),
    # the gradient of a sum is its upstream gradient, seen N times: a view, and nothing is written
    case("sum", torch.sum, g(N), N - 1, F32 * (N + 1)),
    case("softmax", lambda x: x.softmax(1), g(20, 50), 20 * (248 + 199), F32 * 4 * N, F32 * 5 * N),
    case("log_softmax", lambda x: x.log_softmax(1), g(20, 50), 20 * (249 + 199), F32 * 4 * N, F32 * 5 * N),
    case("mm", torch.mm, (g(3, 4), g(4, 5)), 3 * 120, F32 * 2 * 47, F32 * 3 * 47),
    case(
        "conv2d with groups",
        lambda x, w, b: F.conv2d(x, w, b, groups=2),
        (g(2, 4, 5, 5), g(6, 2, 3, 3), g(6)),
        3 * 2 * (2 * 6 * 9) * 18 + 108 + (108 - 6),
        F32 * (2 * (200 + 108 + 6) + 2 * 108),
        F32 * ((200 + 108 + 6 + 108) + (108 + 200 + 108) + (200 + 108 + 6)),
    ),
    case(
        "conv1d, weight only",
        lambda x, w: F.conv1d(x, w),
        (a(2, 3, 10), g(4, 3, 3)),
        2 * 2 * (2 * 4 * 8) * 9,
        F32 * (60 + 2 * 36 + 2 * 64),
        F32 * ((60 + 36 + 64) + (64 + 60 + 36)),
    ),
    case(
        "attention",
        F.scaled_dot_product_attention,
        (g(2, 4, 16, 8), g(2, 4, 16, 8), g(2, 4, 16, 8)),
        (4 + 10) * 2 * 4 * 16 * 16 * 8,
        F32 * 8 * 1024,
        F32 * (4 * 1024 + 128) + F32 * (5 * 1024 + 128 + 3 * 1024),
    ),
    case(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, (50,), w, b),
        (g(20, 50), g(50), g(50)),
        20 * 352 + 10 * N + (2 * N - 50) + (N - 50),
        F32 * (4 * N + 200),
        F32 * (2 * N + 140) + F32 * (4 * N + 40 + 100 + N + 100),  # gradient and input read twice; bias passed along
    ),
    case(
        "embedding",
        F.embedding,
        (ints(12), g(100, 8)),
        96,
        8 * 12 + F32 * (96 + 96 + 96 + 800),
        8 * 12 + F32 * (96 + 96) + 8 * 12 + F32 * (96 + 800),
    ),
    case(
        "cross_entropy",
        F.cross_entropy,
        (g(20, 50), ints(20)),
        20 * 249 + 40 + 40 + 20 * 199,
        F32 * (N + 1 + 1 + N) + 8 * 20,
        (8 * N + F32 * 20 + 8 * 20 + 2 * F32) + (F32 + 8 * 20 + F32 + F32 * N) + F32 * 3 * N,
    ),
]


@pytest.mark.parametrize("one", BACKWARD, ids=lambda one: one.name)
def test_forward_and_backward_by_hand(one: Case) -> None:
    found = cost(one.fn, *one.args, backward=True)
    assert (found.flop, found.bytes, found.eager_bytes) == (one.flop, one.bytes, one.eager), found.details()
    assert not found.unknown


@pytest.mark.parametrize(("norm", "x", "flop", "read", "written"), [
    (nn.BatchNorm1d(5), g(8, 5), 10 * 40 + (2 * 40 - 5) + (40 - 5), 2 * 40 + 2 * 40 + 3 * 5, 40 + 5 + 5),
    # in evaluation there is no second pass: the statistics are given
    (nn.BatchNorm1d(5).eval(), g(8, 5), 2 * 40 + 2 * 5 + 2 * 40 + (2 * 40 - 5) + (40 - 5), 40 + 40 + 3 * 5, 40 + 5 + 5),
    (nn.GroupNorm(2, 4), g(3, 4, 10), 10 * 120 + (2 * 120 - 4) + (120 - 4), 2 * 2 * 120 + 6 + 6 + 4, 120 + 4 + 4),
])  # fmt: skip
def test_norms_backward(norm: nn.Module, x: Any, flop: int, read: int, written: int) -> None:
    found = cost(norm, x, backward=True)
    [entry] = [each for each in found.operators if "backward" in each.name]
    assert (entry.flop, entry.read_bytes, entry.written_bytes) == (flop, F32 * read, F32 * written)
    assert found.flop - flop == cost(norm, x).flop


def test_a_sort_is_unknown_and_named() -> None:
    found = cost(lambda x: (x + 1).sort(), a(N))
    assert found.unknown == ("aten.sort",)
    assert found.flop == N
    assert repr(found) == "at least 1 kFLOP (unknown: aten.sort), 16 kB, at least 0.0625 FLOP/B"
    assert found.operators[-1].bytes == F32 * N + (F32 + 8) * N


def test_complex_numbers_are_unknown_not_zero() -> None:
    assert cost(lambda x: x * 2, array(8, "complex64")).unknown == ("aten.mul",)
    square = array((4, 4), "complex64")
    assert cost(torch.mm, square, square).flop == 8 * 4**3  # four products of real numbers
    assert cost(torch.addmm, square, square, square).flop == 8 * 4**3 + 2 * 16
    assert cost(torch.fft.fft, array((3, 8), "complex64")).flop == 3 * 5 * 8 * 3
    assert cost(torch.fft.rfft2, array((3, 4, 8))).flop == 3 * 5 * 32 * 5 / 2
    assert cost(torch.fft.irfft, array((3, 5), "complex64")).flop == 3 * 5 * 8 * 3 / 2
    assert not cost(torch.clone, array(8, "complex64")).unknown


ATEN = torch.ops.aten
Q = array((2, 4, 16, 8), "bfloat16", requires_grad=True)
ATTENTION = {
    "flash": lambda q, k, v: ATEN._scaled_dot_product_flash_attention(q, k, v)[0],
    "efficient": lambda q, k, v: ATEN._scaled_dot_product_efficient_attention(q, k, v, None, True)[0],
    "cudnn": lambda q, k, v: ATEN._scaled_dot_product_cudnn_attention(q, k, v, None, True)[0],
}


@pytest.mark.parametrize("kernel", ATTENTION)
def test_attention_kernels_of_a_gpu(kernel: str) -> None:
    forward, backward = (e for e in cost(ATTENTION[kernel], Q, Q, Q, backward=True).operators if e.kind != "view")
    assert (forward.flop, backward.flop) == (4 * 8 * 16 * 16 * 8, 10 * 8 * 16 * 16 * 8)
    assert forward.read_bytes == 3 * 2048
    assert forward.written_bytes >= 2048 + F32 * 128  # the kernel may pad its logarithms
    assert backward.written_bytes == 3 * 2048


@pytest.mark.parametrize("name", ["cudnn_batch_norm", "_batch_norm_with_update"])
def test_batch_norms_of_a_gpu(name: str) -> None:
    def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if name == "cudnn_batch_norm":
            return ATEN.cudnn_batch_norm(x, w, b, m, v, True, 0.1, 1e-5)[0]
        return ATEN._batch_norm_with_update(x, w, b, m, v, 0.1, 1e-5)[0]

    found = cost(norm, g(8, 5), g(5), g(5), a(5), a(5), backward=True)
    forward, backward = (each for each in found.operators if each.kind == "norm")
    assert (forward.flop, backward.flop) == (7 * 40 + 10 + 35, 10 * 40 + 75 + 35)
    assert (forward.read_bytes, forward.written_bytes) == (F32 * (80 + 20), F32 * (40 + 20))
    assert (backward.read_bytes, backward.written_bytes) == (F32 * (160 + 15), F32 * (40 + 10))


def fused(layer: nn.RNNBase, *states: Description, x: Description, batches: tuple[int, ...] = ()) -> Any:
    """The layer as torch calls cuDNN for it, with the gradients of all that it takes."""
    kind, weights = ["RNN_RELU", "RNN_TANH", "LSTM", "GRU"].index(layer.mode), list(layer.parameters())
    sizes = kind, layer.hidden_size, layer.proj_size, layer.num_layers, layer.batch_first, 0.0, True

    def call(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor | None = None) -> Any:
        stride = len(layer.all_weights[0])
        found = ATEN._cudnn_rnn(x, weights, stride, None, h, c, *sizes, layer.bidirectional, batches, None)
        return found[: 2 + (c is not None)]

    return cost(call, x, *states, backward=True)


LAYERS: dict[str, tuple[Callable[..., nn.RNNBase], dict[str, Any]]] = {
    "tanh": (nn.RNN, {"num_layers": 2}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bias": False, "bidirectional": True}),
    "GRU": (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "LSTM": (nn.LSTM, {"num_layers": 3, "bias": False}),
    "LSTM, projected": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 3}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_cudnn_layers_cost_what_their_operators_do(name: str) -> None:
    make, options = LAYERS[name]
    layer, t = make(K, H, **options), 7
    deep = layer.num_layers * (1 + layer.bidirectional)
    x = g(MB, t, K) if layer.batch_first else g(t, MB, K)
    states = [g(deep, MB, layer.proj_size or H), g(deep, MB, H)][: 1 + (layer.mode == "LSTM")]
    steps = cost(layer, x, states[0] if len(states) == 1 else tuple(states), backward=True)
    found = fused(layer, *states, x=x)
    assert not found.unknown and [each.kind for each in found.operators if each.flop] == ["recurrent"] * 2
    for backward in (False, True):
        one, many = ([each for each in of.operators if each.backward == backward] for of in (found, steps))
        of_one, of_many = (sum(product.flop for each in of for product in each.matmuls) for of in (one, many))
        assert of_one == of_many
        of_all = [product for each in one for product in each.matmuls if t * MB in (product.m, product.k)]
        assert len(of_all) == deep * (3 + (layer.proj_size > 0) if backward else 1), "the others are of a step each"
        if not backward:
            assert sum(each.flop for each in one) == sum(each.flop for each in many)
    units, biases = t * MB * H * deep, t * MB * sum(each.numel() for each in layer.parameters() if each.dim() == 1)
    cell = {"RNN_TANH": 4, "RNN_RELU": 3, "GRU": 17, "LSTM": 23}[layer.mode]
    assert one[-1].flop == 2 * sum(each.flop for each in found.operators[0].matmuls) + biases + cell * units


def test_cudnn_goes_through_packed_sequences_step_by_step() -> None:
    """Of three sequences of 4, 4 and 1 steps: so many rows and no more."""
    layer = nn.LSTM(K, H, bias=False)
    found = fused(layer, g(1, 3, H), g(1, 3, H), x=g(9, K), batches=(3, 2, 2, 2))
    products = found.operators[0].matmuls
    assert [each.m for each in products] == [9, 3, 2, 2, 2]
    assert sum(each.flop for each in products) == 2 * 9 * 4 * H * (K + H)
    assert found.flop == 3 * 2 * 9 * 4 * H * (K + H) + 9 * H * (22 + 23)


def test_frozen_weights_of_cudnn_have_no_gradients() -> None:
    found = fused(nn.GRU(K, H).requires_grad_(False), a(1, MB, H), x=g(7, MB, K))
    forward, backward = (each for each in found.operators if each.kind == "recurrent")
    assert sum(each.flop for each in backward.matmuls) == sum(each.flop for each in forward.matmuls), "of inputs alone"
    assert backward.flop == sum(each.flop for each in forward.matmuls) + 17 * 7 * MB * H


def test_cudnn_is_told_that_the_weights_lie_apart() -> None:
    """As torch asks it: an empty tensor like a weight, set to the weight's storage."""
    on_gpu = SimpleNamespace(device=torch.device("cuda"))
    with FakeTensorMode():
        empty = torch.empty(0)
    told = prepared(ATEN.set_.source_Storage, (empty, on_gpu), {})
    assert told is empty and told.numel() == 0
    assert prepared(ATEN.set_.source_Storage, (torch.empty(0), on_gpu), {}) is None, "a run has the storage itself"
    assert prepared(ATEN.set_.source_Storage, (empty, torch.empty(4).untyped_storage()), {}) is None
    assert prepared(ATEN.relu.default, (empty,), {}) is None


def test_matmuls_of_a_product_a_convolution_and_attention() -> None:
    assert cost(nn.Linear(4, 5), a(3, 4)).matmuls == (Matmul(3, 5, 4, transposed=(False, True)),)
    grouped = cost(lambda x, w: F.conv2d(x, w, groups=2), a(2, 4, 5, 5), a(6, 2, 3, 3))
    assert grouped.matmuls == (Matmul(m=2 * 9, n=3, k=18, batch=2),)
    q = array((2, 4, 16, 8), "bfloat16")
    attention = cost(F.scaled_dot_product_attention, q, q, q).matmuls
    assert [(each.m, each.n, each.k, each.batch) for each in attention] == [(16, 16, 8, 8), (16, 8, 16, 8)]


def test_products_agree_with_torchs_own_counter() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.ConvTranspose2d(8, 4, 3, bias=False), nn.Flatten())
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    found = cost(net, x, backward=True)
    assert sum(each.flop for each in found.matmuls) == counter.get_total_flops()


def test_inference_mode_takes_composites_apart() -> None:
    with torch.inference_mode():
        x, w = torch.randn(3, 4), torch.randn(5, 4)
        found = cost(lambda x, w: F.linear(x, w), x, w)
    assert (found.flop, found.unknown) == (120, ())


@pytest.mark.parametrize("backward", [False, True])
def test_a_recurrent_layer_on_a_cpu_is_seen_step_by_step(backward: bool) -> None:
    """Not as oneDNN's one operator: 5 steps of batch 2, 8 features in, 16 units, 22 FLOP a unit and step."""
    found = cost(torch.nn.LSTM(8, 16, batch_first=True), array((2, 5, 8)), backward=backward)
    products, rest = 10 * 2 * 4 * 16 * (8 + 16), 10 * 16 * (2 * 4 + 22)
    assert found.unknown == () and torch.backends.mkldnn.enabled
    assert found.flop > 2 * products if backward else found.flop == products + rest


BOTH = {
    "single": (F.conv2d, (g(2, 6, 8, 8), g(4, 6, 1, 1)), Form("single", 128, 6, 2)),
    "window": (F.conv2d, (g(2, 6, 8, 8), g(4, 6, 3, 3)), Form("window", 72, 54, 2, 9)),
    "grouped": (partial(F.conv2d, groups=2), (g(2, 6, 8, 8), g(4, 3, 3, 3)), Form("grouped", 72, 27, 2, 2)),
    "depthwise": (partial(F.conv2d, groups=6), (g(2, 6, 8, 8), g(6, 1, 3, 3)), Form("depthwise", 72, 9, 2, 9)),
    "all": (ATTENTION["flash"], (Q, Q, Q), Form("all", 128, 8)),
    "causal": (lambda q, k, v: ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0], (Q, Q, Q),
               Form("causal", 128, 8)),
    "max": (lambda x: F.max_pool2d(x, 2), (g(2, 6, 8, 8),), Form("window", 192, 4)),
    "average": (lambda x: F.avg_pool2d(x, (2, 4)), (g(2, 6, 8, 8),), Form("window", 96, 8)),
    "look-up": (F.embedding, (ints(7), g(20, 5)), Form("rows", 7, 5, 20)),
    "loss": (F.nll_loss, (g(9, 5), ints(9)), Form("rows", 9, 5)),
    "softmax": (lambda x: x.softmax(-1), (g(9, 5),), Form("rows", 9, 5)),
    "softmax of columns": (lambda x: x.softmax(0), (g(9, 5),), Form("columns", 5, 9)),
    "layer norm": (lambda x: F.layer_norm(x, (5,)), (g(9, 5),), Form("rows", 9, 5)),
    "group norm": (lambda x: F.group_norm(x, 2), (g(3, 4, 10),), Form("rows", 6, 20, 3, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_forms_forward_and_backward(name: str) -> None:
    fn, args, form = BOTH[name]
    found = [each for each in cost(fn, *args, backward=True).operators if each.form.name]
    assert [(each.form, each.backward) for each in found] == [(form, False), (form, True)]


@pytest.mark.parametrize(
    ("fn", "args", "form"),
    [
        (lambda x, at: x.index_select(0, at), (a(20, 5), ints(7)), Form("rows", 7, 5, 20)),
        (lambda x, at, y: x.index_add(0, at, y), (a(20, 5), ints(7), a(7, 5)), Form("rows", 7, 5, 20)),
        (lambda x, at, y: x.scatter_add(0, at, y), (a(20, 5), ints(7, 5), a(7, 5)), Form("rows", 7, 5, 20)),
        (lambda x: F.batch_norm(x, None, None, training=True), (a(9, 5),), Form("columns", 5, 9)),
        (lambda x: F.batch_norm(x, None, None, training=True), (a(2, 5, 3, 3),), Form("channels", 5, 18, 2, 9)),
        (lambda x, y: torch._foreach_add([x, y], 1.0), (a(4, 5), a(7)), Form("tensors", 2, 20)),
        (lambda x: x.permute(1, 0, 2).contiguous(), (a(4, 5, 6),), Form("broadcast", 20, 6)),
        (lambda x: x.transpose(1, 2).contiguous(), (a(4, 5, 6),), Form("strided", 24, 5, 4, 6)),
        (lambda x: x.permute(0, 2, 3, 1).contiguous(), (a(2, 3, 4, 5),), Form("strided", 40, 3, 2, 20)),
        (lambda x: x.contiguous(memory_format=torch.channels_last), (a(2, 3, 4, 5),), Form("strided", 40, 3, 2, 20)),
        (lambda x: x[:, ::2].contiguous(), (a(4, 7),), Form("strided", 4, 4, 2, 2)),
        (lambda x: x.new_empty(1, 7).t() * x, (a(7, 1),), Form("broadcast", 1, 7)),
        (lambda x: x.sum(-1), (a(8, 64),), Form("rows", 8, 64)),
        (lambda x: x.sum(0), (a(8, 64),), Form("columns", 64, 8)), (torch.sum, (a(8, 64),), Form("whole", 1, 512)),
        (lambda x: x.sum((1, 2)), (a(2, 4, 64),), Form("rows", 2, 256)),
        (lambda x: x.t().contiguous(), (a(8, 64),), Form("strided", 64, 8, 1, 64)),
        (lambda x: x + x[0], (a(8, 64),), Form("broadcast", 8, 64)),
        (lambda x: x * 2, (a(8, 64),), Form("scalar", 1, 512)),
        (lambda x: x.double(), (a(8, 64),), Form("to-float64", 1, 512)),
        (torch.linalg.vector_norm, (a(8, 64),), Form("whole", 1, 512)),
        (lambda x: x.cumsum(1), (a(8, 64),), Form("rows", 8, 64)), (torch.dot, (a(50), a(50)), Form("whole", 1, 50)),
        (lambda x, at: x.gather(1, at), (a(6, 8), ints(6, 3)), Form("rows, within", 6, 3, 8)),
        (lambda x, at: x.gather(0, at), (a(6, 8), ints(6, 3)), Form("rows", 6, 3, 6)),
        (F.batch_norm, (a(2, 4, 3, 5), a(4), a(4)), Form("fixed", 8, 15)),
        (lambda x, b: x + b[:, None, None], (a(2, 4, 3, 5), a(4)), Form("broadcast", 8, 15)),
        (F.conv1d, (a(2, 8, 12), a(8, 8, 3)), Form("signal", 20, 24, 2, 3)),
        (partial(F.conv2d, dilation=2), (a(2, 8, 12, 12), a(8, 8, 3, 3)), Form("dilated", 128, 72, 2, 9)),
        (F.conv_transpose2d, (a(2, 8, 12, 12), a(8, 8, 3, 3)), Form("transposed", 392, 72, 2, 9)),
        (F.conv3d, (a(2, 8, 3, 12, 12), a(8, 8, 3, 3, 3)), Form("volume", 200, 216, 2, 27)),
        (F.conv2d, (torch.rand(2, 6, 6, 8).permute(0, 3, 1, 2), torch.rand(16, 8, 3, 3)),
         Form("window, channels last", 32, 72, 2, 9)),
    ],
)  # fmt: skip
def test_forms_that_one_call_has(fn: Callable[..., Any], args: Any, form: Form) -> None:
    assert [each.form for each in cost(fn, *args).operators if each.form.name] == [form]


def test_a_batch_norm_without_an_update_takes_fixed_statistics() -> None:
    x, each = torch.ones(2, 4, 3, 5), torch.ones(4)
    with CostMode() as counting:
        torch.ops.aten._batch_norm_no_update(x, None, None, each, each, 0.1, 1e-5)
    assert [one.form for one in counting.operators] == [Form("fixed", 8, 15)]


@pytest.mark.parametrize(("fn", "form"), [
    (lambda x: x + x, Form("", 1, 512)), (lambda x: torch.cat([x, x]), Form("", 2, 512)),
    (lambda x: torch.cat([x, x], 1), Form("", 16, 64)), (lambda x: torch.cat([x, x], -1), Form("", 16, 64)),
    (lambda x: torch.cat([x[:0], x, x]), Form("", 2, 512)), (lambda x: torch.cat([x[:, :0], x], 1), Form("", 8, 64)),
    (lambda x: torch.stack([x, x]), Form("", 2, 512)), (lambda x: x.new_zeros(3, 4), Form("", 1, 12)),
    (lambda x: x.bernoulli(), Form("", 1, 512)),
])  # fmt: skip
def test_forms_without_a_name_have_their_lines(fn: Callable[..., Any], form: Form) -> None:
    assert [each.form for each in cost(fn, a(8, 64)).operators if each.kind != "view"] == [form]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_in_inference_is_counted_by_its_parts(norm_first: bool, activation: str) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation).eval()
    with torch.no_grad():
        found = cost(layer, a(3, 4, 8))
    assert not found.unknown
    kernels = Counter(each.name for each in found.operators if each.kind != "view")
    products, norms = kernels["aten.addmm"] + kernels["aten._addmm_activation"], kernels["aten.native_layer_norm"]
    counted = (products, norms, kernels["aten._addmm_activation"], kernels["aten.add_"], kernels.total())
    assert counted == (4, 2, 1, 2, 9)
    activated = next(each for each in found.operators if each.name == "aten._addmm_activation")
    assert activated.flop == 12 * 16 * (2 * 8 + 1 + (5 if activation == "gelu" else 1))


HIDDEN = torch.ones(4, 4, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("mask", [{}, {"src_mask": HIDDEN}, {"src_key_padding_mask": HIDDEN[:3]}])
def test_the_parts_of_an_encoder_layer_give_what_it_gives(mask: dict[str, torch.Tensor]) -> None:
    for norm_first in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
        x = torch.randn(3, 4, 8)
        with torch.no_grad():
            expected = layer(x, **mask)
            with CostMode() as counting:
                found = layer(x, **mask)
        torch.testing.assert_close(found, expected)
        assert "_transformer" not in " ".join(each.name for each in counting.operators)


@pytest.mark.parametrize("mask_check", [False, True])
def test_an_encoder_counts_padded_sequences_as_long_as_the_longest(mask_check: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, mask_check=mask_check).eval()
    x, hidden = torch.randn(3, 4, 8), torch.arange(4).expand(3, 4) >= torch.tensor([[4], [3], [1]])
    with torch.no_grad():
        padded = cost(lambda: encoder(x, src_key_padding_mask=hidden))
        assert [each.flop for each in padded.matmuls] == [each.flop for each in cost(encoder, x).matmuls]
        assert not padded.unknown
        expected = encoder(x, src_key_padding_mask=hidden)
        with CostMode():
            found = encoder(x, src_key_padding_mask=hidden)
    if mask_check:
        torch.testing.assert_close(found[~hidden], expected[~hidden])


HIDDEN_ALONE = {"key_padding_mask": HIDDEN[:3], "need_weights": False}


@pytest.mark.parametrize("asked", [{}, {"need_weights": False}, {"key_padding_mask": HIDDEN[:3]}, HIDDEN_ALONE])
def test_the_parts_of_attention_in_inference_give_what_it_gives(asked: dict[str, Any]) -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(3, 4, 8)
    with torch.no_grad():
        expected = layer(x, x, x, **asked)
        with CostMode() as counting:
            found = layer(x, x, x, **asked)
    torch.testing.assert_close(found, expected)
    assert not any(each.kind == "unknown" for each in counting.operators)
    alone = not asked.get("need_weights", True)  # one product for queries, keys and values; attention in one kernel
    assert alone == ([each.kind for each in counting.operators].count("attention") == 1)
    assert not alone or sum(each.kind == "matmul" for each in counting.operators) == 2
