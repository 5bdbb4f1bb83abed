"""Are the results of the pseudo-linear experiment right? References in float64, a block of rows at a time."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from brrr.roofline.calibrate.part import CHUNK, PROBES, product_error
from brrr_course.experiments.checked import error_against, worst

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
EXACT_ROWS = 64
SIGNS = ((1, 1, 1, 1), (1, 1, -1, -1), (1, -1, 1, -1), (1, -1, -1, 1))
"""Signs for the quadrants of a matrix: of any two quadrants, half of these give them one sign, and half two."""


def pseudo_error(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor | None) -> Callable[[Any], float]:
    """The worst error of `x * w + b`; with an upstream gradient g, of `(y, dx, dw, db)`."""

    def error(result: Any) -> float:
        y, *gradients = result if isinstance(result, tuple) else (result,)
        errors = [error_against(lambda x, w, b: x * w + b, (x,), (w, b))(y)]
        if g is not None:
            dx, dw, db = gradients
            errors.append(error_against(torch.mul, (g,), (w,))(dx))
            errors.append(_vector_error(dw, _row_sum(g, lambda rows: g[rows].double() * x[rows].double())))
            errors.append(_vector_error(db, _row_sum(g, lambda rows: g[rows].double())))
        return worst(errors)

    return _without_gradients(error)


def linear_error(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor | None) -> Callable[[Any], float]:
    """The worst error of `x wᵀ + b`, the products by Freivalds' check (see `product_error`)."""

    def error(result: Any) -> float:
        y, *gradients = result if isinstance(result, tuple) else (result,)
        errors = [_affine_error(y, x, w, b)]
        if g is not None:
            dx, dw, db = gradients
            errors += [product_error(g, w)(dx), product_error(g.t(), x)(dw)]
            errors.append(_vector_error(db, _row_sum(g, lambda rows: g[rows].double())))
        return worst(errors)

    return _without_gradients(error)


def _without_gradients(error: Callable[[Any], float]) -> Callable[[Any], float]:
    def checked(result: Any) -> float:
        with torch.no_grad():
            return error(result)

    return checked


def _affine_error(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> float:
    """Freivalds' check of `x wᵀ + b`: y v against x (wᵀ v) + b·v in float64, for random v."""
    probes = torch.randn(y.shape[1], PROBES, dtype=torch.float64, device=y.device)
    through = torch.zeros(w.shape[1], PROBES, dtype=torch.float64, device=y.device)
    for rows, part in zip(w.split(CHUNK), probes.split(CHUNK), strict=True):
        through += rows.double().t() @ part
    shift = b.double() @ probes
    found = torch.cat([rows.double() @ probes for rows in y.split(CHUNK)])
    expected = torch.cat([rows.double() @ through for rows in x.split(CHUNK)]) + shift
    return float(torch.linalg.norm(found - expected) / torch.linalg.norm(expected))


def _row_sum(like: torch.Tensor, part: Callable[[slice], torch.Tensor]) -> tuple[torch.Tensor, float]:
    """The sum over all rows in float64, and its scale: the norm of all that is added, or of the sum if that is larger.

    Of random terms the sum is about as large as that norm, but may come out near zero; rounding never does.
    """
    total, squares = torch.zeros(like.shape[1], dtype=torch.float64, device=like.device), 0.0
    for start in range(0, len(like), CHUNK):
        terms = part(slice(start, start + CHUNK))
        total += terms.sum(0)
        squares += float(terms.square().sum())
    return total, max(math.sqrt(squares), float(torch.linalg.norm(total)))


def _vector_error(found: torch.Tensor, expected: tuple[torch.Tensor, float]) -> float:
    total, scale = expected
    return float(torch.linalg.norm(found.double() - total)) / scale if scale else math.nan


# ---- whole numbers: does the product use all of its multiplications? ----


def whole_numbers(rows: int, columns: int, terms: int, device: str) -> torch.Tensor:
    """A matrix of the two largest neighbouring whole numbers whose products, summed `terms` times, stay below 2^24.

    Float32 holds every whole number up to 2^24. So a product of such matrices is exact in any order of summation, if
    each term is one product. Strassen's form (and Winograd's) multiplies sums of quadrants: with quadrants whose signs
    agree these are twice as large, their products exceed 2^24, and odd ones are rounded.
    """
    largest = math.isqrt((2**24 - 1) // terms)
    return largest - torch.randint(0, 2, (rows, columns), device=device).float()


def signed(matrix: torch.Tensor, signs: Sequence[int]) -> torch.Tensor:
    """The matrix with a sign for each quadrant: upper left, upper right, lower left, lower right."""
    copy, (top, left) = matrix.clone(), (matrix.shape[0] // 2, matrix.shape[1] // 2)
    quadrants = (copy[:top, :left], copy[:top, left:], copy[top:, :left], copy[top:, left:])
    for quadrant, sign in zip(quadrants, signs, strict=True):
        quadrant.mul_(sign)
    return copy


def inexact_share(product: Product, x: torch.Tensor, w: torch.Tensor) -> float:
    """The largest share of inexact entries of `product(x, w) = x wᵀ`, over all pairs of signs; on sampled rows.

    A classical product of `whole_numbers` gives 0.0 whatever its order; a product by Strassen's or Winograd's form
    does not, since for some pair of signs the quadrants that it adds agree on both sides.
    """
    chosen = torch.randperm(x.shape[0], device=x.device)[:EXACT_ROWS]
    shares = []
    for signs_x in SIGNS:
        left = signed(x, signs_x)
        for signs_w in SIGNS:
            right = signed(w, signs_w)
            expected = left[chosen].double() @ right.double().t()
            shares.append(float((product(left, right)[chosen].double() != expected).double().mean()))
    return worst(shares)
