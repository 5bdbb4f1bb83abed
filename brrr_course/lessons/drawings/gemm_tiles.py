"""The drawing of a product's tiles: its time over the columns, the tiles of its result, and the waves they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm import MOST, SWEPT, blocks, launched, tile
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.nouns.source import Evidence, Source
from brrr_course.view.figure import Data, axis_of, place_of, round_steps, short, slider_of, told_once
from brrr_course.view.words import brief

DTYPES = ("float32", "bfloat16")
STOPS = (1, 2, 12, 32, 33, 64, 65, 128, 129, 192, 256, 257, 320, 321, 384, 385, 448, 512, 513, 514, 516, 520, 576, 577,
         640, 704, 705, 768, 769, 896, 1024, 1025, 1028, 1032, 1088)  # fmt: skip
"""Where the slider stops: on both sides of steps, and between."""
DIALS = (Dial("columns", "columns N", STOPS, start=385), Dial("dtype", "type", DTYPES))
Times = tuple[dict[int, float], dict[int, float]]


def drawing(source: Source) -> Made:
    """Two sliders: the columns and the type; NotRecordedError where the sweep was not measured."""
    evidence = Evidence(experiment("gemm"), source)
    for dtype in DTYPES:
        launched(evidence, dtype)
    return DIALS, partial(draw, source=source), str(source.badge(evidence.experiment))


def figure(source: Source) -> Data:
    """The times over the columns, and at each stop the tiles of the result and the waves that its blocks make."""
    evidence = Evidence(experiment("gemm"), source)
    sms = evidence.datasheet().sm_count or 1
    both = [foretold(evidence, dtype) for dtype in DTYPES]
    kernels = [launched(evidence, dtype) for dtype in DTYPES]
    cuts = [[Tiling.of(each.get(n, ""), n) for each in kernels] for n in STOPS]
    told = [_told(n, both[at], kernels[at].get(n, ""), sms) for n in STOPS for at in range(len(DTYPES))]
    most = 1.08 * max(time for each in both for times in each for n, time in times.items() if n in STOPS)
    line = {"name": "measured", "label": "measured", "short": "measured", "hue": "ink", "on": True}
    predicted = line | {"name": "predicted", "kind": "predicted", "of": "measured", "label": "predicted"}
    browsers = [[each.variant, each.field, "measured", brief(each.label), each.label]
                for each in evidence.experiment.in_browser(["nn"])]  # fmt: skip
    return {
        "v": 1, "kind": "tiles", "name": "gemm", "title": "A product in tiles and waves",
        "predictable": True, "predictions": True,
        "sliders": [slider_of("columns", "columns N", "range", map(str, STOPS)),
                    slider_of("dtype", "type", "choice", DTYPES)],
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


def _told(n: int, times: Times, kernel: str, sms: int) -> tuple[str, str]:
    """The sentence: what is paid for that nobody needs; and behind it all that the picture shows."""
    cut, more = Tiling.of(kernel, n), text(n, times, kernel, sms)
    if cut is None:
        return f"{n} column{'s' * (n > 1)}: {units.seconds(times[0][n])}.", more
    waves, over = math.ceil(cut.work / sms), cut.across * cut.columns - n
    spare = f" that reach {over} columns too far" if over else ", all full"
    blocks = f"each in {cut.parts} part{'s' * (cut.parts > 1)}: {cut.work} blocks in {waves} wave{'s' * (waves > 1)}"
    return f"{n} columns take {units.seconds(times[0][n])}: {cut.tiles} tiles{spare}, {blocks}.", more


DRAWING = LessonDrawing("gemm-tiles", drawing, figure)


def foretold(evidence: Evidence, dtype: str) -> Times:
    """Measured seconds by the number of columns; and predicted ones where the slider stops, for that takes long."""
    from brrr.roofline.shapes import product_time_s

    device = evidence.datasheet().key
    curve = evidence.curve("nn", "columns", size=SWEPT, dtype=dtype)
    measured = {int(n): time.median for n, time in sorted(curve.items())}
    predicted = {}
    for n in STOPS:
        run = evidence.experiment.predicted_run("nn", {"columns": n, "size": SWEPT, "dtype": dtype})
        assert run is not None
        predicted[n] = product_time_s(run.cost.matmuls[0], device)
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


def text(n: int, times: Times, kernel: str, sms: int) -> str:
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


def draw(settings: Mapping[str, Value], source: Source) -> Picture:
    """The figure where the sliders stand, and all that it says there."""
    from brrr_course.view.still import still

    made = figure(source)
    for slider, dial in zip(made["sliders"], DIALS, strict=True):
        slider["at"] = dial.values.index(settings[dial.name])
    told = made["more"]
    return style.picture(still(made), told["forms"][told["at"][place_of(made["sliders"])]])
