"""One recurrent network, run in each of the ways from a loop as one writes it down to cuDNN: what does each rung gain?

The rungs follow "Optimizing Performance of Recurrent Neural Networks on GPUs" (2016), each with all that those before
it have; those that came later stand behind. The network in the middle is the paper's: an LSTM of 4 layers, hidden size
512, a mini-batch of 64. Single products of a layer are measured beside it, to tell what part of the time is theirs.
"""

from __future__ import annotations

from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point, Value
from brrr.counting.cost import ITEMSIZE, Cost, matmul_cost
from brrr.gpu.precision import float32_products
from brrr.networks.recurrent import GATES, LOOPS, rung
from brrr.running.graphs import capture
from brrr_course.experiments.checked import must_fit, relative
from brrr_course.experiments.gemm import blocks
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.rnn import TOLERANCES, RecurrentInputs, persistent
from brrr_course.nouns.experiment import Axis, Experiment, Line, Rate, Run, Variant, Workload, lies_on
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

GRAPHS = {f"{name}-graph": name for name in LOOPS if name != "wavefront"}
"""The loop of each way that is one in a CUDA Graph, where no launch takes part; wavefront's is the rung `graph`."""
PRODUCTS = ("gate-product", "state-product", "inputs-product")
"""Single products of a layer: one gate's and all gates' of the state, and all gates' of all steps' inputs."""

CELLS = tuple(GATES)
DTYPES = ("float32", "float16")
HIDDEN, BATCH, LAYERS, STEPS = 512, 64, 4, 64
"""The paper's network, an LSTM in float32; and how many time steps most is measured with."""
SIZES, DEPTHS, LENGTHS = (256, HIDDEN, 1024, 2048), (1, 2, 3, LAYERS), (16, STEPS, 256, 1024)
BATCHES = (1, 2, 4, 8, 16, 32, BATCH, 128)
DEEP_BATCHES = (1, 2, 4, 16, 32, BATCH, 128)
"""At all layers, where a call of a loop takes four times as long."""
HALF_SIZE, HALF_BATCHES = 1024, tuple(range(1, 18))
"""cuDNN's kernels for half types change with the batch: at this size each one is measured."""
INPUTS = ("transposed", "inputs2", "inputs")
"""How many steps' input products are one: one, two, all."""
FAST = ("graph", "cudnn", "persistent")
"""At the most steps nothing else is measured: a call of a loop takes long there."""


def place(
    cell: str = "lstm", dtype: str = "float32", batch: int = BATCH, hidden: int = HIDDEN, steps: int = STEPS,
    layers: int = LAYERS,
) -> dict[str, Value]:  # fmt: skip
    """A point; the paper's network, where nothing else is said."""
    return {"batch": batch, "hidden": hidden, "steps": steps, "layers": layers, "cell": cell, "dtype": dtype}


def through(**values: tuple[Value, ...]) -> dict[str, tuple[Value, ...]]:
    """Points that lie through the paper's network along these axes."""
    return {name: (value,) for name, value in place().items()} | values


