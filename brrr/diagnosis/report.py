"""`Diagnosis`: the regime with its evidence, where the time went, what each operator took, and what would help."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError
from brrr.counting.cost import Cost
from brrr.diagnosis.assess import Line, Regime, Shares
from brrr.diagnosis.evidence import Remedy

if TYPE_CHECKING:
    from brrr.drawing.style import Picture
    from brrr.gpu.datasheet import Hardware
    from brrr.roofline.peaks import Peaks
    from brrr.tracing.timeline import Timeline

SHOWN, POINTS = 12, 8
"""Lines of a table, points of a roofline."""
COLOURS = {"overhead": "#D55E00", "memory": "#0072B2", "compute": "#009E73", "latency": "#E69F00", "unknown": "#999999"}
"""Of Okabe and Ito, for the parts of the bar."""
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


@dataclass(frozen=True)
class Diagnosis:
    """What limits a program, where its time goes, and what would help.

    >>> import torch
    >>> from brrr.diagnosis.diagnosing import diagnose
    >>> found = diagnose(torch.nn.Linear(256, 256), torch.ones(32, 256), device="cpu", budget_s=0.02)
    >>> abs(sum(found.parts.values()) - found.step_s) < 1e-9
    True

    `diagnose` and `diagnose_trace` return it. It prints as text; `roofline()` draws its operators; `to_json()` and
    `to_html()` keep it.

    Attributes
    ----------
    device : str
        The device that it ran on.
    source : str
        "live", or the trace that was read.
    steps : int
        How many steps were looked at.
    step_s : float
        Seconds per step, without the profiler if that was measured.
    regime : str
        What sets the time, for example "overhead" or "memory".
    evidence : tuple of str
        The sentences that it rests on.
    shares : Shares
        Where the seconds of all the steps went.
    operators, modules : tuple of Line
        The operators and the modules, each with its time and the share of the roofline that it reaches.
    remedies : tuple of Remedy
        What would help, with predicted gains.
    dropped : tuple of Remedy
        What was considered and would not help.
    tried : tuple of Tried
        Remedies that were applied, with measured gains.
    distortion : float or None
        How many times as long a step took under the profiler; None for a saved trace.
    peak_share : float or None
        HFU, the hardware's FLOP utilisation: FLOP done over what the device could do in that time at the best rate of
        each one's type.
    peak : str
        The name of that best rate.
    model_share : float or None
        MFU, the model's FLOP utilisation: the same without what was computed a second time.
    problems, notes : tuple of str
        What is wrong with the data, and what was simplified.
    date : str
        When it was made.
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
    evidence: tuple[str, ...]
    shares: Shares
    operators: tuple[Line, ...]
    modules: tuple[Line, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    dropped: tuple[Remedy, ...] = ()
    tried: tuple[Tried, ...] = ()
    distortion: float | None = None
    peak_share: float | None = None
    peak: str = ""
    model_share: float | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    date: str = ""
    peaks: Peaks | Hardware | None = field(default=None, repr=False)
    timeline: Timeline | None = field(default=None, repr=False)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds per step by their cause: overhead, memory, compute, latency, unknown; they add up to `step_s`."""
        found: dict[str, float] = {"overhead": sum(self.shares.overhead_s.values())}
        found |= {str(limit): seconds for limit, seconds in self.shares.work_s.items()}
        return {name: seconds / self.steps for name, seconds in found.items() if seconds}

    @property
    def text(self) -> str:
        """The whole diagnosis as text."""
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return {"text/plain": self.text, "text/html": _body(self)}

    def roofline(self) -> Picture:
        """Draw the operators that take longest below the device's roofs; ArgumentError if its peaks are not known."""
        from brrr.core.measurement import Badge
        from brrr.drawing.roofline import roofline_plot

        if self.peaks is None:
            raise ArgumentError("Diagnosis.roofline", "device", self.device, "a device whose figures are known")
        lines = [line for line in self.operators if line.flop and line.nbytes and line.time_s][:POINTS]
        points = {line.name: (Cost(line.flop, line.nbytes), line.time_s) for line in lines}
        badge = Badge("LIVE" if self.source == "live" else "RECORDED", self.device, self.date, "")
        dtypes = {line.products for line in lines if line.products}
        return roofline_plot(points, self.peaks, dtypes=sorted(dtypes), badge=badge)

    def to_json(self) -> str:
        """The diagnosis as JSON: times in seconds, gains as ratios."""
        found = {"format": 1, **asdict(replace(self, peaks=None, timeline=None)), "parts_s": self.parts}
        return json.dumps(found, indent=1, ensure_ascii=False)

    def to_html(self) -> str:
        """The diagnosis as one HTML page that loads nothing else."""
        return f'<!doctype html><meta charset="utf-8">{_POLICY}<title>brrr diagnosis</title>{_STYLE}{_body(self)}'


def _lines(found: Diagnosis) -> list[str]:
    said = [_headline(found), *found.evidence, *_share_of_peak(found)]
    said += [f"This trace is broken: {each}." for each in found.problems]
    said += ["", *units.table([("time", "share", "of a step"), *_parts(found)])]
    said += ["", *units.table([_HEAD, *(_row(each, found) for each in found.operators[:SHOWN])])]
    if found.modules:
        said += [
            "",
            *units.table([(*_HEAD[:3], "module", *_HEAD[4:]), *(_row(m, found) for m in found.modules[:SHOWN])]),
        ]
    said += ["", "What would help:" if found.remedies else "No remedy is predicted to gain a tenth."]
    said += [f"- {each}" for each in found.remedies]
    said += [f"- tried: {each}" for each in found.tried]
    said += [_dropped(found)] if found.dropped else []
    said += [f"note: {each}." for each in found.notes]
    return said


def _headline(found: Diagnosis) -> str:
    what = {"unknown": "what limits it is not known"}.get(found.regime, f"{found.regime}-bound")
    steps = f"{found.steps} step{'s' * (found.steps != 1)}"
    return f"{found.device}, {steps} of {units.seconds(found.step_s)}: {what}."


def _share_of_peak(found: Diagnosis) -> list[str]:
    if found.peak_share is None:
        return []
    share, model = units.percent(found.peak_share), units.percent(found.model_share or 0.0)
    once = "" if share == model else f"; {model} without those done a second time (model FLOP utilisation, MFU)"
    meanwhile = f"the FLOP that the device could do meanwhile ({found.peak})"
    return [f"Its products do {share} of {meanwhile}: hardware FLOP utilisation{once}."]


def _dropped(found: Diagnosis) -> str:
    """What was weighed and is not advised, each with its gain, or the reason against it."""
    each = (
        f"{one.name} ({f'{units.ratio(one.gain)}' if one.gain > 1.005 else one.why.rstrip('.')})"
        for one in found.dropped
    )
    return f"Weighed and dropped: {'; '.join(each)}."


def _parts(found: Diagnosis) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, seconds in found.parts.items():
        rows.append((units.seconds(seconds), units.percent(seconds / found.step_s), name))
        if name == "overhead":
            rows += [(units.seconds(part / found.steps), units.percent(part / found.steps / found.step_s), f"  {cause}")
                     for cause, part in found.shares.overhead_s.items()]  # fmt: skip
    return rows


def _row(line: Line, found: Diagnosis) -> tuple[str, ...]:
    step_s = line.time_s / found.steps
    return (
        units.seconds(step_s), units.percent(step_s / found.step_s), f"{line.calls / found.steps:.3g}", line.name,
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
_STYLE = (
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.15rem .6rem;text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#1b1d20;color:#e6e6e6}"
    ".brrr-picture{filter:invert(.89) hue-rotate(180deg)}}</style>"
)


def _body(found: Diagnosis) -> str:
    evidence = " ".join(map(escape, [*found.evidence, *_share_of_peak(found)]))
    helps = "".join(f"<li>{escape(str(each))}</li>" for each in (*found.remedies, *found.tried))
    notes = "".join(f"<p><small>{escape(each)}.</small></p>" for each in (*found.problems, *found.notes))
    tables = [_table((*_HEAD[:3], kind, *_HEAD[4:]), [_row(each, found) for each in lines[:SHOWN]])
              for kind, lines in (("operator", found.operators), ("module", found.modules)) if lines]  # fmt: skip
    parts = _table(("time", "share", "of a step"), _parts(found))
    return (
        f"<h3>{escape(_headline(found))}</h3><p>{evidence}</p>{_bar(found)}{parts}{''.join(tables)}{_pictures(found)}"
        f"<p>{'What would help:' if helps else 'No remedy is predicted to gain a tenth.'}</p><ul>{helps}</ul>"
        f"{f'<p>{escape(_dropped(found))}</p>' if found.dropped else ''}{notes}"
    )


def _bar(found: Diagnosis) -> str:
    """The parts of a step side by side, with their names under it."""
    at, drawn = 0.0, []
    for name, seconds in found.parts.items():
        wide = 100 * seconds / found.step_s
        title = escape(f"{name} {units.percent(seconds / found.step_s)}")
        box = f'x="{at:.2f}" width="{wide:.2f}" height="10" fill="{COLOURS[name]}"'
        drawn.append(f"<rect {box}><title>{title}</title></rect>")
        at += wide
    shares = {name: units.percent(seconds / found.step_s) for name, seconds in found.parts.items()}
    said = escape(", ".join(f"{name} {share}" for name, share in shares.items()))
    named = "".join(
        f'<span style="margin-right:1rem"><span style="color:{COLOURS[name]}">\u25a0</span> {name} {share}</span>'
        for name, share in shares.items()
    )
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{said}" '
        f'style="width:100%;height:2rem">{"".join(drawn)}</svg><div>{named}</div>'
    )


def _pictures(found: Diagnosis) -> str:
    """The step's timeline and the roofline as parts of the page; nothing in the place of one that cannot be drawn."""
    from brrr.drawing.timeline import picture

    drawn = [picture(found.timeline)] if found.timeline is not None else []
    with suppress(BrrrError):
        drawn.append(found.roofline())
    return "".join(each._repr_mimebundle_()[0]["text/html"] for each in drawn)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        made = (escape(cell).replace("  ", "\u2003") for cell in cells)
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in made)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(each, 'td') for each in rows)}</table>"
