"""Sixty steps of decoding, drawn once by a fixed seed: the model's sizes and type, its readers, what their caches hold.

python -m tools.prediction.steps OUT 140          # measure those that OUT does not hold yet, for so many seconds
python -m tools.prediction.steps OUT 140 cpu      # the same, 16 times smaller
python -m tools.prediction.steps OUT --judge      # how far off predictions of what OUT holds are, on any machine

Each is measured in a loop, operator by operator and as a CUDA Graph, and the attention of all its layers as a graph of
its own. It is predicted where it is judged, from what `brrr.cost` counts there: on the peaks that are recorded for its
device (BRRR_RECORDINGS names others) at the host's speed of then, and from the datasheet; beside that, the datasheet's
roofline.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as attend

from brrr import capture, cost, measure_together, predict
from brrr.core.measurement import Processor
from brrr.gpu import is_gpu
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import short
from brrr_course.experiments.decode.llama import Llama, new_cache
from brrr_course.experiments.decode.theory import Call, Shape, needed_bytes
from tools.prediction.drawn import Row, errors_table, measure_or_judge
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


def measured(shape: Shape, call: Call, device: Processor) -> Row:
    """What each way takes, and a relu beside them, in seconds."""
    ways = {way: fn for way, fn in ways_of(shape, call, device).items() if way == "eager" or is_gpu(device)}
    runs = [fn if way == "eager" else capture(fn).replay for way, fn in ways.items()]
    found = measure_together([*runs, reference_call(device)], device=device, budget_s=BUDGET_S)
    return {way: {name: getattr(getattr(each, name), "median", None) for name in ("period_s", "host_s", "busy_s")}
            for way, each in zip([*ways, "relu"], found, strict=True)}  # fmt: skip


def errors_of(row: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """By way, and by what it is predicted from, how far off that is."""
    shape, known, sheet = Shape(*row["shape"]), model_of(row["device"]).peaks, model_of(f"datasheet:{row['device']}")
    found: dict[tuple[str, str], float] = {}
    for way, fn in ways_of(shape, Call(*row["call"]), "meta").items():
        if way in row:
            work, run = cost(fn), partial(predict, how="eager" if way == "eager" else "graph")
            host = {"measured peaks": at_host_speed(known, row["relu"]["host_s"])} if known else {}
            told = {by: run(work, device=on).period_s for by, on in (host | {"datasheet": sheet.hardware}).items()}
            told["roofline"] = sheet.roof_s(work.flop, work.bytes, short(shape.dtype))
            found |= {(way, by): seconds / row[way]["period_s"] - 1 for by, seconds in told.items()}
    return found


def judged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each row's errors, then their median and 90th percentile; what failed says why."""
    every, told = defaultdict(list), []
    for row in rows:
        found = {} if "error" in row else errors_of(row)
        said = (f"{way} {by} {error:+.0%}" for (way, by), error in found.items())
        told.append(f"{row['name']}: {row.get('error') or ', '.join(said)}")
        for key, error in found.items():
            every[key].append(abs(error))
    return "\n".join([*told, "", *errors_table(("way", "predicted from"), every)])


def settings(device: Processor) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """Each with what measures it."""
    for shape, call in islice(drawn(1 if is_gpu(device) else 16), COUNT):
        name = f"{' '.join(map(str, shape))}, {call.batch} x {call.context}"
        yield {"name": name, "shape": shape, "call": call}, partial(measured, shape, call, device)


@torch.no_grad()
def main(argv: Sequence[str]) -> int:
    """Measure what is missing while the time lasts, or judge; 2 for a call that cannot be understood."""
    return measure_or_judge(argv, __doc__, FILE, settings, judged)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
