"""TF32 where torch computes in it: products, convolutions and recurrent layers each, and on no GPU without it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from rooflines import gpu
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import brrr
from brrr.counting.cost import Cost, Form, Matmul, OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu.precision import float32_products, float32_recurrence, layers_in_tf32
from brrr.roofline.calibrate.reference_calls import COLUMNS
from brrr.roofline.lowering import fused
from brrr.roofline.peak import SweptCalls
from brrr.roofline.predicting import Issued, predict, schedule
from brrr.roofline.prediction import Prediction

KINDS = {"matmul": "matmul", "conv": "convolution", "rnn": "recurrent", "attention": "attention"}


def one(kind: str) -> Cost:
    made = OperatorCost(f"aten.{kind}", 2.0 * 4096**3, 1e8, 5e7, "float32", ((4096, 4096),) * 2, KINDS[kind],
                        (Matmul(4096, 4096, 4096),))  # fmt: skip
    return Cost(2.0 * 4096**3, 1.5e8, operators=(made,))


def types(found: Prediction) -> set[str]:
    return {each.name for each in found.basis if each.name.startswith("matmul.")}


@contextmanager
def conv_alone() -> Iterator[None]:
    """The newer settings, which differ from layer to layer."""
    torch.backends.cudnn.conv.fp32_precision, torch.backends.cudnn.rnn.fp32_precision = "tf32", "ieee"
    try:
        yield
    finally:
        torch.backends.cudnn.rnn.fp32_precision = "tf32"


@contextmanager
def without_cudnn() -> Iterator[None]:
    with torch.backends.cudnn.flags(enabled=False):
        yield


SETTINGS = {
    "default": (lambda: float32_products(False), {"conv", "rnn"}),
    "products": (lambda: float32_products(True), {"matmul", "attention", "conv", "rnn"}),
    "no layers": (float32_recurrence, set()),
    "convolutions": (conv_alone, {"conv"}),
    "no cuDNN": (without_cudnn, set()),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_precision_is_what_torch_is_set_to(setting: str) -> None:
    around, reduced = SETTINGS[setting]
    with around():
        assert layers_in_tf32() == reduced - {"attention"}
        for kind in KINDS:
            found = predict(one(kind), device="datasheet:h200")
            assert types(found) == {"matmul.tf32" if kind in reduced else "matmul.fp32"}, kind
            assert any("as torch is set" in note for note in found.notes) == (kind in reduced)
            asked = {tf32: predict(one(kind), device="datasheet:h200", tf32=tf32) for tf32 in (False, True)}
            assert asked[kind in reduced].period_s == found.period_s and asked[True].period_s < asked[False].period_s
    assert layers_in_tf32() == {"conv", "rnn"}, "as before"


def test_an_override_of_the_driver_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert layers_in_tf32() == set()


@pytest.mark.parametrize("device", ["datasheet:v100", "datasheet:gtx-1070", gpu()])
def test_where_there_is_none_it_is_float32(device: object) -> None:
    assert types(predict(one("conv"), device=device)) == {"matmul.fp32"}  # type: ignore[arg-type]


def test_a_convolution_takes_what_was_measured() -> None:
    """42 µs on an H200 as torch is set, 134 in full precision; a bare cost counts with products."""
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False).requires_grad_(False)
    x = brrr.array((16, 64, 56, 56))
    assert predict(layer, x, device="h200").span_s == pytest.approx(42e-6, rel=0.15)
    assert predict(layer, x, device="h200", tf32=False).span_s == pytest.approx(134e-6, rel=0.05)
    with float32_products(True):
        assert types(predict(Cost(1e12, 1e6), device="h200")) == {"matmul.tf32"}
    assert types(predict(Cost(1e12, 1e6), device="h200")) <= {"matmul.fp32"}


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_verdict_from_a_lower_bound_is_none_and_what_does_not_fit_is_said() -> None:
    lower = predict(lambda x: x.sort()[0] * 2, brrr.array(2**20), device="h200")
    assert lower.unknown and lower.bound == "unknown" and "at least" in str(lower) and "-bound" not in str(lower)
    assert "what limits it is not known" in str(lower) and " %" not in repr(lower)
    large = predict(lambda x: x * 2, brrr.array(2**36), device="h200")
    assert "it needs 551 GB at once and does not fit into the device's 151 GB" in str(large)
    assert "does not fit" in str(predict(lambda x: x * 2, brrr.array(2**32), device="datasheet:v100"))
    for fits in (predict(lambda x: x * 2, brrr.array(2**20), device="h200"), predict(Cost(1e12, 1e13), device="h200")):
        assert not fits.too_large and "does not fit" not in str(fits) and fits.bound != "unknown"


# --- over the link ----------------------------------------------------------------------------------------------------


def copied(form: str, nbytes: float) -> Cost:
    made = OperatorCost("aten._to_copy", 0.0, nbytes, nbytes, "float32", ((int(nbytes) // 4,),), "copy", (), Form(form))
    return Cost(0.0, nbytes, operators=(made,))


@pytest.mark.parametrize(
    ("form", "nbytes", "seconds"),
    [("copy in", 1e8, 10.4e-3), ("copy out", 1e8, 5.7e-3), ("copy in, pinned", 1e8, 1.84e-3),
     ("copy out, pinned", 1073741824, 19.4e-3), ("copy in", 1073741824, 107e-3)],
)  # fmt: skip
def test_a_copy_takes_the_links_time(form: str, nbytes: float, seconds: float) -> None:
    """As recorded on an H200 (`transfers`); the host waits for what is not pinned."""
    found = predict(copied(form, nbytes), device="h200")
    assert found.period_s == pytest.approx(seconds, rel=0.1) and found.bound == "memory"
    assert found.operators[0].waits == (not form.endswith("pinned"))


def test_the_host_does_not_run_ahead_of_a_copy_that_it_waits_for() -> None:
    steps = [Issued(1, 5, True), Issued(3, 1)]
    assert [tuple(each) for each in schedule(steps)] == [(1, 1, 6), (9, 9, 10)]
    assert [tuple(each) for each in schedule([each._replace(waits=False) for each in steps])] == [(1, 1, 6), (4, 6, 7)]


def test_copies_between_host_and_device_are_counted_as_such() -> None:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    x = FakeTensor(mode, torch.empty(4, 8, device="meta"), torch.device("cuda:0"))
    with torch.no_grad(), mode, CostMode() as counting:
        there = x.cpu()
        there.to("cuda:0", non_blocking=True)
        there.double()
    assert [each.form.name for each in counting.operators] == ["copy out", "copy in, pinned", "to-float64"]
    assert len(fused(Cost(0.0, 1.0, operators=tuple(counting.operators)))) == 3


def test_a_sort_takes_what_a_sweep_tells_and_without_one_at_least_several_passes() -> None:
    """As recorded on an H200 (`operators`): 256, 95 and 20 µs."""
    for size, taken in (((2053, 3001), 256e-6), ((1391, 1623), 95.2e-6), ((17, 1021), 20.1e-6)):
        found = predict(lambda x: x.sort(), brrr.array(size), device="h200")
        assert 0.6 * taken < (found.span_s or 0) < taken
        assert found.bound == "unknown" and found.unknown == ("aten.sort",)
    work = brrr.cost(lambda x: x.sort(), brrr.array((1391, 1623)))
    (each,) = work.operators
    assert (each.form.lines, each.form.length) == (1391, 1623)
    row = (each.name, each.kind, each.form.name, each.dtype, each.form.lines, each.form.length, 1, 1,
           int(each.read_bytes), int(each.written_bytes), 0)  # fmt: skip
    swept = SweptCalls.of(COLUMNS, [row, (*row[:4], 64, *row[5:]), (*row[:4], 128, *row[5:])], [95.2e-6] * 3)
    known = predict(work, device=gpu(sweeps={"operators": swept}))
    assert known.span_s == pytest.approx(95.2e-6, rel=1e-3) and not known.unknown and known.bound != "unknown"
