"""What the first call costs, part by part: each part in fresh processes of its own, and the same once more.

The parts, and the claims about them, follow the warm-up section of "GPU Performance: Parallel Processing vs Overhead"
(2024), which saw a long first copy and a long first sine in a profile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu, is_gpu
from brrr_course.experiments.checked import relative
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

IMPORT = "import torch"
CONTEXT, MEMORY, COPY, KERNEL = "CUDA context", "memory", "copy", "first kernel"
OTHER, STREAM, ON_STREAM = "another kernel", "stream", "a new stream's first kernel"
PINNED, MATMUL, CONVOLUTION = "pinned memory", "matrix product", "convolution"
PARTS = (IMPORT, CONTEXT, MEMORY, PINNED, COPY, KERNEL, OTHER, STREAM, ON_STREAM, MATMUL, CONVOLUTION)

ON_CUDA = PARTS[1:]
ON_CPU = (IMPORT, MEMORY, KERNEL, MATMUL, CONVOLUTION)
"""What the first call costs without a GPU too: the libraries start their threads, and choose their code."""

ONLY = {"cuda-no-compiler": (KERNEL,), "cuda-eager": (CONTEXT, KERNEL)}
"""Processes with another setting of the driver are asked about what it bears on."""


def supports(variant: Variant, point: Point) -> bool:
    """Which part exists where."""
    return point["part"] in (ON_CPU if is_cpu(variant.device) else ONLY.get(variant.implementation, ON_CUDA))


def cost(variant: Variant, point: Point) -> Cost:
    """Nothing that is worth counting: the parts are set-up."""
    return Cost(0.0, 0.0)


EXPERIMENT = Experiment(
    title="The first call",
    question="What does the first call pay for, and who pays it again?",
    axes=(Axis("part", PARTS, label="what is done for the first time", scale="category", quick=ON_CPU),),
    variants=(
        Variant("cuda-first", "the first time", timer="first-call", work="cuda", line="first"),
        Variant("cuda-again", "the second time", timer="call-again", work="cuda", line="again"),
        Variant("cuda-no-compiler", "the first time, no compiler", timer="first-call", line="no compiler", shown=False),
        Variant("cuda-eager", "the first time, all loaded before", timer="first-call", line="eager", shown=False),
        Variant("cpu-first", "CPU, the first time", "cpu", timer="first-call", work="cpu"),
        Variant("cpu-again", "CPU, the second time", "cpu", timer="call-again", work="cpu"),
    ),
    field="latency_s",
    package=__name__,
    needs="CUDA",
    anchors=({"part": KERNEL},),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `first_call` experiment runs: one part of a process's set-up, with what must be there before it.

TOLERANCE = 1e-4
SMALL, MEMORY_BYTES, COPIED = 4096, 64 * 2**20, 2**20

SETTINGS = {"cuda-no-compiler": {"CUDA_DISABLE_PTX_JIT": "1"}, "cuda-eager": {"CUDA_MODULE_LOADING": "EAGER"}}
"""What the driver is told, by environment variables that it reads when it starts."""


class SetUpPart(NamedTuple):
    """`prepare` makes what must be there before; `run` is timed; `error` compares its result with what was made."""

    prepare: Callable[[str], Any]
    run: Callable[[Any], Any]
    error: Callable[[Any, Any], float]


def workload(variant: Variant, point: Point) -> Workload:
    """One part; `prepare`, among the others, must be called before it: it sets the driver's environment first."""
    part, made = MAKERS[str(point["part"])], list[Any]()

    def prepare() -> None:
        os.environ.update(SETTINGS.get(variant.implementation, {}))
        made[:] = [part.prepare(variant.device)]

    def error(found: Any) -> float:
        return part.error(made[0], found)

    return Workload(lambda: part.run(made[0]), error, TOLERANCE, others={"prepare": prepare})


# ---- what must be there before ----


