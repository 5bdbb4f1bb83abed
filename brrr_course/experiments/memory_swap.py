"""The same calls on two GPUs that differ in their memory: an H100, and an H200, which is an H100 with faster memory.

Both have the same multiprocessors at the same clock, and the H200 moves 1.43 times as many bytes a second. So the ratio
of a call's kernel times on both tells how much of its time the memory takes, and no model has a part in that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.core.recordings import device_folders
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import hardware
from brrr_course.experiments.checked import must_fit, relative, worst
from brrr_course.experiments.lazily import f, name_of, torch
from brrr_course.nouns import table
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

REFERENCE = "h200"
"""The recording that every other device's times are held against."""

STREAMS, COMPUTE, OTHERS, BETWEEN, CACHED = "streams", "compute", "others", "between", "cached"
CALLS = {group: tuple(" ".join(text.split()).split("; ")) for group, text in {
    STREAMS: """copy 8500x9461 bfloat16; add 12214x6599 float32; gelu 941012x29 float32; exp 54231x853 bfloat16;
        norm 74059x890 float32; matmul 2x24576x8192 bfloat16 nt; matmul 32x15360x5120 bfloat16 nt;
        matmul 134x24576x8192 bfloat16 nt""",
    COMPUTE: """matmul 4096x4096x8192 bfloat16 nn; matmul 3099x15360x5120 bfloat16 nt; mm 1104x2048x8192 float32;
        matmul 4909x4909x4909 bfloat16 nt; attention_causal 1x20x4001x128 bfloat16; attention 4x4x4096x64 bfloat16;
        conv3x3_channels_last 16x128x57x57x160 bfloat16""",
    OTHERS: """rms_norm 50024x4096 bfloat16; log_softmax 562072x149 float32; layer_norm 15351x984 float32;
        softmax 16608x6299 bfloat16; transpose 104589x739 float32; cat 8191x2049 bfloat16; adam 15x512 float32;
        rms_norm 342484x47 float32; batch_norm 35147x639 float32; cumsum 3001x4099 float32;
        index_select 60272x512x23496 float32; index_add 20011x513x40009 float32; cross_entropy 4099x32003 bfloat16;
        matmul 448x10064x4016 bfloat16 nt""",
    BETWEEN: """scale 34680x173 float32; tanh 924257x13 bfloat16; softmax_rows 12289x1009 bfloat16;
        matmul 44 of 1x768x768 bfloat16 nn; sort 1x3510619 float32; cast 882400x11 float32""",
    CACHED: """copy 184x16384 bfloat16; gelu 3979x768 float32; add 141x10667 float32; layer_norm 578x1120 bfloat16;
        softmax 327x768 float32; matmul 512x4096x1024 bfloat16 nt; embedding 5003x129x777 float32;
        sort 17x1021 float32; softmax_columns 509x307 float32""",
}.items()}  # fmt: skip
"""Calls of the recordings `prediction`, `operators` and `operators_drawn` by what they do on the H200 alone.

Streams move 150 MB or more at 4 TB/s or more; what computes are products, attention and a convolution that move more
than the cache holds, at 0.6 TB/s or less; others are neither. Between are 45 to 60 MB, which the H200's L2 may hold and
the H100's hardly; cached are 25 MB or less.
"""
NAMES = tuple(name for names in CALLS.values() for name in names)
REGIMES = ("memory", "a mix", "something else")


def memory_share(ratio: float, gain: float) -> float:
    """The share of a call's time on the slower memory that its memory takes, by how much faster it is on the faster.

    >>> memory_share(1.5, 1.5), memory_share(1.0, 1.5), round(memory_share(1.2, 1.5), 2)
    (1.0, 0.0, 0.5)

    ratio: the slower time over the faster; gain: the faster bandwidth over the slower.
    """
    return (1 - 1 / ratio) / (1 - 1 / gain)


def regime(ratio: float, gain: float) -> str:
    """What sets the pace: the memory for two thirds of the time or more, for a third or less something else.

    >>> regime(1.4, 1.43), regime(1.2, 1.43), regime(0.98, 1.43)
    ('memory', 'a mix', 'something else')
    """
    share = memory_share(ratio, gain)
    return REGIMES[0 if share >= 2 / 3 else 1 if share > 1 / 3 else 2]


