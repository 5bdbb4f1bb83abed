"""The drawing of Strassen's buffers on a small matrix, one step at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.strassen.algebra.blocks import BLOCKS, Assignment, signed_sum
from brrr.strassen.algebra.forms import STRASSEN
from brrr_course.lessons.drawings import Dial, LessonDrawing

_WIDE, _HIGH = 760, 502
_ROW, _CELL_WIDE, _CELL_HIGH = 66, 34, 20
_COLUMNS = {"left buffers": 250, "right buffers": 352, "products": 454}
"""Where the columns of the left factors, the right factors and the products begin, in CSS pixels."""
_NEW, _USED = "#D55E00", "#0072B2"
_FACES = {_NEW: "#fdeee6", _USED: "#e8f2f9"}
BADGE = "COMPUTED in whole numbers"

Whole = npt.NDArray[np.int64]

A = np.array([[2, 1, 0, 3], [1, 3, 2, 1], [4, 0, 1, 2], [1, 2, 3, 0]])
B = np.array([[1, 0, 2, 1], [3, 1, 0, 2], [0, 2, 1, 3], [2, 1, 1, 0]])
"""Small enough for a reader to add up, with no two blocks alike."""

STEPS: tuple[Assignment, ...] = STRASSEN.schedule.steps
MADE_BY = {step.target: step for step in STEPS}


DRAWING = LessonDrawing("strassen-flow", lambda _: ([Dial("step", "step", tuple(range(len(STEPS) + 1)))], draw, BADGE))


# ---- what is known after so many steps: 10 additions, 7 products, 8 additions ----


@lru_cache(maxsize=1)
def values() -> dict[str, Whole]:
    """The 2 x 2 numbers of every name, whether they are there yet or not.

    >>> values()["A12"].tolist(), values()["S3"].tolist()
    ([[0, 3], [2, 1]], [[2, 4], [3, 4]])
    """
    halves = {"1": slice(0, 2), "2": slice(2, 4)}
    blocks = {name + b: matrix[halves[b[0]], halves[b[1]]] for name, matrix in (("A", A), ("B", B)) for b in BLOCKS}
    return STRASSEN.schedule.run(blocks, np.matmul)


def result() -> Whole:
    """The result of all steps, put together from its blocks."""
    c11, c12, c21, c22 = (values()[f"C{block}"] for block in BLOCKS)
    return np.block([[c11, c12], [c21, c22]])


def expanded(name: str) -> str:
    """A sum after the products in terms of the products.

    >>> expanded("C11")
    'M1 + M4 - M5 + M7'
    """
    step = MADE_BY.get(name)
    return name if step is None or name[0] == "M" else f"{expanded(step.first)} {step.operator} {step.second}"


@dataclass(frozen=True)
class Walk:
    """What is known after so many steps; step 0 is before the first.

    >>> walk = Walk(3)
    >>> " ".join(walk.now), walk.phase
    ('S3 A11 + A12', 'addition 3 of 10 before the products')
    """

    step: int

    @property
    def now(self) -> Assignment | None:
        """The step that was made last; None at the beginning."""
        return STEPS[self.step - 1] if self.step else None

    def known(self, name: str) -> bool:
        """Whether a name's numbers are there by now: those of the operands always are."""
        return name[0] in "AB" or name in [step.target for step in STEPS[: self.step]]

    @property
    def phase(self) -> str:
        """Which addition or product of its kind the last step was."""
        kinds = ["ST" if step.target[0] in "ST" else "M" if step.operator == "*" else "UC" for step in STEPS]
        kind = kinds[self.step - 1]
        names = {"ST": "addition {} of {} before the products", "M": "product {} of {}"}
        text = names.get(kind, "addition {} of {} after the products")
        return text.format(kinds[: self.step].count(kind), kinds.count(kind))

    @property
    def made(self) -> tuple[int, int]:
        """How many additions and how many products were made so far."""
        products = sum(step.operator == "*" for step in STEPS[: self.step])
        return self.step - products, products

    def latest(self, block: str) -> str:
        """The name that holds a block of the result so far: a partial sum, or the block; empty before the first."""
        name = f"C{block}"
        while name[0] in "UC" and not self.known(name):
            name = MADE_BY[name].first
        return name if name[0] in "UC" else ""

    def edge(self, name: str, beside: str = "") -> str:
        """The colour around a name: made or read by the last step; a product's copy of an operand by its own alone."""
        now = self.now
        if now is None or name not in (now.target, now.first, now.second):
            return ""
        if name == now.target:
            return _NEW
        return "" if beside and name[0] in "AB" and now.target != beside else _USED


def text(walk: Walk) -> str:
    """What the last step did, with its numbers."""
    now = walk.now
    if now is None:
        return "A and B are cut into blocks of 2 × 2; nothing is computed yet. Factors of one block are there."
    value = f"[{', '.join(map(str, values()[now.target].tolist()))}]"
    if now.operator == "*":
        return f"{walk.phase}, {now.target} = {STRASSEN.product_text(int(now.target[1]) - 1)} = {value}."
    if now.target[0] in "ST":
        note = " This is the right side: of a network's weights it is added up once, beforehand."
        return f"{walk.phase}, {now.first} {now.operator} {now.second} = {value}.{note * (now.target[0] == 'T')}"
    block = next(block for block in BLOCKS if walk.latest(block) == now.target)
    home = f"C{block} = " if now.target[0] == "C" else f"C{block} so far: "
    return f"{walk.phase}, {home}{expanded(now.target)} = {value}.{_proof(walk)}"


