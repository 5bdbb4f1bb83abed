"""The constants of the time and error models, in one table, each with its origin.

>>> CONSTANTS["rate.sgemm"].value
1.0

Importing this loads neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Constant:
    """A number of a model, and where it comes from.

    `by_size`: what it is multiplied with at some sizes; between two known ones by the logarithm of the size, beyond
    them as at the end.
    """

    value: float
    origin: str
    by_size: tuple[tuple[float, float], ...] = ()


_PREDICTOR = "as the predictor has it"
BY_SIZE_ON = "NVIDIA H200"
"""The device whose measured rates `by_size` corrects; no other's, and no datasheet's."""

_H200 = "measured on an H200, torch 2.11, CUDA 13.0"

CONSTANTS: Mapping[str, Constant] = MappingProxyType(
    {
        # Rates of inner products, against the predictor's for the library product of the same type and size; the size
        # is that of the cube of as much work, all products of a batch together.
        "rate.fp64": Constant(1.0, _PREDICTOR),
        "rate.sgemm": Constant(
            1.0, _H200, ((512, 0.89), (1024, 0.9), (1537, 1.0), (4096, 1.006), (8192, 1.094), (16384, 1.1))
        ),
        "rate.sgemm.batched": Constant(
            1.0, _H200, ((512, 0.85), (1400, 1.05), (1960, 1.015), (3750, 1.07), (7500, 1.08), (14336, 1.06))
        ),
        "rate.tf32": Constant(1.0, _PREDICTOR),
        "rate.fp16": Constant(1.0, _PREDICTOR),
        "rate.bf16": Constant(1.0, _H200, ((8192, 1.0), (16384, 1.11))),
        "rate.bf16.batched": Constant(1.0, _H200, ((1960, 0.75), (3750, 1.0), (7836, 1.036), (16384, 1.11))),
        "rate.fp16x3": Constant(
            0.88,
            f"{_H200}: one product and seven",
            ((512, 0.75), (2048, 1.02), (4096, 0.98), (8192, 1.0), (16384, 1.08)),
        ),
        "rate.fp16x3.batched": Constant(
            0.88, f"{_H200}: a level and two", ((1000, 0.75), (2048, 0.97), (4096, 0.98), (8192, 0.945), (16384, 1.07))
        ),
        # Passes over memory, against the predictor's copy of as many bytes.
        "rate.sums": Constant(0.79, f"{_H200}: median of 157 rows at 1.9 GHz and more; 0.6 to 1"),
        "rate.casts": Constant(0.62, f"{_H200}: 0.4 to 0.9, rounding to a short type and back by torch's copies"),
        "rate.turned": Constant(0.45, f"{_H200}: 1.3 to 2.6 TB/s, splitting a right operand that lies as (k, n)"),
        # What `matmul` takes of the host beside its launches: 9 us with one, 12 with two, 23 with four, 36 with seven.
        "host.call": Constant(4e-6, f"{_H200}: the same, for none"),
        "host.torch": Constant(12e-6, f"{_H200}: what issuing torch's own product took there, 10 to 14 us"),
        "host.matmul": Constant(30e-6, f"{_H200}: 47 us of matmul's split product, where torch's takes 10 to 14"),
        # How fast a tensor core's sums lose against float32's: relative error for each step of 16 (TF32: 8).
        "error.tensor_core": Constant(1.85e-8, f"{_H200}: 9.1e-6 to 9.7e-6 after 512 steps, twice that after 1024"),
    }
)
"""By name."""
