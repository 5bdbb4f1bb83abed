"""A linear layer against an element-wise stand-in: how much faster is the one that multiplies no matrices?

The question, the widths and the claims follow a forum thread, "Surprisingly low performance in pseudo-Linear layer",
whose readers measured it on two unnamed GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import DeviceKind, Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr.gpu import CUDA, is_queue
from brrr.gpu.datasheet import Hardware
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, compile_now, error_against, must_fit, worst
from brrr_course.experiments.lazily import f, torch
from brrr_course.experiments.predicted import BANDWIDTH, How, kernel, least_s, pointwise, product, reduction, run, view
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload
from brrr_course.nouns.expression import Table
from brrr_course.nouns.places import published
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# What FLOP and bytes say about a linear layer and its element-wise stand-in: costs, and the two theoretical speed-ups.

FORWARD, BOTH = "forward", "forward+backward"
ITEMSIZE = 4


def linear_cost(width: int, batch: int, *, backward: bool = False) -> Cost:
    """FLOP and bytes of the linear layer: one matrix product forward, two more backward.

    >>> linear_cost(1024, 1024)
    2.15 GFLOP, 12.6 MB, 171 FLOP/B
    """
    rows, square = float(batch) * width, float(width) * width
    products, sums, arrays = (3, 2, 5) if backward else (1, 1, 2)
    moved = arrays * rows + products * square + sums * width
    return Cost(2 * products * batch * square + sums * rows, ITEMSIZE * moved)


def pseudo_cost(width: int, batch: int, *, backward: bool = False) -> Cost:
    """FLOP and bytes of the element-wise layer, each tensor moved once: what one fused kernel needs.

    Backward: dx = g w, dw = sum of g x, db = sum of g.

    >>> pseudo_cost(1024, 1024)
    2.1 MFLOP, 8.4 MB, 0.25 FLOP/B
    """
    rows, (flop, arrays, vectors) = float(batch) * width, (6, 5, 4) if backward else (2, 2, 2)
    return Cost(flop * rows, ITEMSIZE * (arrays * rows + vectors * width))


def sizes(point: Point) -> tuple[int, int, bool]:
    """Width, batch and whether the backward pass belongs to it."""
    return int(point["width"]), int(point["batch"]), point.get("direction") == BOTH


def costs(point: Point) -> tuple[Cost, Cost]:
    """The cost of the linear and of the pseudo layer at a point."""
    width, batch, backward = sizes(point)
    return linear_cost(width, batch, backward=backward), pseudo_cost(width, batch, backward=backward)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a variant at a point; all linear variants cost the same, and all pseudo ones."""
    return costs(point)[variant.operation == "pseudo"]


def speedup_by_flop(hardware: Hardware | None, point: Point) -> float:
    """By counting operations alone, the stand-in is faster by the width."""
    return float(point["width"])


def speedup_by_roofline(hardware: Hardware | None, point: Point) -> float | None:
    """The ratio of both layers' times at the datasheet's limits; None without a datasheet.

    A time is the larger of FLOP over the fp32 peak and bytes over the memory's bandwidth (S. Williams et al., 2009).
    """
    linear, pseudo = (least_s(hardware, each.flop, each.bytes) for each in costs(point))
    return linear / pseudo if linear and pseudo else None


# ---- what is predicted: the layer operator by operator, or fused ----


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The layer's operators, forward or with its gradients; fused by hand or by a compiler, its kernels."""
    width, batch, backward = sizes(point)
    layer, how, work = variant.operation, variant.implementation, cost(variant, point)
    graph = how.endswith("graph") and variant.on_gpu
    one_by_one = layer == "linear" or how in ("eager", "graph")
    if backward and not one_by_one and not how.startswith("triton"):
        return None  # what a compiler makes of both sums at once is its own choice
    forward, back = _operators(layer if one_by_one else "fused", width, batch)
    between = ITEMSIZE * float(batch * width) if one_by_one and layer == "pseudo" else 0
    # a launch by Triton costs the host as much as one that is compiled
    launched: How = "graph" if graph else "eager" if one_by_one else "compiled"
    return run((*forward, *back) if backward else forward, work.bytes, work.bytes + between, launched)


Operators = tuple[OperatorCost, ...]


