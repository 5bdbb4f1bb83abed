"""One line on a piece of code: its time, its rates, its share of the roof, and what limits it.

>>> import torch
>>> x = torch.ones(1 << 16)
>>> " a call (" in str(timed(lambda: x * 2, device="cpu", budget_s=0.02))
True

What `%brrr` and `brrr time` print.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import FIELDS, Cache, Estimate, Measurement
from brrr.counting.cost import Cost
from brrr.diagnosis.assess import GRAPH_GAIN, HALF, model_here
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.prediction import Prediction


@dataclass(frozen=True)
class Timed:
    """A measurement with the cost of what was measured, the least seconds by the roofline, and the regime.

    cost and prediction are None where torch's operators cannot be counted, roof_s where the device's figures are not
    known; `notes` say why. Bytes a second are those that the operators move one after another, the roof's are the
    compulsory ones: what a perfectly fused kernel moves.
    """

    measurement: Measurement
    cost: Cost | None
    prediction: Prediction | None
    roof_s: float | None
    regime: str
    notes: tuple[str, ...] = ()

    @property
    def time(self) -> Estimate:
        """Seconds of a call: in a loop, else alone, else of the device's part, as a cold cache leaves it."""
        m = self.measurement
        found = m.period_s or m.latency_s or m.span_s or m.kernel_s or m.host_s
        assert found is not None
        return found

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """The line."""
        time, m = self.time, self.measurement
        said = [f"{units.seconds(time.median, digits)} a call ({units.seconds_range(time.low, time.high)})"]
        parts = [(m.kernel_s, "kernels"), (m.host_s, "host")]
        said += [f"{name} {units.seconds(each.median, digits)}" for each, name in parts if each is not None]
        rates = []
        if self.cost is not None and time.median > 0:
            rates += [units.quantity(self.cost.flop / time.median, "FLOP/s")] if self.cost.flop else []
            rates += [units.quantity(self.cost.eager_bytes / time.median, "B/s")] if self.cost.eager_bytes else []
        if self.roof_s and time.median > 0:
            rates.append(f"{units.percent(self.roof_s / time.median, 2)} of the roof")
        line = ", ".join([said[0], *said[1:]])
        return f"{line}{'; ' * bool(rates)}{', '.join(rates)}: {self.regime}"

    def details(self) -> str:
        """The line, all times, and the operators with what the roofline predicts of them."""
        rows = [self.text(), "", self.measurement.details()]
        if self.prediction is not None:
            rows += ["", self.prediction.details()]
        return "\n".join([*rows, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> str:
        """As JSON: times in seconds with their intervals."""
        times = {name: self.measurement.get(name) for name in FIELDS}
        fields = {name: [each.median, each.low, each.high, each.n] for name, each in times.items() if each is not None}
        found: dict[str, Any] = {"format": 1, "regime": self.regime, "times": fields, "roof_s": self.roof_s}
        if self.cost is not None:
            found |= {"flop": self.cost.flop, "bytes": self.cost.bytes, "eager_bytes": self.cost.eager_bytes}
        return json.dumps({**found, "notes": self.notes}, indent=1)


MAKE, STEP = "_brrr_make", "_brrr_step"
"""Names of the functions around the code: none that a program's own could be, for the code would see ours instead."""


def step_from(setup: str, code: str, namespace: dict[str, Any]) -> Callable[[], Any]:
    """A function of no arguments that runs the code, with what the set-up made; its names stay its own.

    >>> step_from("x = 20", "x + 1", {})()
    21

    SyntaxError, and what the set-up raises, are the user's own.
    """
    whole = ast.parse(f"def {MAKE}():\n    def {STEP}():\n        pass\n    return {STEP}")
    make: Any = whole.body[0]
    body: Any = ast.parse(code, "<brrr>").body or make.body[0].body
    if isinstance(body[-1], ast.Expr):  # its value is a result, whose bytes count
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    make.body[0].body = body
    make.body = [*ast.parse(setup, "<brrr>").body, *make.body]
    found: dict[str, Any] = {}
    exec(compile(whole, "<brrr>", "exec"), namespace, found)
    step: Callable[[], Any] = found[MAKE]()
    step.__name__ = "step"  # in messages
    return step


def timed(fn: Callable[[], Any], *, device: str | None = None, cache: Cache = "hot", budget_s: float = 0.2) -> Timed:
    """Measure a function of no arguments, count its FLOP and bytes, and hold both against this device's roof.

    device, cache, budget_s and errors: as for `brrr.measure`. What the function itself raises is raised.
    """
    from brrr.counting.tracing import cost as counted
    from brrr.gpu import gpu_in_use
    from brrr.roofline.predicting import predict
    from brrr.timing import measure

    measurement = measure(fn, device=device, cache=cache, budget_s=budget_s)  # type: ignore[arg-type]
    notes: list[str] = []
    work: Cost | None = None
    prediction: Prediction | None = None
    model = model_here(device or ("cuda" if gpu_in_use() else "cpu"))
    try:
        work = counted(fn)
        if model is not None and work.operators:
            prediction = predict(work, device=model.peaks or model.device)
    except (BrrrError, RuntimeError, TypeError, ValueError) as error:  # counting runs the function on descriptions
        notes.append(f"FLOP and bytes are not counted: {str(error).splitlines()[0] if str(error) else error!r}")
    if work is not None and not work.operators:
        notes.append("no operator of torch ran, and nothing else is counted")
    roof_s = _roof_s(work, model) if work is not None and work.operators else None
    if model is None:
        notes.append("nobody knows this device's peaks: brrr calibrate measures them")
    return Timed(measurement, work, prediction, roof_s, _regime(measurement, prediction), tuple(notes))


def _roof_s(work: Cost, model: DeviceModel | None) -> float | None:
    """The least seconds by the roofline: products at their types' best rates beside each other's bytes."""
    if model is None:
        return None
    from brrr.roofline.peaks import short

    types: dict[str, float] = {}
    for each in work.operators:
        types[each.dtype] = types.get(each.dtype, 0.0) + (each.flop or 0.0)
    try:
        moving = model.roof_s(0.0, work.bytes)
        return max(moving, sum(model.roof_s(flop, 0.0, short(dtype)) for dtype, flop in types.items() if flop))
    except BrrrError:
        return None


def _regime(found: Measurement, prediction: Prediction | None) -> str:
    """By the measured times first; between memory, compute and latency by the prediction."""
    if "syncs" in found.flags:
        return "it waits for the device in each call"
    if found.host_bound:
        return "host-bound"
    if prediction is None:
        return "what limits it is not known"
    busy = found.span_s or found.period_s or found.latency_s
    work_s = prediction.memory_s, prediction.compute_s
    if busy is not None and max(work_s) * GRAPH_GAIN < HALF * busy.median and prediction.bound == "overhead":
        return "latency-bound" if found.span_s is not None else "overhead-bound"
    return "memory-bound" if work_s[0] >= work_s[1] else "compute-bound"
