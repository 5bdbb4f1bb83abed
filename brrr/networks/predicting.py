"""How long each way should take, before any of them is built."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from brrr.gpu import GPU
from brrr.networks.network import Network
from brrr.roofline.device_model import LAUNCH_S, Where, model_of
from brrr.roofline.peaks import MissingPeakError
from brrr.roofline.persistent import Step, persistent_s
from brrr.roofline.predicting import predict
from brrr.roofline.prediction import How, Prediction
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.layers import planned
from brrr.strassen.limits import Limits
from brrr.strassen.predicting import Predictor
from brrr.strassen.ways import Way

MARGIN = 1.2
"""Two predictions closer than that are not told apart without measuring."""

DOUBT = 1.8
"""A way predicted slower than the fastest by more is not measured: the predictions are not that far off."""

LAUNCHES = {"pycuda": 3, "pycuda-fused": 2, "epilogue": 1, "triton": 1, "strassen": 2, "strassen-accurate": 2}
"""Launches of a layer, where each is issued; of Strassen's the products, and one pass between those of two layers."""

BARRIER_S, ABOVE_FLOOR = 0.8e-6, 2.0
"""Of the megakernel on a GPU that no plan is known for: between two layers, and how many times as long as its floor
all layers may take."""

GRAPH_OF = {
    "module": "graph", "functional": "graph", "inference": "graph", "script": "graph", "pycuda": "pycuda-graph",
    "pycuda-fused": "pycuda-graph", "epilogue": "epilogue-graph", "triton": "triton-graph",
    "strassen": "strassen-graph", "strassen-accurate": "strassen-accurate-graph",
}  # fmt: skip
"""The same kernels as a CUDA Graph."""

FEW_LAYERS = 2
"""With so few, issuing them one by one may be as quick as replaying a graph."""


@dataclass(frozen=True)
class Candidate:
    """A way with its predicted `period_s`, None where nothing is known; `assumed` where it rests on no measurement."""

    way: str
    period_s: float | None
    assumed: bool = True


def worth_trying(network: Network, names: Sequence[str]) -> list[str]:
    """The ways without those whose CUDA Graph is there too, which is never slower where layers are many.

    >>> worth_trying(Network(8, 2, 64), ["module", "graph", "epilogue"])
    ['graph', 'epilogue']
    """
    if network.layers <= FEW_LAYERS:
        return [name for name in names if name not in ("module", "pycuda") or GRAPH_OF[name] not in names]
    return [name for name in names if GRAPH_OF.get(name) not in names]


def predictions(network: Network, names: Iterable[str], where: Where) -> list[Candidate]:
    """The ways by predicted period, the fastest first.

    >>> found = predictions(Network(8, 16, 256), ["module", "graph", "triton-graph"], "h200")
    >>> found[0].way, found[-1].way
    ('triton-graph', 'module')

    where: what `brrr.predict` takes as `device`; None is this machine, and without peaks of it nothing is known.
    """
    known = {each.way: each for each in _known(network, where)}
    listed = [known.get(name, Candidate(name, None)) for name in names]
    return sorted(listed, key=lambda each: float("inf") if each.period_s is None else each.period_s)


def to_measure(candidates: list[Candidate], always: str = "graph") -> list[str]:
    """The ways that must be measured before one is chosen; only the first where the predictions suffice.

    >>> to_measure([Candidate("a", 1e-6, False), Candidate("b", 2e-6, False)])
    ['a']
    >>> to_measure([Candidate("a", 1e-6), Candidate("graph", 4e-6, False), Candidate("b", 5e-6), Candidate("c", 9e-6)])
    ['a', 'graph', 'b']

    An assumed time rules nothing out: what is near the fastest that is not assumed is measured too. `always` is among
    them wherever anything is measured, so that what is chosen is never slower than it.
    """
    first = candidates[0]
    if len(candidates) == 1 or _clearly_ahead(first, candidates[1]):
        return [first.way]
    sure = (each.period_s for each in candidates if each.period_s is not None and not each.assumed)
    limit = DOUBT * next(sure, math.inf)
    near = [each.way for each in candidates if each.period_s is None or each.period_s <= limit]
    return near + [each.way for each in candidates if each.way == always and always not in near]


def _clearly_ahead(first: Candidate, second: Candidate) -> bool:
    if first.period_s is None or first.assumed:
        return False
    return second.period_s is None or second.period_s >= MARGIN * first.period_s


