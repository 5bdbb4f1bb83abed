"""The roofline plot: which roofs, which points, what its text says."""

from math import inf
from typing import Any

import pytest
import torch
from rooflines import cpu, gpu

from brrr import cost, diagnose, predict, roofline_plot
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Badge, Estimate
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.drawing.roofs import attainable, ridge_point, roofs_of
from brrr.roofline.device_model import DeviceModel, model_of
from brrr.roofline.peaks import MissingPeakError
from tests.refusals import refused

BADGE = Badge("LIVE", "NVIDIA H200", "2000-01-01", "torch 0")
DOUBLE = Cost(1e9, 8e9)


def time(seconds: float) -> Estimate:
    return Estimate(seconds, seconds * 0.9, seconds * 1.1, 9)


def test_roofs_by_hand() -> None:
    """A cache twice as fast as the memory has a roof of its own; the datasheet's stand beside the measured ones."""
    roofs = roofs_of(DeviceModel.measured(cpu()), ("fp32",))
    assert [str(roof) for roof in roofs] == [
        "cache 100 GB/s, measured", "memory 50 GB/s, measured", "fp32 FMA 40 GFLOP/s, measured",
        "fp32 MUL 20 GFLOP/s, measured",
        "fp32 products 400 GFLOP/s, measured",
    ]  # fmt: skip
    assert ridge_point(roofs) == 8
    assert attainable(roofs, 7.9).name == "memory" and attainable(roofs, 8.1).name == "fp32 products"


def test_multiplications_alone_have_a_roof_below_the_one_of_multiply_adds() -> None:
    roofs = {roof.name: roof.rate for roof in roofs_of(model_of("h200"), ())}
    assert 0.4 < roofs["fp32 MUL"] / roofs["fp32 FMA"] < 0.6


ODD = OperatorCost("aten.odd", None, 4e9, 4e9, "float32", ((1,),))
PRODUCT = OperatorCost("aten.mm", 2e12, 1e9, 0, "bfloat16", (), "matmul", (Matmul(100, 100, 100, 1, "bfloat16"),))


@pytest.mark.parametrize(("point", "said"), [
    ((DOUBLE, time(2.5e-3)),
     "x: 0.125 FLOP/B, 400 GFLOP/s (364 GFLOP/s to 444 GFLOP/s), 80 % of memory 4 TB/s, measured"),
    ((DOUBLE, 1e-3), "200 % of memory"),
    ((Cost(1e9, 8e9, operators=(ODD,)), 1e-2), "x: at least"),
    ((Cost(2e12, 1e9, operators=(PRODUCT,)), 1e-2), "bf16 products 800 TFLOP/s, measured"),
])  # fmt: skip
def test_a_sentence_for_each_point(point: Any, said: str) -> None:
    shown = roofline_plot({"x": point}, gpu(), dtypes=["bf16"], badge=BADGE)
    assert said in shown.alt and shown.alt.startswith("Roofline of NVIDIA H200: ") and shown.png.startswith(b"\x89PNG")
    assert ("came from a cache" in shown.alt) == said.startswith("200 %")


@pytest.mark.parametrize("point", [(Cost(0.0, 1e9), 1e-3), (Cost(1e9, 0.0), 1e-3), (DOUBLE, 0.0), (DOUBLE, inf)])
def test_wrong_points(point: Any) -> None:
    with refused("points['x']"):
        roofline_plot({"x": point}, gpu(), dtypes=[], badge=BADGE)


def test_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solid lines for measured roofs, dashed for the datasheet's; bars for a time that has an interval."""
    from brrr.drawing import style

    drawn = []
    keep = style.picture
    monkeypatch.setattr(style, "picture", lambda figure, alt: (drawn.append(figure), keep(figure, alt))[1])
    points = {"measured": (DOUBLE, time(2.5e-3)), "told": (DOUBLE, 3e-3)}
    roofline_plot(points, gpu(), dtypes=["bf16"], badge=BADGE)
    (axes,) = drawn[0].axes
    roofs = [line for line in axes.lines if line.get_marker() in ("None", "", None) and len(line.get_xdata()) == 2]
    styles = [line.get_linestyle() for line in roofs]
    assert styles.count("-") == 4 and styles.count("--") == 3
    top = max(roofs, key=lambda line: max(line.get_ydata()))
    assert max(top.get_ydata()) == 989.4e12 and top.get_linestyle() == "--"
    assert axes.get_xscale() == axes.get_yscale() == "log"
    measured, told = axes.containers
    assert measured.has_yerr and not told.has_yerr
    assert (measured.get_label(), told.get_label()) == ("measured", "told")
    assert told.lines[0].get_xdata()[0] == 0.125
    assert any(str(BADGE) == text.get_text() for text in drawn[0].texts)


def test_no_roofs() -> None:
    with pytest.raises(MissingPeakError, match=r"Some CPU has no roofs for bf16.*brrr\.calibrate"):
        roofline_plot({}, cpu(curves={}, measured={}), dtypes=["bf16"], badge=BADGE)


def test_a_cost_a_prediction_and_a_diagnosis_are_drawn_operator_by_operator() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()), torch.ones(64, 512)
    found = diagnose(model, x, device="cpu", budget_s=0.02)
    for work in (cost(model, x), predict(model, x, device="t4"), found):
        plot = roofline_plot(work, "t4" if isinstance(work, Cost) else None)
        assert {line.split()[0].removeprefix("aten.").rstrip(":") for line in plot.alt.splitlines()[1:]} == {
            "addmm", "gelu",
        }  # fmt: skip
        assert "0.625 FLOP/B" in plot.alt  # GELU by convention, not by what the GPU computes for it
    with pytest.raises(ArgumentError, match="work is 3; expected a dict"):
        roofline_plot(3)  # type: ignore[arg-type]
