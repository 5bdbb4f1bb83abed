"""A kept figure of horizontal bars: names and axis stand still, and only the bars are drawn at a slider's step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import wrap
from typing import Any

from matplotlib import rc_context

from brrr.core.measurement import Badge
from brrr.drawing import style as plots
from brrr_course.view import words
from brrr_course.view.canvas import Blit
from brrr_course.view.quantities import label
from brrr_course.view.scene import LINEAR_UP_TO, Scene
from brrr_course.view.stack import Part, part_label, parts_of, stacked

_ROW, _MOST_ROWS_IN_HEIGHT = 37, 8  # CSS pixels for a row; more rows than these make the figure taller
_LETTER, _LETTERS = 6.4, 38  # CSS pixels of a letter of a row's name; longer names are broken into lines
_SAID = 116  # CSS pixels kept free behind the longest bar for its value
_THICK = 0.62
_DOT = 11  # points across a marker in place of a bar
_PAPER = {"facecolor": plots.PAPER, "edgecolor": "none", "pad": 1.0}  # a value hides a dashed line behind it


@dataclass(frozen=True)
class Bar:
    """One bar of a row, from `start` (None: the axis's end) to `end`, and what is said behind it.

    Without an `end` there is only the text; `look` is the number of its line's look, None for ink.
    """

    row: int
    start: float | None
    end: float | None
    look: int | None
    said: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class BarRule:
    """Theoretical value number `index`, drawn as a dashed line across all bars."""

    index: int
    at: float


@dataclass(frozen=True)
class BarFrame:
    """All that stands still while a slider moves: the rows' names and looks, the axis and its limits, the badge.

    `named` holds all names for which there is to be room, so that the axis stays where it is when a row goes.
    """

    rows: tuple[str, ...]
    looks: tuple[int | None, ...]
    log: bool
    limits: tuple[float, float]
    unit: str
    title: str
    badge: Badge
    guides: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def height(self) -> float:
        """The figure's height in CSS pixels."""
        return plots.HEIGHT + _ROW * max(0, len(self.rows) - _MOST_ROWS_IN_HEIGHT)


class BarCanvas(Blit):
    """The kept figure. First `show` a frame, then `draw` bars on it as often as you like.

    >>> frame = BarFrame(("eager",), (0,), False, (0.0, 2e-6), "s", "time", Badge("RECORDED", "a GPU", "", ""))
    >>> canvas = BarCanvas()
    >>> canvas.show(frame)
    >>> canvas.draw([Bar(0, None, 1e-6, 0, "1 µs")], [])[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        super().__init__()
        self._frame: BarFrame | None = None

    def show(self, frame: BarFrame) -> None:
        """Draw the axes with the rows' names, where these are not the ones that stand already."""
        if frame == self._frame:
            return
        self.draw_frame(frame)
        self._canvas.draw()
        self._empty = self._canvas.copy_from_bbox(self._figure.bbox)
        self._paint(self._samples(frame), [BarRule(n, frame.limits[1]) for n in range(len(frame.guides))])
        self.new_palette()

    def _samples(self, frame: BarFrame) -> list[Bar]:
        """A long bar in each row's look, so that the palette has its colour even where the first one is short."""
        least, most = frame.limits
        return [Bar(row, least, most, look, "0123456789", (least, most)) for row, look in enumerate(frame.looks)]

    def draw(self, bars: Sequence[Bar], rules: Sequence[BarRule], message: str = "") -> bytes:
        """The picture as a PNG with these bars and theoretical values, and a `message` in the middle."""
        self._paint(bars, rules)
        if message:
            self.draw_message(message)
        return self.encoded()

    def _paint(self, bars: Sequence[Bar], rules: Sequence[BarRule]) -> None:
        """Bars and theoretical values over the empty axes."""
        self._canvas.restore_region(self._empty)
        with rc_context(plots.STYLE):
            pieces = [self.bar_artists(bar) for bar in bars] + [self.rule_artists(rule) for rule in rules]
            for artist in sorted((artist for piece in pieces for artist in piece), key=_depth):
                self._axes.draw_artist(artist)
                artist.remove()

    @rc_context(plots.STYLE)
    def draw_frame(self, frame: BarFrame) -> None:
        """The axes with the rows' names, and the badge."""
        self._frame = frame
        self.new_figure(frame.height)
        names = ["\n".join(balanced(name)) for name in frame.rows]
        longest = max((len(part) for name in frame.named or frame.rows for part in balanced(name)), default=0)
        left = max(90.0, 22 + _LETTER * longest) / plots.WIDTH
        top = (14 + (plots.LEGEND_ROW * plots.legend_rows(frame.guides) if frame.guides else 0)) / frame.height
        self._axes = plots.axes(self._figure, left, 70 / frame.height, 1 - _SAID / plots.WIDTH, 1 - top)
        self._axes.set_ylim(max(len(frame.rows), 1) - 0.5, -0.5)
        self._axes.set_yticks(range(len(frame.rows)), names, fontsize=9)
        self._axes.tick_params(axis="y", length=0)
        self._axes.grid(visible=False, axis="y")
        if frame.log:
            self._axes.set_xscale("log")
        self._axes.set_xlim(*frame.limits)
        plots.bar_axis(self._axes, frame.unit, frame.title)
        for index, name in enumerate(frame.guides):
            plots.draw_guide(self._axes, [], [], index, name)
        plots.legend(self._axes, -left / (1 - _SAID / plots.WIDTH - left))
        plots.stamp(self._figure, frame.badge, 0.02 * plots.HEIGHT / frame.height)

    def bar_artists(self, bar: Bar) -> list[Any]:
        """The bar, its interval, and its value behind it."""
        assert self._frame is not None
        least, most = self._frame.limits
        start = least if bar.start is None else bar.start
        end = start if bar.end is None else max(bar.end, start)
        colour = plots.INK if bar.look is None else plots.look(bar.look)["color"]
        drawn: list[Any] = []
        if end > start and self._frame.log:
            drawn += self._dot(bar.row, end, bar.look)
        elif end > start:
            drawn += self._axes.barh([bar.row], [end - start], _THICK, left=start, color=colour, edgecolor=plots.PAPER,
                                     linewidth=0.6, animated=True, zorder=3)  # fmt: skip
        behind = end
        if bar.interval is not None:
            low, high = (min(max(value, least), most) for value in bar.interval)
            drawn.append(self._axes.hlines(bar.row, low, high, color=plots.INK, linewidth=1.4, animated=True, zorder=4))
            behind = max(end, high)
        if bar.said:
            drawn.append(self._said(bar, min(behind, most)))
        return drawn

    def _dot(self, row: int, x: float, look: int | None) -> list[Any]:
        """In place of a bar on a log axis, where no length means anything: the line's marker."""
        sign = plots.look(look or 0)
        (dot,) = self._axes.plot([x], [row], sign["marker"], color=sign["color"], markersize=_DOT, animated=True,
                                 markeredgecolor=plots.PAPER, zorder=3, clip_on=False)  # fmt: skip
        return [dot]

    def _said(self, bar: Bar, x: float) -> Any:
        assert self._frame is not None
        colour = plots.FAINT if bar.end is None else plots.INK
        aside = _DOT / 2 if self._frame.log and bar.end is not None else 0
        return self._axes.annotate(
            bar.said, (x, bar.row), xytext=(6 + aside, 0), textcoords="offset points", va="center", ha="left",
            fontsize=9, color=colour, annotation_clip=False, animated=True, zorder=5, bbox=_PAPER,
        )  # fmt: skip

    def rule_artists(self, rule: BarRule) -> list[Any]:
        """The dashed line, with paper beneath it so that it is seen on a dark bar."""
        dashes = plots.GUIDE_DASHES[rule.index % len(plots.GUIDE_DASHES)]
        drawn = []
        for colour, width, style in ((plots.PAPER, 3.2, "-"), (plots.GUIDE, 1.5, dashes)):
            drawn.append(self._axes.axvline(rule.at, color=colour, linewidth=width, linestyle=style, animated=True))
            drawn[-1].set_zorder(3.5)
        return drawn


def _depth(artist: Any) -> float:
    """What lies further up is drawn later: bars, theoretical values, intervals, then the text."""
    return float(artist.get_zorder())


def balanced(name: str) -> list[str]:
    """A row's name in as few lines as it needs, none of them much shorter than the others.

    >>> balanced("torch.ops.aten, out= given, no allocation")
    ['torch.ops.aten, out=', 'given, no allocation']
    """
    lines = wrap(name, _LETTERS)
    for letters in range(len(name) // max(1, len(lines)), _LETTERS):
        if len(tighter := wrap(name, max(letters, 1))) == len(lines):
            return tighter
    return lines


# ---------------------------------------------------------------------------------------------------------------------
# A scene as bars: a ladder has one for each line, a stack one for all and then each part in its place.

_ROOM = 1.04
_FIRST, _LAST = 2.0, 1.15  # on a log scale, from the axis's start to the least value, and from the largest to its end


class SceneBars:
    """A scene as bars: `show` what a slider may leave standing, then `png` at each step."""

    def __init__(self) -> None:
        self._canvas = BarCanvas()
        self._frame: BarFrame | None = None

    @property
    def redraws(self) -> int:
        """How often everything was drawn anew."""
        return self._canvas.redraws

    def show(self, scene: Scene) -> None:
        """Take over the scene's axes and rows."""
        self._frame = bar_frame(scene)
        self._canvas.show(self._frame)

    def png(self, scene: Scene) -> bytes:
        """The picture where the sliders stand."""
        assert self._frame is not None  # `show` came first
        return self._canvas.draw(*bars_of(scene, self._frame), words.in_figure(scene))


def bar_frame(scene: Scene) -> BarFrame:
    """All that stands still while a slider moves: the rows' names, the axis and its limits, the badge."""
    stack = scene.view.form == "stack"
    names = [line.name for line in scene.lines if stack or line.name in scene.on]
    labels = [part_label(scene, n) if stack else scene.experiment.line(n).label for n in names]
    whole = ["all together"] if stack and names else []
    looks = [scene.looks[name] for name in names]
    log = not stack and scene.is_log
    title = f"{scene.y_label}{' (log scale)' if log else ''}"
    shares = stack and _as_shares(scene)
    unit = "%" if shares else scene.quantity.unit
    if shares:
        title = f"share of the {scene.y_label}"
    guides = tuple(label(guide) for guide in scene.guides.drawn) if not stack else ()
    badge = scene.badge
    return BarFrame(
        (*whole, *labels), (*[None] * len(whole), *looks), log, _limits(scene, log, shares), unit, title, badge, guides,
        () if stack else tuple(line.label for line in scene.lines),
    )  # fmt: skip


def bars_figure(scene: Scene) -> Any:
    """The whole figure where the sliders stand, bars and all, to be drawn in another form than a PNG.

    It is good until the next one is made, whose axes it lends where only the bars differ.
    """
    frame = bar_frame(scene)
    canvas, drawn = _framed(frame)
    while drawn:
        drawn.pop().remove()
    for bar in bars_of(scene, frame)[0]:
        drawn += canvas.bar_artists(bar)
    return canvas.figure


@lru_cache(maxsize=2)
def _framed(frame: BarFrame) -> tuple[BarCanvas, list[Any]]:
    """A frame, and the bars that are drawn on it by now."""
    canvas = BarCanvas()
    canvas.draw_frame(frame)
    return canvas, []


def bars_of(scene: Scene, frame: BarFrame) -> tuple[list[Bar], list[BarRule]]:
    """The bars where the sliders stand, and the theoretical values there."""
    if scene.view.form == "stack":
        return list(_stack_bars(scene, shares=frame.unit == "%")), []
    return list(_ladder_bars(scene)), list(_rules(scene))


def _ladder_bars(scene: Scene) -> Iterator[Bar]:
    here = scene.here()
    absent = "not measured yet" if scene.source.live else "not recorded here"
    for row, name in enumerate(scene.on):
        found = here.get(name)
        if found is None:
            yield Bar(row, None, None, scene.looks[name], absent)
        else:
            above = words.is_above(scene, name, found.median)
            said = scene.quantity.short(found.median) + ("\nabove the limit" if above else "")
            yield Bar(row, None, found.median, scene.looks[name], said, (found.low, found.high))


def _rules(scene: Scene) -> Iterator[BarRule]:
    for index, guide in enumerate(scene.guides.drawn):
        height = scene.guides.at(guide, scene.point)
        if height is not None:
            yield BarRule(index, height)


def _stack_bars(scene: Scene, *, shares: bool) -> Iterator[Bar]:
    """The whole in the first row, then each part below its place in it, with a dotted line between the two."""
    parts = stacked(scene)
    rows = {line.name: row for row, line in enumerate(scene.lines, start=1)}
    unit = 100 / parts[-1].end if parts and shares else 1.0
    for part in parts:
        yield Bar(0, part.start * unit, part.end * unit, scene.looks[part.line], "")
    if parts:
        total = parts[-1].end
        yield Bar(0, total * unit, total * unit, None, scene.quantity.short(total))
    for part in parts:
        yield Bar(rows[part.line], part.start * unit, part.end * unit, scene.looks[part.line], _said(scene, part))
    there = {part.line for part in parts}
    for line in scene.lines:
        if line.name not in there:
            said = "not measured yet" if scene.source.live else "not recorded here"
            yield Bar(rows[line.name], None, None, scene.looks[line.name], said)


def _said(scene: Scene, part: Part) -> str:
    return f"{scene.quantity.short(part.value)}, {words.share(part.share)}"


def _totals(scene: Scene) -> list[float]:
    """The stack's length at each place of the sliders."""
    everywhere = scene.everywhere
    keys = {key for points in everywhere.values() for key in points}
    rungs = [[(name, "", points.get(key)) for name, points in everywhere.items()] for key in keys]
    ends = [parts[-1].end for each in rungs if (parts := parts_of(each))]
    return ends or [scene.limits[1]]


def _as_shares(scene: Scene) -> bool:
    """Whether the totals differ too much for one axis of times: then each part is drawn as a share."""
    totals = _totals(scene)
    return max(totals) > LINEAR_UP_TO * min(totals)


def _limits(scene: Scene, log: bool, shares: bool) -> tuple[float, float]:
    if scene.view.form == "stack":
        return 0.0, 100.0 if shares else _ROOM * max(_totals(scene))
    low, high = scene.span
    return (low / _FIRST, _LAST * high) if log else (0.0, _ROOM * high)