EXPERIMENT = Experiment(
    title="The same calls, another memory",
    question="How much faster does a call get where only the memory is faster?",
    axes=(Axis("call", NAMES, label="call", scale="category", quick=(CALLS[STREAMS][0], CALLS[CACHED][0])),),
    variants=(Variant("eager", "the call's kernels", prepare_s=1.0),),
    field="kernel_s",
    package=__name__,
    needs="CUDA",
    anchors=({"call": CALLS[STREAMS][0]}, {"call": CALLS[COMPUTE][0]}),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `memory_swap` experiment runs: a call by its name, as `layer_norm 15351x984 float32`; sizes and data type.

Sizes = tuple[int, ...]
TOLERANCE = {"cast": 2e-2, "float32": 1e-4, "bfloat16": 2e-2}
"""By the result: a cast of float32 is one of bfloat16. Products in TF32 (3e-4) would be found out."""


@cache
def runs() -> Mapping[str, Callable[..., Any]]:
    """What each operator calls."""
    return {
    "copy": torch.clone, "gelu": f.gelu, "exp": torch.exp, "tanh": torch.tanh, "scale": lambda x: x * 1.25,
    "cast": lambda x: x.to(torch.bfloat16), "add": torch.add, "norm": torch.linalg.vector_norm,
    "transpose": lambda x: x.t().contiguous(), "cat": lambda *parts: torch.cat(parts, 1),
    "rms_norm": lambda x, w: f.rms_norm(x, x.shape[-1:], w), "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b), "sort": lambda x: x.sort(-1),
    "batch_norm": lambda x: f.batch_norm(x, None, None, training=True), "softmax": lambda x: x.softmax(-1),
    "softmax_rows": lambda x: x.softmax(-1), "softmax_columns": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1), "embedding": lambda x, at: f.embedding(at, x),
    "index_select": lambda x, at: x.index_select(0, at), "index_add": lambda x, at, y: x.index_add(0, at, y),
    "cross_entropy": f.cross_entropy, "attention": f.scaled_dot_product_attention,
    "attention_causal": partial(f.scaled_dot_product_attention, is_causal=True),
    "conv3x3_channels_last": lambda x, w, b: f.conv2d(x, w, b, padding=1), "mm": torch.mm, "matmul nn": torch.matmul,
    "matmul nt": f.linear,
}  # fmt: skip


INPUTS: Mapping[str, Callable[..., tuple[Sizes, ...]]] = {
    "add": lambda *size: (size,) * 2, "cat": lambda *size: (size,) * 3, "rms_norm": lambda r, c: ((r, c), (c,)),
    "layer_norm": lambda r, c: ((r, c), (c,), (c,)), "embedding": lambda n, c, count: ((n, c), (count,)),
    "index_select": lambda n, c, count: ((n, c), (count,)), "cross_entropy": lambda r, c: ((r, c), (r,)),
    "index_add": lambda n, c, count: ((n, c), (count,), (count, c)), "attention": lambda *size: (size,) * 3,
    "attention_causal": lambda *size: (size,) * 3, "mm": lambda m, n, k: ((m, k), (k, n)),
    "conv3x3_channels_last": lambda n, c, h, w, out: ((n, c, h, w), (out, c, 3, 3), (out,)),
    "matmul nn": lambda *size: ((*size[:-2], size[-1]), (*size[:-3], size[-1], size[-2])),
    "matmul nt": lambda m, n, k: ((m, k), (n, k)), "adam": lambda count, width: ((width, width), (width,)) * count,
}  # fmt: skip
"""The inputs' shapes by the sizes; where nothing is said, one array of these."""
PLACES = {"embedding": 0, "index_select": 0, "index_add": 0, "cross_entropy": 1}
"""Whose second input are whole numbers below which of its sizes; all others are normal numbers."""


class SwapCall(NamedTuple):
    """What is called, in which sizes and of which data type."""

    operator: str
    sizes: Sizes
    dtype: torch.dtype


def read(name: str) -> SwapCall:
    """The call of a name.

    >>> read("matmul 44 of 1x768x768 bfloat16 nn")
    SwapCall(operator='matmul nn', sizes=(44, 1, 768, 768), dtype=torch.bfloat16)
    """
    operator, several, size, dtype, layout = re.findall(r"(\w+) (?:(\d+) of )?([\dx]+) (\w+) ?(\w*)", name)[0]
    sizes = tuple(map(int, filter(None, (several, *size.split("x")))))
    return SwapCall(f"{operator} {layout}".strip(), sizes, getattr(torch, dtype))


def made(call: SwapCall, device: str, draw: Callable[..., torch.Tensor] | None = None) -> list[torch.Tensor]:
    """The inputs of a call, the same numbers each time."""
    torch.manual_seed(0)
    shapes = INPUTS[call.operator](*call.sizes) if call.operator in INPUTS else (call.sizes,)
    found = [(draw or torch.randn)(shape, dtype=call.dtype, device=device) for shape in shapes]
    if call.operator in PLACES:
        found[1] = torch.randint(call.sizes[PLACES[call.operator]], shapes[1], device=device)
    if call.operator.startswith("conv"):
        found[1] /= math.sqrt(math.prod(shapes[1][1:]))  # so that the result keeps its size
        found[:2] = [each.contiguous(memory_format=torch.channels_last) for each in found[:2]]
    return found