def _proof(walk: Walk) -> str:
    """At the end, whether the result is the product."""
    if walk.step < len(STEPS):
        return ""
    (additions, products), right = walk.made, np.array_equal(result(), A @ B)
    return f" Done with {additions} additions and {products} products; C {'equals' if right else 'is not'} A times B."


# ---- the picture: the operands at the left, the seven products in the middle, the result at the right ----


def draw(settings: Mapping[str, Value]) -> Picture:
    """Every buffer with its numbers, as soon as they are there."""
    walk = Walk(int(settings["step"]))
    made = style.figure(_WIDE, _HIGH)
    on = style.axes(made, left=0, bottom=0, right=1, top=1)
    on.set_xlim(0, _WIDE)
    on.set_ylim(_HIGH, 0)
    on.axis("off")
    for name, top in (("A", 90), ("B", 310)):
        _write(on, 101, top - 32, name, 12, bold=True)
        for b in BLOCKS:
            place = 27 + 76 * (int(b[1]) - 1), top + 62 * (int(b[0]) - 1)
            _block(on, walk, name + b, place, name + b, edge=walk.edge(name + b))
    for words, x in _COLUMNS.items():
        _write(on, x + _CELL_WIDE, 16, words, 9, colour=style.FAINT)
    for product in range(7):
        _product(on, walk, product)
    _result(on, walk)
    return style.picture(made, text(walk))


def _product(on: Axes, walk: Walk, product: int) -> None:
    """One row: the left factor, the right factor, and the product, each when it is there."""
    top, step = 50 + _ROW * product, MADE_BY[f"M{product + 1}"]
    factors = (("A", STRASSEN.left), ("B", STRASSEN.right))
    sums = [signed_sum(signs[product], [operand + block for block in BLOCKS]) for operand, signs in factors]
    names = zip((step.first, step.second, step.target), (*sums, step.target), _COLUMNS.values(), strict=True)
    for name, words, x in names:
        _block(on, walk, name, (x, top), words, edge=walk.edge(name, beside=step.target), faint=name[0] in "AB")
    for x, sign in ((335, "×"), (437, "=")):
        _write(on, x, top + _CELL_HIGH, sign, 13)


def _result(on: Axes, walk: Walk) -> None:
    """The four blocks of C, partial sums in faint ink, and what was counted so far."""
    _write(on, 650, 98, "C", 12, bold=True)
    for b in BLOCKS:
        name = walk.latest(b)
        words, place = f"C{b}{', so far' * (name[:1] == 'U')}", (578 + 76 * (int(b[1]) - 1), 130 + 70 * (int(b[0]) - 1))
        edge = _NEW if walk.now is not None and walk.now.target == name else ""
        _block(on, walk, name or f"C{b}", place, words, edge=edge, faint=name[:1] == "U")
    additions, products = walk.made
    _write(on, 650, 330, expanded(walk.now.target) if walk.now and walk.now.target[0] in "UC" else "", 10)
    _write(on, 650, 360, f"{additions} additions, {products} products", 10)
    _write(on, 650, 440, "orange: made by this step", 8.5, colour="#a84300")
    _write(on, 650, 458, "blue: read by this step", 8.5, colour=_USED)
    if walk.step == len(STEPS):
        _write(on, 650, 388, "C = A B" if np.array_equal(result(), A @ B) else "C is not A B", 11, bold=True)


def _block(
    on: Axes, walk: Walk, name: str, place: tuple[float, float], words: str, *, edge: str, faint: bool = False
) -> None:
    """Four cells below a name: empty and dashed until they are computed, copies faint."""
    (x, top), there = place, walk.known(name)
    _write(on, x + _CELL_WIDE, top - 9, words, 8, bold=edge == _NEW)
    on.add_patch(Rectangle(
        place, 2 * _CELL_WIDE, 2 * _CELL_HIGH, facecolor=_FACES.get(edge, style.PAPER), edgecolor=edge or "#9aa4ae",
        linewidth=1.8 if edge else 0.8, linestyle="-" if there else (0, (3, 2)), zorder=2 + bool(edge),
    ))  # fmt: skip
    for row, column in np.ndindex(2, 2) if there else ():
        at = x + (column + 0.5) * _CELL_WIDE, top + (row + 0.5) * _CELL_HIGH
        _write(on, *at, str(values()[name][row, column]), 9.5, colour=style.FAINT if faint and not edge else style.INK)


def _write(
    on: Axes, x: float, y: float, words: str, size: float, *, bold: bool = False, colour: str = "#24292f"
) -> None:
    weight = "bold" if bold else "normal"
    on.text(x, y, words, ha="center", va="center", fontsize=size, fontweight=weight, color=colour, zorder=4)
