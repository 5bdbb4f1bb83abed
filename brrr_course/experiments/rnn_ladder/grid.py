"""Which rung of the ladder is measured where: one network in full, and lines through it along each axis."""

from brrr.core.measurement import Point, Value
from brrr_course.nouns.experiment import Variant

LOOPS = ("naive", "combined", "streamed", "fused", "transposed", "inputs2", "inputs", "wavefront")
GRAPHS = {f"{name}-graph": name for name in LOOPS[:-1]}
"""The loop of each way that is one in a CUDA Graph, where no launch takes part; wavefront's is the rung `graph`."""
RUNGS = (*LOOPS, "graph", "compiled", "cudnn", "cudnn-padded")
"""As `brrr.networks.recurrent` names them, which this module does not load: it needs torch."""
PRODUCTS = ("gate-product", "state-product", "inputs-product")
"""Single products of a layer: one gate's and all gates' of the state, and all gates' of all steps' inputs."""
ON_CPU = ("naive", "combined", "inputs", "cudnn")

CELLS = ("rnn_tanh", "gru", "lstm")
GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}
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
CPU_SIZE, CPU_BATCHES, CPU_LENGTHS, CPU_DEPTHS = 256, (1, 4, 16), (16, STEPS), (1, LAYERS)


def place(
    cell: str = "lstm", dtype: str = "float32", batch: int = BATCH, hidden: int = HIDDEN, steps: int = STEPS,
    layers: int = LAYERS,
) -> dict[str, Value]:  # fmt: skip
    """A point; the paper's network, where nothing else is said."""
    return {"batch": batch, "hidden": hidden, "steps": steps, "layers": layers, "cell": cell, "dtype": dtype}


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    if not variant.on_gpu:
        return _on_cpu(point)
    name, cell, layers = variant.way, point["cell"], int(point["layers"])
    if (name == "persistent" and cell == "gru") or (name == "wavefront" and layers == 1):
        return False
    if name == "cudnn-padded":
        return padded(point) and _half_line(point)
    if name in GRAPHS:
        return GRAPHS[name] in measured(point) and int(point["steps"]) <= STEPS
    return name in measured(point)


def measured(point: Point) -> tuple[str, ...]:
    """The ways of a point, before those that have no form there are left out."""
    cell, dtype = point["cell"], point["dtype"]
    hidden, batch, steps, layers = (int(point[name]) for name in ("hidden", "batch", "steps", "layers"))
    if _half_line(point):
        return ("cudnn", "persistent")
    if hidden != HIDDEN:
        return _of_size(point)
    if (batch, layers, steps) == (BATCH, LAYERS, STEPS):
        return (*LOOPS, *FAST, "compiled") if dtype == "float32" else (*LOOPS, *FAST)
    if dtype != "float32":
        return ()
    if steps != STEPS:
        at_centre = cell == "lstm" and (batch, layers) == (BATCH, LAYERS)
        return () if not at_centre else FAST if steps == LENGTHS[-1] else (*LOOPS, *FAST)
    if cell != "lstm":
        return _of_one_layer(batch) if layers == 1 else ()
    if layers == 1 and batch in BATCHES:
        return (*LOOPS, *FAST, *PRODUCTS)
    if layers == LAYERS and batch in DEEP_BATCHES:
        return (*INPUTS, "wavefront", *FAST)
    return (*LOOPS, *FAST) if batch == BATCH else ()


def _of_one_layer(batch: int) -> tuple[str, ...]:
    """The line of batches of the other cells; a gate's product is the same in each cell."""
    return () if batch not in BATCHES else (*INPUTS, *FAST, *PRODUCTS[1:]) if batch == BATCH else (*INPUTS, *FAST)


def _of_size(point: Point) -> tuple[str, ...]:
    """The line of hidden sizes: the ladder at all layers, the fastest ways and the products at one."""
    if (point["cell"], point["dtype"], point["batch"], point["steps"]) != ("lstm", "float32", BATCH, STEPS):
        return ()
    return {LAYERS: (*LOOPS, *FAST), 1: (*FAST, *PRODUCTS)}.get(int(point["layers"]), ())


def _half_line(point: Point) -> bool:
    """cuDNN's line of batches in float16; with its batch padded only where that changes it."""
    at = tuple(point[name] for name in ("dtype", "hidden", "steps", "layers"))
    return at == ("float16", HALF_SIZE, STEPS, 1) and point["cell"] != "gru" and int(point["batch"]) in HALF_BATCHES


def padded(point: Point) -> bool:
    """Whether padding changes the batch.

    >>> padded({"batch": 8}), padded({"batch": 9})
    (False, True)
    """
    return int(point["batch"]) % 8 != 0


def _on_cpu(point: Point) -> bool:
    hidden, batch, steps, layers = (int(point[name]) for name in ("hidden", "batch", "steps", "layers"))
    small = hidden == CPU_SIZE and batch in CPU_BATCHES and steps in CPU_LENGTHS and layers in CPU_DEPTHS
    return small and point["cell"] == "lstm" and point["dtype"] == "float32"
