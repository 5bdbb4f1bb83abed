"""The recurrence x = a x + b, whose solution is known: the check of every chain of arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Recurrence:
    """x = factor * x + addend, so many times.

    >>> Recurrence(0.5, 1.0, 3).flop_a_step, Recurrence(0.5, 0.0, 3).flop_a_step
    (2, 1)
    """

    factor: float
    addend: float
    steps: int

    @classmethod
    def over(cls, steps: int, *, addition: bool) -> Recurrence:
        """A factor so near 1 that after all steps the start still counts by 1/e; factor and addend need no rounding.

        Steps are a power of two. A step left out, or one too many, so shows in the end of the chain; the fixed point
        with an addition is 2.
        """
        return cls(1 - 1 / steps, 2 / steps if addition else 0.0, steps)

    @property
    def flop_a_step(self) -> int:
        """A multiplication, and an addition where there is one."""
        return 2 if self.addend else 1

    def end(self, start: torch.Tensor) -> torch.Tensor:
        """The last of the sequence in float64: a^n x + b (1 - a^n) / (1 - a)."""
        shrunk = self.factor**self.steps
        return start.double() * shrunk + self.addend * (1 - shrunk) / (1 - self.factor)
