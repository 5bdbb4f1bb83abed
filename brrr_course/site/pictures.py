"""A figure's lines as a picture without words: on the first page, and for a reader without JavaScript."""

import math
from collections.abc import Mapping
from typing import Any

from brrr_course.view.figure import place_of

Scene = Mapping[str, Any]
ROOM = 8
"""Around the lines."""
WIDE = 547.2
"""How wide a drawing is, in points."""


def picture(scene: Scene, wide: int = 160, high: int = 90) -> str:
    """An SVG of a scene's lines where its sliders stand at first, in the colours of scenes; empty where it has none.

    The places of the slider along x are as far apart as on that slider, which stands below the picture on the page.
    """
    drawn = ""
    for line in (each for each in reversed(scene.get("lines", ())) if each.get("on")):
        of = math.log if scene["y"]["scale"] == "log" else float
        (low, top), along = map(of, scene["y"]["domain"]), scene["x"]["along"]
        slider = scene["sliders"][along]
        across = (wide - 2 * ROOM) / max(len(slider["texts"]) - 1, 1)
        points = {at: f"{ROOM + at * across:.1f} {ROOM + (high - 2 * ROOM) * (top - of(value)) / (top - low):.1f}"
                  for at, _, value, *_ in line["cuts"][place_of(scene["sliders"], but=along)]}  # fmt: skip
        drawn += f'<path class="line pen-{line["hue"]}" d="M{"L".join(points.values())}"/>'
        at = points.get(slider["at"], "-99 -99")
        drawn += f'<circle class="here hue-{line["hue"]}" transform="translate({at})" r="{4 + wide // 200}"/>'
    return f'<svg viewBox="0 0 {wide} {high}" aria-hidden="true">{drawn}</svg>' if drawn else ""
