"""What the ways by Strassen products ask for, whether they gain anything, and how long they should take.

>>> limits_of(Network(8, 2048, 2048), "strassen-accurate").accuracy
'fp32'
>>> layer_way(Network(8, 4096, 4096), "strassen", "cuda", "h200").level > 0
True
"""

from __future__ import annotations

import math

from brrr.networks.network import Network
from brrr.roofline.peaks.peaks import MissingPeakError
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.layers import Limits, planned
from brrr.strassen.predicting import Predictor
from brrr.strassen.ways import Way

SAFE = 0.8
"""Of a network's tolerance, what the predicted errors of its layers may come to together."""

LAUNCH_S = 6e-6
"""What the host takes for one launch; there are two a layer. Of the order seen on a data-centre GPU's host."""

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
    inner = ("sgemm", "ffma") if network.dtype == "float32" else (PLAIN[network.dtype],)
    whole = TOLERANCES[network.dtype] * max(1.0, math.sqrt(network.layers / 8))
    return Limits(accuracy=SAFE * whole / math.sqrt(network.layers), inner=inner)


def layer_way(network: Network, way: str, kind: str, device: object = None) -> Way:
    """The way of each layer's product; on this machine's device of that kind where none is named."""
    shapes, limits = [(network.hidden, network.hidden)], limits_of(network, way)
    return planned(shapes, network.batch, network.dtype, kind if device is None else device, limits)[0].way


def gains(way: str, network: Network) -> str | None:
    """Why Strassen's levels, or split products, are no gain for this network on this GPU; None where they are one."""
    chosen = layer_way(network, way, "cuda")
    if chosen.classical and chosen.inner == PLAIN[network.dtype] and not network.tf32:
        return "no product of this size is predicted to gain by it"
    return "no level is predicted to gain on this size" if network.tf32 and chosen.classical else None


def predicted(network: Network, way: str, device: object) -> tuple[float, float] | None:
    """Seconds of a call on the GPU alone, and of the host's part; None where nothing is known of the device.

    >>> device_s, host_s = predicted(Network(8, 4096, 4096), "strassen", "h200")
    >>> device_s > host_s
    True
    """
    from brrr.strassen.calibration import device_known

    try:
        where = device_known("cuda") if device is None else device
        chosen = layer_way(network, way, "cuda", where)
        device_s = Predictor.of(where).chain_s(chosen, network.layers, network.batch, network.hidden, network.dtype)
    except MissingPeakError:
        return None
    return device_s, 2 * network.layers * LAUNCH_S
