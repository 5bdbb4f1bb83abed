"""The parts of a GPU's calibration, the most needed first."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional as f

from brrr.core.measurement import Estimate
from brrr.gpu import CUDA, synchronize
from brrr.gpu.nvrtc import F32, I32, PTR
from brrr.roofline.calibrate import host_cost, part
from brrr.roofline.calibrate.cpu import LinearRecurrence
from brrr.roofline.calibrate.gpu_bandwidth import compiled, measure_bandwidth
from brrr.roofline.calibrate.gpu_times import clock_conditions, gated, profiled
from brrr.roofline.calibrate.part import Findings, Part, issue_estimates, measure_products
from brrr.roofline.calibrate.reference_calls import sweep_operators, sweep_products
from brrr.roofline.peak import Curve, Peak
from brrr.running.graphs import capture

# ---------------------------------------------------------------------------------------------------------------------
# Plain arithmetic on a GPU: the kernels of `peaks.cu`, each chain's end compared with the recurrence's solution.

CHAINS, STEPS_A_ROUND = 8, 32  # as in peaks.cu
STEPS = 8192
BLOCK, BLOCKS_A_MULTIPROCESSOR = 256, 4
"""1024 threads a multiprocessor, all resident on any GPU: with eight chains each, more than its latency asks for."""

LIMITS = {torch.float32: 1e-4, torch.float64: 1e-12}
"""Relative error of a chain's end. The roundings add up to 3e-6 and 2e-14; one round of steps left out, to 1.5e-3."""


class Chains(NamedTuple):
    """One kernel of chains, ready to run: `flop` a call, and the check of the chains' ends."""

    call: Callable[[], None]
    check: Callable[[], None]
    flop: float


def chains(name: str) -> Chains:
    """The kernel `brrr_<name>` on all multiprocessors; a step is 1 FLOP where it is but a multiplication, else 2."""
    blocks = BLOCKS_A_MULTIPROCESSOR * torch.cuda.get_device_properties().multi_processor_count
    count, dtype = blocks * BLOCK * CHAINS, torch.float64 if name.startswith("fp64") else torch.float32
    ends = torch.empty(count, dtype=dtype, device=CUDA)
    run = compiled(f"brrr_{name}")
    recurrence = LinearRecurrence(STEPS, addition=not name.endswith("_mul"))
    numbers = (recurrence.factor, F32), (recurrence.addend, F32), (STEPS // STEPS_A_ROUND, I32)

    def call() -> None:
        run((blocks, 1, 1), (BLOCK, 1, 1), (ends.data_ptr(), PTR), *numbers)

    def check() -> None:
        ends.fill_(torch.nan)
        call()
        starts = 0.5 + torch.arange(count, device=CUDA).remainder(1024).double() / 2048
        part.close(ends, recurrence.end(starts), LIMITS[dtype], f"brrr_{name}")

    return Chains(call, check, (2.0 if recurrence.addend else 1.0) * STEPS * count)


def measure_arithmetic(found: Findings) -> None:
    """`arithmetic.fp32.fma`, `.mul_add` (the same two operations unfused) and `.mul`; for fp64 the first and last."""
    for name in ("fp32_fma", "fp32_mul_add", "fp32_mul", "fp64_fma", "fp64_mul"):
        made = chains(name)
        made.check()
        by = f"brrr_{name}: {CHAINS} independent chains a thread, {STEPS} steps"
        peak = Peak.rate(made.flop, gated(made.call), "FLOP/s", by=by, **clock_conditions())
        found.measured[f"arithmetic.{name.replace('_', '.', 1)}"] = peak


# ---------------------------------------------------------------------------------------------------------------------
# Launches on a GPU: the shortest kernel, the gap behind a kernel in a stream and in a graph, a graph's replay.

CHAIN: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    torch.relu, torch.exp, f.gelu, lambda x: x.softmax(-1), lambda x: f.layer_norm(x, x.shape[-1:]),
    lambda x: x.sum(0), lambda x: x.t().contiguous(), lambda x: x + x[0],
)  # fmt: skip
"""Of these kernels is the chain whose gaps are measured, one round of them after the other."""
ROUNDS, REPEATS = 12, 7
NODES = (1, 4, 16, 64, 256)


def measure_floor(found: Findings) -> None:
    """`kernel.floor`, an empty kernel's own time, and `kernel.pointwise`, that of torch's operator on one element."""
    nothing = compiled("brrr_nothing")
    x = torch.rand(1, device=CUDA)
    part.close(torch.relu(x), x, 1e-6, "relu")
    calls = (lambda: nothing((1, 1, 1), (32, 1, 1))), (lambda: torch.relu(x))
    for name, by, own in zip(
        ("floor", "pointwise"), ("brrr_nothing", "torch.relu(x), 1 element"), profiled(calls), strict=True
    ):
        found.measured[f"kernel.{name}"] = Peak.time(own, by=by, times_from="cupti")


