"""A layer's kernel whose tile is the student's: its rows, columns and depth, warps and stages. `leaderboard` ranks it.

It is played, not claimed about: `brrr record` leaves it out, and the layer's size is fixed.
"""

from brrr.core.measurement import Point, Value
from brrr.counting.cost import Cost, matmul_cost
from brrr_course.nouns.experiment import Axis, Experiment, Variant

BATCH, WIDTH = 8192, 2048
"""Rows, and inputs and outputs of the layer: some 0.2 ms on an H200, so that issuing the kernel hides behind it."""
ITEM_BYTES = 2

OWN: dict[str, dict[str, Value]] = {"layer": {"rows": 128, "columns": 128, "depth": 64, "warps": 8, "stages": 3}}
"""The fastest on an H200 of those that the package tries for many rows: it is what a student has to beat."""


def cost(variant: Variant, point: Point) -> Cost:
    """The same for every tile."""
    return matmul_cost(BATCH, WIDTH, WIDTH, ITEM_BYTES)


EXPERIMENT = Experiment(
    title="Tiling",
    question="Which tile makes a layer's kernel fastest?",
    axes=(
        Axis("rows", (16, 32, 64, 128), label="rows of a tile"),
        Axis("columns", (16, 32, 64, 128), label="columns of a tile"),
        Axis("depth", (16, 32, 64, 128), label="numbers of a sum in each step"),
        Axis("warps", (4, 8), label="warps of a block"),
        Axis("stages", (2, 3, 4, 5), label="steps loaded ahead"),
    ),
    variants=(Variant("layer", "relu(x @ w.T + b), one kernel", "cuda"),),
    field="period_s",
    package=__name__,
)
