"""The sweeps of a calibration, without a GPU: what is drawn, checked, timed and kept. The times are made up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate
from brrr.core.recordings import own_root
from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.roofline import peaks
from brrr.roofline.calibrate import gpu_times, host_cost, reference_calls
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import host_class
from brrr.roofline.peak import SweptCalls
from brrr.roofline.sweeps import swept_operators, swept_products
from tests.refusals import refused
from tools.reference import host_calls
from tools.reference import layers as gpu_layers
from tools.reference import operators as gpu_operators
from tools.reference import products as gpu_products


@pytest.fixture
def emulated(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls of each kind."""
    for module in (gpu_operators, gpu_products):
        monkeypatch.setattr(module, "ROUNDS", 1)
    for table in (gpu_operators.matrices, gpu_layers.layers):
        fewer = {name: replace(each, calls=1 + each.calls // 64) for name, each in table().items()}
        monkeypatch.setattr(gpu_operators, table.__name__, lambda fewer=fewer: fewer)
    monkeypatch.setattr(gpu_products, "COUNTS", {"bfloat16": 40, "float32": 30, "tf32": 20, "float64": 20})
    monkeypatch.setattr(gpu_products, "LAYERS", {"float32": 10})


def test_files_that_were_read_twice_are_equal_and_nothing_is_unpacked_for_that() -> None:
    """A cache of what rests on them asks at each operator."""
    one, other = (peaks._read.__wrapped__(own_root() / "h200" / peaks.PEAKS) for _ in range(2))
    assert one == other and one is not other
    assert one.sweeps._unpacked == other.sweeps._unpacked == {}
    assert one != replace(other, sweeps={})


def test_products_are_drawn_over_decades_with_odd_and_skinny_ones() -> None:
    drawn = gpu_products.products()
    assert drawn == gpu_products.products()
    assert {each.dtype for each in drawn[:100]} == set(gpu_products.COUNTS)
    assert all(each.nbytes <= gpu_products.MOST_BYTES for each in drawn)
    assert max(each.flop for each in drawn) > 1e6 * min(each.flop for each in drawn)
    for holds in (
        lambda each: each.n % 2 and each.n > 64, lambda each: 1 in (each.m, each.n), lambda each: each.batch > 1,
        lambda each: each.layout == "nt", lambda each: each.m == each.n == each.k, lambda each: each.k < 16,
    ):  # fmt: skip
        assert sum(map(bool, map(holds, drawn))) > 20


def test_matrices_cover_the_range_evenly_and_each_round_draws_others() -> None:
    pools = {"float32": torch.empty(int(2.1e8))}
    drawn = [each.args[-1] for each in gpu_operators._calls(pools, 5e8, 1.0, 0) if each.args[0] == "add"]
    assert len(drawn) == gpu_operators.FEW and all(one == other for one, other in drawn)
    sizes = [rows * columns * 4 for (rows, columns), _ in drawn]
    assert min(sizes) < 2.5e3 and max(sizes) > 2e8
    assert sorted(sizes) == pytest.approx(sizes, rel=0.2)  # one from each part of the range, in order
    pools = {"float32": torch.empty(int(1e6))}
    rounds = [
        [
            each.args[-1]
            for each in gpu_operators._calls(pools, 4e6, 1.0, operators)
            if each.args[0] == "convolution 3x3"
        ]
        for operators in (0, 1, 1)
    ]
    assert rounds[1] == rounds[2] and len(rounds[0]) > 40
    assert len(set(rounds[0]) & set(rounds[1])) < 0.2 * len(rounds[0])
    first, second = gpu_products.products(), gpu_products.products(1.0, 1)
    assert len(second) > 3500 and len(set(first) & set(second)) < 0.1 * len(first)


def test_a_sweep_of_products(emulated: None) -> None:
    found = Findings(until_s=1e18)
    gpu_products.sweep_every_product(found)
    sweep = found.sweeps["products"]
    assert found.notes == [] and set(found.sweeps) == {"products"}
    assert len(sweep) > 30 and set(sweep.seconds) == {2e-6}
    products, added, _ = swept_products(sweep)
    assert {product.dtype for product in products} == {"bfloat16", "float32", "tf32", "float64"}
    assert {product.transposed for product in products} == {(False, False), (False, True), (True, False)}
    assert set(added) == {False, True}


def test_a_sweep_of_operators_tells_them_as_brrr_cost_does(emulated: None) -> None:
    found = Findings(until_s=1e18)
    gpu_operators.sweep_every_operator(found)
    rough, lacks = "norm", "_thnn_fused"  # of a CPU, in bfloat16; a CPU runs no cell in one kernel
    assert [note for note in found.notes if rough not in note and lacks not in note] == []
    swept = {(each.name, each.form.name) for each, _ in swept_operators(found.sweeps["operators"])}
    for run in (
        lambda x: x.relu(), lambda x: x * 1.25, lambda x: x.sum(), lambda x: x.sum(-1), lambda x: x.sum(0),
        lambda x: x.t().contiguous(), lambda x: x + x[0], lambda x: x.softmax(0), lambda x: x.softmax(-1),
        lambda x: x.to(torch.bfloat16), lambda x: torch.nn.functional.layer_norm(x, (6,)), lambda x: x.cumsum(-1),
    ):  # fmt: skip
        (only,) = [each for each in cost(run, array((4, 6))).operators if each.kind != "view"]
        assert (only.name, only.form.name) in swept
    kinds = {each.kind: each for each, _ in swept_operators(found.sweeps["operators"])}
    assert {"convolution", "attention", "pooling", "index", "loss"} <= set(kinds)
    assert kinds["convolution"].flop and kinds["convolution"].form.name and kinds["index"].form.name == "rows"


def test_no_time_is_kept_of_a_wrong_product(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda row, x, y: right(row, x, y) * 1.05)
    found = Findings(until_s=1e18)
    gpu_products.sweep_every_product(found)
    assert set(swept_products(found.sweeps["products"])[1]) == {False}
    assert any("left out: WrongResultError: calibrate: Matmul(m=" in note for note in found.notes)


@pytest.mark.parametrize(("table", "name", "operator", "place"), [
    ("matrices", "sum of rows", "aten.sum", 0), ("layers", "average pooling, gradient", "avg_pool", -1),
])  # fmt: skip
def test_no_time_is_kept_of_what_is_wrong(
    emulated: None, monkeypatch: pytest.MonkeyPatch, table: str, name: str, operator: str, place: int
) -> None:
    right = {**gpu_operators.matrices(), **gpu_layers.layers()}[name]
    wrong = replace(right, run=lambda x: right.run(x) * (1.5 if x.dtype == torch.float32 else 1), calls=3)
    for each in ("matrices", "layers"):
        monkeypatch.setattr(
            gpu_operators, each, lambda wanted=each == table: {f"a wrong {name}": wrong} if wanted else {}
        )
    monkeypatch.setattr(gpu_operators, "only", lambda counted: counted[place])
    found = Findings(until_s=1e18)
    gpu_operators.sweep_every_operator(found)
    assert any(f"left out: WrongResultError: calibrate: a wrong {name} of" in note for note in found.notes)
    kept = {each.dtype for each, _ in swept_operators(found.sweeps["operators"]) if operator in each.name}
    assert kept == {"bfloat16"}


def test_operators_that_are_several_are_left_out_and_a_mask_is_there_before_the_call(emulated: None) -> None:
    values = gpu_times.pool(4096, torch.float32)
    several = gpu_layers.Swept(lambda x, y: torch.where(y > 0, x, y), lambda draw, elements: (), matrix=True)
    nothing = gpu_operators.matrices()["to float32"]
    assert gpu_operators.made("choose", several, values, ((4, 8), (4, 8))) is None
    assert gpu_operators.made("to float32", nothing, values, ((4, 8),)) is None

    layer = gpu_operators.matrices()["choose by a mask"]
    *_, mask = reference_calls.operands_of(layer.call(((4, 8),) * 3), values)
    assert mask.dtype == torch.bool and mask.any() and not mask.all()
    made = gpu_operators.made("choose by a mask", layer, values, ((4, 8),) * 3)
    assert made is not None and made[0][0] == "aten.where"


def test_what_is_no_number_has_to_be_at_the_same_places(emulated: None) -> None:
    values = torch.tensor([4.0, -1.0, 9.0, 16.0])
    for run, right in ((torch.sqrt, True), (lambda x: x.sqrt() if x.dtype == torch.float64 else -x, False)):
        layer = gpu_layers.Swept(run, lambda draw, elements: (), matrix=True)
        if right:
            assert gpu_operators.made("root", layer, values, ((4,),)) is not None
        else:
            with pytest.raises(WrongResultError):
                gpu_operators.made("root", layer, values, ((4,),))


def test_random_numbers_dropouts_and_places_have_checks_of_their_own() -> None:
    x = torch.rand(100, 50) + 0.5
    assert gpu_operators.numbers_are_right(torch.rand(100), x)
    assert not gpu_operators.numbers_are_right(torch.zeros(100), x)
    assert not gpu_operators.numbers_are_right(torch.full((100,), torch.nan), x)
    assert gpu_operators.dropped_is_right(torch.nn.functional.dropout(x), x)
    assert not gpu_operators.dropped_is_right(torch.zeros_like(x), x) and not gpu_operators.dropped_is_right(x, x)
    assert gpu_operators.place_is_right(x.argmax(-1), x) and not gpu_operators.place_is_right(x.argmin(-1), x)


def test_without_time_or_profiler_a_sweep_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, list[gpu_times.Prepare]] = {"a": [lambda: ((1,), lambda: None)] * 3}
    monkeypatch.setattr(gpu_times, "TOGETHER", 1)
    found = Findings(until_s=0.0)
    gpu_times.measure_sweep("things", ("n",), calls, 1.0, found, "nothing")
    assert not found.sweeps and found.notes == ["sweep of things: 0 of 3 measured, for lack of time"]
    monkeypatch.setattr(gpu_times, "own_times", lambda *args: None)
    found = Findings(until_s=1e18)
    gpu_times.measure_sweep("things", ("n",), calls, 1.0, found, "nothing")
    assert not found.sweeps and "only CUPTI" in found.notes[0]


def test_impossible_sweeps() -> None:
    for argument, column, seconds in (
        ("columns.m", (1, 2), (1e-6,)), ("columns.m", (1,), ()), ("seconds", (1,), (0.0,)),
        ("seconds", (1,), (float("nan"),)),
    ):  # fmt: skip
        with refused(argument):
            SweptCalls({"m": column}, seconds)


def in_turn(calls: Sequence[Callable[[], Any]], wait: object, seconds: float) -> list[Estimate]:
    """The first call takes 10 µs, the second 40, the third 90, and so on."""
    return [Estimate.of([1e-5 * (1 + place) ** 2]) for place, _ in enumerate(call() for call in calls)]


def test_the_hosts_costs_are_kept_by_operator(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = "convolution 1x1", "average pooling", "softmax, gradient", "layer norm, gradients of weights"
    every = gpu_layers.layers()
    lacking = replace(every["average pooling"], run=lambda x: [][0])
    monkeypatch.setattr(host_calls, "layers", lambda: {"a": lacking} | {name: every[name] for name in chosen})
    monkeypatch.setattr(host_cost, "issue_estimates", in_turn)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    found = Findings(until_s=1e18)
    host_cost.measure_host("cpu", found)
    host_calls.measure_calls(found)
    assert found.notes == ["the host's cost of a: not measured: IndexError: list index out of range"]
    model = DeviceModel("", "cuda", "", found.measured)
    for run, own in (
        (lambda x: functional.avg_pool2d(x, 2), "aten.avg_pool2d"),
        (lambda x: functional.conv2d(x, x[:, :, :1, :1]), "aten.convolution, single"),
        (lambda x: functional.max_pool2d(x, 2), "pooling"),
    ):
        only = [each for each in cost(run, array((4, 4, 6, 6))).operators if each.kind != "view"]
        assert [host_class(each, model) for each in only] == [own]
    relu_s, gradient_s = found.measured["host.relu"].value, found.measured["host.backward-gradient"].value
    one_more_s = relu_s * (16 - 9 - 4 + 1) / 25 / (host_calls.SEVERAL - 1)  # of four calls, and a relu beside them
    softmax, norm = (found.measured[f"host.aten.{name}"].value for name in BACKWARD)
    assert (softmax, norm) == pytest.approx((one_more_s - gradient_s, one_more_s - 3 * gradient_s))


BACKWARD = "_softmax_backward_data", "native_layer_norm_backward"
