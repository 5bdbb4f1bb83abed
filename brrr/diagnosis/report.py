"""`Diagnosis`: the regime with its evidence, where the time went, what each operator took, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.measurement import Badge
from brrr.counting.cost import Cost
from brrr.diagnosis.assess import Line, Regime, Shares
from brrr.diagnosis.evidence import Remedy
from brrr.diagnosis.interruptions import Interruption
from brrr.diagnosis.lines import LEAST
from brrr.roofline.prediction import GRAPH_GAIN, OnRoofline
from brrr.timing.sampler import BUSY, WHY_BUSY

if TYPE_CHECKING:
    from brrr.drawing.style import Picture
    from brrr.gpu.datasheet import Hardware
    from brrr.roofline.peaks import Peaks
    from brrr.tracing.timeline import Timeline

SHOWN, LINES = 12, 3
"""Lines of a table, lines of code that Python's time is told of."""
LEAST_WORK, LEFT = 0.01, 0.0005
"""Shares of a step: less work than the first is next to nothing, a rest of less than the second is not told."""
FAR = "a busy machine, threads that wait for each other (try torch.set_num_threads(1)), or operators slow by themselves"
"""What may keep a CPU from both roofs."""
_HEAD = ("time", "share", "calls", "operator", "FLOP/s", "B/s", "roofline", "limit")


@dataclass(frozen=True)
class Tried:
    """A remedy that was applied: its measured gain with the interval, and the relative change of the result.

    before_s: seconds of the step as it is, measured beside the remedy: on a busy host not those of the diagnosis.
    predicted: the gain that was predicted.
    """

    name: str
    gain: float | None
    low: float | None
    high: float | None
    change: float | None
    said: str = ""
    before_s: float | None = None
    predicted: float | None = None

    def __str__(self) -> str:
        if self.gain is None or self.low is None or self.high is None:
            return f"{self.name}: {self.said}"
        about = f" ({units.ratio(self.low)} to {units.ratio(self.high)})"
        if self.before_s is not None:
            about += f", {units.seconds(self.before_s, 3)} to {units.seconds(self.before_s / self.gain, 3)}"
        changed = "" if self.change is None else f", the result differs by {self.change:.1e}"
        return f"{self.name}: measured gain {units.ratio(self.gain)}{about}{changed}. {self.said}".rstrip()


