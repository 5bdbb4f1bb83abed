"""What the `schedule` experiment runs: the pipeline of `overlap`, in the chunks and buffers asked for."""

from functools import partial

import torch

from brrr.core.measurement import Point
from brrr.running.pipeline import Pipeline
from brrr_course.experiments.checked import refuse_too_large
from brrr_course.experiments.overlap import ITEM_BYTES
from brrr_course.experiments.overlap.toy import TOLERANCE, Toy, Travelling, sine_in_place
from brrr_course.experiments.schedule import cost, whole
from brrr_course.nouns.experiment import Variant, Workload


def workload(variant: Variant, point: Point) -> Workload:
    """The pipeline over the fixed array; its whole result is checked before a time counts."""
    full = whole(variant, point)
    if not variant.on_gpu:
        return Toy(variant, full).workload()
    elements, sines = int(full["elements"]), int(full["sines"])
    for place, arrays in (("cpu", 4), ("cuda", 6)):
        refuse_too_large(arrays * elements * ITEM_BYTES, place, f"schedule {elements}")
    data = Travelling.of(elements, sines, "cuda")
    compute = partial(sine_in_place, count=sines)
    chunks, buffers = int(point["chunks"]), int(point["buffers"])
    pipeline = Pipeline(compute, elements, chunks=chunks, buffers=buffers, device="cuda")
    data.spoilt(data.out)
    run = partial(pipeline, data.x, data.out)
    return Workload(run, cost(variant, point), lambda _: data.error(data.out), TOLERANCE, torch.cuda.synchronize)
