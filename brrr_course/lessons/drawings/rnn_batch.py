"""The drawing of a step's recurrent product by mini-batch: what was measured, and the limits of weights and FLOP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.counting.cost import ITEMSIZE
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import Hardware
from brrr.networks.recurrent import GATES
from brrr.roofline.device_model import model_of
from brrr_course.experiments import experiment
from brrr_course.experiments.rnn_ladder import BATCHES, CELLS, HIDDEN, STEPS
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.nouns.source import Evidence, Source

DTYPE = "float32"
PRODUCT = "state product"
WHOLE = {PRODUCT: "the recurrent product", "graph": "a step, loop in a CUDA Graph", "cudnn": "a step of cuDNN",
         "persistent": "a step, weights on the chip"}  # fmt: skip
LIMITS = {
    "each_s": "weights once a sample, from memory", "weights_s": "weights once a step, from memory",
    "flop_s": "FLOP at the peak",
}  # fmt: skip
TICKS = (0.01, 0.1, 1, 10, 100, 1000)
_HEIGHT = 430
Times = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Limits:
    """The least seconds of a step's recurrent product: by its weights, loaded once or for each sample, and its FLOP."""

    weights_s: float
    each_s: float
    flop_s: float

    @classmethod
    def of(cls, cell: str, batch: int, device: Hardware) -> Limits:
        """By the datasheet, float32 without tensor cores.

        >>> from brrr.gpu.datasheet import hardware
        >>> one = Limits.of("lstm", 1, hardware("h200"))
        >>> one.weights_s == one.each_s > one.flop_s
        True
        """
        weights = GATES[cell] * HIDDEN**2
        model = model_of(device)
        load_s = model.roof_s(0.0, weights * ITEMSIZE[DTYPE])
        return cls(load_s, batch * load_s, model.roof_s(2.0 * weights * batch, 0.0))


def drawing(source: Source) -> Made:
    """Two sliders: the batch and the cell; NotRecordedError where the product was not measured."""
    evidence = Evidence(experiment("rnn_ladder"), source)
    times = {cell: found for cell in CELLS if (found := measured(evidence, cell)).get(PRODUCT)}
    if not times:
        raise NotRecordedError(
            f"{source.name} has no product of a recurrent state: brrr record rnn_ladder measures it on a GPU"
        )
    dials = (Dial("batch", "mini-batch", BATCHES), Dial("cell", "cell", tuple(times), start=list(times)[-1]))
    made = partial(draw, times=times, device=evidence.datasheet())
    return dials, made, str(source.badge(evidence.experiment))


DRAWING = LessonDrawing("rnn-batch", drawing)


def measured(evidence: Evidence, cell: str) -> dict[str, dict[int, float]]:
    """Seconds by batch, of one layer: of the product, and of a step of whole networks, their call over its steps."""
    at: dict[str, Value] = {"hidden": HIDDEN, "steps": STEPS, "layers": 1, "cell": cell, "dtype": DTYPE}
    found: dict[str, dict[int, float]] = {}
    for line in WHOLE:
        try:
            curve = evidence.curve(line, "batch", **at)
        except NotRecordedError:
            continue
        steps = 1 if line == PRODUCT else STEPS
        found[line] = {int(batch): time.median / steps for batch, time in curve.items() if batch in BATCHES}
    return found


def text(batch: int, cell: str, times: Times, device: Hardware) -> str:
    """What the picture shows at a batch."""
    product, limits = times[PRODUCT], Limits.of(cell, batch, device)
    if batch not in product:
        return "this batch was not measured."
    least, which = max((limits.weights_s, "the weights' bytes"), (limits.flop_s, "the FLOP"))
    growth = units.ratio(product[batch] / product[min(product)])
    return (
        f"the recurrent product takes {units.seconds(product[batch])}, {growth} as long as with {min(product)} sample. "
        f"By {which} it takes at least {units.seconds(least)}; if each sample loaded the weights for itself, "
        f"{units.seconds(limits.each_s)}."
    )


def draw(settings: Mapping[str, Value], times: Mapping[str, Times], device: Hardware) -> Picture:
    """Times over the batch, both axes logarithmic: limits dashed, what was measured with markers."""
    batch, cell = int(settings["batch"]), str(settings["cell"])
    made = style.figure(height=_HEIGHT)
    on = style.axes(made, left=0.09, bottom=0.13, right=0.975, top=0.83)
    limits = {each: Limits.of(cell, each, device) for each in BATCHES}
    _frame(on, times, device)
    for number, (field, label) in enumerate(LIMITS.items()):
        values = [1e6 * getattr(each, field) for each in limits.values()]
        style.draw_guide(on, BATCHES, values, number, f"DATASHEET {label}")
    for number, (line, label) in enumerate(WHOLE.items()):
        if line in times[cell]:
            values = [1e6 * each for each in times[cell][line].values()]
            style.draw_line(on, list(times[cell][line]), values, number, label)
    on.axvline(batch, color=style.FAINT, linewidth=0.9, zorder=0)
    style.legend(on, -0.08)
    return style.picture(made, text(batch, cell, times[cell], device))


def _frame(on: Axes, times: Mapping[str, Times], device: Hardware) -> None:
    """The same axes wherever the sliders stand."""
    ends = [Limits.of(cell, batch, device) for cell in times for batch in (BATCHES[0], BATCHES[-1])]
    every = [1e6 * time for lines in times.values() for each in lines.values() for time in each.values()]
    every += [1e6 * value for each in ends for value in (each.weights_s, each.each_s)]
    over_batches(on, BATCHES, (min(every) / 2, 1.5 * max(every)), TICKS)
    on.set_ylabel("µs")


def over_batches(on: Axes, batches: Sequence[int], ends: tuple[float, float], ticks: Sequence[float]) -> None:
    """Both axes logarithmic: mini-batches below, and of the ticks upwards those between the ends."""
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    on.set_xlim(batches[0] / 1.15, batches[-1] * 1.15)
    on.set_ylim(*ends)
    shown = [each for each in ticks if ends[0] <= each <= ends[1]]
    on.set_yticks(shown, [f"{each:g}" for each in shown], minor=False)
    on.set_yticks([], minor=True)
    on.set_xticks(list(batches), [str(each) for each in batches])
    on.set_xlabel("mini-batch")
