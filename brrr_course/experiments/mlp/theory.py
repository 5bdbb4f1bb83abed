"""What is counted of the textbook network: FLOP, bytes, and the floor that the datasheet sets.

The network: `layers` times (Linear(hidden, hidden), ReLU) on a batch of rows, inference.
"""

from dataclasses import replace

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr.networks.network import Network
from brrr_course.experiments.predicted import How, kernel, pointwise, product
from brrr_course.nouns.experiment import PredictedRun, Variant


def sizes(point: Point) -> tuple[int, int, int]:
    """Layers, batch and hidden size."""
    return int(point["layers"]), int(point["batch"]), int(point["hidden"])


def network_of(point: Point) -> Network:
    """The network at a point.

    >>> print(network_of({"layers": 8, "batch": 16, "hidden": 512}))
    8 layers of 512, batch 16, float32
    """
    return Network(*sizes(point))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call, the same for every way; with gradients each product counts three times."""
    network = network_of(point)
    if not variant.way.endswith("training"):
        return network.cost
    rows = network.itemsize * network.batch * network.hidden
    return Cost(3 * network.cost.flop, 2.0 * network.weight_bytes + 4 * rows)


def floor_s(hardware: Hardware | None, point: Point) -> float | None:
    """The longer of two times: the bytes once through the memory, and the FLOP at the fp32 peak; None where unknown.

    In a loop, weights that fit into the L2 cache need not come from the memory: then a time may lie below.
    """
    return network_of(point).floor_s(hardware) if hardware else None


# ---- what is predicted of the experiment `mlp`: the kernels of each way, in a loop ----

FUSED = ("triton", "triton-graph", "epilogue-graph", "max-autotune")
EAGER = ("module", "functional", "inference", "script")
HOW: dict[str, How] = {
    **dict.fromkeys(EAGER, "eager"),
    **dict.fromkeys(("compile", "triton"), "compiled"),
    **dict.fromkeys(("max-autotune", "graph", "pycuda-graph", "epilogue-graph", "triton-graph"), "graph"),
    "megakernel-graph": "graph",
}  # fmt: skip
PYTHON = {"module": (10, 32), "inference": (22, 32), "functional": (2, 2)}
"""Lines of Python that a call runs, and that each layer adds, as `brrr.cost` counts them; TorchScript has none."""


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators or kernels of a way; None for a way that no model of the predictor stands for."""
    way, network = variant.way, network_of(point)
    if way not in HOW:
        return None
    return PredictedRun(_cost(way, network), HOW[way], network.dtype)


def _cost(way: str, network: Network) -> Cost:
    """The network's cost with the kernels that a way has."""
    if way in FUSED:  # bias and ReLU are in the product's kernel
        return network.fused_cost
    first, each = PYTHON.get(way, (0, 0))
    whole = replace(network.cost, lines=first + each * network.layers)
    if way == "pycuda-graph":
        return _with(whole, _product_and_bias(network) * network.layers)
    return _with(whole, (_one_kernel(network),)) if way == "megakernel-graph" else whole


def _with(whole: Cost, kernels: tuple[OperatorCost, ...]) -> Cost:
    return replace(whole, eager_bytes=sum(each.bytes for each in kernels), operators=kernels)


def _product_and_bias(network: Network) -> tuple[OperatorCost, OperatorCost]:
    """A layer as two kernels: the bare product, then bias and ReLU in place."""
    m, n, size = network.batch, network.hidden, network.itemsize
    bare = product("mm", m, n, n, size, network.dtype, transposed=(False, True))
    form = Form("broadcast", m, n)
    return bare, pointwise("add", m * n, size, network.dtype, reads=m * n + n, form=form, flop=2.0)


def _one_kernel(network: Network) -> OperatorCost:
    """All layers in one kernel, which moves what it must."""
    work, rows = network.cost, float(network.itemsize * network.batch * network.hidden)
    return kernel(["addmm", "relu"], work.flop, work.bytes - rows, rows, network.dtype, fma=True)
