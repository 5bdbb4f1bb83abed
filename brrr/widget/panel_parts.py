"""What the explorer's panel is built of: its style, its text line, its cover, and small widgets."""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets
from traitlets import Unicode

from brrr import plots, units
from brrr.widget.scene import Scene

CSS = f"""<style>
.brrr-explorer {{ max-width: {plots.WIDTH + 24}px; }}
.brrr-explorer .widget-inline-hbox .widget-label, .brrr-explorer .widget-label {{ color: inherit; }}
.brrr-badge .brrr-chip {{ border: 1px solid currentColor; border-radius: 999px; padding: 1px 10px; font-size: 85%; }}
.brrr-said {{ line-height: 1.5; min-height: 4.5em; max-width: {plots.WIDTH}px; white-space: normal; }}
.brrr-said b {{ white-space: nowrap; }}
.brrr-figure {{ background: {plots.PAPER}; border-radius: 8px; height: auto !important; max-width: 100%;
  overflow: clip !important;
  outline: 1px solid rgba(128, 128, 128, .35); }}
body[data-jp-theme-light="false"] .brrr-figure, body.vscode-dark .brrr-figure {{
  filter: invert(.93) hue-rotate(180deg); /* dark paper, and hues kept: red stays red */ }}
.brrr-lines .widget-checkbox {{ width: auto; margin-right: 14px; }}
.brrr-lines .widget-html {{ margin: 0 2px; }}
.brrr-predicted table {{ table-layout: fixed; width: 100%; max-width: {plots.WIDTH}px; border-collapse: collapse;
  line-height: 1.5; font-variant-numeric: tabular-nums; }}
.brrr-predicted th, .brrr-predicted td {{ text-align: left; padding: 0 10px 0 0; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.brrr-predicted tbody th {{ font-weight: 400; }}
.brrr-predicted thead th {{ font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .5); }}
.brrr-predicted .brrr-number {{ text-align: right; }}
.brrr-predicted .brrr-origin {{ font-size: 85%; opacity: .8; line-height: 1.5; max-width: {plots.WIDTH}px; }}
.brrr-table {{ overflow-x: auto; max-width: {plots.WIDTH}px; }}
.brrr-table table {{ font-variant-numeric: tabular-nums; line-height: 1.5; }}
.brrr-table td {{ white-space: nowrap; }}
.brrr-cover {{ border: 1px dashed currentColor; border-radius: 8px; padding: 2.2em 1em; text-align: center;
  opacity: .8; max-width: {plots.WIDTH}px; }}
</style>"""

FULL = {"width": "100%", "max_width": f"{plots.WIDTH}px"}


class Named(widgets.Image):  # type: ignore[misc]  # ipywidgets is untyped
    """An image whose tooltip is its name for a screen reader (an Image has no alternative text of its own).

    The front end reads `description` to place a tooltip, and an Image without one fails there.
    """

    description = Unicode("").tag(sync=True)


def cover() -> Any:
    """What stands in an explorer's place until the guess is given: no number, no line."""
    text = "<div class='brrr-cover' role='status'>Give your guess above to uncover.</div>"
    return widgets.VBox([widgets.HTML(CSS + text)])


def about(seconds: float) -> str:
    if seconds == float("inf"):
        return "an unknown time on this machine, perhaps long"
    return f"about {units.seconds(seconds, 2)}" if seconds < 120 else f"about {seconds / 60:.0f} minutes"


def said_html(scene: Scene) -> str:
    """The text line, with its values in bold."""
    readings = scene.readings()
    said = "; ".join(f"{escape(label)}: <b>{escape(value)}</b>{escape(beside)}" for label, value, beside in readings)
    return live_region(f"At {escape(scene.place)}{': ' if said else ''}{said}. {escape(scene.remark)}")


def live_region(html: str) -> str:
    return f"<div class='brrr-said' role='status' aria-live='polite'>{html}</div>"


def html(css_class: str) -> Any:
    made = widgets.HTML("")
    made.add_class(css_class)
    return made


def button(name: str, tooltip: str, style: str = "") -> Any:
    return widgets.Button(description=name, tooltip=tooltip, button_style=style, layout={"width": "max-content"})
