"""What is predicted of the experiment `mlp`: the kernels of each way, in a loop.

Launches from Python, past torch (PyCUDA's, the megakernel's), are not predicted, only the same kernels in a graph; nor
is what `best` chooses.
"""

from __future__ import annotations

from dataclasses import replace

from brrr.counting.cost import Cost, Form, OperatorCost
from brrr.experiment import Point, PredictedRun, Variant
from brrr.experiments.mlp_theory import network_of, way_of
from brrr.experiments.predicted import How, kernel, pointwise, product
from brrr.networks import Network

FUSED = ("triton", "triton-graph", "epilogue-graph", "max-autotune")
EAGER = ("module", "functional", "inference", "script")
HOW: dict[str, How] = {
    **dict.fromkeys(EAGER, "eager"),
    **dict.fromkeys(("compile", "triton"), "compiled"),
    **dict.fromkeys(("max-autotune", "graph", "pycuda-graph", "epilogue-graph", "triton-graph"), "graph"),
    "megakernel-graph": "graph",
}  # fmt: skip


def mlp(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators or kernels of a way; None for a way that no model of the predictor stands for.

    TF32 is none of them: the predictor has it as a switch, not as a type.
    """
    way, network = way_of(variant.name), network_of(variant.name, point)
    if way not in HOW or network.tf32:
        return None
    return PredictedRun(_cost(way, network), HOW[way], network.dtype)


def _cost(way: str, network: Network) -> Cost:
    """The network's cost with the kernels that a way has."""
    if way in FUSED:  # bias and ReLU are in the product's kernel
        return network.fused_cost
    whole = network.cost
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
