"""The drawing of an exchange between two devices: its measured times over the bytes, and the line fitted to them."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from brrr.core import units
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Measurement, Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.roofline.communication import BUS, Link, fitted
from brrr_course.experiments import experiment
from brrr_course.experiments.ranks import RANKS
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.nouns.source import Source

Times = Mapping[int, Measurement]


def drawing(source: Source) -> Made:
    """Two sliders, the operation and the bytes; NotRecordedError where the sizes measured give no line."""
    collective, found = experiment("collective"), dict[str, Times]()
    for variant in sorted(collective.variants, key=lambda each: each.on_gpu):  # a GPU's times go over its CPU's
        known = source.known(collective, variant.name) if variant.name in source.variants(collective) else {}
        times = {int(key[0]): each for key, each in sorted(known.items()) if each.period_s}
        with suppress(ArgumentError):
            line_of(variant.implementation, times)
            found[variant.implementation] = times
    if not found:
        raise NotRecordedError(
            f"{source.name} has no line of exchanges: measure small and large ones first; brrr record collective does"
        )
    sizes = tuple(sorted({nbytes for times in found.values() for nbytes in times}))
    dials = Dial("nbytes", "bytes", sizes), Dial("operation", "operation", tuple(found))
    return dials, partial(draw, found=found), f"{source.badge(collective)}; the line: fitted"


DRAWING = LessonDrawing("exchange-line", drawing)


def line_of(way: str, times: Times) -> Link:
    """The latency and the bandwidth of its periods, by the bytes that cross the link."""
    return fitted({BUS[way](RANKS) * n: each.period_s.median for n, each in times.items() if each.period_s})


def text(way: str, nbytes: int, times: Times, link: Link) -> str:
    """What the picture shows at a size."""
    at, kernel = times.get(nbytes), times[nbytes].kernel_s if nbytes in times else None
    took, itself = "was not measured", ""
    if at and at.period_s:
        took = f"takes {units.seconds(at.period_s.median)}"
        waited = bool(kernel and kernel.median > at.period_s.median)
        while_profiled = " under the profiler, where it waited for the other device" * waited
        itself = f", its kernel {units.seconds(kernel.median)}{while_profiled}" if kernel else ""
    said = units.seconds(link.seconds(BUS[way](RANKS) * nbytes))
    beta = link.beta_bytes_per_s
    rates = [units.quantity(each, "B/s") for each in (beta.median, beta.low, beta.high)]
    return (
        f"{way} of {units.nbytes(nbytes)} {took}{itself}; the line says {said}. The line: a fixed time of "
        f"{link.alpha_s}, then {rates[0]} ({rates[1]} to {rates[2]})."
    )


def draw(settings: Mapping[str, Value], found: Mapping[str, Times]) -> Picture:
    """Times over the bytes, both axes logarithmic: a call in a loop and its kernel with markers, the line dashed."""
    way, nbytes = str(settings["operation"]), int(settings["nbytes"])
    times = found[way]
    link, sizes = line_of(way, times), list(times)
    every = [
        each.median for times in found.values() for m in times.values() for each in (m.period_s, m.kernel_s) if each
    ]
    bounds = (min(every) / 1.5, max(every) * 1.5)
    made = style.figure()
    on = style.axes(made, left=style.left_margin(bounds, "s"), bottom=0.15, right=0.97, top=0.93)
    on.set_xscale("log", base=2)
    on.set_ylim(bounds)
    style.value_axis(on, "s", "time")
    on.set_xlabel("bytes")
    on.xaxis.set_major_formatter(lambda value, _: units.nbytes(int(value)))
    for number, (label, field) in enumerate((("a call in a loop", "period_s"), ("its kernel alone", "kernel_s"))):
        shown = {n: each.median for n, m in times.items() if (each := getattr(m, field))}
        if shown:
            colour, marker = style.COLOURS[number], style.MARKERS[number]
            on.plot(list(shown), list(shown.values()), color=colour, marker=marker, label=label)
    said = [link.seconds(BUS[way](RANKS) * n) for n in sizes]
    on.plot(sizes, said, color=style.INK, ls=style.PREDICTED_DASHES, label="fixed time + bytes / bandwidth, fitted")
    on.axvline(nbytes, color=style.FAINT, linewidth=0.9, zorder=0)
    on.legend(loc="upper left", fontsize=9, frameon=False)
    return style.picture(made, text(way, nbytes, times, link))
