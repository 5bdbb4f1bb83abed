"""What an explorer shows: which quantity, in which form, what lies along x, and which values are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from brrr.experiment import Value

Shows = Literal["time", "rate", "ratio", "speedup"]
Form = Literal["lines", "ladder", "stack"]


@dataclass(frozen=True)
class View:
    """`shows` says what a line's time is turned into, `form` how it is drawn: lines over x, a ladder, or a stack.

    >>> View("size").shows, View("batch", form="ladder").is_bars
    ('time', True)

    `x` is the axis along x (of bars: the one that "Measure all points" goes along); `to` is a ratio's line; `bases`
    name for each line of a speed-up the line that it is compared with; `parts` name, for each line of a stack from
    the cheapest to the dearest, what it adds; `keep` holds the values to keep of an axis; `published` names the
    published tables to draw below; `rate` says of what a rate is, where it is not the experiment's first.
    """

    x: str
    to: str = ""
    keep: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    shows: Shows = "time"
    form: Form = "lines"
    bases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    published: str = ""
    rate: str = ""

    @property
    def is_bars(self) -> bool:
        """Whether it draws bars at the sliders' point instead of lines over x."""
        return self.form != "lines"

    @property
    def only(self) -> tuple[str, ...]:
        """The lines that alone make sense here, in order; empty where all do."""
        return tuple(self.bases or self.parts)
