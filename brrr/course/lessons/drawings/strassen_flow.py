"""The drawing of Strassen's buffers on a small matrix, one step at a time.

This module's functions load matplotlib when they draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from brrr.core.measurement import Value
from brrr.course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr.strassen.algebra.blocks import BLOCKS, Assignment, signed_sum
from brrr.strassen.algebra.forms import STRASSEN, Form

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.course.nouns.source import Source
    from brrr.course.view.display import Lock
    from brrr.drawing.style import Picture

_WIDE, _HIGH = 760, 502
_ROW, _CELL_WIDE, _CELL_HIGH = 66, 34, 20
_LEFT, _RIGHT, _PRODUCT = 250, 352, 454
"""Where the columns of the left factors, the right factors and the products begin, in CSS pixels."""
_NEW, _USED = "#D55E00", "#0072B2"
BADGE = "COMPUTED in whole numbers"


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """One slider: how many steps were made."""
    last = len(Walk(0).steps)
    return Drawing((Dial("step", "step", tuple(range(last + 1))),), draw, at, badge=BADGE, unlock=unlock)


DRAWING = LessonDrawing("strassen-flow", drawing)


def text(walk: Walk) -> str:
    """What the last step did, with its numbers."""
    now = walk.now
    if now is None:
        return "A and B are cut into blocks of 2 × 2; nothing is computed yet. Factors of one block are there."
    value = f"[{', '.join(map(str, walk.value(now.target).tolist()))}]"
    if now.operator == "*":
        product = int(now.target[1]) - 1
        return f"{walk.phase}, {now.target} = {walk.form.product_text(product)} = {value}."
    if now.target[0] in "ST":
        note = " This is the right side: of a network's weights it is added up once, beforehand." * (
            now.target[0] == "T"
        )
        return f"{walk.phase}, {now.first} {now.operator} {now.second} = {value}.{note}"
    return f"{walk.phase}, {_home(walk, now.target)}{walk.expanded(now.target)} = {value}.{_proof(walk)}"


def _home(walk: Walk, name: str) -> str:
    """Which block of the result a sum belongs to, where it is not yet that block."""
    block = next(block for block in BLOCKS if walk.latest(block) == name)
    return f"C{block} = " if name[0] == "C" else f"C{block} so far: "


def _proof(walk: Walk) -> str:
    """At the end, whether the result is the product."""
    if walk.step < len(walk.steps):
        return ""
    right = np.array_equal(result(walk), A @ B)
    additions, products = walk.made
    return f" Done with {additions} additions and {products} products; C {'equals' if right else 'is not'} A times B."


def result(walk: Walk) -> Whole:
    """The result of all steps, put together from its blocks."""
    found = {block: walk.value(f"C{block}") for block in BLOCKS}
    return np.block([[found["11"], found["12"]], [found["21"], found["22"]]])


def draw(settings: Mapping[str, Value]) -> Picture:
    """The operands at the left, the seven products in the middle, the result at the right."""
    from brrr.drawing import style

    walk = Walk(int(settings["step"]))
    made = style.figure(_WIDE, _HIGH)
    on = style.axes(made, left=0, bottom=0, right=1, top=1)
    on.set_xlim(0, _WIDE)
    on.set_ylim(_HIGH, 0)
    on.axis("off")
    _operands(on, walk)
    for x, words in ((_LEFT, "left buffers"), (_RIGHT, "right buffers"), (_PRODUCT, "products")):
        _write(on, x + _CELL_WIDE, 16, words, 9, colour=style.FAINT)
    for product in range(7):
        _product(on, walk, product)
    _result(on, walk)
    return style.picture(made, text(walk))


def _operands(on: Axes, walk: Walk) -> None:
    now = walk.now
    for name, matrix, top in (("A", A, 90), ("B", B, 310)):
        _write(on, 101, top - 32, name, 12, bold=True)
        for block, value in blocks(name, matrix).items():
            x, y = 27 + 76 * (int(block[2]) - 1), top + 62 * (int(block[1]) - 1)
            _block(on, x, y, value, edge=_USED if now is not None and block in (now.first, now.second) else "")
            _write(on, x + _CELL_WIDE, y - 9, block, 8)


def _product(on: Axes, walk: Walk, product: int) -> None:
    """One row: the left factor, the right factor, and the product, each when it is there."""
    top = 50 + _ROW * product
    step = next(step for step in walk.steps if step.target == f"M{product + 1}")
    signs = {"A": walk.form.left[product], "B": walk.form.right[product]}
    for x, name, operand in ((_LEFT, step.first, "A"), (_RIGHT, step.second, "B")):
        words = signed_sum(signs[operand], [operand + block for block in BLOCKS])
        _named(on, walk, name, x, top, words, beside=step.target)
    _named(on, walk, step.target, _PRODUCT, top, step.target)
    _write(on, (_LEFT + 2 * _CELL_WIDE + _RIGHT) / 2, top + _CELL_HIGH, "×", 13)
    _write(on, (_RIGHT + 2 * _CELL_WIDE + _PRODUCT) / 2, top + _CELL_HIGH, "=", 13)


def _named(on: Axes, walk: Walk, name: str, x: float, top: float, words: str, beside: str = "") -> None:
    """A buffer with its name above: empty until it is computed, framed when the last step made or used it.

    `beside` is the product that a factor belongs to.
    """
    now, edge = walk.now, ""
    if now is not None and name == now.target:
        edge = _NEW
    elif now is not None and name in (now.first, now.second) and (name[0] not in "AB" or now.target == beside):
        edge = _USED  # a sum reads the operand itself, not the copy of it that stands beside another product
    _write(on, x + _CELL_WIDE, top - 9, words, 8, bold=edge == _NEW)
    _block(on, x, top, walk.value(name) if walk.known(name) else None, edge=edge, copied=name[0] in "AB")


def _result(on: Axes, walk: Walk) -> None:
    """The four blocks of C, partial sums in faint ink, and what was counted so far."""
    _write(on, 650, 98, "C", 12, bold=True)
    for block in BLOCKS:
        row, column, name = int(block[0]) - 1, int(block[1]) - 1, walk.latest(block)
        x, top = 578 + 76 * column, 130 + 70 * row
        edge = _NEW if walk.now is not None and walk.now.target == name else ""
        _block(on, x, top, walk.value(name) if name else None, edge=edge, copied=name[:1] == "U")
        _write(on, x + _CELL_WIDE, top - 8, f"C{block}" + (", so far" if name[:1] == "U" else ""), 8)
    additions, products = walk.made
    _write(on, 650, 330, walk.expanded(walk.now.target) if walk.now and walk.now.target[0] in "UC" else "", 10)
    _write(on, 650, 360, f"{additions} additions, {products} products", 10)
    _write(on, 650, 440, "orange: made by this step", 8.5, colour="#a84300")
    _write(on, 650, 458, "blue: read by this step", 8.5, colour=_USED)
    if walk.step == len(walk.steps):
        _write(on, 650, 388, "C = A B" if np.array_equal(result(walk), A @ B) else "C is not A B", 11, bold=True)


def _block(on: Axes, x: float, top: float, value: Whole | None, *, edge: str = "", copied: bool = False) -> None:
    """Four cells with their numbers; empty ones are dashed, copied ones faint."""
    from matplotlib.patches import Rectangle

    from brrr.drawing import style

    face = "#fdeee6" if edge == _NEW else "#e8f2f9" if edge == _USED else style.PAPER
    frame = Rectangle(
        (x, top), 2 * _CELL_WIDE, 2 * _CELL_HIGH, facecolor=face, edgecolor=edge or "#9aa4ae",
        linewidth=1.8 if edge else 0.8, linestyle="-" if value is not None else (0, (3, 2)), zorder=2 + bool(edge),
    )  # fmt: skip
    on.add_patch(frame)
    for row, column in np.ndindex(2, 2):
        if value is not None:
            y = top + (row + 0.5) * _CELL_HIGH
            colour = style.FAINT if copied and not edge else style.INK
            _write(on, x + (column + 0.5) * _CELL_WIDE, y, str(value[row, column]), 9.5, colour=colour)


def _write(
    on: Axes, x: float, y: float, words: str, size: float, *, bold: bool = False, colour: str = "#24292f"
) -> None:
    weight = "bold" if bold else "normal"
    on.text(x, y, words, ha="center", va="center", fontsize=size, fontweight=weight, color=colour, zorder=4)


# ---------------------------------------------------------------------------------------------------------------------
# Strassen's algorithm on a small matrix of whole numbers, step by step: 10 additions, 7 products, 8 additions.

Whole = npt.NDArray[np.int64]

A = np.array([[2, 1, 0, 3], [1, 3, 2, 1], [4, 0, 1, 2], [1, 2, 3, 0]])
B = np.array([[1, 0, 2, 1], [3, 1, 0, 2], [0, 2, 1, 3], [2, 1, 1, 0]])
"""Small enough for a reader to add up, with no two blocks alike."""


@dataclass(frozen=True)
class Walk:
    """What is known after so many steps of a form; step 0 is before the first.

    >>> walk = Walk(3)
    >>> str(walk.now), walk.phase, walk.value("S3").tolist()
    ('S3 = A11 + A12', 'addition 3 of 10 before the products', [[2, 4], [3, 4]])
    """

    step: int
    form: Form = STRASSEN

    @property
    def steps(self) -> tuple[Assignment, ...]:
        """All steps of the form."""
        assert self.form.schedule is not None
        return self.form.schedule.steps

    @property
    def now(self) -> Assignment | None:
        """The step that was made last; None at the beginning."""
        return self.steps[self.step - 1] if self.step else None

    @cached_property
    def _values(self) -> dict[str, Whole]:
        assert self.form.schedule is not None
        return self.form.schedule.run({**blocks("A", A), **blocks("B", B)}, np.matmul)

    def value(self, name: str) -> Whole:
        """The 2 x 2 numbers of a name, whether they are there yet or not."""
        return self._values[name]

    def known(self, name: str) -> bool:
        """Whether a name's numbers are there by now: those of the operands always are."""
        return name[0] in "AB" or name in [step.target for step in self.steps[: self.step]]

    @property
    def phase(self) -> str:
        """Which addition or product of its kind the last step was."""
        if self.now is None:
            return "nothing is computed yet"
        kinds = [_kind(step, self.steps[:place]) for place, step in enumerate(self.steps)]
        kind, mine = kinds[self.step - 1], kinds[: self.step]
        names = {"before": "addition {} of {} before the products", "product": "product {} of {}"}
        text = names.get(kind, "addition {} of {} after the products")
        return text.format(mine.count(kind), kinds.count(kind))

    @property
    def made(self) -> tuple[int, int]:
        """How many additions and how many products were made so far."""
        products = sum(step.operator == "*" for step in self.steps[: self.step])
        return self.step - products, products

    def latest(self, block: str) -> str:
        """The name that holds a block of the result so far: a partial sum, or the block; empty before the first."""
        ending = self._leads_to("C" + block)
        there = [step.target for step in self.steps[: self.step] if step.target in ending]
        return there[-1] if there else ""

    def _leads_to(self, target: str) -> set[str]:
        """The sums after the products that end in this block and in none before it."""
        found, later = {target}, {target}
        for step in reversed(self.steps):
            if step.target in later:
                sums = {name for name in (step.first, step.second) if name[0] == "U"}
                found, later = found | sums, later | sums
        return found

    def expanded(self, name: str) -> str:
        """A sum after the products in terms of the products, as `M1 + M4 - M5`."""
        step = next((step for step in self.steps if step.target == name), None)
        if step is None or name[0] == "M":
            return name
        return f"{self.expanded(step.first)} {step.operator} {step.second}"


def blocks(operand: str, matrix: Whole) -> dict[str, Whole]:
    """The four blocks of a matrix by name.

    >>> blocks("A", A)["A12"].tolist()
    [[0, 3], [2, 1]]
    """
    half = len(matrix) // 2
    corners = [(row, column) for row in (0, half) for column in (0, half)]
    return {operand + block: matrix[r : r + half, c : c + half] for block, (r, c) in zip(BLOCKS, corners, strict=True)}


def _kind(step: Assignment, before: tuple[Assignment, ...]) -> str:
    if step.operator == "*":
        return "product"
    return "after" if any(each.operator == "*" for each in before) else "before"
