"""Exercise 09b-scaling: scaling by powers of two around a fast product.

The student's function is called as `scaled(a, b, multiply)`: it scales, calls `multiply` once, and scales back.
"""

from collections.abc import Callable
from typing import Any

import torch

from brrr.strassen.passes.sums import product
from brrr_course.experiments.strassen_errors import random_inputs, row_error
from brrr_course.lessons.marks import Wrong, ask, exercise

SIZE, INNER, LEVEL = 64, 256, 2
ENOUGH = 30.0
"""The worst row may have so many times the classical product's error; without scaling it has thousands of times."""

Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Scaled = Callable[[torch.Tensor, torch.Tensor, Multiply], Any]


@exercise("09b-scaling")
def scaling(scaled: Any) -> str:
    """Right: the same product, nothing rounded by the scaling, and no row of it lost by two Strassen levels."""
    _look_at_result(scaled)
    _look_at_rounding(scaled)
    return _judged(scaled)


def fast(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product that the exercise is about: two levels of Strassen's form.

    >>> fast(torch.eye(8), torch.eye(8)).diag().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return product(a, b, "strassen", LEVEL)


def _look_at_result(scaled: Scaled) -> None:
    """In float64, where rounding hides nothing, it must be the product; and `multiply` must have been asked for it."""
    a, b = (x.double() for x in random_inputs("badly scaled rows", INNER, SIZE))
    calls = 0

    def multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return left @ right

    kept = a.clone(), b.clone()
    found = ask(scaled, a, b, multiply)
    if not isinstance(found, torch.Tensor) or found.shape != (SIZE, SIZE):
        raise Wrong(f"`scaled` returned {_kind(found)}.", "It returns the product, as multiply(a, b) does.")
    if calls != 1:
        raise Wrong(f"`multiply` was called {calls} times.", "Call it once, on the scaled matrices.")
    if not (torch.equal(a, kept[0]) and torch.equal(b, kept[1])):
        raise Wrong("your function changed a or b.", "Divide into new tensors: a / rows, not a /= rows.")
    if row_error(found, a @ b) > 1e-12:
        hint = (
            "What was divided out must be multiplied in again: rows into the result's rows, columns into its columns."
        )
        raise Wrong("the result is not a @ b.", hint)


def _look_at_rounding(scaled: Scaled) -> None:
    """Whole numbers whose product float32 holds exactly must come out exactly."""
    a, b = (torch.randint(-9, 10, shape).float() for shape in ((SIZE, INNER), (INNER, SIZE)))
    found = ask(scaled, a, b, torch.matmul)
    if not torch.equal(found, a @ b):
        raise Wrong("whole numbers do not come out whole.", "Divide by powers of two alone: they change no digit. "
                "x.log2().floor().exp2() rounds x down to one.")  # fmt: skip


def _judged(scaled: Scaled) -> str:
    """The worst row's error on badly scaled inputs, against the classical product's and the unscaled fast one's."""
    a, b = random_inputs("badly scaled rows", INNER, SIZE)
    wanted = a.double() @ b.double()
    plain, lost = row_error(a @ b, wanted), row_error(fast(a, b), wanted)
    mine = row_error(ask(scaled, a, b, fast), wanted)
    said = (
        f"the worst row's error is {mine:.1e}; two levels unscaled have {lost:.1e}, the classical product {plain:.1e}"
    )
    if mine <= ENOUGH * plain:
        return f"{said}. The scaling itself cost two passes over the matrices."
    hint = "Each row of A needs its own factor, and each column of B: one for a whole matrix leaves small beside large."
    raise Wrong(f"{said}.", hint)


def _kind(found: object) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else repr(found)