def _known(network: Network, where: Where) -> Iterator[Candidate]:
    """All that can be said; nothing, where there are no peaks of the device, or it is not known (None)."""
    if where is None:
        return
    try:
        eager = _predicted(network, where, "eager")
    except MissingPeakError:
        return
    assumed = "measured" not in eager.kinds
    yield Candidate("module", eager.period_s, assumed)
    for name in ("functional", "inference", "script"):  # somewhat faster where the host is the limit
        yield Candidate(name, eager.period_s)
    if eager.span_s is None:  # a CPU: no graphs, nothing to launch
        return
    graph_s, fused_s = (_predicted(network, where, "graph", fused=fused).period_s for fused in (False, True))
    yield Candidate("compile", _predicted(network, where, "compiled").period_s, assumed)
    yield Candidate("graph", graph_s, assumed)
    yield Candidate("max-autotune", fused_s)
    launched = {"pycuda": graph_s, "pycuda-fused": graph_s, "epilogue": fused_s, "triton": fused_s}
    for name, device_s in launched.items():
        yield Candidate(name, max(device_s, _issuing_s(network, name)))
        yield Candidate(GRAPH_OF[name], device_s)
    one_s, assumed = megakernel_period(network, where)
    yield from (Candidate(name, one_s, assumed) for name in ("megakernel", "megakernel-graph"))
    yield from _by_strassen(network, where)


def _issuing_s(network: Network, way: str) -> float:
    """What the host takes to launch the kernels of all layers."""
    return network.layers * LAUNCHES[way] * LAUNCH_S[way.partition("-")[0]]


def _by_strassen(network: Network, where: Where) -> Iterator[Candidate]:
    """Ways by Strassen products, where the device has their type; assumed, since constants of its kernels are."""
    for name in WAYS:
        if name == "strassen-accurate" and (network.tf32 or network.dtype != "float32"):
            continue
        with suppress(MissingPeakError):
            way = layer_way(network, name, where)
            device_s = Predictor.of(where).chain_s(way, network.layers, network.batch, network.hidden, network.dtype)
            yield Candidate(name, max(device_s, _issuing_s(network, name)))
            yield Candidate(f"{name}-graph", device_s)


def _predicted(network: Network, where: Where, how: How, *, fused: bool = False) -> Prediction:
    cost = network.fused_cost if fused else network.cost
    return predict(cost, device=where, how=how, tf32=network.tf32)


def megakernel_period(network: Network, where: Where) -> tuple[float, bool]:
    """By its plans for an H200, where a GPU has as many multiprocessors; else by the network's floor, and assumed.

    >>> period_s, assumed = megakernel_period(Network(8, 16, 256), "h200")
    >>> 4e-6 < period_s < 8e-6, assumed
    (True, False)
    """
    from brrr.kernels.megakernel import device, plan

    launch_s, shape = LAUNCH_S["megakernel"], plan.NetworkShape(network.layers, network.batch, network.hidden)
    alike = model_of(where).sm_count == plan.H200.active_clusters[1]
    made = device.plan(shape, plan.H200) if alike else None
    if made is not None:
        return max(launch_s, device.predicted_s(made, shape, plan.H200)), False
    layer = Step({"barrier": BARRIER_S, "work": ABOVE_FLOOR * network.floor_s(where) / network.layers})
    return persistent_s(layer, network.layers, launch_s=launch_s), True


# ---------------------------------------------------------------------------------------------------------------------
# What the ways by Strassen products ask for, whether they gain anything, and how long they should take.

SAFE = 0.8
"""Of a network's tolerance, what the predicted errors of its layers may come to together."""

WAYS = ("strassen", "strassen-accurate")


def limits_of(network: Network, way: str) -> Limits:
    """What each layer's product is asked for.

    >>> limits_of(Network(8, 64, 64, "bfloat16"), "strassen").inner
    ('bf16',)

    Errors of layers are taken as independent: of so many together they grow with the root of their number. Those of
    TF32 add up, and each layer has its part of the tolerance.
    """
    if way == "strassen-accurate":
        return Limits(accuracy="fp32")
    from brrr.networks.network import TF32_LAYER, TOLERANCES

    if network.tf32:
        return Limits(accuracy=TF32_LAYER, inner=("tf32",))
    whole = TOLERANCES[network.dtype] * max(1.0, math.sqrt(network.layers / 8))
    return Limits(accuracy=SAFE * whole / math.sqrt(network.layers), inner=(PLAIN[network.dtype],))


def layer_way(network: Network, way: str, device: Where) -> Way:
    """The way of each layer's product: on this machine's "cuda" or "cpu", or on a device as `brrr.predict` takes it."""
    shapes, limits = [(network.hidden, network.hidden)], limits_of(network, way)
    return planned(shapes, network.batch, network.dtype, device, limits)[0].way


def gains(way: str, network: Network) -> str | None:
    """Why Strassen's levels, or split products, are no gain for this network on this GPU; None where they are one."""
    chosen = layer_way(network, way, GPU)
    if chosen.classical and chosen.inner == PLAIN[network.dtype] and not network.tf32:
        return "no product of this size is predicted to gain by it"
    return "no level is predicted to gain on this size" if network.tf32 and chosen.classical else None