GRID = (
    ((*LOOPS, *FAST, "compiled"), through(cell=CELLS)),
    ((*LOOPS, *FAST), through(cell=CELLS, dtype=("float16",))),
    ((*LOOPS, *FAST), through(hidden=SIZES)),
    ((*LOOPS, *FAST), through(layers=DEPTHS)),
    ((*LOOPS, *FAST), through(steps=LENGTHS[:-1])),
    (FAST, through(steps=LENGTHS[-1:])),
    ((*INPUTS, "wavefront", *FAST), through(batch=DEEP_BATCHES)),
    ((*FAST, *PRODUCTS), through(hidden=SIZES, layers=(1,))),
    ((*LOOPS, *PRODUCTS), through(batch=BATCHES, layers=(1,))),
    ((*INPUTS, *FAST), through(batch=BATCHES, layers=(1,), cell=CELLS)),
    (PRODUCTS[1:], through(layers=(1,), cell=CELLS)),  # a gate's product is the same in each cell
    (("cudnn", "cudnn-padded", "persistent"),
     through(batch=HALF_BATCHES, hidden=(HALF_SIZE,), layers=(1,), cell=("rnn_tanh", "lstm"), dtype=("float16",))),
)  # fmt: skip
"""What is measured on which lines through the grid."""
CPU_GRID = through(batch=(1, 4, 16), hidden=(256,), steps=(16, STEPS), layers=(1, LAYERS))


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    name, batch, steps = variant.implementation, int(point["batch"]), int(point["steps"])
    if not variant.on_gpu:
        return lies_on(point, CPU_GRID)
    if (name == "persistent" and point["cell"] == "gru") or (name == "wavefront" and point["layers"] == 1):
        return False
    if (name == "cudnn-padded" and batch % 8 == 0) or (name in GRAPHS and steps > STEPS):
        return False
    return any(GRAPHS.get(name, name) in ways and lies_on(point, line) for ways, line in GRID)


LOOP_LABELS = {
    "naive": "a product for each gate", "combined": "one product for all gates", "streamed": "products on two streams",
    "fused": "one elementwise kernel", "transposed": "weights transposed beforehand",
    "inputs2": "inputs of two steps in one product", "inputs": "inputs of all steps in one product",
    "wavefront": "layers in wavefront order",
}  # fmt: skip
LABELS = {
    **LOOP_LABELS, **{name: f"{LOOP_LABELS[loop]}, graph" for name, loop in GRAPHS.items()},
    "graph": "the wavefront loop in a CUDA Graph", "compiled": "torch.compile, in a CUDA Graph",
    "cudnn": "cuDNN", "cudnn-padded": "cuDNN, batch padded to 8", "persistent": "weights kept on the chip",
    "gate-product": "one gate's recurrent product", "state-product": "a step's recurrent product",
    "inputs-product": "all steps' input product",
}  # fmt: skip
ON_CPU = {**{name: LOOP_LABELS[name] for name in ("naive", "combined", "inputs")}, "cudnn": "PyTorch's layer"}
SHOWN = ("naive", "wavefront", "graph", "cudnn", "persistent")
TRACED = ("naive", "fused", "wavefront", "graph")
"""Whose timelines are recorded, of few steps."""
PREPARE_S = {"compiled": 30.0, "persistent": 1.0, "graph": 0.2, **dict.fromkeys(GRAPHS, 0.2)}
"""What compiling, choosing a plan and capturing a loop take."""


