"""The predictions below a figure: for each line its time, what limits it, and measured over predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.course.view.display import table_html, table_text
from brrr.course.view.predictions import Foreseen
from brrr.course.view.words import place

if TYPE_CHECKING:
    from brrr.course.view.scene import Scene

HEADER = ("line", "PREDICTED", "bound", "measured", "residual")
_WIDTHS = (48, 14, 12, 14, 12)  # per cent: the same wherever the sliders stand
_NOTHING = "–"
_RESIDUAL = "Residual: measured over predicted."


def cells(row: Foreseen) -> tuple[str, str, str, str, str]:
    """One line's row, as text.

    >>> cells(Foreseen("relu", "relu", 2e-6, "memory", None))
    ('relu', '2 µs', 'memory', '–', '–')
    """
    predicted = _NOTHING if row.predicted_s is None else units.seconds(row.predicted_s)
    measured = _NOTHING if row.measured is None else units.seconds(row.measured.median)
    return row.label, predicted, row.bound or _NOTHING, measured, residual(row.residual)


def residual(share: float | None) -> str:
    """Measured over predicted in whole per cent, tiny ones with a digit; as a factor from ten on.

    >>> residual(1.047), residual(0.0123), residual(12.3), residual(None)
    ('105 %', '1 %', '12.3x', '–')
    """
    if share is None:
        return _NOTHING
    if share < 0.1:
        return units.percent(share, 1)
    return units.ratio(share) if share >= 10 else f"{100 * share:.0f} %"


def origin(scene: Scene) -> str:
    """What stands below the table: the badge of the predictions, and what is missing."""
    said = scene.predictions.origin(scene.experiment.line(name) for name in scene.on)
    return f"{said} {_RESIDUAL}" if scene.predicts else said


def as_panel(scene: Scene) -> str:
    """The table as the panel shows it, with columns of fixed widths; empty while predictions are off.

    Where no figures of the devices are known, only what to run.
    """
    if not scene.predictions.on:
        return ""
    columns = "".join(f"<col style='width:{width}%'>" for width in _WIDTHS)
    head = "".join(f"<th scope='col'{_side(place)}>{escape(title)}</th>" for place, title in enumerate(HEADER))
    body = "".join(_row(scene.looks[row.line], cells(row)) for row in scene.foreseen)
    said = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(origin(scene)))
    below = f"<div class='brrr-origin'>{said}</div>"
    if not scene.predicts:
        return below
    return f"<table><colgroup>{columns}</colgroup><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _row(look: int, texts: Sequence[str]) -> str:
    from brrr.drawing import style  # it imports matplotlib

    colour = style.look(look)["color"]
    shown = "inherit" if colour == "#000000" else colour
    mark = f"<span style='color:{shown}' aria-hidden='true'>{style.glyph(look)}</span> "
    first = f"<th scope='row' title='{escape(texts[0], quote=True)}'>{mark}{escape(texts[0])}</th>"
    rest = "".join(f"<td{_side(place)}>{escape(text)}</td>" for place, text in enumerate(texts[1:], start=1))
    return f"<tr>{first}{rest}</tr>"


def _side(place: int) -> str:
    return "" if place in (0, 2) else " class='brrr-number'"


def as_bundle(scene: Scene) -> dict[str, str]:
    """The table for an edition that is read: as HTML, and as text."""
    rows = [cells(row) for row in scene.foreseen]
    if not rows:
        return {"text/markdown": origin(scene), "text/plain": origin(scene)}
    return {
        "text/html": table_html(HEADER, rows, f"At {place(scene)}. {origin(scene)}"),
        "text/plain": table_text(HEADER, rows, f"At {place(scene)}. {origin(scene)}"),
    }


def as_sentence(scene: Scene) -> str:
    """The same in words, for the picture's alternative text."""
    said = [
        f"{row.label}: {units.seconds(row.predicted_s)}, {row.bound}"
        + (f", measured over predicted {residual(row.residual)}" if row.residual is not None else "")
        for row in scene.foreseen
        if row.predicted_s is not None
    ]
    return f"Predicted: {'; '.join(said)}." if said else "Predicted: nothing."
