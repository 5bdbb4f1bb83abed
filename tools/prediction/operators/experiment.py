"""How good are predictions of operators that nothing was fitted to, and of whole blocks? 120 cases, and 240 drawn.

As in `prediction`, the recording holds what was measured, and predictions are computed when claims are judged.
"""

from collections.abc import Sequence

from brrr.core.measurement import Point
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from tools.prediction.operators import cases as them
from tools.prediction.operators.cases import NOT_CAPTURED, OperatorCase, by_name, cases, drawn, half_of, twin


def run_case(variant: str, point: Point) -> OperatorCase | None:
    """The case that a variant runs at a point: the point's own, or its twin; None where there is none."""
    here = by_name()[str(point["case"])]
    if variant == "other-bytes":
        return twin(here)
    return None if variant == "graph" and here.what in NOT_CAPTURED else here


def _experiment(
    name: str, title: str, question: str, every: Sequence[OperatorCase], quick: Sequence[OperatorCase], anchor: str
) -> Experiment:
    names, few = (tuple(each.name for each in those) for those in (every, quick))
    return Experiment(
        name=name,
        title=title,
        question=question,
        axes=(Axis("case", names, label="case", scale="category", quick=few),),
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
        anchors=({"case": anchor},),
    )


EXPERIMENT = _experiment(
    "operators",
    "Operators and blocks, predicted and measured",
    "How far off is the predicted time of what no constant was fitted to?",
    cases(),
    [each for each in cases() if half_of(each) == "learn"][::4],
    "mlp 2053x768x3072 bfloat16",
)
DRAWN = _experiment(
    "operators_drawn",
    "The same operators in sizes that nobody chose",
    "How far off is the predicted time of a size that was drawn?",
    drawn(),
    drawn()[::8],
    next(each.name for each in drawn() if each.what == "mlp"),
)
AGAIN = _experiment(
    "operators_again",
    "Sizes drawn from another seed",
    "How far off is a prediction of what was measured once, after all was fixed?",
    drawn(them.ANOTHER_SEED),
    drawn(them.ANOTHER_SEED)[::8],
    next(each.name for each in drawn(them.ANOTHER_SEED) if each.what == "mlp"),
)