def product_of(variant: str, point: Point) -> tuple[int, int, int]:
    """Rows, columns and depth of a layer's product: a row a sample, as many inputs as hidden units.

    >>> product_of("state-product", {"cell": "lstm", "hidden": 512, "batch": 64, "steps": 16})
    (64, 2048, 512)
    """
    hidden, batch = int(point["hidden"]), int(point["batch"])
    gates = 1 if variant == "gate-product" else GATES[str(point["cell"])]
    return batch * (int(point["steps"]) if variant == "inputs-product" else 1), gates * hidden, hidden


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the products; bytes of input, result and weights, each once."""
    itemsize = ITEMSIZE[str(point["dtype"])]
    if variant.implementation in PRODUCTS:
        m, n, k = product_of(variant.implementation, point)
        return matmul_cost(m, k, n, itemsize)
    hidden, gates = int(point["hidden"]), GATES[str(point["cell"])]
    weights = 2 * gates * hidden**2 * int(point["layers"])
    each = int(point["batch"]) * int(point["steps"])
    return Cost(2.0 * weights * each, float(itemsize * (weights + 2 * hidden * each)))


EXPERIMENT = Experiment(
    title="A recurrent network, rung by rung",
    question="What does each rung gain?",
    axes=(
        Axis("batch", tuple(sorted({*BATCHES, *HALF_BATCHES})), label="mini-batch", quick=(1, 16)),
        Axis("hidden", SIZES, label="hidden size", quick=(256, HIDDEN), noun="hidden size"),
        Axis("steps", LENGTHS, label="time steps", quick=(16, STEPS)),
        Axis("layers", DEPTHS, label="layers", quick=(1, LAYERS)),
        Axis("cell", CELLS, label="cell", scale="category", quick=("lstm",)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(name, label, prepare_s=PREPARE_S.get(name, 0.0), field="span_s" if name in PRODUCTS else None,
                  shown=name in SHOWN) for name, label in LABELS.items()),
        *(Variant.twin(name, "cpu", f"{label} on the CPU") for name, label in ON_CPU.items()),
    ),
    field="period_s",
    lines=tuple(  # by the device's own time, too
        Line(f"{name.replace('-', ' ')} span", name, "span_s", f"{label}: span", shown=False)
        for name, label in LABELS.items() if name not in PRODUCTS
    ),
    package=__name__, needs="CUDA",
    anchors=(place(),),
    traces=tuple((name, place(steps=LENGTHS[0])) for name in TRACED),
    predicts=unpredicted,
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=PRODUCTS,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `rnn_ladder` experiment runs: one network of torch's, its weights shared by all ways of a point.

KEPT = 4
"""Buffers, each of all gates of all steps, that a point's loops and the float64 network may hold at once."""


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running the network; ArgumentError or UnavailableError where it has none here."""
    hidden, layers, batch, steps = (int(point[name]) for name in ("hidden", "layers", "batch", "steps"))
    device, name = variant.processor, variant.implementation
    gates = int(4 * hidden * batch * steps * layers)
    what = f"a network of {layers} x {hidden}, {steps} steps of {batch} samples"
    must_fit(KEPT * 4 * gates + 4 * int(cost(variant, point).bytes), device, what)
    given = RecurrentInputs.of(str(point["cell"]), hidden, batch, steps, str(point["dtype"]), device, layers)
    run, error = product(name, given) if name in PRODUCTS else (way(name, given), given.error)
    return Workload(run, error, TOLERANCES[str(point["dtype"])], warm=True)


def way(name: str, given: RecurrentInputs) -> Run:
    """A rung of the ladder, in a CUDA Graph or not, or the weights kept on the chip."""
    if name == "persistent":
        return persistent(given)
    if name in GRAPHS:
        return capture(rung(GRAPHS[name], given.module, given.x)).replay
    return rung(name, given.module, given.x)


def product(name: str, given: RecurrentInputs) -> tuple[Run, Any]:
    """A product of the first layer as the loops run it, and its error: of a gate, of all, or of all steps' inputs."""
    module, weights = given.module, dict(given.module.named_parameters())
    with torch.no_grad():
        of = "ih" if name == "inputs-product" else "hh"
        w, bias = weights[f"weight_{of}_l0"].detach(), weights[f"bias_{of}_l0"].detach()
        x = given.x.flatten(0, 1) if of == "ih" else given.x[0]
        if name == "gate-product":
            w, bias = w[: module.hidden_size], bias[: module.hidden_size]
        else:
            w = w.t().contiguous().t()
        out = x.new_empty(len(x), len(w))

    @float32_products()
    def run() -> torch.Tensor:
        with torch.no_grad():
            return torch.addmm(bias, x, w.t(), out=out)

    def error(found: Any, kept: RecurrentInputs = given) -> float:
        return relative(found, torch.addmm(bias.double(), x.double(), w.double().t()), x.dtype)

    return run, error


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on the ways to run a recurrent network call beside the notation's own functions.


def grids(evidence: Evidence, product: str) -> Table:
    """How many blocks a product's first kernel was launched with, by the point, as the profiler told them.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn_ladder"), Recorded("h200"))
    >>> min(grids(evidence, "gate-product").listed())
    16
    """
    known = evidence.known(product).items()
    found = {key: blocks(m.launched[0]) for key, m in known if m.launched}
    if not found:
        raise NotRecordedError(f"no kernel of {product} was named")
    return Table(tuple(axis.name for axis in evidence.experiment.axes), found)
