"""The reference's calls made again without a GPU: what a row may have been, what is checked, what comes first."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate
from brrr.counting.cost import Form, Matmul, OperatorCost
from brrr.roofline.calibrate import gpu_times, reference_calls
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.corrections import carried_s, measured_calls
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.peak import Row, SweptCalls
from brrr.roofline.reference import reference
from brrr.roofline.sweeps import key_of, swept_operators

SMALL = 1.5e6


@cache
def every() -> list[OperatorCost]:
    return [each for each, _ in swept_operators(reference().sweeps["operators"])]


def rows(kind: str, form: str, name: str, dtype: str = "float32") -> list[OperatorCost]:
    wanted = kind, form, f"aten.{name}", dtype
    return [each for each in every() if (each.kind, each.form.name, each.name, each.dtype) == wanted]


@pytest.mark.parametrize(("kind", "form", "name"), [
    ("pointwise", "", "relu"), ("pointwise", "", "add"), ("pointwise", "broadcast", "add"),
    ("pointwise", "scalar", "mul"), ("softmax", "rows", "_softmax"), ("softmax", "columns", "_softmax_backward_data"),
    ("reduction", "columns", "amax"), ("reduction", "whole", "sum"), ("norm", "rows", "native_layer_norm"),
    ("norm", "rows and sums", "native_layer_norm_backward"), ("convolution", "window", "convolution"),
    ("convolution", "single, channels last", "convolution_backward"), ("convolution", "depthwise", "convolution"),
    ("convolution", "grouped", "convolution_backward"), ("index", "rows", "embedding"), ("index", "rows", "index_add"),
    ("index", "rows", "scatter_add"), ("pooling", "window", "max_pool2d_with_indices"),
    ("copy", "to-bfloat16", "_to_copy"), ("scan", "columns", "cumsum"), ("loss", "rows", "nll_loss_backward"),
    ("copy", "strided", "clone"),
])  # fmt: skip
def test_rows_of_the_reference_are_made_again(kind: str, form: str, name: str) -> None:
    """At least some of each kind, of the smallest, and what is made counts as the row does."""
    values = torch.randn(int(SMALL)).add_(0.25)
    tried = sorted((each for each in rows(kind, form, name) if each.bytes < SMALL), key=lambda each: each.bytes)
    with torch.no_grad():
        found = [(each, reference_calls.made_again(each, values)) for each in tried[:12]]
    there = [(each, made[0]) for each, made in found if made is not None]
    assert there
    for each, row in there:
        ((back, _),) = swept_operators(SweptCalls.of(reference_calls.COLUMNS, [row], [1e-6]))
        assert key_of(back) == key_of(each)


def test_attention_is_made_of_whole_heads() -> None:
    """A GPU's kernels are not a CPU's, so that only shapes are told here."""
    for name in ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward"):
        for each in rows("attention", "causal", name)[:50]:
            (call,) = reference_calls.likely(each)
            _, heads, tokens, width = call.shapes[0]
            assert (heads * tokens, width) == (each.form.lines, each.form.length)
            assert bool(call.gradient) == name.endswith("backward")


def test_what_counts_otherwise_is_not_taken_and_a_wrong_result_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    each = OperatorCost("aten.relu", 64.0, 256.0, 256.0, "float32", (), "pointwise", (), Form("", 1, 64))
    values = torch.randn(4096)
    assert reference_calls.made_again(each, values) is not None
    assert reference_calls.made_again(replace(each, read_bytes=512.0), values) is None
    assert reference_calls.made_again(replace(each, name="aten.nobody_knows"), values) is None
    monkeypatch.setitem(reference_calls.PLAIN, "relu", (lambda x: torch.relu(x if x.dtype == torch.float64 else -x), 1))
    monkeypatch.setattr(reference_calls, "only", lambda counted: each)
    with pytest.raises(WrongResultError, match=r"aten\.relu"):
        reference_calls.made_again(each, values)


def test_products_are_made_again_with_and_without_a_row(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference_calls.MOST, "cuda", (1e5, 2e-3))
    found = Findings(until_s=1e18, quick=True)
    reference_calls.sweep_products(found)
    made = [each for each, _ in measured_calls(found.sweeps)]
    assert {each.name for each in made} == {"aten.mm", "aten.addmm"} and len(made) > 20
    assert {each.matmuls[0].dtype for each in made} >= {"bfloat16", "float32", "tf32"}
    theirs = {each.matmuls[0] for each, _ in measured_calls({"products": reference().sweeps["products"]})}
    assert {each.matmuls[0] for each in made} <= theirs


def test_a_wrong_product_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.matmul
    row = operator_of(Matmul(32, 24, 16, dtype="float32"))
    assert reference_calls.product_again(row, torch.randn(4096))[0] == ("float32", 32, 24, 16, 1, "nn", 0)
    monkeypatch.setattr(torch, "matmul", lambda x, y: right(x, y) * 1.05)
    with pytest.raises(WrongResultError, match="relative error"):
        reference_calls.product_again(row, torch.randn(4096))


def test_a_sweep_keeps_what_was_carried_over(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference_calls.MOST, "cuda", (2e4, 2e-3))
    monkeypatch.setattr(reference_calls, "QUICK_S", 1e9)
    full = reference()
    found = Findings(1e18, True, "NVIDIA H100 80GB HBM3", dict(full.measured), dict(full.curves))
    reference_calls.sweep_operators(found)
    sweep, model = found.sweeps["operators"], gpu_times.model_so_far(found)
    assert len(sweep) > 50
    for (each, _), nanoseconds in list(zip(swept_operators(sweep), sweep.columns["carried"], strict=True))[::20]:
        assert nanoseconds == round((carried_s(each, model) or 0.0) * 1e9)


def test_what_is_furthest_off_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each kind, then of the kind that took three times what was carried over; what cannot be made is left."""
    order: list[str] = []

    def prepared(kind: str, place: int) -> Callable[[], tuple[Row, Callable[[], None]] | None]:
        def prepare() -> tuple[Row, Callable[[], None]] | None:
            if kind == "never":
                return None
            order.append(kind)
            return ("aten.sum", "reduction", "whole", "float32", 1, 64 + place, 1, 1, 256, 4, 64), lambda: None

        return prepare

    monkeypatch.setattr(gpu_times, "TOGETHER", 3)
    monkeypatch.setattr(gpu_times, "own_times", lambda calls, *_: [Estimate.of([3e-6])] * len(calls))
    monkeypatch.setattr(gpu_times, "carried_s", lambda each, model: 1e-6 if len(order) % 2 else 3e-6)
    calls = {kind: [prepared(kind, place) for place in range(6)] for kind in ("never", "one", "other")}
    found = Findings(until_s=1e18)
    model, columns = DeviceModel.measured(reference()), reference_calls.COLUMNS
    gpu_times.measure_sweep("operators", columns, calls, 1e9, found, "", model)
    assert order[:2] == ["one", "other"] and len(order) == 12
    assert len(found.sweeps["operators"]) == 12
