"""Forty steps over two GPUs, drawn once by a fixed seed: half split by samples, half by weights.

python -m tools.prediction.exchanges OUT 200          # measure those that OUT does not hold yet, for so many seconds
python -m tools.prediction.exchanges OUT 200 cpu      # the same by two processes on a CPU, at its sizes
python -m tools.prediction.exchanges OUT --judge      # how far off predictions of what OUT holds are, on any machine

Beside each a relu is measured, and before all of them all-reduces of eleven sizes. From these two, the peaks recorded
for the device and what `brrr.cost` counts, the step is predicted where it is judged: a training step with DDP as the
forward pass, then the backward pass with the copies into buckets and back, overlapped with the exchange; two layers as
the half of one device, then one exchange. No recurrent layer is drawn: torch describes cuDNN's on a GPU alone.
"""

import json
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import linear

from brrr import cost, measure, predict
from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Point
from brrr.gpu.device import this_device
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.roofline.communication import Link, exchange_s, fitted, overlapped_s
from brrr.roofline.device_model import model_of
from brrr_course.experiments import experiment
from brrr_course.experiments.data_parallel import BLOCK, DEFAULT, MLP, shape_at
from brrr_course.experiments.data_parallel.work import network
from brrr_course.experiments.ranks import RANKS, end_ranks
from brrr_course.experiments.tensor_parallel import HIDDEN, sizes
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point
from tools.prediction.claims import percentile
from tools.prediction.host_speed import at_host_speed

FILE, COUNT, SEED = "exchanges.jsonl", 40, 51
LINK = [("collective", {"nbytes": 2**power}) for power in (3, 10, 13, 16, 18, 20, 22, 24, 26, 28, 30)]
WAY = {"collective": "all-reduce", "data_parallel": "buckets", "tensor_parallel": "split"}


def drawn(on_gpu: bool) -> Iterator[tuple[str, Point]]:
    """The settings, without end: networks by turns, batches and widths evenly over their logarithms.

    >>> [at["batch"] for name, at in islice(drawn(True), 4)]
    [3174, 4, 79, 225]
    """
    draw, split = random.Random(SEED), experiment("tensor_parallel")
    prefix = "" if on_gpu else "cpu-"
    while True:
        for name in (MLP, BLOCK):
            most = shape_at(on_gpu, {"network": name}).most
            batch = round(2 ** draw.uniform(1, math.log2(most)))
            yield "data_parallel", {"network": name, "batch": batch, "bucket": DEFAULT}
            at = {"width": 128 * round(2 ** draw.uniform(3, 7)), "batch": round(2 ** draw.uniform(0, 14))}
            while not split.has(f"{prefix}split", at):
                at["batch"] //= 2
            yield "tensor_parallel", at


def measured(name: str, at: Point, device: str) -> dict[str, Any]:
    """What each way takes, and a relu beside them, in seconds."""
    found, relu = experiment(name), measure(reference_call(device), device=device, budget_s=0.1)
    wanted = [each for each in found.variants if each.device == device and found.has(each.name, at)]
    row: dict[str, Any] = {"relu": relu.host_s.median if relu.host_s else None}
    for variant, timed in zip(wanted, measure_point(found, [each.name for each in wanted], at).values(), strict=True):
        if not isinstance(timed, Timed):
            raise timed
        times = {field: getattr(timed.measurement, field) for field in ("period_s", "latency_s", "host_s", "busy_s")}
        row[variant.way] = {field: each.median if each else None for field, each in times.items()}
    return row


def predicted_s(name: str, at: Point, link: Link, on: Any, gpu: bool) -> float:
    """Seconds of a step, from the work that one device does and the exchange."""
    dtype = torch.bfloat16 if gpu else torch.float32
    run = partial(predict, device=on)
    if name == "tensor_parallel":
        width, batch = sizes(at)
        half = HIDDEN * width // RANKS
        up, down, inputs = (torch.empty(sides, device="meta", dtype=dtype)
                            for sides in ((half, width), (width, half), (batch, width)))  # fmt: skip
        work = run(cost(lambda: linear(linear(inputs, up).relu_(), down))).period_s
        return overlapped_s(work, exchange_s("all-reduce", inputs.nbytes, link, RANKS))
    shape = shape_at(gpu, at)
    with torch.device("meta"):
        module = network(str(at["network"]), shape).to(dtype)
        batch = int(at["batch"])
        inputs = torch.empty(
            (batch, shape.width) if shape.steps == 1 else (batch, shape.steps, shape.width), dtype=dtype
        )
    slopes, gradients = torch.empty_like(inputs), [torch.empty_like(each) for each in module.parameters()]

    def step(*, buckets: bool = False) -> None:
        module.zero_grad()
        module(inputs).backward(slopes)
        for each in gradients * 2 if buckets else ():  # into the bucket, and back
            each.clone()

    forward, whole = run(cost(lambda: module(inputs))).period_s, run(cost(partial(step, buckets=True))).period_s
    nbytes = sum(each.nbytes for each in gradients)
    pieces = buckets_of([each.nbytes for each in gradients[::-1]], DEFAULT * 2**20)
    exchange = pieces * exchange_s("all-reduce", nbytes / pieces, link, RANKS)
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


def judged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each row's error, then their median and 90th percentile; what failed says why."""
    steps = [row for row in rows if row["experiment"] != "collective"]
    times = {exchange_bytes(row): row["all-reduce"]["period_s"] for row in rows if "all-reduce" in row}
    link, every, told = fitted(times), defaultdict(list), []
    for row in steps:
        if "error" in row:
            told.append(f"{row['experiment']} {row['at']}: {row['error']}")
            continue
        gpu, known = row["device"] != "cpu", model_of(row["device"]).peaks
        assert known is not None
        host = at_host_speed(known, row["relu"]) if row["relu"] else known
        took, said = row[WAY[row["experiment"]]]["period_s"], predicted_s(row["experiment"], row["at"], link, host, gpu)
        off = said / took - 1
        told.append(f"{row['experiment']} {row['at']}: {said:.3g} s predicted, {took:.3g} s measured, {off:+.0%}")
        for key in (row["experiment"], "all"):
            every[key].append(abs(off))
    lines = [(key, str(len(each)), *(units.percent(percentile(each, at), 2) for at in (0.5, 0.9)))
             for key, each in every.items()]  # fmt: skip
    return "\n".join([str(link), *told, "", *units.table([("steps", "n", "median", "90 %"), *lines])])


def exchange_bytes(row: Mapping[str, Any]) -> float:
    """The bytes that cross the link, of a row of LINK."""
    return float(row["at"]["nbytes"])


def main(argv: Sequence[str]) -> int:
    """Measure what is missing while the time lasts, or judge; 2 for a call that cannot be understood."""
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    path, device = Path(argv[0]) / FILE, "cpu" if "cpu" in argv else "cuda"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    if "--judge" in argv:
        print(judged(rows))
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + float(argv[1])
    there = [(row["experiment"], row["at"]) for row in rows if "error" not in row]
    for name, at in (*LINK, *islice(drawn(device == "cuda"), COUNT)):
        if (name, at) in there or time.monotonic() > until_s:
            continue
        row: dict[str, Any] = {"experiment": name, "at": at, "device": this_device(device).slug}
        try:
            row |= measured(name, at, device)
        except (BrrrError, RuntimeError) as error:
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, at, row.get("error", "measured"), flush=True)
    end_ranks()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
