"""What the `gemm_many` experiment runs: the same products in a loop, on streams, batched, and as one."""

from collections.abc import Callable
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.roofline.calibrate.part import product_error
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, refuse_too_large, warmed
from brrr_course.experiments.gemm_many import COLUMNS, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
STREAMS = 8


class Gates(PointInputs):
    """Some weights (M, K) below each other, and the mini-batch x (K, 64) that all of them multiply."""

    def __init__(self, count: int, size: int, dtype: str, device: str) -> None:
        kind = getattr(torch, dtype)
        self.all = torch.randn(count * size, size, device=device).to(kind)
        self.x = torch.randn(size, COLUMNS, device=device).to(kind)
        self.each = self.all.view(count, size, size)


def workload(variant: Variant, point: Point) -> Workload:
    """The products in the variant's way; the result's rows are those of one gate after the other."""
    count, size, made = int(point["count"]), int(point["size"]), cost(variant, point)
    refuse_too_large(2 * int(made.bytes), variant.processor, f"{count} products of size {size}")
    given = Gates.of(count, size, str(point["dtype"]), variant.processor)
    run = MAKERS[variant.way](given)
    check = product_error(given.all, given.x)

    def error(found: Any, kept: Gates = given) -> float:
        rows = found if isinstance(found, torch.Tensor) else torch.stack(list(found))
        return check(rows.reshape(kept.all.shape[0], -1)) if rows.shape[-1] == COLUMNS else float("nan")

    return warmed(Workload(run, made, error, TOLERANCE[given.x.dtype]), variant.processor)


Way = Callable[[], Any]


def _loop(given: Gates) -> Way:
    return lambda: [torch.mm(w, given.x) for w in given.each]


def _graph(given: Gates) -> Way:
    return capture(_loop(given)).replay


def _streams(given: Gates) -> Way:
    """Each product on the next of eight streams; all wait for the caller's, and it for all of them."""
    streams = [torch.cuda.Stream() for _ in range(min(STREAMS, len(given.each)))]

    def run() -> list[torch.Tensor]:
        mine, found = torch.cuda.current_stream(), []
        for stream in streams:
            stream.wait_stream(mine)
        for place, w in enumerate(given.each):
            with torch.cuda.stream(streams[place % len(streams)]):
                found.append(torch.mm(w, given.x))
        for stream in streams:
            mine.wait_stream(stream)
        return found

    return capture(run).replay


def _batched(given: Gates) -> Way:
    many = given.x.expand(len(given.each), -1, -1)
    return lambda: torch.bmm(given.each, many)


def _combined(given: Gates) -> Way:
    return lambda: torch.mm(given.all, given.x)


MAKERS: dict[str, Callable[[Gates], Way]] = {
    "loop": _loop, "graph": _graph, "streams": _streams,
    "batched": _batched, "combined": _combined,
}  # fmt: skip
