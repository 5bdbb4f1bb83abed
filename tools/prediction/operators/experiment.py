"""How good are predictions of operators that nothing was fitted to, and of whole blocks? 120 cases in two halves.

As in `prediction`, the recording holds what was measured, and predictions are computed when claims are judged.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.course.nouns.experiment import Axis, Experiment, Line, Variant
from tools.prediction.operators.cases import NOT_CAPTURED, OperatorCase, by_name, cases, half_of, twin
from tools.prediction.operators.claims import JUDGES


def run_case(variant: str, point: Point) -> OperatorCase | None:
    """The case that a variant runs at a point: the point's own, or its twin; None where there is none."""
    here = by_name()[str(point["case"])]
    if variant == "other-bytes":
        return twin(here)
    return None if variant == "graph" and here.what in NOT_CAPTURED else here


EXPERIMENT = Experiment(
    name="operators",
    title="Operators and blocks, predicted and measured",
    question="How far off is the predicted time of what no constant was fitted to?",
    axes=(
        Axis(
            "case", tuple(each.name for each in cases()), label="case", scale="category",
            quick=tuple(each.name for each in cases() if half_of(each) == "learn")[::4],
        ),
    ),
    variants=(
        Variant("eager", "operator by operator", "cuda", timer="own", prepare_s=1.0),
        Variant("reference", "a relu of 8 x 8 beside it, for the host's speed", "cuda", timer="own"),
        Variant("graph", "as a CUDA Graph", "cuda", timer="own", prepare_s=0.5),
        Variant("other-bytes", "its twin with other bytes", "cuda", timer="own", prepare_s=0.5),
    ),
    lines=(
        Line("eager", "eager", "period_s", "operator by operator, in a loop"),
        Line("reference", "reference", "host_s", "a relu of 8 x 8 beside it, the host's part", shown=False),
        Line("graph", "graph", "span_s", "as a CUDA Graph, on the device"),
        Line("bytes busy", "other-bytes", "busy_s", "its twin with other bytes, on the device", shown=False),
    ),
    package="tools.prediction.operators",
    supports=lambda variant, point: run_case(variant.name, point) is not None,
    judges=JUDGES,
    anchors=({"case": "mlp 2053x768x3072 bfloat16"},),
)  # fmt: skip
