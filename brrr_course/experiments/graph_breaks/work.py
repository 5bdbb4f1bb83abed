"""What the `graph_breaks` experiment runs: the program's text, made into a function, as it is and compiled."""

import os
import zlib
from collections.abc import Callable
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr_course.experiments.checked import (
    PointInputs,
    compile_now,
    compiled,
    ready_to_compile,
    refuse_too_large,
    relative,
)
from brrr_course.experiments.graph_breaks import cost, text_of
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-5
LOG = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open as long as the process)


def program(kind: str, breaks: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The program as a function.

    >>> program("print", 8)(torch.zeros(2))
    tensor([0.6126, 0.6126])
    """
    names: dict[str, Any] = {"torch": torch, "zlib": zlib, "LOG": LOG}
    exec(compile(text_of(kind, breaks), f"<{breaks} x {kind}>", "exec"), names)
    made: Callable[[torch.Tensor], torch.Tensor] = names["program"]
    return made


class BrokenInputs(PointInputs):
    """The numbers of a point, for both ways, and what becomes of them."""

    def __init__(self, elements: int, device: str) -> None:
        self.x = torch.randn(elements, device=device)
        wide, whole = self.x.double(), program("print", 0)
        self.expected = whole(wide)


def workload(variant: Variant, point: Point) -> Workload:
    """The program on fresh numbers, as it is or compiled."""
    elements, device = int(point["elements"]), variant.processor
    refuse_too_large(40 * elements, device, f"graph_breaks {elements}")
    ready_to_compile(variant)
    given, function = BrokenInputs.of(elements, device), program(str(point["kind"]), int(point["breaks"]))
    call = function if variant.way == "eager" else compiled(function)

    def run() -> torch.Tensor:
        return call(given.x)

    def error(found: Any) -> float:
        return relative(found, given.expected, torch.float32)

    compile_now(run)
    return Workload(run, cost(variant, point), error, TOLERANCE, synchronize=waiting(device))
