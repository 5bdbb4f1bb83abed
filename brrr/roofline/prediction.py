"""A prediction: how long something should take on a device, what limits it, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from brrr import units
from brrr.counting.cost import Cost
from brrr.roofline.basis import Used
from brrr.roofline.bound import Bound
from brrr.roofline.terms import OperatorTime

How = Literal["eager", "graph", "compiled"]

_BOUND = {"overhead": "overhead-bound", "memory": "memory-bound", "compute": "compute-bound", "balanced": "balanced"}


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predicted times in seconds, under the names that a `Measurement` has; prints as one sentence.

    `period_s` is for a loop of `calls` calls, `latency_s` for one call on an idle device; `span_s` and `busy_s` are
    None on a CPU. `operators` are the kernels and calls one by one; `bound` is what limits, `margin` by which factor.
    `basis` are the figures used, each measured, datasheet or assumed; `notes` what was simplified. `unknown` names
    operators whose FLOP nobody knows: the times are then "at least".
    """

    device: str
    how: How
    calls: int
    period_s: float
    latency_s: float
    host_s: float
    span_s: float | None
    busy_s: float | None
    bound: Bound
    margin: float
    operators: tuple[OperatorTime, ...]
    cost: Cost
    origin: str
    basis: tuple[Used, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The origins of the figures used: measured or datasheet, and assumed where some had to be."""
        return tuple(kind for kind in ("measured", "datasheet", "assumed") if kind in {u.kind for u in self.basis})

    @property
    def memory_s(self) -> float:
        """What moving all bytes takes."""
        return sum(each.memory_s for each in self.operators)

    @property
    def compute_s(self) -> float:
        """What all arithmetic takes."""
        return sum(each.compute_s for each in self.operators)

    def details(self) -> str:
        """The operators one by one, then every figure used with its origin, then the notes, as text."""
        from brrr.roofline.prediction_text import details

        return details(self)

    def __str__(self) -> str:
        about = "at least" if self.unknown else "about"
        missing = f"; FLOP unknown: {', '.join(self.unknown)}" if self.unknown else ""
        where = f"{self.device}, {_HOW[self.how]}, peaks: {' and '.join(self.kinds) or 'none'}"
        return f"PREDICTED: {about} {units.seconds(self.period_s, 2)}, {_BOUND[self.bound]} ({where}{missing})"

    def __repr__(self) -> str:
        return str(self)


_HOW = {"eager": "eager", "graph": "as a CUDA Graph", "compiled": "compiled"}
