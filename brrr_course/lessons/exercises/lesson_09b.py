"""Exercises 09b-terms and 09b-scaling: what a split product costs; and scaling by powers of two around a fast product.

The student's function is called as `scaled(a, b, multiply)`: it scales, calls `multiply` once, and scales back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from brrr.strassen.algebra.reference import product
from brrr_course.experiments.strassen_errors.inputs import random_inputs, row_error
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

SIZE, INNER, LEVEL = 64, 256, 2
ENOUGH = 30.0
"""The worst row may have so many times the classical product's error; without scaling it has thousands of times."""

Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Scaled = Callable[[torch.Tensor, torch.Tensor, Multiply], Any]


def grade(scaled: Any) -> Mark:
    """Right: the same product, nothing rounded by the scaling, and no row of it lost by two Strassen levels."""
    if not callable(scaled):
        return Mark("wrong", f"`scaled` is {scaled!r}.", "Write the function's name: scaled=scaled.")
    wrong = _wrong_result(scaled) or _rounds(scaled)
    return wrong if wrong is not None else _judged(scaled)


EXERCISE = Exercise("09b-scaling", grade)


def fast(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product that the exercise is about: two levels of Strassen's form.

    >>> fast(torch.eye(8), torch.eye(8)).diag().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return product(a, b, "strassen", LEVEL)


def _wrong_result(scaled: Scaled) -> Mark | None:
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
        return Mark("wrong", f"`scaled` returned {_kind(found)}.", "It returns the product, as multiply(a, b) does.")
    if calls != 1:
        return Mark("wrong", f"`multiply` was called {calls} times.", "Call it once, on the scaled matrices.")
    if not (torch.equal(a, kept[0]) and torch.equal(b, kept[1])):
        return Mark("wrong", "your function changed a or b.", "Divide into new tensors: a / rows, not a /= rows.")
    if row_error(found, a @ b) > 1e-12:
        hint = (
            "What was divided out must be multiplied in again: rows into the result's rows, columns into its columns."
        )
        return Mark("wrong", "the result is not a @ b.", hint)
    return None


def _rounds(scaled: Scaled) -> Mark | None:
    """Whole numbers whose product float32 holds exactly must come out exactly."""
    a, b = (torch.randint(-9, 10, shape).float() for shape in ((SIZE, INNER), (INNER, SIZE)))
    found = ask(scaled, a, b, torch.matmul)
    if torch.equal(found, a @ b):
        return None
    return Mark("wrong", "whole numbers do not come out whole.", "Divide by powers of two alone: they change no digit. "
                "x.log2().floor().exp2() rounds x down to one.")  # fmt: skip


def _judged(scaled: Scaled) -> Mark:
    """The worst row's error on badly scaled inputs, against the classical product's and the unscaled fast one's."""
    a, b = random_inputs("badly scaled rows", INNER, SIZE)
    wanted = a.double() @ b.double()
    plain, lost = row_error(a @ b, wanted), row_error(fast(a, b), wanted)
    mine = row_error(ask(scaled, a, b, fast), wanted)
    said = (
        f"the worst row's error is {mine:.1e}; two levels unscaled have {lost:.1e}, the classical product {plain:.1e}"
    )
    if mine <= ENOUGH * plain:
        return Mark("right", f"{said}. The scaling itself cost two passes over the matrices.")
    hint = "Each row of A needs its own factor, and each column of B: one for a whole matrix leaves small beside large."
    return Mark("wrong", f"{said}.", hint)


def _kind(found: object) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else repr(found)


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 09b-terms: bfloat16 terms for a float32 number, the products that are left, and the most they can gain.

BITS, TERM_BITS = 24, 8
SGEMM_FLOPS, BF16_FLOPS = 51e12, 770e12
TERMS = math.ceil(BITS / TERM_BITS)
PRODUCTS = sum(TERM_BITS * (i + j) < BITS for i in range(TERMS) for j in range(TERMS))
FASTER = BF16_FLOPS / SGEMM_FLOPS / PRODUCTS


def grade_terms(terms: Any, products: Any, faster: Any) -> Mark:
    """The terms of a number, the products of two terms above the last bit, and the bound of the gain over SGEMM.

    >>> PRODUCTS, round(FASTER, 1)
    (6, 2.5)
    """
    if mark := not_above_zero(terms=terms, products=products, faster=faster):
        return mark
    if terms != TERMS:
        return Mark("wrong", f"{terms:g} times {TERM_BITS} bits are not {BITS}.", "As few as hold all of them.")
    if products != PRODUCTS:
        slips = {TERMS**2: "That is every pair. Which are below the last bit?", TERMS: "Not only a term with its like."}
        usual = "Terms i and j make a product of 2^(-8(i + j)): count the pairs with i + j below 3, from 0 on."
        return Mark("wrong", f"not {products} products.", slips.get(products, usual))
    if not math.isclose(faster, FASTER, rel_tol=0.02):
        hint = "The ratio of the rates is for one product; here there are several."
        return Mark("wrong", f"`faster` is {faster:g}.", hint)
    text = f"{PRODUCTS} products leave {FASTER:.1f}x at most. float16 has longer terms: three products do,"
    return Mark("right", f"{text} but its range is short, so the terms must be scaled first.")


TERMS_EXERCISE = Exercise("09b-terms", grade_terms)
