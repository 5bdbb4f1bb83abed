"""The drawing of time against error with the size as a slider, and what drawings ask of sources of times and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.course.experiments import experiment
from brrr.course.experiments.strassen.frontier import all_known, clocks_note, frontier, sizes
from brrr.course.experiments.strassen.ways import CPU, short, way_of, workspace_bytes
from brrr.course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source, quick
from brrr.gpu import is_gpu
from brrr.strassen.ways import Way

if TYPE_CHECKING:
    from brrr.course.view.display import Lock
    from brrr.drawing.style import Picture

SIDES = ("as they come", "prepared")


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Two sliders: the size, and whether the right sides are prepared; NotRecordedError where nothing was measured."""
    there = sizes_with_errors(source)
    if not there:
        raise nothing_measured(source)
    dials = (Dial("size", "size", tuple(there), start=fullest(source, there)), Dial("right", "right sides", SIDES))
    return Drawing(dials, partial(draw, source=source), at, badge=str(source.badge(described())), unlock=unlock)


DRAWING = LessonDrawing("strassen-frontier", drawing)


def draw(settings: Mapping[str, Value], source: Source) -> Picture:
    """The frontier at a size."""
    from brrr.course.view.strassen_frontier_drawing import strassen_frontier

    size, prepared = int(settings["size"]), settings["right"] == "prepared"
    return replace(strassen_frontier(source, size=size, prepared=prepared), alt=text(source, size, prepared))


def text(source: Source, size: int, prepared: bool) -> str:
    """The frontier's names, its two ends, and how many ways are beaten: three lines above the picture, not more."""
    places = frontier(source, size, prepared=prepared)
    best = [place for place in places if not place.dominated_by]
    named = ", ".join(short(place.variant) for place in best)
    ends = " to ".join(f"{units.seconds(p.time_s)} (error {p.error:.1e})" for p in dict.fromkeys((best[0], best[-1])))
    said = f"on the frontier are {named}: {ends}. {len(places) - len(best)} of {len(places)} ways are dominated."
    return said + clocks_note(place.clock_hz for place in places)


# ---------------------------------------------------------------------------------------------------------------------
# What the drawings on Strassen ask of a source: sizes with times and errors, measured now where the source is live.

FIRST = {"cuda": 4096, "cpu": 512}
"""The size at which a live source measures before a drawing shows it."""

FIRST_ON_GPU = (
    "sgemm", "sgemm-strassen-1-prepared", "sgemm-strassen-2-prepared", "fp16x3", "fp16x3-strassen-1", "tf32",
    "bf16", "bf16-strassen-1", "fp16",
)  # fmt: skip
FIRST_ON_CPU = (
    "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared", "cpu-sgemm-strassen-2-prepared",
    "cpu-sgemm-winograd-1", "cpu-sgemm-winograd-2",
)  # fmt: skip
"""What a live source measures there. On a GPU each way takes most of a second to reach its own clock, on a CPU split
products are slow: with all of them a reader would wait for a minute."""

KINDS = {
    "float32, Strassen": ("sgemm", "strassen"),
    "float32, Winograd": ("sgemm", "winograd"),
    "float32, Winograd, retired kernel": ("ffma", "winograd"),
    "float32, balanced": ("sgemm", "balanced"),
    "float32's accuracy, tensor cores": ("fp16x3", "strassen"),
    "TF32": ("tf32", "strassen"),
    "bfloat16": ("bf16", "strassen"),
}


def described() -> Experiment:
    """The experiment on Strassen's algorithm."""
    return experiment("strassen")


def sizes_with_errors(source: Source) -> list[int]:
    """The sizes of which a source has times and errors; a live one measures some ways at one size first."""
    if source.live:
        gpu = is_gpu(source.name)
        wanted, first = (FIRST_ON_GPU, FIRST["cuda"]) if gpu else (FIRST_ON_CPU, FIRST["cpu"])
        if quick() and not gpu:
            first = min(first, *map(int, source.values(described(), "size")))
        source.measure_together(described(), wanted, {"size": first})
    return sizes(source)


def fullest(source: Source, there: list[int]) -> int:
    """The size to begin with: that of the most ways, of several the largest."""
    return max(there, key=lambda size: (len(frontier(source, size)), size))


def nothing_measured(source: Source) -> NotRecordedError:
    """What is raised where a source has no time with its error."""
    return NotRecordedError(f"drawing: {source.name} has no time with its error; `brrr record strassen` measures them")


@dataclass(frozen=True)
class Seen:
    """A way at a size: seconds, relative error, bytes of workspace over those of operands and result, the SM clock."""

    way: Way
    time_s: float
    error: float
    workspace: float
    clock_hz: float | None = None


def kinds_of(source: Source) -> dict[str, tuple[str, str]]:
    """The inner products and forms that a source has, by their titles."""
    gpu = _on_gpu(source)
    names = [name for name in source.variants(described()) if name.startswith(CPU) != gpu]
    there = {(way.inner, way.form) for way in map(way_of, names) if way and way.level}
    return {title: each for title, each in KINDS.items() if each in there}


def seen(source: Source, inner: str, form: str, level: int, size: int, *, prepared: bool = True) -> Seen | None:
    """A way as it was measured: with its right side prepared where that was, else as it is; None where it was not."""
    if level:
        plain = f"{inner}-{form}-{level}"
        names = [f"{plain}-prepared", plain] if prepared else [plain]
    else:
        names = [inner]
    place = "" if _on_gpu(source) else CPU
    return next((found for name in names if (found := _seen(source, f"{place}{name}", size)) is not None), None)


def _seen(source: Source, variant: str, size: int) -> Seen | None:
    found, way = described(), way_of(variant)
    if way is None or variant not in source.variants(found):
        return None
    measured = all_known(source, found, variant).get((size,))
    field = next(line.field for line in found.lines if line.variant == variant)
    time = measured.get(field) if measured is not None else None
    if measured is None or time is None or not measured.error:
        return None
    share = workspace_bytes(way, size) / (12 * size * size)
    return Seen(way, time.median, measured.error, share, measured.sm_clock_hz)


def _on_gpu(source: Source) -> bool:
    found = described()
    return any(found.variant(name).on_gpu for name in source.variants(found))
