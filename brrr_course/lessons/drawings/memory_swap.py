"""The drawing of the calls of `memory_swap`: how much faster each is with the faster memory, by the bytes it moves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import hardware
from brrr_course.experiments.memory_swap import (
    CALLS,
    REFERENCE,
    cost_of,
    gain,
    memory_share,
    predicted,
    regime,
    swapped,
)
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.lessons.special_quantities import swap_evidence
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named

LABELS = ("streams", "matmuls, attention, convolution", "others", "close to the size of the caches", "in both caches")


def drawing(source: Source) -> Made:
    """A slider over the calls that were measured on both devices."""
    here = swap_evidence(source)
    both = (here, Evidence(here.experiment, source_named(f"recorded:{REFERENCE}")))
    ratios = {str(key[0]): ratio.median for key, ratio in swapped(here).values.items()}
    badge = " / ".join(str(each.source.badge(each.experiment)) for each in both)
    return (Dial("call", "call", tuple(ratios)),), partial(draw, both=both, ratios=ratios), badge


DRAWING = LessonDrawing("memory-swap", drawing)


def text(call: str, both: tuple[Evidence, Evidence], ratio: float) -> str:
    """A call's times on both devices, with clocks and powers; what they say, and what was predicted."""
    told, more = [], gain(both[0])
    for each, sheet in zip(both, (both[0].datasheet(), hardware(REFERENCE)), strict=True):
        clock = units.quantity(each.table("eager", "sm_clock_hz", {"call": call}).values[()], "Hz", 3)
        time = units.seconds(each.get("eager", call=call).median, 3)
        told.append(f"{time} on an {sheet.name} ({clock}, up to {sheet.tdp_w} W)")
    share = units.percent(min(1.0, max(0.0, memory_share(ratio, more))), 2)
    return (
        f"{', '.join(told)}: {units.ratio(ratio, 3)} as fast. The memory takes {share} of the longer time: "
        f"{regime(ratio, more)}. Predicted without the second GPU: {predicted(call)}."
    )


def draw(settings: Mapping[str, Value], both: tuple[Evidence, Evidence], ratios: Mapping[str, float]) -> Picture:
    """Ratios over bytes, a marker for each group; the chosen call in a ring."""
    call, made = str(settings["call"]), style.figure(height=400)
    on, ends = style.axes(made, bottom=0.14, top=0.74), (1e5, 2e9)
    limits = (min(0.85, *ratios.values()) - 0.05, max(1.65, *ratios.values()) + 0.05)
    on.set(xscale="log", xlim=ends, ylim=limits, ylabel="times as fast")
    for number, (label, names) in enumerate(zip(LABELS, CALLS.values(), strict=True)):
        there = {cost_of(name).bytes: ratios[name] for name in names if name in ratios}
        style.draw_line(on, list(there), list(there.values()), number, label).set_linestyle("none")
    style.draw_guide(on, ends, [gain(both[0])] * 2, 0, "DATASHEET the bandwidths' ratio")
    style.draw_guide(on, ends, [1.0] * 2, 1, "no difference")
    for sheet in (both[0].datasheet(), hardware(REFERENCE)):
        size, side = sheet.l2_bytes or 0, "left" if sheet.key == REFERENCE else "right"
        on.axvline(size, color=style.FAINT, linewidth=0.9, zorder=0)
        on.text(size, limits[1], f" {sheet.key.upper()}'s L2 ", ha=side, va="top", fontsize=8, color=style.FAINT)
    on.plot([cost_of(call).bytes], [ratios[call]], "o", color=style.INK, markersize=13, markerfacecolor="none")
    style.bar_axis(on, "B", "bytes of operands and results")
    style.legend(on)
    return style.picture(made, text(call, both, ratios[call]))