def measure_gaps(found: Findings) -> None:
    """`gap.stream` and `gap.graph`: what a kernel behind another one adds to its own time, without the host.

    The kernels differ: one that has just run starts sooner again, since its instructions are still there.
    """
    x = torch.rand(64, 256, device=CUDA)
    calls = [partial(each, x) for each in CHAIN]
    own_s = sum(each.median for each in profiled(calls))

    def chain(rounds: int) -> None:
        for _ in range(rounds):
            for call in calls:
                call()

    once, twice = (partial(chain, rounds) for rounds in (ROUNDS, 2 * ROUNDS))
    graphs = capture(once), capture(twice)
    replays = graphs[0].replay, graphs[1].replay
    for name, short, long in (("stream", once, twice), ("graph", *replays)):
        # Twice the longer chain fits into the queue.
        times = [[gated(each, repeats=2).median for each in (short, long)] for _ in range(REPEATS)]
        more_s = [(more - less) / ROUNDS for less, more in times]
        gaps_s = [max(0.0, each - own_s) / len(calls) for each in more_s]
        by = f"a chain of {len(calls)} different small kernels, less their own times"
        found.measured[f"gap.{name}"] = Peak.time(Estimate.of(gaps_s), by=by, times_from="cupti")


def measure_replay(found: Findings) -> None:
    """`host.graph-replay`, what issuing a graph of one kernel costs, and the curve `graph-replay` by kernels."""
    points = []
    seconds = min(0.2, found.left_s / 3 / len(NODES))
    for nodes in NODES:
        x = torch.rand(64, device=CUDA)
        graph = capture(torch.nn.Sequential(*[torch.nn.ReLU()] * nodes), x)
        graph.output.fill_(torch.nan)
        part.close(graph.replay(), x, 1e-6, "a replayed chain of relu")
        (issued,) = issue_estimates([graph.replay], synchronize, seconds)
        points.append((float(nodes), Peak.time(issued, kernels=nodes)))
    found.curves["graph-replay"] = Curve("kernels", tuple(points), {"by": "torch.cuda.CUDAGraph.replay, relu of 64"})
    about = {"operator": "replay of a graph of one relu"}
    found.measured["host.graph-replay"] = replace(points[0][1], conditions=about)


SIZES = (1024, 2048, 4096, 8192, 16384)
QUICK_SIZES = (1024, 2048)
WARM_UP_S = 0.5

# The oldest compute capability whose tensor cores have the type; older ones run it in another way, or not at all.
SINCE = {"fp32": (0, 0), "fp64": (0, 0), "fp16": (0, 0), "bf16": (8, 0), "tf32": (8, 0), "int8": (7, 5), "fp8": (8, 9)}


def warm_up(found: Findings) -> None:
    """Keep the GPU busy until its clock is up: an idle one runs at a fraction of it."""
    made = chains("fp32_fma")
    until = time.perf_counter() + min(WARM_UP_S, found.left_s / 10)
    while time.perf_counter() < until:
        for _ in range(50):
            made.call()
        synchronize()


def products(dtype: str, found: Findings) -> None:
    """Products of matrices of a data type: torch's, with TF32 for tf32 only; fp8 and int8 through torch's own calls."""
    if torch.cuda.get_device_capability() < SINCE[dtype]:
        found.note(f"matmul.{dtype}: this GPU's tensor cores do not have it")
        return
    share_s = 0.4 * found.left_s / len(SINCE)
    sizes, by = QUICK_SIZES if found.quick else SIZES, _BY.get(dtype, "torch.matmul")
    measure_products(dtype, sizes, CUDA, _timed, found, share_s=share_s, by=by, conditions=clock_conditions)
    torch.cuda.empty_cache()


_BY = {"fp8": "torch._scaled_mm, e4m3, fast accumulation, bfloat16 result", "int8": "torch._int_mm, int32 result"}


def _timed(call: Callable[[], Any], seconds: float) -> Estimate:
    """A product of milliseconds by few samples, a short one by more: none takes long, whatever there is time for."""
    first = gated(call, repeats=1, rounds=1)
    repeats = max(1, min(16, int(0.05 / max(first.median, 1e-6))))
    return gated(call, repeats=repeats, rounds=max(2, 6 // repeats))


PARTS: tuple[Part, ...] = (
    Part("warm-up", warm_up),
    Part("arithmetic", measure_arithmetic),
    Part("kernel floor", measure_floor),
    Part("gaps", measure_gaps),
    Part("bandwidth", measure_bandwidth),
    *(Part(f"matmul.{dtype}", partial(products, dtype)) for dtype in SINCE),
    Part("host", partial(host_cost.measure_host, CUDA)),
    Part("host.line", partial(host_cost.measure_python, CUDA), needs_s=10.0),
    Part("graph-replay", measure_replay),
    Part("sweep of products", sweep_products),
    Part("sweep of operators", sweep_operators),
)
