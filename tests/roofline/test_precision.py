"""TF32 where torch computes in it: products, convolutions and recurrent layers each, and on no GPU without it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from rooflines import gpu

import brrr
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.gpu.precision import float32_products, float32_recurrence, layers_in_tf32
from brrr.roofline.predicting import predict
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
    assert "what limits it is not known" in str(lower) and "no margin" in lower.details()
    large = predict(lambda x: x * 2, brrr.array(2**36), device="h200")
    assert "it needs 550 GB at once and does not fit into the device's 151 GB" in str(large)
    assert "does not fit" in str(predict(lambda x: x * 2, brrr.array(2**32), device="datasheet:v100"))
    for fits in (predict(lambda x: x * 2, brrr.array(2**20), device="h200"), predict(Cost(1e12, 1e13), device="h200")):
        assert not fits.too_large and "does not fit" not in str(fits) and fits.bound != "unknown"
