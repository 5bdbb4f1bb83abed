"""The drawing of a product's tiles: the staircase of its time, the tiles of its result, and the waves they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm import MOST, SWEPT, blocks, launched, tile
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.lessons.gemm_estimates import foretold
from brrr_course.nouns.source import Evidence, Source
from brrr_course.view.figure import Data, axis_of, round_steps, short, told_once
from brrr_course.view.words import brief

DTYPES = ("float32", "bfloat16")
STOPS = (1, 2, 12, 32, 33, 64, 65, 128, 129, 192, 256, 257, 320, 321, 384, 385, 448, 512, 513, 514, 516, 520, 576, 577,
         640, 704, 705, 768, 769, 896, 1024, 1025, 1028, 1032, 1088)  # fmt: skip
"""Where the slider stops: on both sides of steps, and between."""
_HEIGHT = 470
_TILE, _OVER, _IDLE = "#56B4E9", "#D55E00", "#f6dfd3"
Times = tuple[dict[int, float], dict[int, float]]


def drawing(source: Source) -> Made:
    """Two sliders: the columns and the type; NotRecordedError where the sweep was not measured."""
    evidence = Evidence(experiment("gemm"), source)
    times = cache(lambda dtype: _swept(foretold(evidence, dtype, some=partial(_drawn, dtype))))  # when it is shown
    kernels = {dtype: launched(evidence, dtype) for dtype in DTYPES}
    dials = (Dial("columns", "columns N", STOPS, start=385), Dial("dtype", "type", DTYPES))
    sms = evidence.datasheet().sm_count or 1
    made = partial(draw, times=times, kernels=kernels, sms=sms)
    return dials, made, str(source.badge(evidence.experiment))


def figure(source: Source) -> Data:
    """The times over the columns, and at each stop the tiles of the result and the waves that its blocks make."""
    evidence = Evidence(experiment("gemm"), source)
    sms = evidence.datasheet().sm_count or 1
    both = [_swept(foretold(evidence, dtype, some=STOPS.__contains__)) for dtype in DTYPES]
    kernels = [launched(evidence, dtype) for dtype in DTYPES]
    cuts = [[Tiling.of(each.get(n, ""), n) for each in kernels] for n in STOPS]
    told = [_told(n, DTYPES[at], both[at], kernels[at].get(n, ""), sms) for n in STOPS for at in range(len(DTYPES))]
    most = 1.08 * max(time for each in both for times in each for n, time in times.items() if n in STOPS)
    line = {"name": "measured", "label": "measured", "short": "measured", "hue": "ink", "on": True}
    predicted = line | {"name": "predicted", "kind": "predicted", "of": "measured", "label": "predicted"}
    browsers = [[each.variant, each.field, "measured", brief(each.label), each.label]
                for each in evidence.experiment.in_browser(["nn"])]  # fmt: skip
    return {
        "v": 1, "kind": "tiles", "name": "gemm", "title": "A product in tiles and waves",
        "predictable": True, "predictions": True,
        "sliders": [{"name": "columns", "title": "columns N", "form": "range", "texts": [str(n) for n in STOPS]},
                    {"name": "dtype", "title": "type", "form": "choice", "texts": list(DTYPES)}],
        "x": axis_of("columns N", "linear", (0, MOST), {n: str(n) for n in range(0, MOST, 128)}, along=0,
                     at=list(STOPS)),
        "y": axis_of(f"time of one product, {SWEPT} rows", "linear", (0, most), {
            step: units.seconds(step) for step in round_steps(most)}, unit="s"),
        "lines": [each | {"cuts": [[_row(at, n, times[which][n]) for at, n in enumerate(STOPS)] for times in both]}
                  for which, each in enumerate((line, predicted))],
        "tiles": {"slots": sms, "at": [
            cut and [n, cut.columns, cut.rows, cut.across, cut.down, cut.work]
            for n, here in zip(STOPS, cuts, strict=True) for cut in here]},
        "yours": {"at": {"size": SWEPT}, "values": {"columns": list(STOPS), "dtype": list(DTYPES)}, "per": "",
                  "lines": browsers},
        "badge": str(source.badge(evidence.experiment)),
        "alt": "Measured and predicted time against columns N; below, the result in tiles, and blocks in waves.",
        **told_once(told),
    }  # fmt: skip


def _row(at: int, n: int, time: float) -> list[float]:
    return [at, n, *[short(time)] * 3, 0]


def _told(n: int, dtype: str, times: Times, kernel: str, sms: int) -> tuple[str, str]:
    """The sentence: what is paid for that nobody needs; and behind it all that the picture shows."""
    cut, more = Tiling.of(kernel, n), text(n, dtype, times, kernel, sms)
    if cut is None:
        return f"{n} column{'s' * (n > 1)}: {units.seconds(times[0][n])}.", more
    waves, over = math.ceil(cut.work / sms), cut.across * cut.columns - n
    spare = f" that reach {over} columns too far" if over else ", all full"
    blocks = f"each in {cut.parts} part{'s' * (cut.parts > 1)}: {cut.work} blocks in {waves} wave{'s' * (waves > 1)}"
    return f"{n} columns take {units.seconds(times[0][n])}: {cut.tiles} tiles{spare}, {blocks}.", more


DRAWING = LessonDrawing("gemm-tiles", drawing, figure)


def _drawn(dtype: str, n: int) -> bool:
    """Where a prediction is asked for: on both sides of its steps in each class, and where the slider stops."""
    step, beside = (32, (0, 1)) if dtype == "float32" else (8, (1, 2, 30, 31))
    return n % step == 0 or n % 32 in beside or n < 17 or n in STOPS


def _swept(both: Times) -> Times:
    """The times where every number of columns was measured."""
    measured, predicted = ({n: time for n, time in sorted(each.items()) if n <= MOST} for each in both)
    return measured, predicted


@dataclass(frozen=True)
class Tiling:
    """How a kernel cuts the result: a tile's columns and rows, how many there are each way, and parts of the sum."""

    columns: int
    rows: int
    across: int
    down: int
    parts: int

    @property
    def tiles(self) -> int:
        """The tiles of the result."""
        return self.across * self.down

    @property
    def work(self) -> int:
        """Blocks that have something to do: one for each tile and part."""
        return self.tiles * self.parts

    @classmethod
    def of(cls, kernel: str, n: int) -> Tiling | None:
        """By the tile in the kernel's name and its grid; None for a kernel that names none.

        >>> Tiling.of("cutlass_80_simt_sgemm_256x128_8x4_nn_align1 32x1x4 of 256", 385)
        Tiling(columns=256, rows=128, across=2, down=16, parts=4)

        Families write a tile's sides in either order: taken is the one that its number of blocks confirms.
        """
        sides = tile(kernel)
        if sides is None:
            return None
        x, y, parts = map(int, kernel.split()[-3].split("x"))
        ways = [cls(a, b, math.ceil(n / a), math.ceil(SWEPT / b), parts) for a, b in (sides, sides[::-1])]
        return min(ways, key=lambda way: (abs(way.work - blocks(kernel)), (way.down, way.across) != (x, y)))


