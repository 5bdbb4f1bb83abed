"""The drawing of errors level by level, for several kinds of inputs, with and without scaling by powers of two.

Computed here and now on the CPU in float32; the numbers are drawn from a fixed seed, so that a slider's way back shows
the same again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from matplotlib.ticker import NullLocator

from brrr.core import units
from brrr.core.heavy import torch
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
BELOW_ALL = -100
"""Stands for the exponent of zero."""
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

    a, b = random_inputs(inputs, INNER, SIZE, SEED)
    wanted = a.double() @ b.double()
    return tuple(row_error(scaled_product(a, b, form, level, scaling), wanted) for level in LEVELS)


def scaled_product(a: torch.Tensor, b: torch.Tensor, form: str, level: int, scaling: str) -> torch.Tensor:
    """a @ b by a form, its inputs scaled before and the result scaled back: it helps blocks that differ much in size.

    Rows of a and columns of b by their largest number ("outer"), and the inner index by what makes both sides alike.
    """
    rows, inner, columns = (torch.zeros(size, dtype=torch.int32) for size in (a.shape[0], a.shape[1], b.shape[1]))
    left, right = (torch.where(x == 0, BELOW_ALL, torch.frexp(x).exponent) for x in (a, b))
    for step in scaling.split("-"):
        if step == "outer":
            rows, columns = left.amax(1), right.amax(0)
        elif step == "inner":
            apart = (right - columns).amax(1) - (left - rows[:, None]).amax(0)
            inner = torch.div(apart, 2, rounding_mode="floor")
    a, b = torch.ldexp(a, inner - rows[:, None]), torch.ldexp(b, -inner[:, None] - columns)
    return torch.ldexp(summed_product(a, b, form, level), rows[:, None] + columns)


def summed_product(a: torch.Tensor, b: torch.Tensor, form: str, level: int) -> torch.Tensor:
    """a @ b by a form, every product's sums from left to right, as one thread of a GPU makes them."""
    from brrr.strassen.passes.sums import product  # loads torch

    return product(a, b, form, level, _in_order)


def _in_order(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    total = left.new_zeros(left.shape[0], left.shape[1], right.shape[2])
    for j in range(left.shape[2]):
        total += left[:, :, j, None] * right[:, j, None, :]
    return total


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
