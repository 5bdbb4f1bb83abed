"""Pieces of work operator by operator and fused: does fusion gain what the bytes say?

The question and two claims follow "Making Deep Learning Go Brrrr From First Principles": fusion of element-wise
operators, fusion onto a reduction. Arrays have rows of 1024; each way of a piece of work runs on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr_course.experiments.checked import PointInputs, blockwise, compiled, error_against, held_workload, must_fit
from brrr_course.experiments.lazily import f, torch
from brrr_course.experiments.predicted import (
    BANDWIDTH,
    alone,
    flop_of,
    how_of,
    kernel,
    own_names,
    pointwise,
    product,
    reduction,
    run,
    view,
)
from brrr_course.nouns.experiment import Axis, Experiment, Function, Line, PredictedRun, Rate, Run, Variant, Workload

# ---------------------------------------------------------------------------------------------------------------------
# FLOP and bytes of each piece of work in `fusion`, operator by operator and fused: what is gained, and predicted.

ITEMSIZE = {"float32": 4, "bfloat16": 2}
WIDTH = 1024
KINDS = {
    "bias": "bias and ReLU", "pseudo": "scale and bias", "chain": "scale, add and ReLU", "norm": "layer norm",
    "softmax": "softmax", "kept": "two cosines, both needed", "linear": "linear layer and ReLU",
}  # fmt: skip


def operators(kind: str, elements: int, dtype: str = "float32") -> tuple[OperatorCost, ...]:
    """What torch runs one by one, in order."""
    n, w, rows, size = elements, WIDTH, elements // WIDTH, ITEMSIZE[dtype]

    def each(name: str, reads: int = n, numbers: int = n, form: Form | None = None) -> OperatorCost:
        return pointwise(name, numbers, size, dtype, reads=reads, form=form)

    def broadcast(name: str, smaller: int) -> OperatorCost:
        return each(name, n + smaller, form=Form("broadcast", rows, w))

    def over_rows(name: str, flop: int | None = None) -> OperatorCost:
        return reduction(name, Form("rows", rows, w), size, dtype, flop)

    scaled, small = each("mul", form=Form("scalar", 1, n)), each("add", rows, rows, Form("scalar", 1, rows))
    relu = each("relu")
    return {
        "bias": (broadcast("add", w), relu),
        "pseudo": (broadcast("mul", w), broadcast("add", w)),
        "chain": (scaled, each("add", 2 * n), relu),
        "norm": (over_rows("mean", n), broadcast("sub", rows), each("mul"), over_rows("mean", n), small,
                 each("rsqrt", rows, rows), broadcast("mul", rows), broadcast("mul", w), broadcast("add", w)),
        "softmax": (over_rows("amax"), broadcast("sub", rows), each("exp"), over_rows("sum"), broadcast("div", rows)),
        "kept": (each("cos"), each("cos")),
        "linear": (view("t"), product("addmm", rows, w, w, size, dtype, bias=w, transposed=(False, True)), relu),
    }[kind]  # fmt: skip


def moved(kind: str, elements: int) -> tuple[int, int]:
    """Elements moved by the operators one by one, and by one fused kernel.

    >>> moved("chain", 1024)
    (7168, 3072)
    """
    n, w = elements, WIDTH
    fused = {"bias": 2 * n + w, "pseudo": 2 * n + 2 * w, "chain": 3 * n, "norm": 2 * n + 2 * w, "softmax": 2 * n,
             "kept": 3 * n, "linear": 2 * n + w * w + w}  # fmt: skip
    return int(sum(each.bytes for each in operators(kind, n))) // ITEMSIZE["float32"], fused[kind]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, compulsory bytes, and eager bytes: those of all operators, or of the one kernel that a fused variant is."""
    kind, elements, size = variant.operation, int(point["elements"]), ITEMSIZE[str(point["dtype"])]
    eager, fused = (float(size * each) for each in moved(kind, elements))
    moves = eager if variant.implementation == "eager" else fused
    return Cost(flop_of(operators(kind, elements)), fused, eager_bytes=moves)