def text(n: int, dtype: str, times: Times, kernel: str, sms: int) -> str:
    """What the picture shows."""
    measured, predicted = times
    rate = units.quantity(2 * SWEPT * SWEPT * n / measured[n], "FLOP/s")
    said = f"{units.seconds(measured[n])} ({rate}), predicted {units.seconds(predicted[n])}. "
    name = kernel.split()[0]
    cut = Tiling.of(kernel, n)
    if cut is None:
        return f"{said}One column is a matrix times a vector: the library's kernel for it, {name}, names no tiles."
    used, waves = n * SWEPT / (cut.tiles * cut.columns * cut.rows), math.ceil(cut.work / sms)
    split = f", each sum cut into {cut.parts} parts" if cut.parts > 1 else ""
    return (
        f"{said}The result has {cut.down} x {cut.across} tiles of {cut.rows} rows x {cut.columns} columns{split}: "
        f"{cut.work} blocks, {waves} wave{'s' * (waves > 1)} of {sms} multiprocessors, "
        f"{units.percent(cut.work / (waves * sms))} full. {units.percent(used)} of the tiles' area is result. "
        f"Kernel: {name}."
    )


def draw(
    settings: Mapping[str, Value], times: Callable[[str], Times], kernels: Mapping[str, Mapping[int, str]], sms: int
) -> Picture:
    """Above the time over the columns, measured and predicted; below the result in tiles, and the blocks in waves."""
    n, dtype = int(settings["columns"]), str(settings["dtype"])
    kernel = kernels[dtype].get(n, "")
    made = style.figure(height=_HEIGHT)
    above = style.axes(made, left=0.09, bottom=0.575, right=0.975, top=0.895)
    _staircase(above, times(dtype), n, dtype)
    above.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1, fontsize=9, ncols=4, frameon=False)
    cut = Tiling.of(kernel, n) if kernel else None
    if cut is not None:
        _result(style.axes(made, left=0.09, bottom=0.115, right=0.52, top=0.43), cut, n)
        _waves(style.axes(made, left=0.63, bottom=0.115, right=0.975, top=0.43), cut.work, sms)
    else:
        said = "No tiles: the kernel's name tells none." if kernel else "No kernel was recorded here."
        made.text(0.53, 0.27, said, ha="center", va="center", fontsize=10, color=style.FAINT)
    return style.picture(made, text(n, dtype, times(dtype), kernel, sms))


