"""Whole steps beside what is predicted of them: networks, decoding, steps over two GPUs."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import linear
from torch.nn.functional import scaled_dot_product_attention as attend

from brrr.core.measurement import Point
from brrr.counting.tracing import cost
from brrr.roofline.communication import Link, exchange_s, fitted, overlapped_s
from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import Peaks, find_peaks, short
from brrr.roofline.predicting import predict
from brrr_course.experiments.data_parallel import DEFAULT, network, shape_at
from brrr_course.experiments.decode import Call
from brrr_course.experiments.llama import Llama, new_cache
from brrr_course.experiments.llama_sizes import Shape
from brrr_course.experiments.ranks import RANKS
from brrr_course.experiments.tensor_parallel import HIDDEN, sizes
from tools.judge.host_speed import at_host_speed
from tools.judge.rows import Row

Line = Mapping[str, Any]
PROGRAMS, STEPS, EXCHANGES = "programs.jsonl", "steps.jsonl", "exchanges.jsonl"
WITHIN = 0.15
"""So near a whole network's step was wanted."""
WAY = {"collective": "all-reduce", "data_parallel": "buckets", "tensor_parallel": "split"}


def lines(folder: Path, name: str) -> list[Line]:
    """The lines of a file, none where it is not there; what failed is left out."""
    path = folder / name
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines() if path.is_file() else ())
    return [each for each in found if "error" not in each]


def rows(folder: Path) -> Iterator[Row]:
    """Those of all of these files in a device's folder."""
    yield from of_programs(lines(folder, PROGRAMS))
    peaks = find_peaks(folder)
    for line in lines(folder, STEPS):
        for (way, by), off in errors_of_step(line, peaks).items():
            yield Row(f"decoding, {way}", by, line["name"], off)
    yield from of_exchanges(lines(folder, EXCHANGES), peaks)


def of_programs(measured: Sequence[Line]) -> Iterator[Row]:
    """Networks' steps with what was predicted of them on that machine, at its host's speed of then."""
    for line in measured:
        off = line["predicted_period_s"] / line["measured_period_s"] - 1
        yield Row("whole networks", "in a loop", line["program"], off)
        yield Row("whole networks", f"within {WITHIN:.0%}", line["program"], abs(off) <= WITHIN)


# ---- decoding ----


def ways_of(shape: Shape, call: Call, device: str) -> dict[str, Callable[[], Any]]:
    """The step, for both its ways, and the attention of its layers alone; on "meta" only described."""
    model = Llama(shape, getattr(torch, shape.dtype), device, places=call.context)
    tokens = torch.zeros(call.batch, 1, dtype=torch.int64, device=device)
    cache = [(k.normal_(), v.normal_()) for k, v in new_cache(shape, call.batch, call.context, model.embedding)]
    query = model.embedding.new_ones(call.batch, shape.heads, 1, shape.head)
    step = partial(model, tokens, cache, call.context - 1)  # and views, since a tensor on "meta" belongs to no device
    return {"eager": step, "graph": step,
            "attention": lambda: [attend(query[:], k[:], v[:], enable_gqa=True) for k, v in cache]}  # fmt: skip


@torch.no_grad()
def errors_of_step(line: Line, peaks: Peaks | None) -> dict[tuple[str, str], float]:
    """By way, and by what it is predicted from, how far off that is; a roofline has the datasheet's figures."""
    shape, sheet = Shape(*line["shape"]), model_of(f"datasheet:{line['device']}")
    host = {"measured peaks": at_host_speed(peaks, line["relu"]["host_s"])} if peaks else {}
    found: dict[tuple[str, str], float] = {}
    for way, fn in ways_of(shape, Call(*line["call"]), "meta").items():
        if way in line:
            work, run = cost(fn), partial(predict, how="eager" if way == "eager" else "graph")
            told = {by: run(work, device=on).period_s for by, on in (host | {"datasheet": sheet.hardware}).items()}
            told["roofline"] = sheet.roof_s(work.flop, work.bytes, short(shape.dtype))
            found |= {(way, by): seconds / line[way]["period_s"] - 1 for by, seconds in told.items()}
    return found


# ---- over two devices ----


def of_exchanges(measured: Sequence[Line], peaks: Peaks | None) -> Iterator[Row]:
    """Steps whose link is fitted to the all-reduces that were measured before them."""
    steps = [line for line in measured if line["experiment"] != "collective"]
    if not steps or peaks is None:
        return
    link = link_of(measured)
    for line in steps:
        host = at_host_speed(peaks, line["relu"]) if line["relu"] else peaks
        said = predicted_s(line["experiment"], line["at"], link, host)
        for group in (line["experiment"], "all steps over two devices"):
            yield Row(group, "in a loop", str(line["at"]), said / line[WAY[line["experiment"]]]["period_s"] - 1)


def link_of(measured: Sequence[Line]) -> Link:
    """Of an all-reduce by two as many bytes cross the link as it has."""
    return fitted({line["at"]["nbytes"]: line["all-reduce"]["period_s"] for line in measured if "all-reduce" in line})


def predicted_s(name: str, at: Point, link: Link, on: Peaks) -> float:
    """Seconds of a step, from the work that one device does and the exchange.

    A training step with DDP is the forward pass, then the backward pass with the copies into buckets and back,
    overlapped with the exchange; two layers are the half of one device, then one exchange.
    """
    gpu = on.kind == "cuda"
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