# ---- what is predicted ----


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators one by one, or one kernel with the compulsory bytes.

    A compiler leaves the product of the linear layer as it is, a kernel of its own.
    """
    kind, how = variant.operation, variant.implementation
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    once = float(size * moved(kind, elements)[1])
    listed = operators(kind, elements, dtype)
    if how == "eager" or kind == "linear":
        return run(listed, once, once + size * elements * (0 if kind == "kept" else 1), how_of(how))
    written = size * elements * WORKS[kind].results
    return alone(kernel(own_names(listed), flop_of(listed), once - written, written, dtype), how_of(how))


ELEMENTS = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26)
COMPILED = {"float32": ELEMENTS, "bfloat16": (2**10, 2**26)}
"""torch.compile makes a new kernel for each size, which takes seconds."""

LABELS = {"eager": "one operator each", "compile": "torch.compile", "triton": "Triton", "cuda": "a line of CUDA C++",
          "blocks": "a block at a time"}  # fmt: skip
IN_BROWSER = {"eager": ("webgpu-chain", "one pass each"), "compile": ("webgpu-chain-fused", "in one pass")}
"""How a browser does it, by what it stands in for: as `yours.js` names it."""
LIKE_TORCH = ("eager", "compile")
MEASURED_WAYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bias", "pseudo", "chain"), (*LIKE_TORCH, "triton", "cuda")),
    **dict.fromkeys(("norm", "softmax"), (*LIKE_TORCH, "triton")), **dict.fromkeys(("kept", "linear"), LIKE_TORCH),
}  # fmt: skip
CPU_KINDS, ON_CPU = ("bias", "pseudo", "chain", "norm", "softmax"), {"eager": "eager", "blocks": "compile"}
"""Where a block of rows can go through all operators while it stays in the cache; a CPU's ways by what they stand for.
"""


def supports(variant: Variant, point: Point) -> bool:
    """torch.compile takes the sizes in COMPILED."""
    return variant.implementation != "compile" or point["elements"] in COMPILED[str(point["dtype"])]


EXPERIMENT = Experiment(
    title="Operators one by one, and fused",
    question="Does fusion gain what the bytes say?",
    axes=(
        Axis("elements", ELEMENTS, label="elements, in rows of 1024", quick=(2**10, 2**18, 2**20),
             most={"cpu": 2**22}),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        # the chain is shown at first, the others on request: all at once would be two dozen lines
        *(Variant(f"{kind}-{way}", f"{KINDS[kind]}, {LABELS[way]}", implementation=way, operation=kind,
                  shown=kind == "chain") for kind, ways in MEASURED_WAYS.items() for way in ways),
        *(Variant.twin(f"{kind}-{way}", "cpu", f"CPU, {KINDS[kind]}, {LABELS[way]}", implementation=way, operation=kind,
                       shown=kind == "chain", stands_in_for=(f"{kind} {instead}",))
          for kind in CPU_KINDS for way, instead in ON_CPU.items()),
        *(Variant(name, f"scale, add and ReLU on your GPU, {label}", "webgpu", timer="browser", operation="chain",
                  implementation="eager" if way == "eager" else "fused", stands_in_for=(f"chain {way}",))
          for way, (name, label) in IN_BROWSER.items()),
    ),
    field="busy_s",
    lines=tuple(Line(f"chain {way} period", f"chain-{way}", "period_s", f"{KINDS['chain']}, {LABELS[way]}, in a loop",
                     shown=False) for way in LIKE_TORCH),
    package=__name__,
    anchors=({"elements": 2**14, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `fusion` experiment runs: each piece of work in torch's operators, compiled, in Triton and in CUDA C++.

EPS, SCALE = 1e-5, 1.75
if TYPE_CHECKING:
    Tensor = torch.Tensor


def bias(x: Tensor, b: Tensor) -> Tensor:
    """A bias, then ReLU."""
    return torch.relu(x + b)


def pseudo(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A weight and a bias for each column."""
    return x * w + b


def chain(x: Tensor, r: Tensor, scale: float) -> Tensor:
    """Three operators."""
    return torch.relu(x * scale + r)