@dataclass(frozen=True, repr=False)
class Diagnosis(Carded):
    """What limits a program, where its time goes, and what would help.

    >>> import torch
    >>> from brrr.diagnosis.diagnosing import diagnose
    >>> found = diagnose(torch.nn.Linear(256, 256), torch.ones(32, 256), device="cpu", budget_s=0.02)
    >>> abs(sum(found.parts.values()) - found.step_s) < 1e-9
    True

    `diagnose` and `diagnose_trace` return it. ``print`` shows the headline, `details()` everything; `roofline()` plots
    the operators; `to_json()` and `to_html()` export it.

    Attributes
    ----------
    device : str
        The device that it ran on.
    source : str
        "live", or the trace that was read.
    steps : int
        How many steps were analysed.
    step_s : float
        Seconds per step, without the profiler if that was measured.
    regime : str
        What sets the time, for example "overhead" or "memory".
    shares : Shares
        Where the seconds of all the steps went.
    operators, modules, lines : tuple of Line
        The operators, the modules and the lines of code, each with its time and the share of the roofline it reaches.
    python : mapping
        The host's nanoseconds by line of code, of Python and of waiting for data, where the lines were followed.
    remedies : tuple of Remedy
        What would help, with predicted gains.
    dropped : tuple of Remedy
        What was considered and would not help.
    tried : tuple of Tried
        Remedies that were applied, with measured gains.
    distortion : float or None
        How many times as long a step took under the profiler; None for a saved trace.
    peak_share : float or None
        HFU, hardware FLOPs utilization: the FLOP executed, over those possible at the peak rates of their types.
    peak : str
        The name of that peak rate.
    model_share : float or None
        MFU, model FLOPs utilization: the same without recomputation.
    interruptions : tuple of Interruption
        What interrupts torch.compile in a live program: graph breaks and recompilations, each with its line and cost.
    flags : tuple of str
        Those of its measurement, as `measure` gives them, such as "busy-cpu".
    problems, notes : tuple of str
        What is wrong with the data, and what was simplified.
    date : str
        The date of the diagnosis.
    peaks : Peaks, Hardware or None
        The device's peaks.
    timeline : Timeline or None
        One step as the profiler saw it.

    References
    ----------
    HFU and MFU: A. Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (2022).
    """

    device: str
    source: str
    steps: int
    step_s: float
    regime: Regime
    shares: Shares
    operators: tuple[Line, ...]
    modules: tuple[Line, ...] = ()
    lines: tuple[Line, ...] = ()
    python: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    dropped: tuple[Remedy, ...] = ()
    tried: tuple[Tried, ...] = ()
    distortion: float | None = None
    peak_share: float | None = None
    peak: str = ""
    model_share: float | None = None
    interruptions: tuple[Interruption, ...] = ()
    flags: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    date: str = ""
    peaks: Peaks | Hardware | None = field(default=None, repr=False)
    timeline: Timeline | None = None
    _more = ("parts",)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds per step by cause: overhead, memory, compute, under-filled, unknown; they add up to `step_s`."""
        found: dict[str, float] = {"overhead": sum(self.shares.overhead_s.values())}
        found |= {str(limit): seconds for limit, seconds in self.shares.work_s.items()}
        return {name: seconds / self.steps for name, seconds in found.items() if seconds}

    def _card(self) -> Card:
        shares = {name: seconds / self.step_s for name, seconds in self.parts.items()}
        most = max(shares, key=shares.__getitem__, default="")
        doubted = self.regime not in (most, "unknown") and "overhead" in (most, self.regime)
        part = f"Overhead is{' not' * (most != 'overhead')} the largest part"
        limit = f"{part}, but counts as the limit from a gain of {units.ratio(GRAPH_GAIN)} on."
        broken = f"This trace is broken: {'; '.join(self.problems)}." * bool(self.problems)
        helps = [f"- {each}" for each in (*self.remedies, *(f"tried: {each}" for each in self.tried))]
        more = [_parts(self), _table(self, "operator", self.operators, "(other operators, overhead)"),
                _table(self, "module", self.modules, "(no module's forward pass)"),
                _table(self, "line, with its gradients", self.lines, "(no line, overhead)"),
                "\nWhat would help:" * bool(helps), *helps, _dropped(self), _share_of_peak(self),
                *(f"note: {each}." for each in self.notes)]  # fmt: skip
        badge = f"{_badge(self)} · {self.steps} step{'s' * (self.steps != 1)} of {units.seconds(self.step_s)}"
        busy = f"{WHY_BUSY}." * (BUSY in self.flags)
        lines = busy, broken, limit * doubted, _helping(self), *(f"{each}." for each in self.interruptions[:SHOWN])
        return Card(_headline(self, shares), lines, shares, badge, more, self.regime)

    def _repr_html_(self) -> str:
        return self._card().html(_pictures(self))

    def roofline(self) -> Picture:
        """Plot the slowest operators on the device's roofline; ArgumentError if its peaks are not known."""
        from brrr.drawing.roofline import roofline_plot

        return roofline_plot(self)

    def on_roofline(self) -> OnRoofline:
        """What `roofline_plot` shows of it: its operators; ArgumentError if the device's peaks are not known."""
        if self.peaks is None:
            raise ArgumentError("Diagnosis.roofline", "device", self.device, "a device whose figures are known")
        points = {line.name: (Cost(line.flop, line.nbytes), line.time_s) for line in self.operators}
        dtypes = {line.products for line in self.operators if line.products}
        return points, self.peaks, sorted(dtypes), _badge(self)

    def to_html(self) -> str:
        """The diagnosis as one HTML page that loads nothing else."""
        body = self._card().html(_pictures(self), is_open=True)
        return f"{BEGIN}{_STYLE}{body}"


def _headline(found: Diagnosis, shares: Mapping[str, float]) -> str:
    """The regime, and the number of the table that makes it so."""
    share, rest = units.percent(shares.get(found.regime, 0.0)), 1 - shares.get("overhead", 0.0)
    gain = units.ratio(1 / rest) if rest > LEAST_WORK else "many times"
    why = {"overhead": f"Overhead-bound: without its overhead a step would be {gain} as fast",
           "memory": f"Memory-bound: {share} of a step goes to operators that memory limits",
           "compute": f"Compute-bound: {share} of a step goes to operators that arithmetic limits",
           "under-filled": f"Under-filled: {share} of a step goes to kernels too small to fill the device"
           if found.shares.kernels else f"Far from both roofs for {share} of a step (under-filled): {FAR}"}  # fmt: skip
    return f"{why.get(found.regime, 'What limits it is not known')}."


