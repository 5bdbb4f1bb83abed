"""What the megakernel and the ways by Strassen products should take, before any of them is built."""

from __future__ import annotations

import math

from brrr.gpu import CUDA
from brrr.networks.network import Network
from brrr.roofline.device_model import LAUNCH_S, Where, model_of
from brrr.roofline.persistent import Step, persistent_s
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.implementations import Implementation
from brrr.strassen.layers import planned
from brrr.strassen.request import Limits

BARRIER_S, ABOVE_FLOOR = 0.8e-6, 2.0
"""Of the megakernel on a GPU that no plan is known for: between two layers, and how many times as long as its floor
all layers may take."""


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
# What the ways by Strassen products ask for, and whether they gain anything.

SAFE = 0.8
"""Of a network's tolerance, what the predicted errors of its layers may come to together."""


def limits_of(network: Network, implementation: str) -> Limits:
    """What each layer's product is asked for.

    >>> limits_of(Network(8, 64, 64, "bfloat16"), "strassen").inner
    ('bf16',)

    Errors of layers are taken as independent: of so many together they grow with the root of their number. Those of
    TF32 add up, and each layer has its part of the tolerance.
    """
    if implementation == "strassen-accurate":
        return Limits(accuracy="fp32")
    from brrr.networks.network import TF32_LAYER, TOLERANCES

    if network.tf32:
        return Limits(accuracy=TF32_LAYER, inner=("tf32",))
    whole = TOLERANCES[network.dtype] * max(1.0, math.sqrt(network.layers / 8))
    return Limits(accuracy=SAFE * whole / math.sqrt(network.layers), inner=(PLAIN[network.dtype],))


def layer_way(network: Network, implementation: str, device: Where) -> Implementation:
    """The way of each layer's product: on a kind of device here, or on a device as `brrr.predict` takes it."""
    shapes, limits = [(network.hidden, network.hidden)], limits_of(network, implementation)
    return planned(shapes, network.batch, network.dtype, device, limits)[0].implementation


def gains(implementation: str, network: Network) -> str | None:
    """Why Strassen's levels, or split products, are no gain for this network on this GPU; None where they are one.

    >>> gains("strassen-accurate", Network(1, 2, 64, "bfloat16"))
    'float32 only, and this is bfloat16'
    """
    if implementation == "strassen-accurate" and (network.dtype != "float32" or network.tf32):
        return f"float32 only, and this is {'TF32' if network.tf32 else network.dtype}"
    chosen = layer_way(network, implementation, CUDA)
    if chosen.classical and chosen.inner == PLAIN[network.dtype] and not network.tf32:
        return "no product of this size is predicted to gain by it"
    return "no level is predicted to gain on this size" if network.tf32 and chosen.classical else None
