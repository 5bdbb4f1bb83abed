"""The drawing of a recurrent step's floor by mini-batch: exchange, state traffic, arithmetic, and what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.roofline.persistent import Step
from brrr_course.experiments import experiment
from brrr_course.experiments.rnn import BATCHES, floor_of, place, step
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.lessons.drawings.rnn_batch import over_batches
from brrr_course.lessons.rnn_data import best_cudnn
from brrr_course.nouns.source import Evidence, Source

CELLS, DTYPES = ("rnn_tanh", "lstm"), ("float32", "float16")
PARTS = {"exchange": "exchange", "state": "state from L2", "arithmetic": "arithmetic", "input": "input's product"}
SHOWN_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
_HEIGHT = 430


@dataclass(frozen=True)
class StepAt:
    """A step at one batch: its floor, and what was measured."""

    floor: Step
    ours_s: float
    cudnn_s: float


Steps = Mapping[int, StepAt]


def drawing(source: Source) -> Made:
    """Three sliders: the batch, the cell and the type; NotRecordedError where nothing was measured."""
    evidence = Evidence(experiment("rnn"), source)
    steps = {(cell, dtype): found for cell in CELLS for dtype in DTYPES if (found := _steps(evidence, cell, dtype))}
    if not steps:
        raise NotRecordedError(f"{source.name} has no step of a recurrent layer: brrr record rnn measures them")
    cells, dtypes = (tuple(dict.fromkeys(key[place_of] for key in steps)) for place_of in (0, 1))
    dials = (Dial("batch", "mini-batch", BATCHES), Dial("cell", "cell", cells), Dial("dtype", "type", dtypes))
    return dials, partial(draw, steps=steps), str(source.badge(evidence.experiment))


DRAWING = LessonDrawing("rnn-floor", drawing)


def _steps(evidence: Evidence, cell: str, dtype: str) -> dict[int, StepAt]:
    """By batch, where all was measured."""
    found = {}
    for batch in BATCHES:
        at = place(cell, dtype, batch)
        try:
            ours, (_, theirs) = step(evidence, "persistent", **at), best_cudnn(evidence, at)
            found[batch] = StepAt(floor_of(evidence, at), ours.median, theirs.median)
        except NotRecordedError:
            continue
    return found


def text(step: StepAt) -> str:
    """What the picture shows at a batch."""
    floor = step.floor
    limit = {"state": "reading the state"}.get(floor.limit, f"the {floor.limit}")
    return (
        f"a step takes {units.seconds(step.ours_s)}, the best cuDNN's {units.seconds(step.cudnn_s)}. The floor is "
        f"{units.seconds(floor.total_s)}, {units.percent(floor.total_s / step.ours_s, 2)} of the step: {limit} takes "
        f"{units.seconds(floor.parts[floor.limit])}, and the input's product {units.seconds(floor.serial_s)} before."
    )


def draw(settings: Mapping[str, Value], steps: Mapping[tuple[str, str], Steps]) -> Picture:
    """Times over the batch, both axes logarithmic: the floor's parts dashed, what was measured with markers."""
    batch, key = int(settings["batch"]), (str(settings["cell"]), str(settings["dtype"]))
    found = steps.get(key, {})
    made = style.figure(height=_HEIGHT)
    on = style.axes(made, left=0.09, bottom=0.13, right=0.975, top=0.86)
    _frame(on, steps)
    for number, (part, label) in enumerate(PARTS.items()):
        values = [1e6 * each.floor.parts.get(part, each.floor.serial_s) for each in found.values()]
        on.plot(list(found), values, linestyle=style.PREDICTED_DASHES, linewidth=1.2, color=style.COLOURS[number + 2],
                label=label)  # fmt: skip
    measured = (("weights on the chip", "ours_s"), ("cuDNN's best", "cudnn_s"))
    for number, (label, field) in enumerate(measured):
        values = [1e6 * getattr(each, field) for each in found.values()]
        on.plot(list(found), values, color=style.COLOURS[number], marker=style.MARKERS[number], label=label)
    floors = [1e6 * each.floor.total_s for each in found.values()]
    on.plot(list(found), floors, color=style.INK, ls=style.PREDICTED_DASHES, linewidth=2, label="PREDICTED floor")
    on.axvline(batch, color=style.FAINT, linewidth=0.9, zorder=0)
    on.legend(loc="lower left", bbox_to_anchor=(-0.03, 1.0), fontsize=9, ncols=4, frameon=False)
    here = found.get(batch)
    return style.picture(made, text(here) if here else "this batch was not measured.")


def _frame(on: Axes, steps: Mapping[tuple[str, str], Steps]) -> None:
    """The same axes wherever the sliders stand."""
    times = [1e6 * time for found in steps.values() for each in found.values()
             for time in (each.ours_s, each.cudnn_s, each.floor.parts["exchange"])]  # fmt: skip
    over_batches(on, SHOWN_BATCHES, (min(times) / 4, 1.5 * max(times)), TICKS)
    on.set_ylabel("µs a step")
