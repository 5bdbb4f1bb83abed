"""What the `tiling` experiment runs: the package's kernel for a whole layer, in the tile asked for."""

import torch
import triton

from brrr.core import units
from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.kernels.linear_relu import LayerTiling, launch, stage_bytes
from brrr_course.experiments.checked import PointInputs, refuse_too_large
from brrr_course.experiments.tiling import BATCH, EXPERIMENT, ITEM_BYTES, WIDTH, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-2
"""Of the relative error (Frobenius): sums are float32, and the result is rounded to bfloat16."""


class TiledLayer(PointInputs):
    """A layer on random numbers, and what it must give."""

    def __init__(self) -> None:
        refuse_too_large(6 * ITEM_BYTES * BATCH * WIDTH, "cuda", "tiling")
        drawn = torch.Generator("cuda").manual_seed(0)
        shapes = (BATCH, WIDTH), (WIDTH, WIDTH), (WIDTH,)
        self.x, self.w, self.b = (
            torch.randn(shape, generator=drawn, device="cuda").to(torch.bfloat16) for shape in shapes
        )
        self.expected = torch.relu(torch.addmm(self.b.float(), self.x.float(), self.w.float().t()))


def workload(variant: Variant, point: Point) -> Workload:
    """The kernel over the fixed layer; its whole result is checked before a time counts.

    UnavailableError for a tile that needs more shared memory or registers than the GPU has.
    """
    rows, columns, depth, warps, stages = (int(point[axis.name]) for axis in EXPERIMENT.axes)
    tiling = LayerTiling(rows, columns, depth, warps, stages)
    layer = TiledLayer.of()
    out = torch.full((BATCH, WIDTH), torch.nan, dtype=torch.bfloat16, device="cuda")
    run = launch(layer.x, layer.w, layer.b, out, tiling, tf32=False)
    try:
        run()
    except (triton.runtime.errors.OutOfResources, triton.compiler.errors.CompilationError) as error:
        needs = units.nbytes(stage_bytes(tiling, ITEM_BYTES))
        raise UnavailableError(f"{tiling} does not fit: its stages alone take {needs} ({error})") from None

    def wrong(_: object) -> float:
        return float((out.float() - layer.expected).norm() / layer.expected.norm())

    return Workload(run, cost(variant, point), wrong, TOLERANCE, torch.cuda.synchronize)