def _operators(layer: str, width: int, batch: int) -> tuple[Operators, Operators]:
    """Forward, and what the gradients take more; fused, one kernel that reads g and x once and writes dx, dw and db."""
    n, form = batch * width, Form("broadcast", batch, width)
    if layer == "fused":
        moved = ITEMSIZE * float(2 * n + width), ITEMSIZE * float(n + 2 * width)
        forward = kernel(["mul", "add"], 2.0 * n, moved[1], ITEMSIZE * float(n))
        # fma: what counts as a whole is not merged with its neighbour
        return (forward,), (kernel(["mul", "mul", "sum", "sum"], 4.0 * n, *moved, fma=True),)
    turned, to_bias = view("t"), (reduction("sum", Form("columns", width, batch), ITEMSIZE), view("view"))
    if layer == "linear":
        by_weight = product("addmm", batch, width, width, ITEMSIZE, bias=width, transposed=(False, True))
        to_input = product("mm", batch, width, width, ITEMSIZE)
        to_weight = product("mm", width, width, batch, ITEMSIZE, transposed=(True, False))
        return (turned, by_weight), (turned, to_input, turned, to_weight, turned, *to_bias, turned)
    multiply, add = (pointwise(name, n, ITEMSIZE, reads=n + width, form=form) for name in ("mul", "add"))
    return (multiply, add), (*to_bias, pointwise("mul", n, ITEMSIZE, reads=2 * n), multiply, *to_bias)


WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096, 6144, 8192, 16384, 24576)
BATCHES = (128, 2048, 32768)
COMPILED_WIDTHS = (256, 1024, 4096, 16384)
"""Where both layers are compiled with their backward pass: each point is compiled anew, for seconds."""

EXACT_WIDTHS = (4096, 16384)
QUEUE_FLOP = 2e10
"""The CPU queue stops here: a laptop's CPU would need a second and more a call above."""

SLOW_FLOP = 1e13
"""Above this one way of running the linear layer is enough: overhead is nothing there, and a call takes long."""


def supports(variant: Variant, point: Point) -> bool:
    """Which variant exists where: the CPU queue up to a size, copies of the slow linear layer up to another."""
    flop, width = costs(point)[0].flop, int(point["width"])
    if is_queue(variant.device):
        return flop <= QUEUE_FLOP
    if variant.implementation == "integers":
        return width in EXACT_WIDTHS and point["batch"] == max(BATCHES) and point["direction"] == FORWARD
    linear, compiled = variant.operation == "linear", variant.implementation == "compile"
    if linear and (compiled or variant.implementation == "graph") and flop > SLOW_FLOP:
        return False
    return not compiled or width in COMPILED_WIDTHS or (not linear and point["direction"] == FORWARD)


LABELS = {
    "linear-eager": "Linear", "pseudo-eager": "pseudo", "pseudo-compile": "pseudo, torch.compile",
    "pseudo-graph": "pseudo, CUDA Graph", "pseudo-triton": "pseudo, fused (Triton)",
    "pseudo-triton-graph": "pseudo, fused, CUDA Graph", "linear-compile": "Linear, torch.compile",
    "linear-graph": "Linear, CUDA Graph", "linear-integers": "Linear on whole numbers",
}  # fmt: skip
QUEUE_LABELS = {"linear-eager": "Linear", "pseudo-eager": "pseudo", "pseudo-graph": "pseudo, one order",
                "pseudo-triton": "pseudo, fused", "linear-graph": "Linear, one order"}  # fmt: skip
HIDDEN = ("linear-compile", "linear-graph", "linear-integers")


def _variant(name: str, label: str, device: DeviceKind = CUDA) -> Variant:
    layer, _, how = name.partition("-")
    told: dict[str, Any] = {"implementation": how, "operation": layer, "shown": name not in HIDDEN}
    return Variant.twin(name, device, label, **told) if is_queue(device) else Variant(name, label, **told)


