"""What one time step of a recurrent layer takes at least when its weights stay on the chip.

The weights need no traffic then; what is left of a step is: each block writes its part of the state and reads all the
others' (the exchange, a trip to the L2 cache and back), the bytes of that reading, and the arithmetic. These may
overlap, so the longest of them counts. The input's product for all steps comes before the first one and overlaps
nothing, so its share of a step is added.
"""

from __future__ import annotations

from dataclasses import dataclass

from brrr.core.errors import ArgumentError


@dataclass(frozen=True)
class StepFloor:
    """The parts of a step's floor in seconds.

    >>> floor = StepFloor(exchange_s=1e-6, state_s=0.5e-6, arithmetic_s=2e-6, input_s=0.25e-6)
    >>> floor.floor_s, floor.limit
    (2.25e-06, 'arithmetic')
    """

    exchange_s: float
    state_s: float
    arithmetic_s: float
    input_s: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Those that may overlap, by name."""
        return {"exchange": self.exchange_s, "state": self.state_s, "arithmetic": self.arithmetic_s}

    @property
    def limit(self) -> str:
        """The longest of those that may overlap."""
        return max(self.parts, key=self.parts.__getitem__)

    @property
    def floor_s(self) -> float:
        """The longest of them, and the input's product."""
        return self.parts[self.limit] + self.input_s


def step_floor(
    *, exchange_s: float, state_bytes: float, l2_bytes_per_s: float, flop: float, flop_per_s: float,
    input_flop: float = 0.0, input_flop_per_s: float | None = None,
) -> StepFloor:  # fmt: skip
    """The floor of a step from what it exchanges, reads and computes, and the rates of the device.

    >>> step_floor(exchange_s=1e-6, state_bytes=4e6, l2_bytes_per_s=8e12, flop=2e6, flop_per_s=60e12).limit
    'exchange'

    state_bytes: what all blocks together read of the state; flop: of the recurrent product; input_flop: of the input's
    product for one step, at `input_flop_per_s`, or else at `flop_per_s`.
    """
    rates = {"l2_bytes_per_s": l2_bytes_per_s, "flop_per_s": flop_per_s, "input_flop_per_s": input_flop_per_s}
    for name, rate in rates.items():
        if rate is not None and not rate > 0:
            raise ArgumentError("step_floor", name, rate, "a rate above 0")
    arithmetic, given = flop / flop_per_s, input_flop / (input_flop_per_s or flop_per_s)
    return StepFloor(exchange_s, state_bytes / l2_bytes_per_s, arithmetic, given)
