"""The regime of a whole program by interventions: torch alone, no model, nothing of `brrr`, before it is diagnosed.

A program of many parts has no sizes with "half the bytes at as many FLOP", as a workload of `truth.py` has. So what it
runs is changed beneath it, and what it takes is compared, by the same rule and thresholds (`truth.regime`):

- overhead: as a CUDA Graph, without a fault that no graph can hold, it takes at most 1/1.3 of the time. Where none can
  hold the program at all, the device is made to sleep as long as it must be idle for that (0.23 of the step, spread
  over its modules, a nap each `EVERY_S`), and at least `HIDDEN` of the sleep does not lengthen the step;
- memory: with half the bytes its kernels take at most 1/1.3 of the time. Its products of matrices and convolutions run
  in other sizes of as many FLOP and at most 0.6 of the bytes, where there are such; of what is left when they are
  skipped, half the time is taken off. It has to gain more than half the time of the products would, else it is compute;
- latency: with twice the batch its kernels take at most 1.15 times as long;
- compute: else.

What is less sure. That all beside the products goes by its bytes is assumed, not tried; convolutions of each channel
by itself, and attention of less than `LONG` new positions, belong to that. Longer attention, a whole layer of it in
one operator, grouped products and a library's recurrent layers have no other sizes here, and count as they are. What
is skipped yields what it yielded once, so that a program whose path depends on its numbers may take another. The
kernels' times are those of torch's profiler: the host, which the changes slow, does not count.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import combinations
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tools.diagnosis.programs import Program
from tools.diagnosis.truth import GAIN, regime, together, wait
from tools.diagnosis.workloads import FEWER, Call, graph_of, moved, turns

HIDDEN, EVERY_S, LONG, FEW = 0.85, 150e-6, 64, 3
"""The last two: positions from which on attention counts as a product; steps whose kernels are timed."""
MULTIPLY = {"mm": torch.mm, "addmm": torch.mm, "bmm": torch.bmm, "baddbmm": torch.bmm}
OTHERS = ("_grouped_mm", "_cudnn_rnn", "_cudnn_rnn_backward", "_native_multi_head_attention")


class Changed(TorchDispatchMode):
    """Products are skipped, or run in sizes with fewer bytes; either way they yield what they did the first time."""

    def __init__(self, fewer: bool) -> None:
        super().__init__()
        self.fewer = fewer
        self.kept: dict[Any, tuple[Any, Call]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, run = func.overloadpacket.__name__, lambda: func(*args, **(kwargs or {}))
        if not _multiplies(name, args):
            return run()
        leaves = _pytree.tree_leaves((args, kwargs))
        key = (name, *((x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else str(x) for x in leaves))
        if key not in self.kept:
            self.kept[key] = run(), (_with_fewer_bytes(name, args) or run) if self.fewer else lambda: None
        found, work = self.kept[key]
        work()
        return _pytree.tree_map_only(torch.Tensor, lambda each: each.data, found)  # each may be written in place


def _multiplies(name: str, args: Any) -> bool:
    """Whether it does much with each number."""
    back = name.endswith("backward")
    if name.startswith("_scaled_dot_product"):
        return bool(args[back].shape[-2] >= LONG)
    return bool(args[1 + back].shape[1] > 1) if name.startswith("convolution") else name in MULTIPLY or name in OTHERS


def _with_fewer_bytes(name: str, args: Any) -> Call | None:
    """The work in other sizes, with as many FLOP; None where none has so much fewer bytes."""
    if name in MULTIPLY:
        a, b = args[1:3] if name in ("addmm", "baddbmm") else args[:2]
        size = (*a.shape[:-1], b.shape[-1], a.shape[-1])
        (*batch, m, n, k) = least = min([*turns(size), *_quarters(size)], key=moved, default=size)
        one, other, product = _like(a, *batch, m, k), _like(b, *batch, k, n), MULTIPLY[name]
        return (lambda: product(one, other)) if moved(least) < FEWER * moved(size) else None
    back = name.endswith("backward")
    if not name.startswith("convolution") or (args[9] if back else args[8]) != 1:
        return None
    (x, weight), settings = (args[1:3], args[4:10]) if back else (args[:2], args[3:9])
    images, channels, *sides = x.shape  # twice the channels, on a quarter of the images or on half the sides
    if images % 4 and (len(sides) != 2 or sides[0] % 2 or sides[1] % 2):
        return None
    size = (images // 4, 2 * channels, *sides) if images % 4 == 0 else (images, 2 * channels, *(s // 2 for s in sides))
    image, wider = _like(x, *size), _like(weight, *(2 * each for each in weight.shape[:2]), *weight.shape[2:])
    result = torch.convolution(image, wider, None, *settings)
    if image.numel() + wider.numel() + result.numel() >= FEWER * (x.numel() + weight.numel() + 2 * result.numel()):
        return None
    if not back:
        return lambda: torch.convolution(image, wider, None, *settings)
    sizes, gradient = [2 * each for each in args[3] or ()] or None, torch.randn_like(result)
    return lambda: torch.ops.aten.convolution_backward(gradient, image, wider, sizes, *settings, args[10])


def _quarters(size: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """A quarter of one side, two others twice as long: as a layer of twice the width for a quarter of the rows."""
    for down in (at for at, side in enumerate(size) if side % 4 == 0):
        for up in combinations((at for at in range(len(size)) if at != down), 2):
            yield tuple(s // 4 if at == down else s * 2 if at in up else s for at, s in enumerate(size))


def _like(tensor: torch.Tensor, *size: int) -> torch.Tensor:
    """Random numbers that lie as the tensor's do: by columns, or with the channels last."""
    made = torch.randn(*size, dtype=tensor.dtype, device=tensor.device)
    if tensor.dim() == 4 and not tensor.is_contiguous():
        return made.contiguous(memory_format=torch.channels_last)
    return made.mT.contiguous().mT if tensor.dim() < 4 and tensor.stride(-1) != 1 else made


