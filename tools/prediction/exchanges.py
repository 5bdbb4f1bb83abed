"""Forty steps over two GPUs, drawn once by a fixed seed: half split by samples, half by weights.

python -m tools.prediction.exchanges OUT 200          # measure those that OUT does not hold yet, for so many seconds
python -m tools.prediction.exchanges OUT 200 cpu      # the same by two processes on a CPU, at its sizes
python -m tools.prediction.exchanges OUT --judge      # how far off predictions of what OUT holds are, on any machine

Beside each a relu is measured, and before all of them all-reduces of eleven sizes. From these two, the peaks recorded
for the device and what `brrr.cost` counts, the step is predicted where it is judged: a training step with DDP as the
forward pass, then the backward pass with the copies into buckets and back, overlapped with the exchange; two layers as
the half of one device, then one exchange. No recurrent layer is drawn: torch describes cuDNN's on a GPU alone.
"""

import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import torch
from torch.nn.functional import linear

from brrr import cost, measure, predict
from brrr.core.measurement import Point, Processor
from brrr.gpu import is_gpu
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.roofline.communication import Link, exchange_s, fitted, overlapped_s
from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import Peaks
from brrr_course.experiments import experiment
from brrr_course.experiments.collective import MOST_ON_CPU
from brrr_course.experiments.data_parallel import BLOCK, DEFAULT, MLP, shape_at
from brrr_course.experiments.data_parallel.work import network
from brrr_course.experiments.ranks import RANKS, end_ranks
from brrr_course.experiments.tensor_parallel import HIDDEN, sizes
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point
from tools.prediction.drawn import Row, errors_table, measure_or_judge
from tools.prediction.host_speed import at_host_speed

FILE, COUNT, SEED = "exchanges.jsonl", 40, 51
LINK = [2**power for power in (3, 10, 13, 16, 18, 20, 22, 24, 26, 28, 30)]
"""Bytes of the all-reduces."""
WAY = {"collective": "all-reduce", "data_parallel": "buckets", "tensor_parallel": "split"}


def drawn(on_gpu: bool) -> Iterator[tuple[str, Point]]:
    """The settings, without end: networks by turns, batches and widths evenly over their logarithms.

    >>> [at["batch"] for name, at in islice(drawn(True), 4)]
    [15, 5, 61, 213]
    """
    draw, split = random.Random(SEED), experiment("tensor_parallel")
    prefix = "" if on_gpu else "cpu-"
    while True:
        for name in (MLP, BLOCK):
            most = shape_at(on_gpu, {"network": name}).most
            batch = round(2 ** draw.uniform(1, math.log2(most)))
            yield "data_parallel", {"network": name, "batch": batch, "bucket": DEFAULT}
            at = {
                "width": 128 * round(2 ** draw.uniform(3, 7 if on_gpu else 6)),
                "batch": round(2 ** draw.uniform(0, 14)),
            }
            while not split.has(f"{prefix}split", at):
                at["batch"] //= 2
            yield "tensor_parallel", at


def measured(name: str, at: Point, device: Processor) -> Row:
    """What each way takes, and a relu beside them, in seconds."""
    found, relu = experiment(name), measure(reference_call(device), device=device, budget_s=0.1)
    wanted = [each for each in found.variants if each.device == device and found.has(each.name, at)]
    row: Row = {"relu": relu.host_s.median if relu.host_s else None}
    for variant, timed in zip(wanted, measure_point(found, [each.name for each in wanted], at).values(), strict=True):
        if not isinstance(timed, Timed):
            raise timed
        times = {field: getattr(timed.measurement, field) for field in ("period_s", "latency_s", "host_s", "busy_s")}
        row[variant.way] = {field: each.median if each else None for field, each in times.items()}
    return row


def predicted_s(name: str, at: Point, link: Link, on: Peaks, *, gpu: bool) -> float:
    """Seconds of a step, from the work that one device does and the exchange."""
    made = partial(torch.empty, device="meta", dtype=torch.bfloat16 if gpu else torch.float32)
    if name == "tensor_parallel":
        width, batch = sizes(at)
        half = HIDDEN * width // RANKS
        up, down, inputs = made(half, width), made(width, half), made(batch, width)
        work = predict(cost(lambda: linear(linear(inputs, up).relu_(), down)), device=on).period_s
        return overlapped_s(work, exchange_s("all-reduce", inputs.nbytes, link, RANKS))
    shape = shape_at(gpu, at)
    with torch.device("meta"):
        module = network(str(at["network"]), shape).to(made(0).dtype)
    inputs = made(int(at["batch"]), *[shape.steps] * (shape.steps > 1), shape.width)
    slopes, gradients = torch.empty_like(inputs), [torch.empty_like(each) for each in module.parameters()]

    def step() -> None:
        module.zero_grad()
        module(inputs).backward(slopes)
        for each in gradients * 2:  # into the bucket, and back
            each.clone()

    forward, whole = (predict(cost(fn), device=on).period_s for fn in (lambda: module(inputs), step))
    sent = [each.nbytes for each in gradients[::-1]]
    pieces = buckets_of(sent, DEFAULT * 2**20)
    exchange = pieces * exchange_s("all-reduce", sum(sent) / pieces, link, RANKS)
    return forward + overlapped_s(whole - forward, exchange, pieces)


def buckets_of(nbytes: Sequence[int], limit: int, first: int = 2**20) -> int:
    """How many buckets DDP makes of gradients in this order: each is full once it holds `limit` bytes or more.

    >>> buckets_of([2**25] * 4, 25 * 2**20), buckets_of([2**10] * 4, 25 * 2**20)
    (4, 1)
    """
    made, held, most = 0, 0, first
    for each in nbytes:
        held += each
        if held >= most:
            made, held, most = made + 1, 0, limit
    return made + (held > 0)


def judged(rows: Sequence[Row]) -> str:
    """Each row's error, then their median and 90th percentile; what failed says why."""
    # of an all-reduce by two as many bytes cross the link as it has
    link = fitted({row["at"]["nbytes"]: row["all-reduce"]["period_s"] for row in rows if "all-reduce" in row})
    every, told = defaultdict(list), [str(link)]
    for row in rows:
        name, known = row["experiment"], model_of(row["device"]).peaks
        if "error" in row or known is None:
            told.append(f"{name} {row['at']}: {row.get('error', 'no peaks of its device are recorded')}")
        elif name != "collective":
            host = at_host_speed(known, row["relu"]) if row["relu"] else known
            took, said = row[WAY[name]]["period_s"], predicted_s(name, row["at"], link, host, gpu=known.kind == "cuda")
            off = said / took - 1
            told.append(f"{name} {row['at']}: {said:.3g} s predicted, {took:.3g} s measured, {off:+.0%}")
            for key in (name, "all"):
                every[key,].append(abs(off))
    return "\n".join([*told, "", *errors_table(["steps"], every)])


def settings(device: Processor) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """Each with what measures it: all-reduces, then the steps."""
    link = [("collective", {"nbytes": each}) for each in LINK if is_gpu(device) or each <= MOST_ON_CPU]
    for name, at in (*link, *islice(drawn(is_gpu(device)), COUNT)):
        yield {"experiment": name, "at": at}, partial(measured, name, at, device)


def main(argv: Sequence[str]) -> int:
    """Measure what is missing while the time lasts, or judge; 2 for a call that cannot be understood."""
    try:
        return measure_or_judge(argv, __doc__, FILE, settings, judged)
    finally:
        end_ranks()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
