"""What the megakernel should take, before it is built."""

from __future__ import annotations

from brrr.networks.network import Network
from brrr.roofline.device_model import LAUNCH_S, Where, model_of
from brrr.roofline.persistent import Step, persistent_s

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
