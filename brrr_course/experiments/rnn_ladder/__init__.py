"""One recurrent network, run in each of the ways from a loop as one writes it down to cuDNN: what does each rung gain?

The rungs follow "Optimizing Performance of Recurrent Neural Networks on GPUs" (2016), each with all that those before
it have; those that came later stand behind. The network in the middle is the paper's: an LSTM of 4 layers, hidden size
512, a mini-batch of 64. Single products of a layer are measured beside it, to tell what part of the time is theirs.
"""

from brrr.core.measurement import Field, Point
from brrr.counting.cost import ITEMSIZE, Cost, matmul_cost
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.rnn_ladder import grid
from brrr_course.nouns.experiment import Axis, Experiment, Line, Rate, Variant

LOOPS = {
    "naive": "a product for each gate", "combined": "one product for all gates", "streamed": "products on two streams",
    "fused": "one elementwise kernel", "transposed": "weights transposed beforehand",
    "inputs2": "inputs of two steps in one product", "inputs": "inputs of all steps in one product",
    "wavefront": "layers in wavefront order",
}  # fmt: skip
LABELS = {
    **LOOPS, **{name: f"{LOOPS[loop]}, graph" for name, loop in grid.GRAPHS.items()},
    "graph": "the wavefront loop in a CUDA Graph", "compiled": "torch.compile, in a CUDA Graph",
    "cudnn": "cuDNN", "cudnn-padded": "cuDNN, batch padded to 8", "persistent": "weights kept on the chip",
    "gate-product": "one gate's recurrent product", "state-product": "a step's recurrent product",
    "inputs-product": "all steps' input product",
}  # fmt: skip
SHOWN = ("naive", "wavefront", "graph", "cudnn", "persistent")
TRACED = ("naive", "fused", "wavefront", "graph")
"""Whose timelines are recorded, of few steps."""
PREPARE_S = {"compiled": 30.0, "persistent": 1.0, "graph": 0.2, **dict.fromkeys(grid.GRAPHS, 0.2)}
"""What compiling, choosing a plan and capturing a loop take."""


def product_of(variant: str, point: Point) -> tuple[int, int, int]:
    """Rows, columns and depth of a layer's product: a row a sample, as many inputs as hidden units.

    >>> product_of("state-product", {"cell": "lstm", "hidden": 512, "batch": 64, "steps": 16})
    (64, 2048, 512)
    """
    hidden, batch = int(point["hidden"]), int(point["batch"])
    gates = 1 if variant == "gate-product" else grid.GATES[str(point["cell"])]
    return batch * (int(point["steps"]) if variant == "inputs-product" else 1), gates * hidden, hidden


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the products; bytes of input, result and weights, each once."""
    itemsize = ITEMSIZE[str(point["dtype"])]
    if variant.way in grid.PRODUCTS:
        m, n, k = product_of(variant.way, point)
        return matmul_cost(m, k, n, itemsize)
    hidden, gates = int(point["hidden"]), grid.GATES[str(point["cell"])]
    weights = 2 * gates * hidden**2 * int(point["layers"])
    each = int(point["batch"]) * int(point["steps"])
    return Cost(2.0 * weights * each, float(itemsize * (weights + 2 * hidden * each)))


def _variant(name: str, label: str) -> Variant:
    field: Field | None = "span_s" if name in grid.PRODUCTS else None
    return Variant(name, label, "cuda", prepare_s=PREPARE_S.get(name, 0.0), field=field, shown=name in SHOWN)


def _on_cpu(name: str) -> Variant:
    label = "PyTorch's layer" if name == "cudnn" else LABELS[name]
    return Variant(f"cpu-{name}", f"{label} on the CPU", "cpu", way=name, stands_in_for=name)


EXPERIMENT = Experiment(
    title="A recurrent network, rung by rung",
    question="What does each rung gain?",
    axes=(
        Axis("batch", tuple(sorted({*grid.BATCHES, *grid.HALF_BATCHES})), label="mini-batch", quick=(1, 16)),
        Axis("hidden", grid.SIZES, label="hidden size", quick=(256, grid.HIDDEN)),
        Axis("steps", grid.LENGTHS, label="time steps", quick=(16, grid.STEPS)),
        Axis("layers", grid.DEPTHS, label="layers", quick=(1, grid.LAYERS)),
        Axis("cell", grid.CELLS, label="cell", scale="category", quick=("lstm",)),
        Axis("dtype", grid.DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(*(_variant(name, label) for name, label in LABELS.items()), *map(_on_cpu, grid.ON_CPU)),
    field="period_s",
    lines=tuple(  # by the device's own time, too
        Line(f"{name.replace('-', ' ')} span", name, "span_s", f"{label}: span", shown=False)
        for name, label in LABELS.items() if name not in grid.PRODUCTS
    ),
    package=__name__,
    supports=grid.supports,
    anchors=(grid.place(),),
    traces=tuple((name, grid.place(steps=grid.LENGTHS[0])) for name in TRACED),
    predicts=unpredicted,
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=grid.PRODUCTS,
)  # fmt: skip