EXPERIMENT = Experiment(
    title="Pseudo-Linear",
    question="How much faster is a layer that multiplies no matrices?",
    axes=(
        Axis("width", WIDTHS, label="width of the layer", quick=(64, 256, 1024)),
        Axis("batch", BATCHES, label="batch (rows)", quick=(128,)),
        Axis("direction", (FORWARD, BOTH), label="direction", scale="category", quick=(FORWARD,)),
    ),
    variants=(
        *(_variant(name, label) for name, label in LABELS.items()),
        *(_variant(name, label, "cpu-queue") for name, label in QUEUE_LABELS.items()),
    ),
    field="period_s",
    package=__name__,
    anchors=tuple({"width": n, "batch": rows, "direction": FORWARD} for n, rows in ((1024, 2048), (256, 128))),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        Guide("flop", "by counting: the width", "PREDICTED", "ratio", speedup_by_flop),
        Guide("roofline", "by the fp32 roofline", "PREDICTED", "ratio", speedup_by_roofline),
        BANDWIDTH,
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Are the results of the pseudo-linear experiment right? References in float64, a block of rows at a time.

if TYPE_CHECKING:
    Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
EXACT_ROWS, SUMMED_ROWS = 64, 2048
"""So many rows of a product of whole numbers are looked at, and so many are summed up at once."""
SIGNS = ((1, 1, 1, 1), (1, 1, -1, -1), (1, -1, 1, -1), (1, -1, -1, 1))
"""Signs for the quadrants of a matrix: of any two quadrants, half of these give them one sign, and half two."""


def pseudo_error(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor | None) -> Callable[[Any], float]:
    """The worst error of `x * w + b`; with an upstream gradient g, of `(y, dx, dw, db)`."""

    checks = [error_against(pseudo, (x,), (w, b))]
    if g is not None:
        checks += [error_against(torch.mul, (g,), (w,)), partial(_sum_error, g, x), partial(_sum_error, g)]
    return partial(_worst_of, checks)


def linear_error(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor | None) -> Callable[[Any], float]:
    """The worst error of `x wᵀ + b`, the products by Freivalds' check (see `product_error`)."""
    from brrr.roofline.calibrate.part import product_error

    checks: list[Callable[[Any], float]] = [lambda y: product_error(x, w.t())(y - b)]
    if g is not None:
        checks += [product_error(g, w), product_error(g.t(), x), partial(_sum_error, g)]
    return partial(_worst_of, checks)


def _worst_of(checks: Sequence[Callable[[Any], float]], result: Any) -> float:
    """The worst error of a result, or of each of several."""
    results = result if isinstance(result, tuple) else (result,)
    with torch.no_grad():
        return worst(check(each) for check, each in zip(checks, results, strict=True))


def _sum_error(*args: torch.Tensor) -> float:
    """The error of the last, which should be the sum over all rows of the others' product, in float64.

    Over the norm of all that is added, or of the sum if that is larger: of random terms the sum is about as large as
    that norm, but may come out near zero; rounding never does.
    """
    *factors, found = args
    total, squares = torch.zeros_like(found, dtype=torch.float64), 0.0
    for parts in zip(*(each.split(SUMMED_ROWS) for each in factors), strict=True):
        terms = reduce(torch.mul, (each.double() for each in parts))
        total += terms.sum(0)
        squares += float(terms.square().sum())
    scale = max(math.sqrt(squares), float(torch.linalg.norm(total)))
    return float(torch.linalg.norm(found.double() - total)) / scale if scale else math.nan


# ---- whole numbers: does the product use all of its multiplications? ----


def whole_numbers(rows: int, columns: int, terms: int, device: str) -> torch.Tensor:
    """A matrix of the two largest neighbouring whole numbers whose products, summed `terms` times, stay below 2^24.

    Float32 holds every whole number up to 2^24. So a product of such matrices is exact in any order of summation, if
    each term is one product. Strassen's form (and Winograd's) multiplies sums of quadrants: with quadrants whose signs
    agree these are twice as large, their products exceed 2^24, and odd ones are rounded.
    """
    return math.isqrt((2**24 - 1) // terms) - torch.randint(0, 2, (rows, columns), device=device).float()


def signed(matrix: torch.Tensor, signs: Sequence[int]) -> torch.Tensor:
    """The matrix with a sign for each quadrant: upper left, upper right, lower left, lower right."""
    quadrants = matrix.view(2, len(matrix) // 2, 2, -1)
    return (quadrants * torch.tensor(signs, device=matrix.device).view(2, 1, 2, 1)).view_as(matrix)


def inexact_share(product: Product, x: torch.Tensor, w: torch.Tensor) -> float:
    """The largest share of inexact entries of `product(x, w) = x wᵀ`, over all pairs of signs; on sampled rows.

    A classical product of `whole_numbers` gives 0.0 whatever its order; a product by Strassen's or Winograd's form
    does not, since for some pair of signs the quadrants that it adds agree on both sides.
    """
    chosen = torch.randperm(x.shape[0], device=x.device)[:EXACT_ROWS]
    shares = (
        float((product(left, right)[chosen].double() != left[chosen].double() @ right.double().t()).double().mean())
        for left in (signed(x, signs) for signs in SIGNS) for right in (signed(w, signs) for signs in SIGNS)
    )  # fmt: skip
    return worst(shares)


# ---------------------------------------------------------------------------------------------------------------------
# What the `pseudo_linear` experiment runs: the linear layer and its element-wise stand-in, each in every way.

TOLERANCE = 1e-4
"""float32 stays far below; TF32, near 3e-4, would be found out."""

WARM_FLOP = 1e12
"""A call with fewer FLOP is made once before it is checked, so that loading a library is not taken for its time."""

if TYPE_CHECKING:
    Layer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def pseudo(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The stand-in for a linear layer: each feature times its own weight, plus its own bias."""
    return x * w + b


class PseudoInputs(PointInputs):
    """The tensors of one point, drawn once and used by all of its variants as long as one of them is there."""

    def __init__(self, width: int, batch: int, backward: bool, device: str) -> None:
        self.width, self.backward, self.device = width, backward, device
        self.x = self._draw(batch, width)
        self.gradient = torch.randn(batch, width, device=device) if backward else None
        self._parameters: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def parameters(self, layer: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias of `linear` (He-scaled, so that its outputs are as large as its inputs) or of `pseudo`."""
        if layer not in self._parameters:
            n = self.width
            weight = self._draw(n, n, scale=math.sqrt(2 / n)) if layer == "linear" else self._draw(n)
            self._parameters[layer] = (weight, self._draw(n))
        return self._parameters[layer]

    def _draw(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).mul_(scale).requires_grad_(self.backward)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's layer at the point, on fresh random inputs that the point's variants share."""
    (width, batch, backward), device = sizes(point), variant.processor
    layer, how, tensors = variant.operation, variant.implementation, 6 if backward else 3
    weights = (1 + backward) * (width * width if layer == "linear" else width)
    # inputs, results, one intermediate, and the weights with their gradients
    must_fit(ITEMSIZE * (tensors * width * batch + weights), device, f"{variant.label} of width {width}, batch {batch}")
    if how == "integers":
        return _on_whole_numbers(width, batch, device)
    inputs = PseudoInputs.of(width, batch, backward, device)
    check = linear_error if layer == "linear" else pseudo_error
    with torch.no_grad():  # a node of autograd's that the check held would tie a captured backward pass to this stream
        error = check(inputs.x, *inputs.parameters(layer), inputs.gradient)
    if is_queue(variant.device):
        return _queued(how, inputs, layer, error)
    run = _way(how, inputs, layer)
    if how == "compile":
        compile_now(run)
    elif cost(variant, point).flop < WARM_FLOP:
        run()
    return Workload(run, error, TOLERANCE)


def compiled(function: Layer, inputs: PseudoInputs) -> Layer:
    """The layer under torch.compile, compiled as seldom as its speed allows.

    Linear: once for all shapes, for its work is a library's. Pseudo: once for each width, since a width known when
    compiling makes better code; forward, the batch may change without compiling again.
    """
    if function is f.linear:
        return torch.compile(function, dynamic=True)
    if not inputs.backward:
        torch._dynamo.maybe_mark_dynamic(inputs.x, 0)
    return torch.compile(function, dynamic=False)


def _way(how: str, inputs: PseudoInputs, layer: str) -> Run:
    """The call that is timed: the layer's result, or with backward `(y, dx, dw, db)`.

    A CUDA Graph's results start out as NaN, so that only a replay makes them right.
    """
    function: Layer = f.linear if layer == "linear" else pseudo
    if how.startswith("triton"):
        from brrr.kernels.pseudo_linear import pseudo_linear as function
    elif how == "compile":
        function = compiled(function, inputs)
    x, (w, b), g = inputs.x, inputs.parameters(layer), inputs.gradient

    def call() -> Any:
        y = function(x, w, b)
        return y if g is None else (y.detach(), *torch.autograd.grad(y, (x, w, b), g))

    if not how.endswith("graph"):
        return call
    captured = capture(call)
    _spoilt(captured.output if isinstance(captured.output, tuple) else (captured.output,))
    return captured.replay


def _spoilt(results: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for result in results:
            result.fill_(math.nan)


def _on_whole_numbers(width: int, batch: int, device: str) -> Workload:
    """The linear layer without a bias on whole numbers; right only if every entry is exact (see `inexact_share`)."""
    x, w = (whole_numbers(rows, width, width, device) for rows in (batch, width))

    def error(y: torch.Tensor) -> float:
        sampled = torch.randperm(batch, device=device)[:64]
        here = float((y[sampled].double() != x[sampled].double() @ w.double().t()).double().mean())
        return max(here, inexact_share(f.linear, x, w))

    return Workload(lambda: f.linear(x, w), error, 0.0)


# ---- the CPU queue: the same orders as torch would issue, into memory that is there already ----


def _queued(how: str, inputs: PseudoInputs, layer: str, error: Callable[[Any], float]) -> Workload:
    """The layer as one order an operator (`eager`), or as a single order (`graph`, `triton`)."""
    orders, results = _orders(layer, inputs, fused=how == "triton")
    _spoilt(results)
    at_once: list[Run] = [lambda: [order() for order in orders]]
    given, found = orders if how == "eager" else at_once, results if inputs.backward else results[0]
    return Workload.in_orders(given, found, error, TOLERANCE, held=inputs)


def _orders(layer: str, inputs: PseudoInputs, *, fused: bool) -> tuple[list[Run], tuple[torch.Tensor, ...]]:
    """What torch would run, operator by operator, and the tensors that it writes."""
    x, (w, b) = inputs.x.detach(), (each.detach() for each in inputs.parameters(layer))
    y, between = torch.empty_like(x), torch.empty_like(x)
    if layer == "linear":
        forward: list[Run] = [lambda: torch.addmm(b, x, w.t(), out=y)]
    elif fused:
        forward = [lambda: torch.addcmul(b, x, w, out=y)]
    else:
        forward = [lambda: torch.mul(x, w, out=between), lambda: torch.add(between, b, out=y)]
    if inputs.gradient is None:
        return forward, (y,)
    g, dx, dw, db = inputs.gradient, torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    to_bias = lambda: torch.sum(g, 0, out=db)  # noqa: E731
    if layer == "linear":
        backward = [lambda: torch.mm(g, w, out=dx), lambda: torch.mm(g.t(), x, out=dw), to_bias]
    else:
        to_weight = [lambda: torch.mul(g, x, out=between), lambda: torch.sum(between, 0, out=dw)]
        backward = [lambda: torch.mul(g, w, out=dx), *to_weight, to_bias]
    return [*forward, *backward], (y, dx, dw, db)


# ---------------------------------------------------------------------------------------------------------------------
# What the forum thread said about the pseudo-linear layer, and what holds; and this package's own explanation.

MANY = 32768


def thread(evidence: Evidence, table: str) -> Table:
    """The speed-ups of one of the thread's own tables, by the width."""
    rows = [row for row in published("pseudo_linear") if row["table"] == table]
    return Table(("width",), {(int(row["width"]),): float(row["speedup"]) for row in rows})


def clever_multiplication(evidence: Evidence) -> Verdict:
    """Three tests of "fewer multiplications"; the thread's guess fails if all three speak against it.

    With fewer than n³ multiplications the rate counted with all n³ could exceed the peak, and whole numbers close to
    the limit of exactness would come out rounded. And if the stand-in runs at the memory's pace, its bytes explain its
    time, and nothing is left for the matrix product to explain.
    """
    hardware, at = evidence.datasheet(), {"batch": MANY, "direction": FORWARD}
    linear, pseudo = (evidence.table(name, "busy_s", at) for name in ("linear-eager", "pseudo-triton"))
    widths = [int(width) for (width,) in linear.values if (width,) in pseudo.values]
    if not widths:
        raise NotRecordedError("at no width both layers were measured")
    exact = sorted(int(width) for width, *_ in evidence.known("linear-integers"))
    if not exact:
        raise NotRecordedError("the product of whole numbers was not measured, or did not come out exact")
    width = max(widths)
    rates = [linear_cost(int(w), MANY).flop / time / hardware.peak("fp32") for (w,), time in linear.values.items()]
    at_best_s = pseudo_cost(width, MANY).bytes / hardware.memory_bytes_per_s
    share = at_best_s / pseudo.values[width,].median
    most = max(rate.median for rate in rates)
    text = (
        f"counted with all its multiplications, Linear reaches at most {units.percent(most, 2)} of the fp32 "
        f"peak; its products of whole numbers are exact at width {' and '.join(map(str, exact))}; the fused stand-in "
        f"moves its bytes at {units.percent(share, 2)} of the bandwidth, at which no stand-in of width {width} "
        f"can be more than {units.ratio(linear.values[width,].median / at_best_s)} faster"
    )
    if any(rate.low > 1 for rate in rates):
        return Verdict("holds", text)
    return Verdict("fails" if share >= 0.7 else "undecided", text)
