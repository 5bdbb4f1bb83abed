"""What no datasheet tells: the cost of issuing, launching and starting. Assumed, and always said to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from brrr.peaks.peak import Peak

_WHAT = "of the order seen with torch on a data-centre GPU; no datasheet gives it"

_GPU_S = {
    "host.pointwise": 5e-6, "host.in-place": 4e-6, "host.reduction": 6e-6, "host.softmax": 6e-6, "host.norm": 8e-6,
    "host.matmul": 7e-6, "host.view": 1e-6, "host.copy": 5e-6, "host.compiled": 20e-6, "host.graph-replay": 5e-6,
    "kernel.floor": 1e-6, "gap.stream": 0.9e-6, "gap.graph": 0.5e-6,
}  # fmt: skip

_CPU_S = {
    "host.pointwise": 1e-6, "host.in-place": 0.7e-6, "host.reduction": 1.2e-6, "host.softmax": 2.5e-6,
    "host.norm": 3.5e-6, "host.matmul": 1.3e-6, "host.view": 0.7e-6, "host.copy": 0.7e-6, "host.compiled": 10e-6,
}  # fmt: skip


def assumed_launches(kind: Literal["cuda", "cpu"]) -> Mapping[str, Peak]:
    """Host costs, kernel floor and gaps where nothing was measured.

    >>> print(assumed_launches("cuda")["host.pointwise"])
    5 µs
    """
    times = _GPU_S if kind == "cuda" else _CPU_S
    return {name: Peak.stated(time_s, "s", "assumed", what=_WHAT) for name, time_s in times.items()}
