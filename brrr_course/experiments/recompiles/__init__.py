"""Forty calls of a compiled program, each with another batch or another number: which of them compile again?

torch.compile keeps a program for the inputs that it saw, and guards that tell whether it fits the next ones. Where
none fits it compiles again, up to a limit; behind that the program runs as written, without a word.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import Axis, Experiment, Variant

CALLS, LAYERS = tuple(range(1, 41)), 6
WIDTH, CPU_WIDTH = 512, 64
FIRST_BATCH = 64
EAGER, STATIC, AUTO, MARK, NUMBER, KEPT = "eager", "static", "auto", "mark", "number", "kept"
LABELS = {
    EAGER: "as written",
    STATIC: "another batch, dynamic=False",
    AUTO: "another batch, dynamic=None (the default)",
    MARK: "another batch, mark_dynamic",
    NUMBER: "another number as an argument",
    KEPT: "another number as a module's attribute",
}


def batch_of(way: str, call: int) -> int:
    """The batch of a call: with a number that changes, always the first one."""
    return FIRST_BATCH + (0 if way in (NUMBER, KEPT) else call)


def cost(variant: Variant, point: Point) -> Cost:
    """The matrix multiplications' FLOP, and the bytes of the weights and of what goes in and out."""
    width, batch = WIDTH if variant.on_gpu else CPU_WIDTH, batch_of(variant.way, int(point["call"]))
    return Cost(2.0 * LAYERS * batch * width**2, 4.0 * (LAYERS * width**2 + 2 * batch * width))


EXPERIMENT = Experiment(
    title="Forty calls, each a little different",
    question="Which calls of a compiled program compile again?",
    axes=(Axis("call", CALLS, label="call", scale="linear", quick=(1, 2)),),
    variants=(
        *(Variant(way, label, "cuda", timer="own", way=way, shown=way not in (NUMBER, KEPT))
          for way, label in LABELS.items()),
        *(Variant(f"cpu-{way}", f"CPU, {label}", "cpu", timer="own", way=way, stands_in_for=way,
                  shown=way not in (NUMBER, KEPT))
          for way, label in LABELS.items()),
    ),
    field="latency_s",
    package=__name__,
    resident=True,
    anchors=({"call": 40},),
)  # fmt: skip