def _helping(found: Diagnosis) -> str:
    """The first remedies with their gains, measured where they were tried."""
    gains = {each.name: f"{units.ratio(each.gain)} predicted" for each in found.remedies}
    gains |= {t.name: f"{units.ratio(t.gain)} measured" for t in found.tried if t.gain and t.name in gains}
    first = ", ".join(f"{name} ({gain})" for name, gain in list(gains.items())[:3])
    return f"What would help: {first}." if first else "No remedy is predicted to gain a tenth."


def _badge(found: Diagnosis) -> Badge:
    return Badge("LIVE" if found.source == "live" else "RECORDED", found.device, found.date, "")


def _share_of_peak(found: Diagnosis) -> str:
    share, model = (units.percent(each or 0.0) for each in (found.peak_share, found.model_share))
    once = f"; {model} without those done a second time (model FLOP utilisation, MFU)" * (share != model)
    meanwhile = f"the FLOP that the device could do meanwhile ({found.peak})"
    said = f"Its products do {share} of {meanwhile}: hardware FLOP utilisation{once}."
    return said * (found.peak_share is not None)


def _dropped(found: Diagnosis) -> str:
    """What was weighed and is not advised, each with its gain, or the reason against it."""
    each = (f"{x.name} ({units.ratio(x.gain) if x.gain > 1.005 else x.why.rstrip('.')})" for x in found.dropped)
    return f"Weighed and dropped: {'; '.join(each)}." * bool(found.dropped)


def _time(seconds: float, found: Diagnosis) -> tuple[str, str]:
    return units.seconds(seconds), units.percent(seconds / found.step_s)


def _parts(found: Diagnosis) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("time", "share", "of a step")]
    for name, seconds in found.parts.items():
        causes = found.shares.overhead_s.items() if name == "overhead" else ()
        rows.append((*_time(seconds, found), name))
        for cause, part in causes:
            lines = Counter(found.python.get(cause, {}))
            shares = [(line, ns / lines.total()) for line, ns in lines.most_common(LINES) if ns > LEAST * lines.total()]
            named = [(f"  {cause}", 1.0), *((f"    {line}", share) for line, share in shares)]
            rows += [(*_time(share * part / found.steps, found), line) for line, share in named]
    return rows


def _table(found: Diagnosis, kind: str, lines: Sequence[Line], rest: str) -> list[tuple[str, ...]]:
    """The longest lines, and what they leave of a step, as `rest`: together a whole step. Empty without any."""
    made = [(*_HEAD[:3], kind, *_HEAD[4:]), *(_row(each, found) for each in lines[:SHOWN])]
    left_s = found.step_s - sum(each.time_s for each in lines[:SHOWN]) / found.steps
    left = *_time(left_s, found), "", rest, *[""] * 4
    return [*made, *([left] if left_s > LEFT * found.step_s else [])] if lines else []


def _row(line: Line, found: Diagnosis) -> tuple[str, ...]:
    return (
        *_time(line.time_s / found.steps, found), f"{line.calls / found.steps:.3g}", line.name,
        units.quantity(line.flop_per_s, "FLOP/s") if line.flop else "",
        units.quantity(line.bytes_per_s, "B/s") if line.nbytes else "",
        "" if line.predicted_s is None else units.seconds(line.predicted_s / found.steps), line.limit,
    )  # fmt: skip


# ---- the same as a page ----------------------------------------------------------------------------------------------

_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'\">"
)
"""A trace may come from anybody: its page loads nothing and runs nothing."""
BEGIN = f'<!doctype html><meta charset="utf-8">{_POLICY}<title>brrr diagnosis</title>'
_STYLE = (
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:85%}"
    "@media(prefers-color-scheme:dark){body{background:#1b1d20;color:#e6e6e6}"
    ".brrr-picture{filter:invert(.89) hue-rotate(180deg)}}</style>"
)


def _pictures(found: Diagnosis) -> str:
    """The step's timeline and the roofline as parts of the page; nothing in the place of one that cannot be drawn."""
    from brrr.drawing.timeline_figure import picture

    drawn = [picture(found.timeline)] if found.timeline is not None else []
    with suppress(BrrrError):
        drawn.append(found.roofline())
    return "".join(each._repr_mimebundle_()[0]["text/html"] for each in drawn)
