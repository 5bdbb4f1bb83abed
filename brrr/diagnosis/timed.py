"""One line on a piece of code: its time, its rates, its share of the roof, and what limits it.

>>> import torch
>>> x = torch.ones(1 << 16)
>>> " a call (" in str(timed(lambda: x * 2, device="cpu", budget_s=0.02))
True

What `%brrr` and `brrr time` print.
"""

import ast
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from brrr.core import units
from brrr.core.cards import Exported
from brrr.core.errors import BrrrError
from brrr.core.measurement import FIELDS, Cache, Estimate, Measurement, Value
from brrr.counting.cost import Cost
from brrr.diagnosis.assess import HALF, model_here, roofed
from brrr.roofline.prediction import GRAPH_GAIN, Prediction
from brrr.timing.readings import first_note

HEADS = {"kernels": ("kernel_s_median", "s"), "host": ("host_s_median", "s"), "FLOP": ("flop", "FLOP"),
         "moved": ("eager_bytes", "B"), "FLOP/s": ("flop_per_s", "FLOP/s"), "B/s": ("bytes_per_s", "B/s")}  # fmt: skip
"""Of a table's columns of numbers: the name of what they show, and its unit."""


@dataclass(frozen=True)
class Timed(Exported):
    """A measurement with the cost of what was measured, the least seconds by the roofline, and the regime.

    cost and prediction are None where torch's operators cannot be counted, roof_s where the device's figures are not
    known; `notes` say why. Bytes are those that the operators move one after another; `roof_s` are the least seconds
    for them or for the FLOP, from the memory that holds them. Where the FLOP take longer, `roof` has the types of
    products that they are computed in, or "arithmetic". `sizes` are those of a row of a `Sweep`; such a row has no
    prediction, and where memory ran out no time: its regime says so.
    """

    measurement: Measurement
    cost: Cost | None
    prediction: Prediction | None
    roof_s: float | None
    regime: str
    notes: tuple[str, ...] = ()
    roof: tuple[str, ...] = ()
    sizes: Mapping[str, Value] = field(default_factory=dict)
    _more = ("rates",)

    @property
    def time(self) -> Estimate | None:
        """Seconds of a call: in a loop, else alone, else of the device's part, as a cold cache leaves it."""
        m = self.measurement
        return m.period_s or m.latency_s or m.span_s or m.kernel_s or m.host_s

    @property
    def rates(self) -> dict[str, float | None]:
        """FLOP and bytes a second, and the share of the roof; None for what is not known."""
        work, time = self.cost, self.time
        of = {"flop_per_s": work and work.flop, "bytes_per_s": work and work.eager_bytes, "roof_share": self.roof_s}
        return {name: each / time.median if each and time and time.median > 0 else None for name, each in of.items()}

    def __repr__(self) -> str:
        return units.sayable(self.text())

    def text(self, digits: int = 3) -> str:
        """The line."""
        said = self.cells(digits)
        times = filter(None, [said["time"], *(f"{name} {said[name]}" for name in ("kernels", "host") if said[name])])
        rates = filter(None, [said["FLOP/s"], said["B/s"], said["roof"]])
        return ": ".join(filter(None, ["; ".join(filter(None, map(", ".join, (times, rates)))), self.regime]))

    def cells(self, digits: int = 3) -> dict[str, str]:
        """What the line says, as cells of a table by their heads, and the amounts; empty where that is not known."""
        time, of = self.time, self.columns()
        ends = units.seconds_range(time.low, time.high, digits, time.median) if time else ""
        said = f"{units.seconds(time.median, digits)} a call ({ends})" if time else ""
        told = {at: units.quantity(of[name], unit, digits) if of[name] else "" for at, (name, unit) in HEADS.items()}
        return {"time": said, **told, "roof": self._share(), "what limits it": self.regime}

    def columns(self) -> dict[str, Any]:
        """The same for other programs, by the names of columns: each time in seconds, with its interval."""
        times = {f"{name}_{end}": getattr(self.measurement.get(name), end, None)
                 for name in FIELDS for end in ("median", "low", "high", "n")}  # fmt: skip
        work = {name: getattr(self.cost, name, None) for name in ("flop", "eager_bytes")}
        return {**self.sizes, **times, **work, **self.rates, "regime": self.regime}

    def _share(self) -> str:
        """The share of the roof, and whose that is; above it, why."""
        share, whose = self.rates["roof_share"], " and ".join(self.roof) or "the memory"
        if share is None or share <= 1.02:
            return f"{units.percent(share, 2)} of the roof of {whose}" if share else ""
        why = "the device is faster than when that was measured" if self.roof else "its data lie in a nearer cache"
        return f"above the roof: {why}"

    def details(self) -> str:
        """The line, all times, and the operators with what the roofline predicts of them."""
        rows = [self.text(), "", self.measurement.details()]
        if self.prediction is not None:
            rows += ["", self.prediction.details()]
        return units.sayable("\n".join([*rows, *(f"note: {note}" for note in self.notes)]))


MAKE, STEP = "_brrr_make", "_brrr_step"
"""Names of the functions around the code: none that a program's own could be, for the code would see ours instead."""


def step_from(setup: str, code: str, namespace: dict[str, Any]) -> Callable[[], Any]:
    """A function of no arguments that runs the code, with what the set-up made; its names stay its own.

    >>> step_from("x = 20", "x + 1", {})()
    21

    A name that both set is one name: the code goes on with what the set-up left. SyntaxError, and what the set-up
    raises, are the user's own.
    """
    return steps_from(setup, [code], namespace)[0]


