"""Sixty steps of decoding, drawn once by a fixed seed: the model's sizes and type, its readers, what their caches hold.

python -m tools.prediction.steps OUT 140          # measure those that OUT does not hold yet, for so many seconds
python -m tools.prediction.steps OUT 140 cpu      # the same, 16 times smaller
python -m tools.prediction.steps OUT --judge      # how far off predictions of what OUT holds are, on any machine

Each is measured in a loop, operator by operator and as a CUDA Graph, and the attention of all its layers as a graph of
its own. It is predicted where it is judged, from what `brrr.cost` counts there: on the peaks that are recorded for its
device (BRRR_RECORDINGS names others) at the host's speed of then, and from the datasheet; beside that, the datasheet's
roofline.
"""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as attend

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.counting.tracing import cost
from brrr.gpu import is_gpu
from brrr.gpu.datasheet import find_hardware
from brrr.gpu.device import this_device
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.roofline.peaks import find_recorded, short
from brrr.roofline.predicting import predict
from brrr.running.graphs import capture
from brrr.timing import measure_together
from brrr_course.experiments.decode.llama import Llama, new_cache
from brrr_course.experiments.decode.theory import Call, Shape, needed_bytes
from tools.prediction.claims import percentile
from tools.prediction.host_speed import at_host_speed

FILE, COUNT, SEED, BUDGET_S = "steps.jsonl", 60, 27, 0.15
MEMORY, MOVED = 40e9, 1.5e11
"""Bytes of a step at most: of what it holds, and of what it moves; the second take an H100 50 ms."""


def drawn(by: int = 1) -> Iterator[tuple[Shape, Call]]:
    """The settings, without end; `by`: widths and contexts are so many times smaller.

    >>> all(needed_bytes(shape, call) < MEMORY for shape, call in islice(drawn(), COUNT))
    True
    """
    draw = random.Random(SEED)
    while True:
        width, groups, layers = draw.choice((64, 128)), draw.choice((1, 2, 4, 8)), draw.randint(4, 16)
        hidden, dtype = draw.choice((1024, 1536, 2048, 3072, 4096)), draw.choice(("bfloat16", "float16", "float32"))
        heads, inner = hidden // width, hidden * draw.randint(10, 16) // 4
        shape = Shape(32000 // by, hidden // by, layers, heads, heads // groups, inner // by, dtype)
        call = Call(round(2 ** draw.uniform(0, 8)), 1, round(2 ** draw.uniform(7, 15)) // by)
        again = 1 if shape.itemsize == 2 else 4 if groups == 1 else 1 + 3 * groups  # as torch goes over them in float32
        cached = again * call.batch * call.context * shape.kv_bytes
        held, moved = needed_bytes(shape, call) + cached / layers, shape.itemsize * shape.weights + cached
        if heads % groups == 0 and held * by**2 <= MEMORY and moved * by**2 <= MOVED:
            yield shape, call


def ways_of(shape: Shape, call: Call, device: str) -> dict[str, Callable[[], Any]]:
    """The step, for both its ways, and the attention of its layers alone; on "meta" only described."""
    model = Llama(shape, getattr(torch, shape.dtype), device, places=call.context)
    tokens = torch.zeros(call.batch, 1, dtype=torch.int64, device=device)
    cache = [(k.normal_(), v.normal_()) for k, v in new_cache(shape, call.batch, call.context, model.embedding)]
    query = model.embedding.new_ones(call.batch, shape.heads, 1, shape.head)
    step = partial(model, tokens, cache, call.context - 1)  # and views, since a tensor on "meta" belongs to no device
    return {"eager": step, "graph": step,
            "attention": lambda: [attend(query[:], k[:], v[:], enable_gqa=True) for k, v in cache]}  # fmt: skip


def measured(shape: Shape, call: Call, device: str) -> dict[str, Any]:
    """What each way takes, and a relu beside them, in seconds."""
    ways = {way: fn for way, fn in ways_of(shape, call, device).items() if way == "eager" or is_gpu(device)}
    runs = [fn if way == "eager" else capture(fn).replay for way, fn in ways.items()]
    found = measure_together([*runs, reference_call(device)], device=device, budget_s=BUDGET_S)
    return {way: {name: getattr(getattr(each, name), "median", None) for name in ("period_s", "host_s", "busy_s")}
            for way, each in zip([*ways, "relu"], found, strict=True)}  # fmt: skip


def errors_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """A row's ways, what each is predicted from, and by how much that is off."""
    shape, known, peaks = Shape(*row["shape"]), find_hardware(row["device"]), find_recorded(row["device"])
    for way, fn in ways_of(shape, Call(*row["call"]), "meta").items():
        if way in row:
            work, run, found = cost(fn), partial(predict, how="eager" if way == "eager" else "graph"), {}
            if peaks is not None:
                found["measured peaks"] = run(work, device=at_host_speed(peaks, row["relu"]["host_s"])).period_s
            if known is not None and known.compute_capability:
                found["datasheet"] = run(work, device=known).period_s
                peak = known.peak(short(shape.dtype))
                found["roofline"] = max(work.bytes / known.memory_bytes_per_s, work.flop / peak)
            yield from ((way, by, seconds / row[way]["period_s"] - 1) for by, seconds in found.items())


def judged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each row's errors, then their median and 90th percentile; what failed says why."""
    every, told = defaultdict(list), [f"{row['name']}: {row['error']}" for row in rows if "error" in row]
    for row in (row for row in rows if "error" not in row):
        found = list(errors_of(row))
        told.append(f"{row['name']}: {', '.join(f'{way} {by} {error:+.0%}' for way, by, error in found)}")
        for way, by, error in found:
            every[way, by].append(abs(error))
    lines = [(*key, *(units.percent(percentile(each, at), 2) for at in (0.5, 0.9))) for key, each in every.items()]
    return "\n".join([*told, "", *units.table([("way", "predicted from", "median", "90 %"), *lines])])


@torch.no_grad()
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
    until_s, there = time.monotonic() + float(argv[1]), {row["name"] for row in rows if "error" not in row}
    for shape, call in islice(drawn(16 if device == "cpu" else 1), COUNT):
        name = f"{' '.join(map(str, shape))}, {call.batch} x {call.context}"
        if name in there or time.monotonic() > until_s:
            continue
        row = {"name": name, "device": this_device(device).slug, "shape": shape, "call": call}
        try:
            row |= measured(shape, call, device)
        except (BrrrError, RuntimeError) as error:
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, row.get("error", "measured"), flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
