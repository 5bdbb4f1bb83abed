"""What a kernel takes that stays on the chip for many steps, each of which waits for the one before.

Whoever has such a kernel says what a step reads, computes and exchanges, in seconds of whatever is the bottleneck of
each; how these add up is told here: of parts that overlap the longest counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """The parts of a step in seconds: by name those that overlap, and together those that overlap with nothing.

    >>> step = Step({"exchange": 1e-6, "state": 0.5e-6, "arithmetic": 2e-6}, serial_s=0.25e-6)
    >>> step.total_s, step.limit
    (2.25e-06, 'arithmetic')

    exposed: of the shorter parts that overlap, the share that the longest does not hide.
    """

    parts: Mapping[str, float]
    serial_s: float = 0.0
    exposed: float = 0.0

    @property
    def limit(self) -> str:
        """The longest of those that overlap."""
        return max(self.parts, key=self.parts.__getitem__)

    @property
    def total_s(self) -> float:
        longest_s = max(self.parts.values())
        return longest_s + self.exposed * (sum(self.parts.values()) - longest_s) + self.serial_s


def persistent_s(step: Step, steps: int, *, launch_s: float = 0.0, start_s: float = 0.0, turns: int = 1) -> float:
    """Seconds of all steps in one launch.

    >>> persistent_s(Step({"exchange": 0.5}), 8, launch_s=2.0)
    6.0

    start_s: from a block's start to its first step; turns: how often, since no more blocks run at once, others begin
    when the ones before them have ended.
    """
    return launch_s + turns * (start_s + steps * step.total_s)
