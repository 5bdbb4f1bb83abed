"""What the `timers` experiment runs: operators of all sizes, chains, and functions that take a set time."""

import time
from collections.abc import Callable
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.checked import error_against, refuse_too_large
from brrr_course.experiments.matmul.work import queued_product
from brrr_course.nouns.experiment import Variant, Workload

FP32_TOLERANCE = 1e-4
EXACT = 0.0


def workload(variant: Variant, point: Point) -> Workload:
    """The function named by the point, on fresh random inputs."""
    name = str(point["function"])
    kind, _, rest = name.partition("-")
    if kind == "product":
        return queued_product(int(rest))
    make: dict[str, Callable[[str], Workload]] = {
        "relu": _relu, "copy": _copy, "gemm": _gemm, "softmax": _softmax, "chain": _chain, "mixed": _mixed,
        "syncs": _syncs, "spin": _spin, "spins": _spins, "host": _injected,
    }  # fmt: skip
    return make[kind](rest)


def _on_gpu(
    run: Callable[..., Any], inputs: tuple[torch.Tensor, ...], cost: Cost, error: Callable[[Any], float], **kw: Any
) -> Workload:
    """A workload on the GPU, with a twin that also sends its inputs there and its result back."""
    on_host = tuple(tensor.cpu() for tensor in inputs)
    with_transfers = lambda: run(*(tensor.cuda() for tensor in on_host)).cpu()  # noqa: E731
    return Workload(
        lambda: run(*inputs),
        cost,
        error,
        kw.pop("tolerance", FP32_TOLERANCE),
        synchronize=torch.cuda.synchronize,
        others={"with_transfers": with_transfers, **kw},
    )


def _shape(text: str) -> tuple[int, int]:
    rows, columns = text.split("x")
    return int(rows), int(columns)


def _elementwise_cost(x: torch.Tensor, operators: int = 1) -> Cost:
    return Cost(flop=float(operators * x.numel()), bytes=2.0 * operators * x.nbytes)


def _relu(shape: str) -> Workload:
    x = torch.randn(*_shape(shape), device="cuda")
    return _on_gpu(torch.relu, (x,), _elementwise_cost(x), error_against(torch.relu, (x,)), tolerance=EXACT)


def _softmax(shape: str) -> Workload:
    x = torch.randn(*_shape(shape), device="cuda")
    cost = Cost(flop=5.0 * x.numel(), bytes=2.0 * x.nbytes)
    return _on_gpu(lambda t: torch.softmax(t, -1), (x,), cost, error_against(lambda t: torch.softmax(t, -1), (x,)))


def _copy(size: str) -> Workload:
    scale = {"KB": 1e3, "MB": 1e6, "GB": 1e9}[size[-2:]]
    count = int(float(size[:-2]) * scale) // 4
    refuse_too_large(count * 12, "cuda", f"copy {size}")
    x, out = torch.randn(count, device="cuda"), torch.full((count,), float("nan"), device="cuda")
    cost = Cost(flop=0.0, bytes=2.0 * x.nbytes)

    def error(result: torch.Tensor) -> float:
        return 0.0 if torch.equal(result, x) else float("nan")

    return _on_gpu(out.copy_, (x,), cost, error, tolerance=EXACT)


def _gemm(size: str) -> Workload:
    n = int(size)
    a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
    return _on_gpu(torch.mm, (a, b), matmul_cost(n, n, n, 4), product_error(a, b))


def _chain(length: str) -> Workload:
    x = torch.randn(64, 1024, device="cuda")
    return _on_gpu(
        lambda t: _repeated(torch.relu, t, int(length)),
        (x,),
        _elementwise_cost(x, int(length)),
        error_against(torch.relu, (x,)),
        tolerance=EXACT,
    )


def _repeated(operator: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = operator(x)
    return x


def _mixed(length: str) -> Workload:
    """relu, sin, softmax, add in turn: kernels of different kinds and lengths in one chain."""
    x = torch.randn(64, 1024, device="cuda")

    def chain(t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        steps = (torch.relu, torch.sin, lambda t: torch.softmax(t, -1), lambda t: t + x)
        for step in range(int(length)):
            t = steps[step % 4](t)
        return t

    return _on_gpu(
        lambda t: chain(t, t), (x,), _elementwise_cost(x, int(length)), error_against(lambda t: chain(t, t), (x,))
    )


def _syncs(_: str) -> Workload:
    """A function that waits: reading a number off the GPU makes the host stand still."""
    x = torch.randn(64, 1024, device="cuda")

    def error(found: float) -> float:
        expected = float(x.double().clamp(min=0).sum())
        return abs(found - expected) / expected

    return Workload(
        lambda: torch.relu(x).sum().item(), _elementwise_cost(x, 2), error, 1e-5, synchronize=torch.cuda.synchronize
    )


# ---- functions that take a set time ----


def _spin(duration: str) -> Workload:
    from brrr.timing.gate import spin

    seconds = float(duration.removesuffix("us")) * 1e-6
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    return _spinning(lambda: spin(seconds, out), out, seconds)


def _spins(text: str) -> Workload:
    """A chain of spin kernels."""
    from brrr.timing.gate import spin

    count, duration = text.split("x")
    seconds = float(duration.removesuffix("us")) * 1e-6
    out = torch.zeros(int(count), 3, dtype=torch.int64, device="cuda")
    rows = list(out)

    def chain() -> None:
        for row in rows:
            spin(seconds, row)

    return _spinning(chain, rows[-1], seconds)


def _injected(text: str) -> Workload:
    """A function that keeps the host busy for a set time and then gives the GPU a spin kernel of a set time."""
    from brrr.timing.gate import spin

    host_text, _, device_text = text.split("-")
    host_s = float(host_text.removesuffix("us")) * 1e-6
    device_s = float(device_text.removesuffix("us")) * 1e-6
    out = torch.zeros(3, dtype=torch.int64, device="cuda")

    def run() -> None:
        until = time.perf_counter() + host_s
        while time.perf_counter() < until:
            pass
        spin(device_s, out)

    return _spinning(run, out, device_s)


def _spinning(run: Callable[[], Any], out: torch.Tensor, seconds: float) -> Workload:
    """A spin kernel is right if it spun for its time, not less and not a quarter of a microsecond more."""

    def error(_: Any) -> float:
        start, end, _cycles = out.tolist()
        spun = (end - start) * 1e-9
        return 0.0 if seconds <= spun <= 1.01 * seconds + 0.3e-6 else float("nan")

    return Workload(run, Cost(0.0, 24.0), error, EXACT, synchronize=torch.cuda.synchronize)