def kernels_s(call: Call, changed: AbstractContextManager[Any] | None = None) -> float:
    """Seconds a step in which kernels run, by torch's profiler; on a CPU, operators."""
    gpu = torch.cuda.is_available()
    with changed or nullcontext():
        for _ in range(2):
            call()
        wait()
        with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as made:
            for _ in range(FEW):
                call()
            wait()
    kind = torch.autograd.DeviceType.CUDA if gpu else torch.autograd.DeviceType.CPU
    own = [each for each in made.events() if each.device_type == kind and not each.is_user_annotation]
    return sum(each.time_range.elapsed_us() if gpu else each.self_cpu_time_total for each in own) / 1e6 / FEW


@contextmanager
def _hooked(hook: Callable[..., None]) -> Iterator[None]:
    handle = register_module_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def sleeping(call: Call, cycles: int, naps: int, sleep: Callable[[int], object] = torch.cuda._sleep) -> Call:
    """The call, the device asleep for so many cycles in all before some of its modules; with 0, as many launches."""
    seen: list[None] = []
    with _hooked(lambda *_: seen.append(None)):
        call()
    every = max(1, -(-len(seen) // naps))
    places = max(1, -(-len(seen) // every))

    def before(*_: Any) -> None:
        if len(seen) % every == 0:
            sleep(cycles // places)
        seen.append(None)

    def slept() -> object:
        seen.clear()
        if places == 1:
            sleep(cycles)
            return call()
        with _hooked(before):
            return call()

    return slept


def _cycles_per_s() -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(10**6)
    start.record()
    torch.cuda._sleep(10**7)
    end.record()
    end.synchronize()
    return 10**10 / start.elapsed_time(end)


def _captured(call: Call) -> Call:
    """As a CUDA Graph; a RuntimeError before it is captured where the step waits, which would spoil the capture."""
    call()
    wait()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return graph_of(call)


def of_program(each: Program, device: str = "cuda", small: bool = False) -> dict[str, object]:
    """What the interventions show of a program, its regime, and what its remedies and a larger batch gain."""
    plain, wider, note = each.call(device, small), each.call(device, small, 2), ""
    calls = {"eager": plain, "wider": wider} | {fix: each.call(device, small, fix=fix) for fix in each.fixes}
    eager_s = together({"eager": plain})["eager"]
    idle_s, naps = (1 - 1 / GAIN) * eager_s, max(1, round(eager_s / EVERY_S))
    if device == "cuda":
        calls |= {"awake": sleeping(plain, 0, naps), "asleep": sleeping(plain, int(idle_s * _cycles_per_s()), naps)}
        try:
            calls |= {"graph": _captured(each.call(device, small, fix="graph"))} if each.captured else {}
        except Exception as error:  # the sleep tells then
            note = f"no graph: {str(error).splitlines()[0]}"
            torch.cuda.set_stream(torch.cuda.default_stream())
    times = together(calls)
    hidden = 1 - (times["asleep"] - times["awake"]) / idle_s if device == "cuda" else 0.0
    kernels = {"kernels_s": kernels_s(plain), "beside_s": kernels_s(plain, Changed(False)),
               "fewer_s": kernels_s(plain, Changed(True)), "wider_s": kernels_s(wider)}  # fmt: skip
    gains = {fix: times["eager"] / times[fix] for fix in each.fixes} | {
        "larger batch": 2 * times["eager"] / times["wider"]
    }
    return {
        "program": each.name, "eager_s": times["eager"], "graph_s": times.get("graph", ""), "hidden": hidden, **kernels,
        "regime": regime(*ratios(times["eager"], times.get("graph"), hidden, *kernels.values())),
        "gains": "|".join(f"{fix}={gain:.4g}" for fix, gain in gains.items()), "note": note,
    }  # fmt: skip


def ratios(
    eager_s: float, graph_s: float | None, hidden: float, kernels: float, beside: float, fewer: float, wider: float
) -> tuple[float, float, float, float]:
    """What `truth.regime` asks for; all in seconds but the share of the sleep that was `hidden`.

    >>> regime(*ratios(2.0, 1.0, 0.0, 1.0, 0.1, 1.0, 2.0)), regime(*ratios(2.0, None, 0.9, 1.0, 0.1, 1.0, 2.0))
    ('overhead', 'overhead')
    >>> regime(*ratios(1.0, None, 0.1, 1.0, 0.8, 1.0, 2.0)), regime(*ratios(1.0, 0.9, 0.1, 1.0, 0.2, 0.6, 2.0))
    ('memory', 'memory')
    >>> regime(*ratios(1.0, 0.9, 0.1, 1.0, 0.2, 1.0, 2.0)), regime(*ratios(1.0, 0.9, 0.1, 1.0, 0.2, 1.0, 1.1))
    ('compute', 'latency')
    """
    alone_s = graph_s or (eager_s / (1.001 * GAIN) if hidden >= HIDDEN else eager_s)
    fewer_bytes_s, fewer_flop_s = fewer - beside / 2, kernels - (fewer - beside) / 2
    fewer_bytes = kernels / max(fewer_bytes_s, 1e-12) if fewer_bytes_s <= fewer_flop_s else 1.0
    return eager_s, alone_s, fewer_bytes, wider / kernels