def adam(*parameters: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    """A step of Adam, all parameters at once; its state is there from the first on, and no part of the call."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2, foreach=True)
    for each in parameters:
        each.grad = each.detach() / 3
    optimizer.step()
    return lambda: optimizer.step() or list(parameters)


def prepared(call: SwapCall, inputs: list[torch.Tensor]) -> Callable[[], Any]:
    """What is timed."""
    return adam(*inputs) if call.operator == "adam" else partial(runs()[call.operator], *inputs)


@lru_cache(maxsize=64)
def cost_of(name: str) -> Cost:
    """FLOP and bytes of a call, operator by operator, as `brrr.cost` counts them; nothing runs.

    >>> cost_of("add 1024x1024 float32").bytes
    12582912.0
    """
    from brrr.counting.tracing import cost

    call = read(name)
    if call.operator == "adam":  # the first step is taken, for the state
        return cost(adam(*made(call, "cpu")))
    return cost(runs()[call.operator], *made(call, "cpu", torch.empty))


def workload(variant: Variant, point: Point) -> Workload:
    """The call on random numbers, its result held against the same call in float64."""
    call, device, amounts = read(str(point["call"])), variant.processor, cost_of(str(point["call"]))
    must_fit(int(2 * amounts.bytes), device, str(point["call"]))
    run, tolerance = prepared(call, made(call, device)), TOLERANCE.get(call.operator, TOLERANCE[name_of(call.dtype)])
    return Workload(run, partial(error_of, call, device), tolerance, amounts)


def error_of(call: SwapCall, device: str, found: Any) -> float:
    """The worst ||found - reference|| / ||reference||; NaN where one is not finite, or of another shape.

    The reference is the same call in float64 on the same numbers. Adam's result depends on the steps before: of it, a
    fresh one is compared.
    """
    inputs = made(call, device)
    wide = [each.double() if each.is_floating_point() else each for each in inputs]
    given = _floating(prepared(call, inputs)() if call.operator == "adam" else found)
    expected = _floating(prepared(call, wide)())
    if len(given) != len(expected):
        return math.nan
    return worst(relative(one, other, one.dtype) for one, other in zip(given, expected, strict=True))


def _floating(found: Any) -> list[torch.Tensor]:
    """The tensors of a result that are no places."""
    return [each for each in ([found] if isinstance(found, torch.Tensor) else found) if each.is_floating_point()]


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on the swapped memory ask: how much faster a call is on the H200, and what is predicted of it.

FILE = "memory_swap.csv"


@cache
def reference(path: Path) -> Mapping[str, Estimate]:
    """The kernels' time of each call of a recording, the newest of each."""
    rows = sorted(table.read(path), key=lambda row: row["run"])
    return {row["call"]: Estimate(float(row["kernel_s"]), float(row["kernel_s_low"]), float(row["kernel_s_high"]),
                                  int(row["kernel_s_n"])) for row in rows}  # fmt: skip


def gain(evidence: Evidence) -> float:
    """How many times as many bytes a second the H200's memory moves as that of the measured device, by the datasheets.

    NotRecordedError unless the device is the H200's chip with another memory.
    """
    here, there = evidence.datasheet(), hardware(REFERENCE)
    if here.key == there.key:
        raise NotRecordedError(f"{here.name} is what others are held against")
    if (here.sm_count, here.generation) != (there.sm_count, there.generation):
        raise NotRecordedError(f"{here.name} is not the chip of an {there.name} with another memory")
    return there.memory_bytes_per_s / here.memory_bytes_per_s


def swapped(evidence: Evidence, *groups: str) -> Table:
    """By the call, its kernels' time on the measured device over that on the H200; of all groups, or of those named."""
    here = evidence.table("eager", "kernel_s", {}).values  # first, so that who asks what is looked at learns it
    gain(evidence)
    there = reference(next(folder / FILE for folder in device_folders(REFERENCE) if (folder / FILE).is_file()))
    names = [name for group in groups or CALLS for name in CALLS[group]]
    return Table(("call",), {(name,): here[name,] / there[name] for name in names if (name,) in here})


@cache
def predicted(call: str) -> str:
    """What sets the call's pace on the H200 as `brrr.predict` says it, the host left out."""
    from brrr.roofline.predicting import predict

    return predict(cost_of(call), device=REFERENCE, how="graph").bound


def agrees(evidence: Evidence) -> Table:
    """By the call, whether the predicted bound is what the ratio says; without mixes, and what the caches may hold."""
    ratios, more = swapped(evidence, STREAMS, COMPUTE, OTHERS).values, gain(evidence)
    seen = {str(key[0]): regime(ratio.median, more) for key, ratio in ratios.items()}
    sure = [name for name, what in seen.items() if what != "a mix"]
    return Table(("call",), {(each,): (seen[each] == "memory") == (predicted(each) == "memory") for each in sure})
