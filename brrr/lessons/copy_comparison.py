"""`against_copy`: a kernel made by `elementwise`, measured here and now beside a copy of its result."""

from __future__ import annotations

from typing import Literal

from brrr import units
from brrr.codegen import Elementwise
from brrr.lessons.comparison import Comparison
from brrr.lessons.display import static


def against_copy(kernel: Elementwise) -> Comparison:
    """The bytes a second of a student's kernel and those of a copy, measured in turns on this machine.

    The kernel's bytes are those that must move; a copy reads its array and writes it. On a CPU torch evaluates the
    line operator by operator, and the text says so. Nothing is measured in the edition that is only read.
    """
    if static():
        return Comparison("Measured where you run this cell: it is not part of the recording.")
    from datetime import date

    import torch

    from brrr.device import this_device
    from brrr.timing import measure_together

    on: Literal["cuda", "cpu"] = "cuda" if kernel.device.type == "cuda" else "cpu"
    result = kernel()
    found = measure_together([kernel, result.clone], device=on)
    moved = (kernel.bytes, 2 * result.numel() * result.element_size())
    rates = []
    for each, nbytes in zip(found, moved, strict=True):
        time = each.busy_s or each.period_s
        assert time is not None
        rates.append(nbytes / time.median)
    rows = tuple(
        (label, units.quantity(nbytes, "B"), units.quantity(rate, "B/s"))
        for label, nbytes, rate in zip((kernel.line, "a copy"), moved, rates, strict=True)
    )
    text = f"Your line moves its bytes at {units.percent(rates[0] / rates[1], 2)} of a copy's rate."
    if kernel.emulated:
        text += " Here torch runs it operator by operator, on the CPU: it is not one kernel, and pays for that."
    badge = " · ".join(("LIVE", this_device(on).name, date.today().isoformat(), f"torch {torch.__version__}"))
    return Comparison(text, ("", "must move", "a second"), rows, badge)
