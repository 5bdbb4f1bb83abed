"""A layer's kernel whose tile is the student's: its rows, columns and depth, warps and stages. `leaderboard` ranks it.

It is played, not claimed about: `brrr record` leaves it out, and the layer's size is fixed.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point, Value
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import CUDA
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

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
    variants=(Variant("layer", "relu(x @ w.T + b), one kernel"),),
    package=__name__,
    needs="CUDA",
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `tiling` experiment runs: the package's kernel for a whole layer, in the tile asked for.

TOLERANCE = 1e-2
"""Of the relative error (Frobenius): sums are float32, and the result is rounded to bfloat16."""


class TiledLayer(PointInputs):
    """A layer on random numbers, and what it must give."""

    def __init__(self) -> None:
        must_fit(6 * ITEM_BYTES * BATCH * WIDTH, CUDA, "tiling")
        drawn = torch.Generator(CUDA).manual_seed(0)
        shapes = (BATCH, WIDTH), (WIDTH, WIDTH), (WIDTH,)
        self.x, self.w, self.b = (
            torch.randn(shape, generator=drawn, device=CUDA).to(torch.bfloat16) for shape in shapes
        )
        self.expected = torch.relu(torch.addmm(self.b.float(), self.x.float(), self.w.float().t()))


def workload(variant: Variant, point: Point) -> Workload:
    """The kernel over the fixed layer; its whole result is checked before a time counts.

    UnavailableError for a tile that needs more shared memory or registers than the GPU has.
    """
    import triton

    from brrr.kernels.linear_relu import LayerTiling, launch, stage_bytes

    rows, columns, depth, warps, stages = (int(point[axis.name]) for axis in EXPERIMENT.axes)
    tiling = LayerTiling(rows, columns, depth, warps, stages)
    layer = TiledLayer.of()
    out = torch.full((BATCH, WIDTH), torch.nan, dtype=torch.bfloat16, device=CUDA)
    run = launch(layer.x, layer.w, layer.b, out, tiling, tf32=False)
    try:
        run()
    except (triton.runtime.errors.OutOfResources, triton.compiler.errors.CompilationError) as error:
        needs = units.nbytes(stage_bytes(tiling, ITEM_BYTES))
        raise UnavailableError(f"{tiling} does not fit: its stages alone take {needs} ({error})") from None

    def wrong(_: object) -> float:
        return float((out.float() - layer.expected).norm() / layer.expected.norm())

    return Workload(run, wrong, TOLERANCE)
