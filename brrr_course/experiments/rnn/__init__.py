"""A recurrent layer whose weights stay on the chip: what does one time step take?

One layer, as many inputs as hidden units. Its questions and some claims follow "Persistent RNNs" (2016), whose kernel
kept the recurrent weights in registers for all time steps; the ways beside it are those that PyTorch offers today. A
step's time is a slope: a longer sequence's time less a shorter one's, so that what happens once a call drops out.
"""

from brrr.core.measurement import Field, Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.rnn.steps import LONG, MAIN, SHORT
from brrr_course.nouns.experiment import Axis, Experiment, Line, Rate, Variant

CELLS = ("rnn_tanh", "rnn_relu", "lstm")
DTYPES = ("float32", "float16", "bfloat16")
BATCHES = (1, 2, 3, 4, 8, 16, 24, 32, 64, 96, 128)
HIDDEN = (32, 256, 512, 768, MAIN, 1152, 1280, 1536, 1792, 2048, 2560)
"""At 32 there is next to nothing to compute: a step is the exchange."""
STEPS = (SHORT, LONG, 1024)

SIZES = {
    ("rnn_tanh", "float32"): (256, 512, 768, 1152, 1280, 1536, 1792, 2048),
    ("lstm", "float32"): (256, 512, 768, 1152, 1280, 1536),
    ("rnn_tanh", "float16"): (512, 768, 1152, 1280, 2048, 2560),
    ("lstm", "float16"): (512, 768, 1152, 1280, 2048),
}
"""Beside MAIN; each size and batch is one more plan, whose first call compiles and tries several kernels."""
AT_EACH_SIZE = (1, 64)
ODD_BATCHES, ODD_SIZE = (3, 4, 24, 96), 1152
LOOPED = (1, 2, 3, 4, 8, 16, 64)
CHOSEN = (1, 4, 16, 64)
"""Where training and cuDNN in a CUDA Graph are measured, at MAIN."""
OTHERS = {("rnn_relu", "float32"): (1, 64), ("rnn_tanh", "bfloat16"): (1, 16, 64), ("lstm", "bfloat16"): (1, 16, 64)}
"""Batches of what is only compared with another cell or type, at MAIN; no other ReLU and no other bfloat16."""
LONGEST = (1, 4, 64)
PLAN_S = 1.3
"""About what choosing a plan takes where its kernels are not compiled yet, spread over its points."""

CPU_HIDDEN, CPU_BATCHES = (32, 256, 512), (1, 4, 16)

PADDED = {"cudnn-pad8": 8, "cudnn-pad16": 16}
"""To a multiple of what cuDNN's batch is padded."""


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    cell, dtype = str(point["cell"]), str(point["dtype"])
    batch, hidden, steps = (int(point[name]) for name in ("batch", "hidden", "steps"))
    if not variant.on_gpu:
        plain = dtype == "float32" and cell != "rnn_relu" and steps != STEPS[-1]
        small = hidden in CPU_HIDDEN and batch in CPU_BATCHES
        return plain and (small or (hidden == MAIN and batch == 1 and cell == "rnn_tanh"))
    if not _in_grid(cell, dtype, hidden, batch, steps):
        return False
    usual = cell != "rnn_relu" and dtype != "bfloat16" and hidden == MAIN and steps != STEPS[-1]
    match variant.way:
        case "cudnn-pad8" | "cudnn-pad16" as way:
            return dtype != "float32" and hidden != HIDDEN[0] and batch % PADDED[way] != 0
        case "graph":
            return usual and batch in LOOPED
        case "cudnn-graph" | "train-persistent" | "train-cudnn":
            return usual and batch in CHOSEN
        case _:
            return True


def _in_grid(cell: str, dtype: str, hidden: int, batch: int, steps: int) -> bool:
    """Where ours and cuDNN are measured: all batches at one size, some at each."""
    longest = steps == STEPS[-1]
    if (cell, dtype) in OTHERS:
        return hidden == MAIN and batch in OTHERS[cell, dtype] and not longest
    if (cell, dtype) not in SIZES:
        return False
    if longest:
        return hidden == MAIN and batch in LONGEST and dtype == "float32"
    if hidden in (HIDDEN[0], MAIN):
        return hidden == MAIN or batch == 1
    odd = hidden == ODD_SIZE and batch in ODD_BATCHES and dtype == "float32"
    return odd or (hidden in SIZES[cell, dtype] and batch in AT_EACH_SIZE)


def recurrent_flop(point: Point) -> float:
    """FLOP of the recurrent products of all steps; the input's product, of as many inputs, has as many.

    >>> recurrent_flop({"cell": "lstm", "hidden": 2, "batch": 3, "steps": 5})
    480.0
    """
    gates = 4 if point["cell"] == "lstm" else 1
    return 2.0 * gates * int(point["hidden"]) ** 2 * int(point["batch"]) * int(point["steps"])


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the products, three times as many in training; bytes of input, result and weights, each once."""
    hidden, gates = int(point["hidden"]), 4 if point["cell"] == "lstm" else 1
    values = 2 * hidden * int(point["batch"]) * int(point["steps"]) + 2 * gates * hidden**2
    passes = 3 if variant.kind == "train" else 1
    return Cost(2 * recurrent_flop(point) * passes, float(ITEMSIZE[str(point["dtype"])] * values))


LABELS = {
    "persistent": "weights kept on the chip", "cudnn": "cuDNN",
    "cudnn-pad8": "cuDNN, batch padded to 8", "cudnn-pad16": "cuDNN, batch padded to 16",
    "cudnn-graph": "cuDNN in a CUDA Graph", "graph": "a loop of products, CUDA Graph",
    "train-persistent": "training step, weights kept on the chip",
    "train-cudnn": "training step, cuDNN",
}  # fmt: skip
SHOWN = ("persistent", "cudnn", "graph")
TRAINED = ("train-persistent", "train-cudnn")
PREPARE_S = {"persistent": PLAN_S, "train-persistent": 2 * PLAN_S}


def _variant(name: str, label: str) -> Variant:
    """Each way by the device's own time, training in a loop."""
    field: Field | None = "period_s" if name in TRAINED else None
    kind = "train" if name in TRAINED else ""
    return Variant(name, label, "cuda", prepare_s=PREPARE_S.get(name, 0.0), kind=kind, field=field, shown=name in SHOWN)


EXPERIMENT = Experiment(
    title="A recurrent layer that stays on the chip",
    question="What does one time step take?",
    axes=(
        Axis("batch", BATCHES, label="mini-batch", quick=(1, 4)),
        Axis("hidden", HIDDEN, label="hidden size", quick=(32, 256)),
        Axis("steps", STEPS, label="time steps", quick=(SHORT, LONG)),
        Axis("cell", CELLS, label="cell", scale="category", quick=("rnn_tanh",)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        *(_variant(name, label) for name, label in LABELS.items()),
        Variant("cpu", "PyTorch's layer on the CPU", "cpu", stands_in_for="cudnn"),
    ),
    field="span_s",
    lines=tuple(  # where a call overfills the gate
        Line(f"{name.replace('-', ' ')} loop", name, "period_s", f"{label}, in a loop", shown=False)
        for name, label in LABELS.items() if name not in TRAINED
    ),
    package=__name__,
    anchors=({"batch": 4, "hidden": MAIN, "steps": LONG, "cell": "rnn_tanh", "dtype": "float32"},),
    predicts=unpredicted,
    rate=Rate("flop", "FLOP/s", "throughput"),
)  # fmt: skip