def steps_from(setup: str, codes: Sequence[str], namespace: dict[str, Any]) -> list[Callable[[], Any]]:
    """Such a function of each code; the set-up runs once, and they share what it made."""
    for part in (setup, *codes):
        compile(part, "<brrr>", "exec")  # a `return` is no statement by itself
    before = ast.parse(setup, "<setup>").body
    steps = [_function(f"{STEP}{at}", code, before) for at, code in enumerate(codes)]
    whole = ast.parse(f"def {MAKE}():\n    return [{', '.join(each.name for each in steps)}]")
    make: Any = whole.body[0]
    make.body = [*before, *steps, *make.body]
    ast.fix_missing_locations(whole)
    found: dict[str, Any] = {}
    exec(compile(whole, "<brrr>", "exec"), namespace, found)
    made: list[Callable[[], Any]] = found[MAKE]()
    for step in made:
        step.__name__ = "step"  # in messages
    return made


def _function(name: str, code: str, before: Sequence[ast.stmt]) -> Any:
    """The code as a function behind the set-up's statements."""
    linecache.cache["<brrr>"] = (len(code), None, code.splitlines(keepends=True), "<brrr>")  # for tracebacks
    made: Any = ast.parse(f"def {name}():\n    pass").body[0]
    body: Any = ast.parse(code, "<brrr>").body or made.body
    if isinstance(body[-1], ast.Expr):  # its value is a result, whose bytes count
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    shared = sorted(_set_in(before) & _set_in(body))
    made.body = [*([ast.Nonlocal(shared)] if shared else []), *body]
    return made


def _set_in(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that statements set, outside of functions, classes and comprehensions of their own."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
             ast.GeneratorExp)  # fmt: skip
    found: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        if not isinstance(each, inner):
            waiting += ast.iter_child_nodes(each)
    return found


def called(step: Callable[[], Any]) -> float:
    """Seconds of a first call; what it raises is the user's, and shows the user's line."""
    began = perf_counter()
    step()
    return perf_counter() - began


def timed(
    fn: Callable[[], Any], *, device: str | None = None, cache: Cache = "hot", budget_s: float = 0.2, first_s: float = 0
) -> Timed:
    """Measure a function of no arguments, count its FLOP and bytes, and hold both against this device's roof.

    device, cache, budget_s and errors: as for `brrr.measure`. What the function itself raises is raised. first_s: what
    a call took that was made before.
    """
    from brrr.gpu import gpu_here
    from brrr.timing import measure

    measurement = measure(fn, device=device, cache=cache, budget_s=budget_s)
    if (alone := measurement.latency_s) is not None:
        measurement = replace(measurement, notes=(*measurement.notes, *first_note(first_s, alone.median)))
    model = model_here(device or gpu_here() or "cpu")
    work, notes = _counted(fn)
    prediction, roof_s, roof = None, None, tuple[str, ...]()
    if model is None:
        notes.append("nobody knows this device's peaks: brrr calibrate measures them")
    elif work is not None:
        from brrr.roofline.predicting import predict

        notes.append(f"the roof is that of {model.device}, {model.origin}")
        with suppress(BrrrError):  # the device has no figure for a type
            prediction = predict(work, device=model.peaks or model.hardware or model.device)
            roof_s = max(prediction.memory_s, prediction.compute_s)
            types = [each.name.removeprefix("matmul.") for each in prediction.basis if "matmul." in each.name]
            roof = tuple(types or ["arithmetic"]) if prediction.compute_s >= prediction.memory_s else ()
    return Timed(measurement, work, prediction, roof_s, _regime(measurement, prediction, notes), tuple(notes), roof)


def _counted(fn: Callable[[], Any]) -> tuple[Cost | None, list[str]]:
    """FLOP and bytes of one more call, and why they are not known.

    It is a real one: on descriptions of tensors, a function that keeps its results would keep descriptions.
    """
    if "torch" not in sys.modules:
        return None, ["no operator of torch ran, and nothing else is counted"]
    from brrr.counting.mode import CostMode

    try:
        with CostMode() as counting:
            result = fn()
        work = counting.cost(result)
    except Exception as error:  # what runs by itself may refuse to be looked at, as what was compiled does
        return None, [f"FLOP and bytes cannot be counted: {str(error).splitlines()[0] if str(error) else error!r}"]
    return (work, []) if work.operators else (None, ["no operator of torch ran, and nothing else is counted"])


def _regime(found: Measurement, prediction: Prediction | None, notes: Sequence[str]) -> str:
    """By the measured times first; between memory, compute and under-filled by the prediction."""
    if "syncs" in found.flags:
        return "it waits for the device in each call"
    if found.host_bound:
        return "host-bound"
    if prediction is None:
        return f"what limits it is not known ({notes[0]})" if notes else "what limits it is not known"
    if prediction.unknown:
        return f"what limits it is not known (FLOP unknown: {', '.join(prediction.unknown)})"
    busy = found.span_s or found.period_s or found.latency_s
    work_s = prediction.memory_s, prediction.compute_s
    far = busy is not None and max(work_s) * GRAPH_GAIN < HALF * busy.median
    if far and prediction.bound in ("overhead", "under-filled"):
        return "overhead-bound" if found.span_s is None and prediction.bound == "overhead" else "under-filled"
    if busy is not None and found.span_s is None and max(work_s) < roofed(gpu=False) * busy.median:
        return "far from both roofs"
    return "memory-bound" if work_s[0] >= work_s[1] else "compute-bound"
