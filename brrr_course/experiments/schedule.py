"""A pipeline whose schedule is the student's: into how many chunks, over how many buffers. `leaderboard` ranks it.

It is played, not claimed about: `brrr record` leaves it out, and its kernels and sizes are fixed.
"""

from __future__ import annotations

from brrr.core.measurement import Point, Value
from brrr.counting.cost import Cost
from brrr_course.experiments.overlap import TOLERANCE, Toy, error_of, pipeline_of, travelling
from brrr_course.experiments.overlap import cost as cost_of_overlap
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

ON_GPU: dict[str, Value] = {"elements": 2**26, "sines": 40}
ON_TOY: dict[str, Value] = {"elements": 2**20, "sines": 40}
"""About as much computing as sending, on an H200 and on the CPU queue."""

OWN = {"pipeline": {"chunks": 16, "buffers": 3}, "queue-pipeline": {"chunks": 8, "buffers": 4}}
"""What the package takes without being told: it is what a student has to beat."""


def whole(variant: Variant, point: Point) -> dict[str, Value]:
    """The schedule with the fixed array and sines, as `overlap` knows its points."""
    return {**(ON_GPU if variant.on_gpu else ON_TOY), **point}


def cost(variant: Variant, point: Point) -> Cost:
    """The same for every schedule."""
    return cost_of_overlap(variant, whole(variant, point))


EXPERIMENT = Experiment(
    title="Schedule",
    question="Which chunks and buffers make a pipeline fastest?",
    axes=(
        Axis("chunks", (1, 2, 4, 8, 16, 32, 64, 128), label="chunks of the array"),
        Axis("buffers", (1, 2, 3, 4, 6, 8), label="buffers on the device"),
    ),
    variants=(
        Variant("pipeline", "pipeline, pinned", timer="measure-host"),
        Variant.twin("pipeline", "cpu-queue", "CPU queue: pipeline"),
    ),
    package=__name__,
    needs="CUDA",
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `schedule` experiment runs: the pipeline of `overlap`, in the chunks and buffers asked for.


def workload(variant: Variant, point: Point) -> Workload:
    """The pipeline over the fixed array; its whole result is checked before a time counts."""
    full = whole(variant, point)
    if not variant.on_gpu:
        return Toy(variant, full).workload()
    data = travelling(full, "schedule")
    run, found = pipeline_of(data, chunks=int(point["chunks"]), buffers=int(point["buffers"]))
    return Workload(run, error_of(data, variant.implementation, found), TOLERANCE)