def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Layer norm as its formula says."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS) * w + b


def softmax(x: Tensor) -> Tensor:
    """Softmax as its formula says, its largest exponent 0."""
    power = torch.exp(x - x.amax(-1, keepdim=True))
    return power / power.sum(-1, keepdim=True)


def kept(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two cosines, of which the first is needed elsewhere too."""
    between = x.cos()
    return between, between.cos()


def linear(x: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """A linear layer, then ReLU."""
    return torch.relu(f.linear(x, v, b))


@dataclass(frozen=True)
class Work:
    """A piece of work: its operators, what it takes beside x, and how else it can run."""

    operators: Function
    takes: str
    line: str = ""
    triton: str = ""
    results: int = 1


WORKS: dict[str, Work] = {
    "bias": Work(bias, "b", "y = x + b < 0 ? 0 : x + b", "bias_relu"),
    "pseudo": Work(pseudo, "wb", "y = x * w + b", "pseudo_linear"),
    "chain": Work(chain, "rs", "float t = x * s + r; y = t < 0 ? 0 : t", "scale_add_relu"),
    "norm": Work(norm, "wb", "", "layer_norm"),
    "softmax": Work(softmax, "", "", "softmax"),
    "kept": Work(kept, "", results=2),
    "linear": Work(linear, "vb"),
}


class FusionInputs(PointInputs):
    """The tensors of a point, each drawn when it is first asked for, shared by all of its variants."""

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.rows, self.dtype, self.device = elements // WIDTH, getattr(torch, dtype), device
        self._drawn: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Any:
        """x and r: an array; w and b: a row; v: a square matrix; s: a number."""
        if name == "s":
            return SCALE
        if name not in self._drawn:
            shape = {"x": (self.rows, WIDTH), "r": (self.rows, WIDTH), "v": (WIDTH, WIDTH)}.get(name, (WIDTH,))
            drawn = torch.randn(shape, device=self.device)
            self._drawn[name] = (drawn * WIDTH**-0.5 if name == "v" else drawn).to(self.dtype)
        return self._drawn[name]


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's piece of work on fresh random numbers, which the point's variants share."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    must_fit(6 * ITEMSIZE[dtype] * elements, device, f"{variant.label} of {elements} elements", elements, wide=8)
    inputs, work = FusionInputs.of(elements, dtype, device), WORKS[variant.operation]
    along = {name: inputs[name] for name in f"x{work.takes}" if name in "xr"}
    whole = {name: inputs[name] for name in work.takes if name != "r"}
    run = IMPLEMENTATIONS[variant.implementation](work, along, whole)
    check = error_against(work.operators, [*along.values()], [*whole.values()], work.results)
    return held_workload(run, check, inputs, inputs.dtype, device)


Inputs = Mapping[str, Any]
"""Tensors or numbers by the names of `Work.takes`."""


def _triton(work: Work, along: Inputs, whole: Inputs) -> Run:
    from brrr.kernels import fused, pseudo_linear

    if work.triton == "scale_add_relu":
        return partial(fused.scale_add_relu, along["x"], SCALE, along["r"])
    kernel_of = getattr(pseudo_linear if work.triton == "pseudo_linear" else fused, work.triton)
    return partial(kernel_of, *along.values(), *whole.values())


def _cuda(work: Work, along: Inputs, whole: Inputs) -> Run:
    from brrr.kernels.elementwise.kernel import elementwise

    return elementwise(work.line, **along, **whole)


IMPLEMENTATIONS: Mapping[str, Callable[[Work, Inputs, Inputs], Run]] = {
    "eager": lambda work, along, whole: partial(work.operators, *along.values(), *whole.values()),
    "compile": lambda work, along, whole: partial(compiled(work.operators), *along.values(), *whole.values()),
    "triton": _triton,
    "cuda": _cuda,
    "blocks": lambda work, along, whole: blockwise(work.operators, [*along.values()], [*whole.values()]),
}
"""What runs a piece of work on the inputs along which it goes and on those that are needed whole."""
