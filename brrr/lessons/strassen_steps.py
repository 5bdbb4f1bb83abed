"""Strassen's algorithm on a small matrix of whole numbers, step by step: 10 additions, 7 products, 8 additions.

The steps are those of the form's schedule, so that what is shown is what the kernels compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from brrr.strassen.forms import STRASSEN, Form
from brrr.strassen.schedule import BLOCKS, Step

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
    def steps(self) -> tuple[Step, ...]:
        """All steps of the form."""
        assert self.form.schedule is not None
        return self.form.schedule.steps

    @property
    def now(self) -> Step | None:
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


def _kind(step: Step, before: tuple[Step, ...]) -> str:
    if step.operator == "*":
        return "product"
    return "after" if any(each.operator == "*" for each in before) else "before"
