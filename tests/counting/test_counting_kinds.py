"""What counts by the kind it is of, in whichever dimension, form and place it comes: the right values, made by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from brrr.core.errors import ArgumentError, BrrrError, TraceError
from brrr.counting.cost import Form
from brrr.counting.description import Description, array
from brrr.counting.tracing import cost
from brrr.roofline.predicting import predict
from tests.refusals import refused

Callable_ = Callable[..., Any]


def a(*shape: int, dtype: str = "float32") -> Description:
    return array(shape, dtype, requires_grad=dtype != "int64")


@pytest.mark.parametrize("name", ["transpose_(0, 1)", "squeeze_()", "unsqueeze_(0)", "t_()", "as_strided_((2,), (1,))",
                                  "swapaxes_(0, 1)", "detach_()", "resize_(2, 2)", "is_pinned()"])  # fmt: skip
def test_what_changes_no_data_counts_nothing(name: str) -> None:
    found = cost(lambda x: eval(f"(x + 0).{name}"), array((3, 4)))
    assert (found.flop, found.eager_bytes, found.unknown) == (12, 2 * 48, ())


IMAGE, VOLUME, LINE = a(2, 3, 8, 8), a(2, 3, 8, 8, 8), a(2, 3, 8)
KINDS: dict[str, tuple[Callable_, tuple[Any, ...], float, float]] = {  # FLOP forward; with the gradients
    "pad": (lambda x: F.pad(x, (1,) * 6, mode="reflect"), (VOLUME,), 0, 6000),
    "pad by the edge": (lambda x: F.pad(x, (1,) * 2, mode="replicate"), (LINE,), 0, 60),
    "rot90": (lambda x: torch.rot90(x, 1, (2, 3)), (IMAGE,), 0, 0),
    "unfold and fold": (lambda x: F.fold(F.unfold(x, 3), (8, 8), 3), (IMAGE,), 1944, 2 * 1944),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (VOLUME,), 0, 8 * 3072),
    "linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (LINE,), 3 * 96, 7 * 96),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE,), 9 * 1536, 17 * 1536),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (VOLUME,), 21 * 24576, 37 * 24576),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (IMAGE,), 35 * 1536, 67 * 1536),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (LINE,), 24, 48),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (VOLUME,), 7 * 384, 8 * 384),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (LINE,), 2 * 24, 5 * 24),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (VOLUME,), 8 * 384, 17 * 384),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, 4), (IMAGE,), 384 - 96, 384),
    "adaptive mean": (lambda x: F.adaptive_avg_pool3d(x, 4), (VOLUME,), 3072, 3072 + 384 + 3072),
    "grid": (F.grid_sample, (IMAGE, a(2, 4, 4, 2)), 9 * 96, 33 * 96),
    "distances": (torch.cdist, (a(30, 4), a(40, 4)), 2 * 6 * 1200 + 2 * 1200 + 7 * 70 + 120, -1),
    "few distances": (torch.cdist, (a(10, 4), a(12, 4)), 3 * 4 * 120, 9 * 4 * 120 + 2 * 120),
    "distances of one set": (F.pdist, (a(10, 4),), 3 * 4 * 45, 7 * 4 * 45 + 45),
    "one distance": (torch.dist, (a(9), a(9)), 27, -1),
    "addbmm": (torch.addbmm, (a(3, 5), a(2, 3, 4), a(2, 4, 5)), 2 * 120 + 15, -1),
    "addr": (torch.addr, (a(3, 5), a(3), a(5)), 30, -1),
    "bilinear layer": (F.bilinear, (a(7, 3), a(7, 4), a(5, 3, 4)), 2 * 420 + 2 * 140 + 35, -1),
    "bce": (F.binary_cross_entropy, (a(4, 5), array((4, 5))), 8 * 20 + 20, 9 * 20 + 6 * 20),
    "bce of logits": (F.binary_cross_entropy_with_logits, (a(4, 5), array((4, 5))), 180, -1),
    "smooth l1": (F.smooth_l1_loss, (a(4, 5), array((4, 5))), 180, 180 + 7 * 20),
    "huber": (F.huber_loss, (a(4, 5), array((4, 5))), 180, 180 + 7 * 20),
    "mish": (F.mish, (a(20),), 80, 80 + 13 * 20),
    "prelu": (F.prelu, (a(2, 5, 3), a(5)), 90, 90 + 5 * 30 + 25),
    "weight norm": (lambda v, g: torch._weight_norm(v, g, 0), (a(6, 4), a(6, 1)), 3 * 24 + 6, 78 + 5 * 24),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_known_kinds_in_every_dimension_and_under_other_names(name: str) -> None:
    fn, args, flop, with_gradients = KINDS[name]
    found, trained = cost(fn, *args), cost(fn, *args, backward=True)
    assert (found.flop, found.unknown, trained.unknown) == (flop, (), ())
    assert trained.flop == with_gradients or (with_gradients == -1 and trained.flop > flop)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("groups", [None, array(4, "int32")])
def test_grouped_products(groups: Any, dtype: str) -> None:
    """Of 4 experts: each row goes to one of them, as often as it does; without groups, each has all its rows."""
    x, w = a(*([64, 32] if groups else [4, 16, 32]), dtype=dtype), a(4, 32, 24, dtype=dtype)
    found = cost(lambda x, w, groups: F.grouped_mm(x, w, offs=groups), x, w, groups, backward=True)
    assert sum(each.flop for each in found.matmuls) == found.flop == 3 * 2 * 64 * 32 * 24
    assert found.unknown == ()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("first", "second"), [
    ((32, 64), (4, 64, 48)), ((16, 32), (32, 24)), ((4, 16, 32), (32, 32)), ((4, 16, 32), (4, 32, 24)),
])  # fmt: skip
def test_grouped_products_are_described_as_torch_makes_them(first: Any, second: Any, dtype: torch.dtype) -> None:
    ends = None if len(first) == len(second) == 3 else torch.tensor([8, 16, 24, 32], dtype=torch.int32)
    x, w = torch.randn(first).to(dtype), torch.randn(second).to(dtype)
    described, ran = (cost(lambda x, w: F.grouped_mm(x, w, offs=ends), x, w, run=run) for run in (False, True))
    assert described.flop > 0 and described.operators[0] == ran.operators[0]


@pytest.mark.parametrize(("change", "said"), [
    ({"x": a(64, 31)}, "contraction dimension"), ({"groups": None}, "offs"),
    ({"x": a(64, 32, dtype="float64")}, "type"),
])  # fmt: skip
def test_grouped_products_that_torch_refuses(change: dict[str, Any], said: str) -> None:
    given = {"x": a(64, 32), "w": a(4, 32, 24), "groups": array(4, "int32"), **change}
    with pytest.raises(RuntimeError, match=said):
        cost(lambda x, w, groups: F.grouped_mm(x, w, offs=groups), *given.values())


def test_linears_of_quantised_weights() -> None:
    layer = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), {nn.Linear})
    packed = torch.randint(-9, 9, (8, 16), dtype=torch.int8)
    scaled = cost(lambda x: torch._weight_int8pack_mm(x, packed, torch.ones(8, dtype=torch.bfloat16)),
                  array((3, 16), "bfloat16"))  # fmt: skip
    assert (scaled.flop, scaled.unknown) == (2 * 3 * 8 * 16, ())
    for _ in range(2):
        found = cost(layer, array((3, 16)))
        assert (found.flop, found.unknown) == (2 * 3 * 8 * 16 + 2 * 24, ())


BAG = (a(1000, 8), a(21, dtype="int64"), a(7, dtype="int64"))
WEIGHTED = 21 * 8 * 4


@pytest.mark.parametrize(("mode", "weighted", "flop", "gradient"), [
    ("sum", False, 14 * 8, 21 * 8), ("mean", False, 21 * 8, 2 * 21 * 8), ("max", False, 14 * 8, 21 * 8),
    ("sum", True, 35 * 8, 4 * 21 * 8),
])  # fmt: skip
def test_a_bag_moves_the_rows_that_are_looked_up(mode: str, weighted: bool, flop: int, gradient: int) -> None:
    def bag(table: Any, rows: Any, starts: Any, weights: Any = None) -> Any:
        return F.embedding_bag(rows, table, starts, mode=mode, per_sample_weights=weights)

    given = (*BAG, *([a(21)] if weighted else []))
    found, trained = cost(bag, *given), cost(bag, *given, backward=True)
    assert (found.flop, trained.flop, trained.unknown) == (flop, flop + gradient, ())
    assert found.bytes == WEIGHTED + 8 * 28 + 4 * 21 * weighted + 7 * 8 * 4


def test_many_tables_move_what_is_looked_up() -> None:
    tables = [array((200_000, 64)) for _ in range(26)]
    rows = array(8192, "int64")
    found = cost(lambda rows, *tables: [F.embedding_bag(rows[:, None], each) for each in tables], rows, *tables)
    assert 26 * 8192 * 64 * 4 <= found.bytes - 26 * 8192 * 64 * 4 < 1.1 * 26 * 8192 * 64 * 4
    scaled = cost(nn.Embedding(1000, 8, max_norm=1.0), array((7, 3), "int64"))
    assert scaled.unknown == () and scaled.bytes < 4 * WEIGHTED


OPTIMIZERS = {"Adam": {"weight_decay": 0.1}, "AdamW": {}, "SGD": {"momentum": 0.9, "nesterov": True}, "Adagrad": {}}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_fused_optimizer_does_what_the_plain_one_does(name: str) -> None:
    costs = []
    for fused in (True, False):
        layer = nn.Linear(64, 64)
        optimizer = getattr(torch.optim, name)(
            layer.parameters(), lr=0.1, fused=fused, foreach=False, **OPTIMIZERS[name]
        )
        for each in layer.parameters():
            each.grad = torch.ones_like(each)
        optimizer.step()
        costs.append(cost(optimizer.step))
        clipping = cost(lambda of=layer: nn.utils.clip_grad_norm_(of.parameters(), 1.0))
        assert clipping.unknown == () and clipping.flop > 3 * 4160
    fused_cost, plain = costs
    assert fused_cost.unknown == () and fused_cost.flop == pytest.approx(plain.flop, rel=0.15)
    assert fused_cost.bytes == pytest.approx(plain.bytes, rel=0.01)


# Loops, branches and what is made of other functions

W = torch.randn(16, 16, requires_grad=True)
ROWS = a(5, 8, 16)
WHOLE: dict[str, tuple[Callable_, Any, float]] = {
    "flex": (lambda q: flex_attention(q, q, q), array((2, 4, 64, 16)), 4 * 8 * 64 * 64 * 16),
    "while": (lambda x: while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y @ W), (torch.tensor(0), x))[1],
              a(8, 16), 5 * 4096),
    "cond": (lambda x: torch.cond(torch.tensor(True), lambda y: y @ W, lambda y: y * 1, (x,)), a(8, 16), 4096),
    "scan": (lambda x: scan(lambda c, y: (c + y @ W, y * 2), x[0] * 0, x, dim=0), ROWS, 5 * 4096),
    "map": (lambda x: mapped(lambda y: y @ W, x), ROWS, 5 * 4096),
    "associative scan": (lambda x: associative_scan(lambda p, q: p @ q, x, 0, combine_mode="generic"),
                         array((4, 8, 8)), 4 * 1024),
    "compiled inside": (lambda x: torch.compile(lambda y: y @ W, fullgraph=True)(x), a(8, 16), 4096),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_loops_and_branches_count_by_their_bodies(name: str) -> None:
    fn, x, flop = WHOLE[name]
    real = torch.randn(x.shape, requires_grad=x.requires_grad)
    for found in (cost(fn, x), cost(fn, real, run=True)):
        assert sum(each.flop for each in found.matmuls) == flop
    assert predict(fn, x, device="cpu").period_s > 0
    if x.requires_grad:
        assert sum(each.flop for each in cost(fn, x, backward=True).matmuls) == 3 * flop


def test_a_branch_that_depends_on_a_value_needs_it() -> None:
    def branch(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y @ W, lambda y: y * 1, (x,))

    with pytest.raises(TraceError, match="needs a value"):
        cost(branch, a(8, 16))
    assert cost(branch, torch.ones(8, 16), run=True).matmuls


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_computes_its_forward_twice(reentrant: bool) -> None:
    layer = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    found = cost(lambda x: checkpoint(layer, x, use_reentrant=reentrant), a(8, 16), backward=True)
    assert sum(each.flop for each in found.matmuls) == 4 * 4096
    assert all(each.grad is None for each in layer.parameters()) and found.gradients >= 3


# Arguments


def test_keywords_reach_the_callable() -> None:
    layer, x = nn.Linear(4, 4), array((2, 4))
    assert cost(layer, input=x) == cost(layer, x)
    assert predict(layer, input=x, device="h200").cost == cost(layer, x)
    with refused("input"):
        predict(cost(layer, x), input=x)


ONE = torch.randn(3, 16)
ODD: dict[str, Callable[[], Any]] = {
    "jagged": lambda: torch.nested.nested_tensor([ONE, ONE], layout=torch.jagged),
    "nested": lambda: torch.nested.nested_tensor([ONE, ONE]),
    "sparse": lambda: ONE.to_sparse(),
    "quantised": lambda: torch.quantize_per_tensor(ONE, 0.1, 0, torch.qint8),
}


@pytest.mark.parametrize("run", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_tensors_that_lie_otherwise_are_refused(name: str, run: bool) -> None:
    x, layer = ODD[name](), nn.Linear(16, 16)
    for call in (
        lambda: cost(layer, x, run=run),
        lambda: cost(layer, input=x, run=run),
        lambda: cost(lambda y: y.relu() if name == "quantised" else layer(x), x, run=run),
        lambda: cost(lambda y: layer(ODD[name]()) and y, ONE, run=run) if name != "quantised" else cost(layer, x),
    ):
        with pytest.raises(BrrrError, match=r"layout|quantised|real tensors|shape_env"):
            call()


@pytest.mark.parametrize("run", [False, True])
def test_lazy_modules_are_refused_before_they_start(run: bool) -> None:
    layer = nn.Sequential(nn.LazyLinear(4))
    with pytest.raises(ArgumentError, match="Call it once"):
        cost(layer, ONE, run=run)
    assert layer(ONE).shape == (3, 4)


def test_forms_tell_how_many_threads_go_through_how_much() -> None:
    def form(fn: Any, *args: Any, backward: bool = False) -> Form:
        return cost(fn, *args, backward=backward).operators[-1].form

    def twice(x: torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode=mode)

    x = torch.zeros(2, 3, 8, 8)
    last = x.to(memory_format=torch.channels_last)
    assert form(twice, x) == Form("steps", 256, 6) and form(twice, last) == Form("each", 1536, 1)
    assert form(lambda x: twice(x, "bicubic"), last) == Form("steps", 256, 6)
    assert form(lambda x: twice(x, "nearest"), x.requires_grad_(), backward=True) == Form("steps", 192, 2)
    assert form(F.grid_sample, x, torch.zeros(2, 4, 4, 2)) == Form("steps", 32, 3)
    assert form(lambda x: F.pad(x, (1,) * 4, mode="reflect"), x.detach()) == Form("each", 600, 1)
    assert form(F.pdist, torch.zeros(10, 4)) == Form("steps", 45 * 256, 1)
    bags = torch.zeros(40, dtype=torch.int64), torch.zeros(9, 16), torch.arange(0, 40, 10)
    assert form(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"), *bags) == Form("steps", 4 * 16, 10)
    transform = form(torch.fft.ifft2, torch.zeros(3, 4, 8, dtype=torch.complex64))
    assert transform == Form("transform", 3, 32, 1, 3)  # a pass for each side, and one that scales
    assert form(torch.fft.irfft, torch.zeros(3, 5, dtype=torch.complex64)) == Form("transform", 3, 8, 1, 3)
    weight = torch.zeros(4, 3, 3, 3, requires_grad=True)
    gradient = form(F.conv2d, last.detach().requires_grad_(), weight, backward=True)
    assert gradient.name == "window, channels last, and above"
    assert form(F.conv2d, x, weight, backward=True).name == "window"
    norm = form(lambda x: F.batch_norm(x, None, None, training=True), last)
    assert norm == Form("channels, channels last", 3, 128, 2, 64)
