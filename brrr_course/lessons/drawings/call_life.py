"""One call's life: what the host and the GPU do in a loop, in a single call, and between two events; drawn to scale.

The lengths are those of the `timers` experiment; where a kernel stands between its issue and the host's waking is not
measured, so it is drawn in the middle.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from matplotlib.axes import Axes

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.experiments import experiment
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named

FUNCTIONS = {
    "relu-64x1024": "a small ReLU",
    "gemm-512": "a product of 512 x 512",
    "softmax-4096x4096": "a large softmax",
}
CALLS = 3
HOST, GPU, WAIT = "#D55E00", "#009E73", "#9aa4ae"
_HEIGHT = 430


class Life(NamedTuple):
    """Seconds of one function: the six times that the picture needs, and what an event pair around a call says."""

    host: float
    kernel: float
    period: float
    latency: float
    pair: float

    @property
    def start(self) -> float:
        """When the kernel of a single call is drawn to start: in the middle of what is neither issue nor kernel."""
        return max(self.host, (self.latency + self.host - self.kernel) / 2)


def life(source: Source, function: str) -> Life:
    """The recorded times; NotRecordedError where one is missing."""
    evidence = Evidence(experiment("timers"), source)
    at: dict[str, Value] = {"function": function, "cache": "hot"}
    found = evidence.source.measure(evidence.experiment, "measure", at)
    times = {name: getattr(found, name) for name in ("host_s", "kernel_s", "period_s", "latency_s")}
    if missing := [name for name, each in times.items() if each is None]:
        raise NotRecordedError(f"{function} has no {missing[0]}")
    pair = evidence.get("event pair each call", **at)
    return Life(*(each.median for each in (*times.values(), pair)))


def draw(source: Source, at: Mapping[str, Value]) -> Picture:
    """Three pairs of lanes over one axis of time."""
    found = life(source, str(at["function"]))
    drawn = style.figure(height=_HEIGHT)
    on = style.axes(drawn, left=0.2, bottom=0.12, right=0.97, top=0.92)
    on.set_title(
        "One function, four times: which of them do you want to know?", loc="left", fontsize=11.5, fontweight="bold"
    )
    last = found.start + (CALLS - 1) * found.period + found.kernel
    end = max(last, CALLS * found.period, found.latency, found.pair) * 1.06
    for row, (title, panel) in enumerate((("a loop", _loop), ("a single call", _single), ("an event pair", _pair))):
        base = 7.0 - 3.0 * row
        for lane, shift in (("host", 1.0), ("GPU", 0.0)):
            on.text(-0.01 * end, base + shift, f"{title}: {lane}", ha="right", va="center", fontsize=9)
            on.axhline(base + shift, color="#d5d9de", linewidth=0.8, zorder=0)
        panel(on, base, found)
    on.set_xlim(0, end)
    on.set_ylim(-0.1, 9.8)
    on.set_yticks([])
    scale = {1e-6: "µs", 1e-3: "ms"}[1e-3 if end > 2e-3 else 1e-6]
    on.xaxis.set_major_formatter(lambda x, _: f"{x * (1e6 if scale == 'µs' else 1e3):g} {scale}")
    on.spines[["left", "top", "right"]].set_visible(False)
    for colour, name in {HOST: "launch", WAIT: "wait", GPU: "kernel", "#000000": "event"}.items():
        on.bar(0, 0, color=colour, label=name)
    on.legend(loc="upper right", ncols=4, fontsize=8.5, frameon=False, handlelength=1.0, columnspacing=1.2, borderpad=0)
    style.stamp(drawn, source.badge(experiment("timers")))
    return style.picture(drawn, _told(found))


def _loop(on: Axes, base: float, found: Life) -> None:
    """The host launches one call after the other, without waiting; kernels start as long after it as alone."""
    pace = max(found.host, found.period) if found.kernel < found.host else found.host
    for call in range(CALLS):
        _bar(on, base + 1, call * pace, found.host, HOST)
        _bar(on, base, found.start + call * found.period, found.kernel, GPU)
    _span(on, base + 1.55, 0.0, found.host, "host_s")
    _span(on, base - 0.5, found.start + found.period, found.start + 2 * found.period, "period_s", below=True)
    _span(on, base + 0.3, found.start, found.start + found.kernel, "kernel_s")


def _single(on: Axes, base: float, found: Life) -> None:
    """The host issues, then waits until it is told of the end."""
    _bar(on, base + 1, 0.0, found.host, HOST)
    _bar(on, base + 1, found.host, found.latency - found.host, WAIT)
    _bar(on, base, found.start, found.kernel, GPU)
    _span(on, base + 1.55, 0.0, found.latency, "latency_s")


def _pair(on: Axes, base: float, found: Life) -> None:
    """The GPU reaches the first event at once, and waits for the call behind it."""
    _bar(on, base + 1, 0.0, found.host, HOST)
    _bar(on, base, max(0.0, found.pair - found.kernel), min(found.kernel, found.pair), GPU)
    for place in (0.0, found.pair):
        on.plot([place, place], [base - 0.35, base + 0.35], color="#000000", linewidth=2)
    _span(on, base - 0.5, 0.0, found.pair, "between the events", below=True)


def _bar(on: Axes, y: float, start: float, length: float, colour: str) -> None:
    on.barh(y, length, left=start, height=0.56, color=colour, edgecolor="white", linewidth=0.8, zorder=2)


def _span(on: Axes, y: float, start: float, end: float, name: str, *, below: bool = False) -> None:
    arrow = {"arrowstyle": "<->", "color": "#24292f", "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    on.annotate("", xy=(end, y), xytext=(start, y), arrowprops=arrow)
    at, va = (y - 0.12, "top") if below else (y + 0.08, "bottom")
    on.text((start + end) / 2, at, name, ha="center", va=va, fontsize=8.5)


def _told(found: Life) -> str:
    said = {
        "host_s, launching a call": found.host, "kernel_s, the GPU's work": found.kernel,
        "period_s, one call of a loop": found.period, "latency_s, one call waited for": found.latency,
        "between two events around one call": found.pair,
    }  # fmt: skip
    return "; ".join(f"{name}: {units.seconds(seconds)}" for name, seconds in said.items()) + "."


def make(source: Source) -> Made:
    """The drawing, from the course's recording where the source has no such times."""
    try:
        for function in FUNCTIONS:
            life(source, function)
    except BrrrError:
        source = source_named("recorded:h200")
    dial = Dial("function", "function", tuple(FUNCTIONS), tuple(FUNCTIONS.values()))
    return [dial], partial(draw, source), ""


DRAWING = LessonDrawing("call-life", make)
