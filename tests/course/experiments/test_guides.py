"""The guides of experiments by hand: what a datasheet's figures allow, and none where they are not given."""

from typing import Any

import pytest

from brrr.gpu.datasheet import hardware
from brrr_course.experiments import experiment
from brrr_course.experiments.attention import ALL, ONE
from brrr_course.experiments.bits import ORDINARY
from brrr_course.experiments.occupancy import LATENCY_S

H200 = hardware("h200")
HIDDEN = {"layers": 8, "hidden": 4096}
TENSORS = {"length": 8192, "kind": ALL, "dtype": "bfloat16", "head": 128}
FEW, MANY = ({"tokens": tokens, "width": 8192, "inputs": ORDINARY} for tokens in (1, 16384))
BOTH = {"width": 4096, "batch": 2048, "direction": "forward+backward"}
STEPS = {"repeat": 512, "elements": 1000, "dtype": "float32"}
BY_HAND: list[tuple[str, str, str, dict[str, Any], float | None]] = [
    ("attention", "bytes", "h100", TENSORS, 2.62e-3), ("attention", "flop", "h100", TENSORS, 0.556e-3),
    ("attention", "flop", "h100", {**TENSORS, "dtype": "float32"}, None),
    ("attention", "flop", "h100", {**TENSORS, "kind": ONE}, None), ("attention", "flop", "gtx-1070", TENSORS, None),
    ("bits", "bf16", "h100", FEW, 40e-6), ("bits", "int4", "h100", FEW, 10.7e-6),
    ("bits", "bf16", "h100", MANY, 2.22e-3), ("bits", "int4", "h100", MANY, 2.22e-3),
    ("bits", "fp8", "h100", MANY, 1.11e-3), ("bits", "fp8", "a100", FEW, None),
    ("mlp", "floor", "h200", {**HIDDEN, "batch": 2}, 8 * 4 * 4096**2 / 4.8e12),
    ("mlp", "floor", "h200", {**HIDDEN, "batch": 128}, 16 * 128 * 4096**2 / 66.9e12),
    ("pseudo_linear", "flop", "h200", BOTH, 4096), ("pseudo_linear", "bandwidth", "h200", BOTH, 4.8e12),
    ("repeat", "fma-peak", "h200", STEPS, 66.9e12), ("repeat", "multiply-peak", "h200", STEPS, 66.9e12 / 2),
    ("repeat", "bandwidth", "h200", STEPS, 4.8e12), ("transfers", "link", "h200", {"nbytes": 1}, 63.02e9),
    ("transfers", "link-both", "h200", {"nbytes": 1}, 2 * 63.02e9),
    ("transfers", "link-both", "cpu", {"nbytes": 1}, None),
    ("strassen", "fp32 peak", "h200", {"size": 4096}, 66.9e12),
    ("strassen", "three levels", "h200", {"size": 4096}, 66.9e12 * (8 / 7) ** 3),
    ("working_set", "bandwidth", "h200", {"nbytes": H200.l2_bytes}, None),
    ("working_set", "bandwidth", "h200", {"nbytes": 2 * (H200.l2_bytes or 0)}, 4.8e12),
    *(("strides", "sectors", "h200", {"numbers": 2**20, "stride": stride, "offset": 0}, 4.8e12 / each)
      for stride, each in ((1, 1), (2, 2), (8, 8), (16, 8), (32, 8))),
    ("occupancy", "little 8", "h200", {"blocks": 1}, 8192 / LATENCY_S),
    ("occupancy", "little 8", "h200", {"blocks": 8448}, 4.8e12),
]  # fmt: skip


@pytest.mark.parametrize(("name", "guide", "device", "point", "height"), BY_HAND)
def test_a_guide_is_as_high_as_the_datasheet_says(
    name: str, guide: str, device: str, point: dict[str, Any], height: float | None
) -> None:
    (at,) = (each.at for each in experiment(name).guides if each.name == guide)
    off = 0.01 if name in ("attention", "bits", "mlp") else 1e-9  # rounded, or without the vectors beside the weights
    assert at(hardware(device), point) == (height and pytest.approx(height, rel=off))
    assert (at(None, point) is None) is ((name, guide) != ("pseudo_linear", "flop")), "without a datasheet"