def classes(dtype: str) -> dict[str, tuple[int, ...]]:
    """Numbers of columns that the library treats alike, by the largest power of two up to 8 that divides them.

    >>> list(classes("float32")), classes("bfloat16")["odd N"]
    (['any N'], (1,))
    """
    return {"any N": (1, 2, 4, 8)} if dtype == "float32" else {"odd N": (1,), "even N": (2, 4), "multiples of 8": (8,)}


def _staircase(on: Axes, times: Times, n: int, dtype: str) -> None:
    measured, predicted = ({at: 1e6 * time for at, time in each.items()} for each in times)
    for place, (name, powers) in enumerate(classes(dtype).items()):
        here = [at for at in measured if math.gcd(at, 8) in powers]
        colour = style.COLOURS[place]
        on.plot(here, [measured[at] for at in here], ".", markersize=3, label=name, color=colour)
        there = [at for at in here if at in predicted]
        on.plot(there, [predicted[at] for at in there], linewidth=1.1, linestyle=style.PREDICTED_DASHES, color=colour)
    on.plot([], [], color=style.INK, linewidth=1.1, linestyle=style.PREDICTED_DASHES, label="PREDICTED")
    on.axvline(n, color=style.FAINT, linewidth=0.9, zorder=0)
    on.plot([n], [measured[n]], "o", color=style.INK, markersize=6, fillstyle="none", clip_on=False)
    on.set_xlim(0, MOST)
    on.set_ylim(0, 1.06 * max(*measured.values(), *predicted.values()))
    on.set_title("Time of W x in µs over the columns of x (M = K = 2048)", loc="left", y=1.0, fontsize=10, pad=21)
    on.tick_params(labelsize=8.5)


def _result(on: Axes, cut: Tiling, n: int) -> None:
    """The result in tiles; what hangs over its last column is work that nobody needs."""
    wide, high = cut.across * cut.columns, cut.down * cut.rows
    on.add_patch(Rectangle((0, 0), n, SWEPT, facecolor=_TILE, edgecolor="none"))
    on.add_patch(Rectangle((n, 0), wide - n, SWEPT, facecolor=_OVER, edgecolor="none", alpha=0.75))
    line = 0.8 if cut.tiles <= 200 else 0.35
    on.vlines([cut.columns * i for i in range(cut.across + 1)], 0, high, color="white", linewidth=line)
    on.hlines([cut.rows * i for i in range(cut.down + 1)], 0, wide, color="white", linewidth=line)
    on.set_xlim(0, max(wide, 64))
    on.set_ylim(high, 0)
    on.grid(visible=False)
    on.set_title(f"The result in {cut.tiles} tiles, {wide - n} columns too wide", loc="left", y=1.0, fontsize=10, pad=5)
    on.set_xticks([0, n])
    on.set_yticks([0, SWEPT])
    on.tick_params(labelsize=8.5)


def _waves(on: Axes, count: int, sms: int) -> None:
    """One block on each multiprocessor makes a wave; of the last wave a part is idle."""
    full, rest = divmod(count, sms)
    waves = full + bool(rest)
    on.add_patch(Rectangle((0, 0), waves, sms, facecolor=_IDLE, edgecolor="none"))
    on.add_patch(Rectangle((0, 0), full, sms, facecolor=_TILE, edgecolor="none"))
    on.add_patch(Rectangle((full, 0), bool(rest), rest, facecolor=_TILE, edgecolor="none"))
    on.vlines(range(1, waves), 0, sms, color="white", linewidth=1.0)
    if rest and rest < 0.85 * sms:
        on.text(full + 0.5, (rest + sms) / 2, "idle", ha="center", va="center", fontsize=8.5, color="#7a3a12")
    on.set_xlim(0, max(waves, 2))
    on.set_ylim(0, sms)
    on.set_yticks([0, sms])
    on.set_xticks(range(max(waves, 2) + 1) if waves <= 12 else [0, waves])
    on.grid(visible=False)
    on.set_title(f"{count} blocks in waves of {sms}", loc="left", y=1.0, fontsize=10, pad=5)
    on.tick_params(labelsize=8.5)
