"""One program of 27 pointwise operators, with lines between them that torch.compile cannot take into its graph.

At such a line the graph ends: the host runs it in Python, and a new graph begins behind it. Each break costs a launch
of its own and a pass through memory, for no kernel reaches across it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, must_fit, needs_compiler, relative
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

BREAKS = (0, 1, 2, 4, 8)
SECTIONS, OPERATORS, ITEMSIZE = 9, 3, 4
"""Parts between which a line may stand, and the operators of each."""
SMALL, LARGE, CPU_LARGE = 2**14, 2**26, 2**20
PRINT, ITEM, WRITE, CALL = KINDS = ("print", ".item() in a branch", "a side effect", "an unsupported call")
LINES = {
    PRINT: 'print("here", file=LOG)',
    ITEM: "if x[0].item() > 1e9: x = -x",
    WRITE: 'LOG.write("here")',
    CALL: 'zlib.crc32(b"here")',
}
"""What stands between the parts."""
AT_LARGE = (PRINT, ITEM)
COMPILE_S = 1.0


def supports(variant: Variant, point: Point) -> bool:
    """Two kinds at the large size; a CPU has one of its own."""
    elements = int(point["elements"])
    if not variant.on_gpu:
        return elements in (SMALL, CPU_LARGE)
    return elements == SMALL or (elements == LARGE and point["kind"] in AT_LARGE)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, and the bytes that the kernels move: each reads and writes all numbers once."""
    elements = int(point["elements"])
    passes = SECTIONS * OPERATORS if variant.implementation == "eager" else int(point["breaks"]) + 1
    return Cost(float(SECTIONS * OPERATORS * elements), 2.0 * ITEMSIZE * elements * passes)


def text_of(kind: str, breaks: int) -> str:
    """The program's Python: nine parts, and so many lines that break the graph, spread evenly.

    >>> print(text_of("print", 1))
    def program(x):
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        print("here", file=LOG)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        x = torch.relu(x * 0.9 + 0.1)
        return x
    """
    part, gaps = "x = torch.relu(x * 0.9 + 0.1)", SECTIONS - 1
    lines = [part]
    for gap in range(gaps):
        # of eight gaps, every eighth, fourth, second, or each
        broken = breaks and (gap + gaps // breaks // 2 + 1) % (gaps // breaks) == 0
        lines += [LINES[kind], part] if broken else [part]
    return "\n    ".join(["def program(x):", *lines, "return x"])


EXPERIMENT = Experiment(
    title="A program with graph breaks",
    question="What does a line cost that torch.compile cannot take?",
    axes=(
        Axis("breaks", BREAKS, label="graph breaks", scale="category"),
        Axis("kind", KINDS, label="the line that breaks the graph", scale="category"),
        Axis("elements", (SMALL, CPU_LARGE, LARGE), label="numbers (float32)", quick=(SMALL,)),
    ),
    variants=(
        Variant("eager", "eager, as written"),
        Variant("compile", "torch.compile", prepare_s=COMPILE_S),
        Variant.twin("eager", "cpu", "CPU, eager, as written"),
        Variant.twin("compile", "cpu", "CPU, torch.compile"),
    ),
    package=__name__,
    resident=True,
    anchors=({"breaks": 8, "kind": PRINT, "elements": SMALL}, {"breaks": 8, "kind": PRINT, "elements": LARGE}),
    rate=Rate("bytes", "B/s", "bandwidth"),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `graph_breaks` experiment runs: the program's text, made into a function, as it is and compiled.

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
        self.expected = program(PRINT, 0)(self.x.double())


def workload(variant: Variant, point: Point) -> Workload:
    """The program on fresh numbers, as it is or compiled."""
    elements, device = int(point["elements"]), variant.processor
    must_fit(40 * elements, device, f"graph_breaks {elements}")
    needs_compiler(variant)
    given, function = BrokenInputs.of(elements, device), program(str(point["kind"]), int(point["breaks"]))
    call = function if variant.implementation == "eager" else compiled(function)

    def run() -> torch.Tensor:
        return call(given.x)

    def error(found: Any) -> float:
        return relative(found, given.expected, torch.float32)

    compile_now(run)
    return Workload(run, error, TOLERANCE)