def _no_torch(device: str) -> None:
    assert "torch" not in sys.modules, "torch is there already, and its import would take no time"


def _loaded(device: str) -> None:
    torch.is_tensor(device)  # what is first asked of torch loads it


def _context(device: str) -> str:
    """Where the GPU's must be there; the device."""
    _loaded(device)
    if is_gpu(device):
        _make_context()
    return device


def _sent(device: str, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """Random numbers, sent there: a copy loads no kernel."""
    _context(device)
    sent = tuple(torch.randn(shape).to(device) for shape in shapes)
    _wait(device)
    return sent


def _vectors(device: str) -> Any:
    return _sent(device, (SMALL,), (SMALL,))


def _after_a_sine(device: str, *more: Callable[[], Any]) -> Any:
    made = _vectors(device)
    _sine(made)
    _wait(device)
    made += tuple(make() for make in more)
    _wait(device)
    return made


def _image(device: str) -> Any:
    torch.backends.cudnn.allow_tf32 = False  # its check compares with float64
    return _sent(device, (8, 16, 32, 32), (16, 16, 3, 3))


def _wait(device: str) -> None:
    if is_gpu(device):
        torch.cuda.synchronize()


# ---- what is timed ----


def _make_context(_: Any = None) -> None:
    torch.cuda.init()
    torch.cuda.synchronize()


def _sine(made: Any) -> Any:
    return torch.sin(made[0], out=made[1])


def _new_stream(_: Any) -> Any:
    stream = torch.cuda.Stream()
    stream.synchronize()
    return stream


def _sine_on_stream(made: Any) -> Any:
    with torch.cuda.stream(made[2]):
        return _sine(made)


def _square(made: Any) -> Any:
    return made[0] @ made[0]


def _convolve(made: Any) -> Any:
    return torch.nn.functional.conv2d(*made)


# ---- whether it is right ----


def _exact(right: bool) -> float:
    return 0.0 if right else float("nan")


def _against(reference: Callable[[Any], Any]) -> Callable[[Any, Any], float]:
    """The relative error of what comes of some tensors, by a function of these in float64."""
    return lambda made, found: relative(found.cpu(), reference([x.cpu().double() for x in made]), torch.float32)


SINE = _against(lambda made: made[0].sin())
MAKERS = {
    IMPORT: SetUpPart(_no_torch, lambda _: import_module("torch"),
                      lambda _, found: _exact(float(found.ones(2).sum()) == 2)),
    CONTEXT: SetUpPart(_loaded, _make_context, lambda *_: _exact(torch.cuda.is_initialized())),
    MEMORY: SetUpPart(_context, lambda device: torch.empty(MEMORY_BYTES, dtype=torch.uint8, device=device),
                      lambda _, found: _exact(found.nbytes == MEMORY_BYTES)),
    PINNED: SetUpPart(_context, lambda _: torch.empty(MEMORY_BYTES, dtype=torch.uint8, pin_memory=True),
                      lambda _, found: _exact(found.is_pinned())),
    COPY: SetUpPart(lambda device: (torch.randn(COPIED), torch.empty(COPIED, device=_context(device))),
                    lambda made: made[1].copy_(made[0]), _against(lambda made: made[0])),
    KERNEL: SetUpPart(_vectors, _sine, SINE),
    OTHER: SetUpPart(_after_a_sine, lambda made: torch.cos(made[0], out=made[1]), _against(lambda made: made[0].cos())),
    STREAM: SetUpPart(_context, _new_stream, lambda _, stream: _exact(stream.query())),
    ON_STREAM: SetUpPart(lambda device: _after_a_sine(device, torch.cuda.Stream), _sine_on_stream,
                         lambda made, found: SINE(made[:2], found)),
    MATMUL: SetUpPart(lambda device: _sent(device, (256, 256)), _square, _against(_square)),
    CONVOLUTION: SetUpPart(_image, _convolve, _against(_convolve)),
}  # fmt: skip
