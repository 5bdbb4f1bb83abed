"""How long the host takes to issue a way's launches, where no CUDA Graph does it.

>>> from brrr.strassen.requests import checked
>>> asked = checked(1024, 1024, 1024, "float32", None, None, None, None, None)
>>> [launches(WAYS[name], asked) for name in ("sgemm", "fp16x3", "sgemm-strassen-2", "sgemm-strassen-4")]
[1, 2, 4, 31]

Importing this loads no torch.
"""

from __future__ import annotations

from brrr.strassen.calibration import CONSTANTS
from brrr.strassen.fitting import copied, core_of, thin_parts
from brrr.strassen.requests import Request
from brrr.strassen.ways import WAYS as WAYS
from brrr.strassen.ways import Way

RIVALS = {"fp8": 17, "tf32x3": 16, "bf16x6": 36, "bf16x3": 16}
"""Launches of ways that are several of torch's calls; counted on an H200, that of bf16x3 assumed."""


def issuing_s(way: Way, request: Request) -> float:
    """Seconds of the host for all launches of a way."""
    each, first = (CONSTANTS[f"host.{name}"].value for name in ("launch", "call"))
    return first + each * launches(way, request)


def launches(way: Way, request: Request) -> int:
    """How many launches a way is, those of thin products and of copies with it."""
    if way.inner in RIVALS:
        return RIVALS[way.inner]
    sizes = request.m, request.n, request.k
    thin = 0 if request.whole else len(thin_parts(core_of(way, *sizes, request.operand), *sizes))
    return _whole(way, request) + thin


def _whole(way: Way, request: Request) -> int:
    if way.nested:
        return 7 * _whole(way.within, request) + 3 - way.prepared
    if way.level:
        return (7 if way.kind.split else 4) - (3 if way.kind.split else 1) * way.prepared
    if way.kind.split:
        return 2
    if way.dtype != request.operand:
        return 4
    return 1 + sum(copied(way, request.m, request.n, request.k, request.operand))
