"""The drawing of errors level by level, for several kinds of inputs, with and without diagonal scaling.

Computed here and now on the CPU in float32; the numbers are drawn from a fixed seed, so that a slider's way back shows
the same again.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from matplotlib.ticker import NullLocator

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.strassen.algebra.forms import FORMS
from brrr_course.lessons.drawings import Dial, LessonDrawing

KINDS = ("normal", "uniform", "integer", "badly scaled rows", "badly scaled inside")
TITLES = {"strassen": "Strassen's form", "winograd": "Winograd's form"}
SCALINGS = ("none", "outer", "inner", "outer-inner")
LEVELS = (0, 1, 2, 3)
INNER, SIZE, SEED = 256, 64, 7
LIMITS = (3e-8, 3.0)
BADGE = f"LIVE on this CPU, float32, {SIZE} × {INNER} by {INNER} × {SIZE}"


DIALS = (Dial("inputs", "inputs", KINDS), Dial("scaling", "scaling", SCALINGS))
DRAWING = LessonDrawing("strassen-errors", lambda _: (DIALS, draw, BADGE))


@lru_cache(maxsize=64)
def errors(inputs: str, scaling: str, form: str) -> tuple[float, ...]:
    """The worst row's or column's relative error with 0, 1, 2 and 3 levels.

    >>> found = errors("normal", "none", "strassen")
    >>> len(found), found[0] < 1e-6 < found[3] * 10
    (4, True)
    """
    from brrr_course.experiments.strassen_errors import random_inputs, row_error
    from brrr_course.lessons.scaling_by_powers import scaled_product

    a, b = random_inputs(inputs, INNER, SIZE, SEED)
    wanted = a.double() @ b.double()
    way = None if scaling == "none" else scaling
    return tuple(row_error(scaled_product(a, b, FORMS[form], level, way), wanted) for level in LEVELS)


def text(settings: Mapping[str, Value]) -> str:
    """Both forms' errors, and how they grow."""
    found = {form: errors(str(settings["inputs"]), str(settings["scaling"]), form) for form in FORMS}
    first = next(iter(found.values()))[0]
    if not any(map(any, found.values())):
        return "every result is exact: sums and products of small whole numbers need no rounding."
    told = "; ".join(f"{TITLES[form]} {_growth(each)}" for form, each in found.items())
    return f"the worst row's or column's relative error is {first:.1e} without levels; a level multiplies it: {told}."


def _growth(found: tuple[float, ...]) -> str:
    return ", ".join(units.ratio(b / a, 2) if a else "still exact" if not b else f"{b:.1e}" for a, b in pairwise(found))


def draw(settings: Mapping[str, Value]) -> Picture:
    """A line for each form over the levels."""
    made = style.figure(height=350)
    on = style.axes(made, left=0.118, bottom=0.16, top=0.87)
    on.set(yscale="log", ylim=LIMITS, xlim=(-0.2, LEVELS[-1] + 0.2), xticks=LEVELS, xlabel="levels")
    on.set_ylabel("worst row's relative error")
    on.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e-").replace("1e+00", "1"))
    on.yaxis.set_minor_locator(NullLocator())
    every = [errors(str(settings["inputs"]), str(settings["scaling"]), form) for form in FORMS]
    for index, (form, found) in enumerate(zip(FORMS, every, strict=True)):
        style.draw_line(on, LEVELS, [each or math.nan for each in found], index, TITLES[form])
    if not any(map(any, every)):
        on.text(1.5, 3e-4, "every result is exact", ha="center", va="center", fontsize=11, color=style.FAINT)
    style.legend(on)
    return style.picture(made, text(settings))
