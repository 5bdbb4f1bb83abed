"""The drawing of a recurrent network's order: which product runs when, one after the other or beside each other."""

from collections.abc import Mapping
from itertools import product
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.lessons.drawings import Dial, LessonDrawing

STEPS = 6
LAYERS = (1, 2, 3, 4)
WAYS = {
    "loop": "one after the other", "streams": "two streams", "inputs": "all inputs in one product",
    "wavefront": "layers in wavefront order",
}  # fmt: skip
BADGE = "COUNTED, not measured: each product takes one turn"
_HEIGHT = 340


class CellTurn(NamedTuple):
    """A product and the turn in which it runs: of the input or of the state, of a layer, from a step on, for `steps`.

    The elementwise work of a step belongs to the product of its state.
    """

    kind: Literal["input", "state"]
    layer: int
    step: int
    at: int
    steps: int = 1


def turns(way: str, layers: int, steps: int = STEPS) -> list[CellTurn]:
    """The products in the order of a way, each as early as that order allows.

    >>> [(each.kind, each.at) for each in turns("streams", layers=1, steps=2)]
    [('input', 0), ('state', 1), ('input', 1), ('state', 2)]
    """
    if way == "inputs":
        return [each for layer in range(layers) for each in _inputs_first(layer, steps)]
    found = []
    for layer, step in product(range(layers), range(steps)):
        at = {"loop": 2 * (layer * steps + step), "streams": layer * (steps + 1) + step, "wavefront": 2 * layer + step}[
            way
        ]
        found += [CellTurn("input", layer, step, at), CellTurn("state", layer, step, at + 1)]
    return found


def _inputs_first(layer: int, steps: int) -> list[CellTurn]:
    first = layer * (steps + 1)
    states = [CellTurn("state", layer, step, first + 1 + step) for step in range(steps)]
    return [CellTurn("input", layer, 0, first, steps), *states]


DIALS = (
    Dial("order", "order", tuple(WAYS), tuple(WAYS.values())),
    Dial("layers", "layers", LAYERS, start=2),
)
DRAWING = LessonDrawing("rnn-order", lambda _: (DIALS, draw, BADGE))


def length(found: list[CellTurn]) -> int:
    """How many turns it takes."""
    return max(each.at for each in found) + 1


def text(way: str, layers: int) -> str:
    """What the picture shows."""
    found = turns(way, layers)
    most = max(sum(each.at == turn for each in found) for turn in range(length(found)))
    beside = f"up to {most} at once" if most > 1 else "one at a time"
    chain = length(turns("wavefront", layers))
    return (
        f"{STEPS} time steps take {len(found)} products in {length(found)} turns, {beside}. The longest chain in which "
        f"each product waits for the last has {chain}: no order is shorter."
    )


def draw(settings: Mapping[str, Value]) -> Picture:
    """A row for each layer, turns to the right: above the input's products, below the state's, by their steps."""
    way, layers = str(settings["order"]), int(settings["layers"])
    made = style.figure(height=_HEIGHT)
    on = style.axes(made, left=0.09, bottom=0.14, right=0.975, top=0.87)
    _frame(on)
    for each in turns(way, layers):
        _box(on, each)
    return style.picture(made, text(way, layers))


def _frame(on: Axes) -> None:
    """The same axes wherever the sliders stand, and what the two colours mean."""
    on.set_xlim(0, length(turns("loop", LAYERS[-1])))
    on.set_ylim(0, len(LAYERS))
    on.set_yticks([layer + 0.5 for layer in range(len(LAYERS))], [f"layer {each}" for each in LAYERS])
    on.grid(visible=False)
    on.set_xlabel("turns")
    for name, colour in (("product of the input", 4), ("product of the state, gates", 0)):
        on.bar([0], [0], color=style.COLOURS[colour], label=name)
    on.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), fontsize=9, ncols=2, frameon=False)


def _box(on: Axes, turn: CellTurn) -> None:
    of_input = turn.kind == "input"
    foot = turn.layer + (0.52 if of_input else 0.1)
    colour = style.COLOURS[4 if of_input else 0]
    on.add_patch(Rectangle((turn.at, foot), 1, 0.38, facecolor=colour, edgecolor=style.PAPER, linewidth=0.8))
    said = "all" if turn.steps > 1 else str(turn.step + 1)
    on.text(
        turn.at + 0.5, foot + 0.18, said, ha="center", va="center", fontsize=7, color=style.INK if of_input else "white"
    )
