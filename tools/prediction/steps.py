"""Sixty steps of decoding, drawn once by a fixed seed: the model's sizes and type, its readers, what their caches hold.

python -m tools.prediction.steps OUT 150          # measure those that OUT does not hold yet, for so many seconds
python -m tools.prediction.steps OUT 150 cpu      # the same steps, 16 times smaller
python -m tools.prediction.steps OUT --judge      # predict what OUT holds, on any machine, and how far off that is

Each is measured in a loop, operator by operator and as a CUDA Graph, and the attention of all its layers as a graph of
its own. It is predicted from what `brrr.cost` counts where it is judged, on the peaks that are recorded for its device
(BRRR_RECORDINGS names others) and from the datasheet; beside that, the roofline of the datasheet.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.counting.tracing import cost
from brrr.gpu import is_gpu
from brrr.gpu.datasheet import find_hardware
from brrr.gpu.device import this_device
from brrr.roofline.peaks import find_recorded, short
from brrr.running.graphs import capture
from brrr_course.experiments.decode.llama import Llama, new_cache
from brrr_course.experiments.decode.theory import Call, Shape, needed_bytes
from tools.prediction.claims import percentile
from tools.prediction.programs import judged, kept, times, told

FILE = "steps.jsonl"
COUNT, SEED, BUDGET_S, SMALLER = 60, 27, 0.15, 16
MEMORY, MOVED = 40e9, 1.5e11
"""Bytes of a step at most: of what it holds, and of what it moves; the second take an H100 50 ms."""
BY = {"predicted": "calibrated", "datasheet": "from the datasheet", "roofline": "the datasheet's roofline"}


def drawn(by: int = 1) -> Iterator[tuple[Shape, Call]]:
    """The settings; `by`: widths and contexts are so many times smaller.

    >>> all(needed_bytes(shape, call) < MEMORY for shape, call in drawn())
    True
    """
    draw, found = random.Random(SEED), 0
    while found < COUNT:
        width, groups, layers = draw.choice((64, 128)), draw.choice((1, 2, 4, 8)), draw.randint(4, 16)
        hidden, dtype = draw.choice((1024, 1536, 2048, 3072, 4096)), draw.choice(("bfloat16", "float16", "float32"))
        heads, inner = hidden // width, hidden * draw.randint(10, 16) // 4
        shape = Shape(32000 // by, hidden // by, layers, heads, heads // groups, inner // by, dtype)
        call = Call(round(2 ** draw.uniform(0, 8)), 1, round(2 ** draw.uniform(7, 15)) // by)
        again = 1 if shape.itemsize == 2 else 4 if groups == 1 else 1 + 3 * groups  # as torch goes over them in float32
        cached = again * call.batch * call.context * shape.kv_bytes
        held, moved = needed_bytes(shape, call) + cached / layers, shape.itemsize * shape.weights + cached
        if heads % groups == 0 and held * by**2 <= MEMORY and moved * by**2 <= MOVED:
            found += 1
            yield shape, call


def ways_of(shape: Shape, call: Call, device: str) -> dict[str, Callable[[], Any]]:
    """The step, and the attention of its layers alone; on "meta" only described."""
    model = Llama(shape, getattr(torch, shape.dtype), device, places=call.context)
    tokens = torch.zeros(call.batch, 1, dtype=torch.int64, device=device)
    cache = new_cache(shape, call.batch, call.context, model.embedding)
    query = model.embedding.new_ones(call.batch, shape.heads, 1, shape.head)

    def attention() -> list[torch.Tensor]:  # of views: what is on "meta" itself belongs to no device
        return [scaled_dot_product_attention(query[:], keys[:], values[:], enable_gqa=True) for keys, values in cache]

    def step() -> torch.Tensor:
        return model(tokens, cache, call.context - 1)  # type: ignore[no-any-return]

    return {"eager": step, "graph": step, "attention": attention}


def measured(name: str, shape: Shape, call: Call, device: str) -> list[dict[str, Any]]:
    """A row for each way, what it takes in seconds; of the eager one by the setting's name."""
    row = {"program": name, "device": this_device(device).slug, "shape": shape, "call": call, "way": "eager"}
    try:
        with torch.no_grad():
            ways = ways_of(shape, call, device)
            runs = [
                fn if way == "eager" else capture(fn).replay
                for way, fn in ways.items()
                if way == "eager" or is_gpu(device)
            ]
            found = times(runs, device, BUDGET_S)
    except (BrrrError, RuntimeError) as error:
        return [row | {"error": f"{type(error).__name__}: {error}"[:500]}]
    names = (name, *(f"{name}, {way}" for way in list(ways)[1:]))
    return [row | {"program": each, "way": way} | one for each, way, one in zip(names, ways, found, strict=False)]


def predicted(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with what is predicted, and with the roofline of its datasheet."""
    if "error" in row:
        return dict(row)
    shape, call, where = Shape(*row["shape"]), Call(*row["call"]), row["device"]
    with torch.no_grad():
        work = cost(ways_of(shape, call, "meta")[row["way"]])
    known = find_hardware(where)
    found = told(work, row, find_recorded(where), where, "eager" if row["way"] == "eager" else "graph")
    if known is not None and where != "cpu":
        rates = known.memory_bytes_per_s, known.peak(short(shape.dtype))
        found["roofline_period_s"] = max(work.bytes / rates[0], work.flop / rates[1])
    return {**row, **found}


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Median and 90th percentile of the errors, by way and by what it was predicted."""
    lines = [["way", "predicted", "steps", "median", "90 %"]]
    for way in ("eager", "graph", "attention"):
        for name, said in BY.items():
            there = [each for each in rows if each.get("way") == way and each.get(f"{name}_period_s")]
            errors = [abs(each[f"{name}_period_s"] / each["measured_period_s"] - 1) for each in there]
            if errors:
                lines.append(
                    [way, said, str(len(errors)), *(units.percent(percentile(errors, at), 2) for at in (0.5, 0.9))]
                )
    return "\n".join(units.table(lines))


def main(argv: Sequence[str]) -> int:
    """Measure what is missing while the time lasts, or judge; 2 for a call that cannot be understood."""
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    path, device = Path(argv[0]) / FILE, "cpu" if "cpu" in argv else "cuda"
    if "--judge" not in argv:
        until_s = time.monotonic() + float(argv[1])

        def more() -> Iterator[tuple[str, Callable[[], Any]]]:
            for shape, call in drawn(SMALLER if device == "cpu" else 1):
                name = f"{' '.join(map(str, shape))}, {call.batch} x {call.context}"
                if time.monotonic() < until_s:
                    yield name, partial(measured, name, shape, call, device)

        print(f"{len(kept(path, more()))} rows in {path}")
        return 0
    rows = list(map(predicted, kept(path)))
    print(judged(rows), summary(rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
