"""Errors and their growth a level, measured on random inputs of several kinds, with sums in a known order.

>>> found = measure("strassen", "normal", inner=256, size=32, levels=1)
>>> len(found.errors), found.growth[0] > 1
(2, True)

The products here are summed from left to right, one rounding an addition and one a multiplication, so that what is seen
is the form's own growth and not a library's order of summing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import Form, form_of
from brrr.strassen.algebra.reference import prefix, suffix
from brrr.strassen.scaling import Scaling

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Growth:
    """Relative errors (Frobenius, against float64) at level 0, 1, ... of one form on one kind of input."""

    form: str
    inputs: str
    errors: tuple[float, ...]

    @property
    def growth(self) -> tuple[float, ...]:
        """Each level's error over that of the level before; infinite where that had none."""
        return tuple(b / a if a else float("inf") if b else 1.0 for a, b in pairwise(self.errors))

    def __str__(self) -> str:
        steps = ", ".join(f"{g:.2f}" for g in self.growth)
        return f"{self.form} on {self.inputs} inputs: error {self.errors[0]:.2e}, then times {steps}"


def measure(
    form: str | Form,
    inputs: str,
    *,
    inner: int = 4096,
    size: int = 128,
    levels: int = 3,
    scaling: str | None = None,
    seed: int | None = None,
) -> Growth:
    """Errors in float32 at levels 0 to `levels`, the result `size` x `size`, its sums `inner` long.

    inputs: one of INPUTS. scaling: a way of `Scaling.of`, or None. seed: None draws fresh numbers.
    """
    form = form_of(form, "measure")
    a, b = random_inputs(inputs, inner, size, seed)
    wanted = a.double() @ b.double()
    found = (scaled_product(a, b, form, level, scaling) for level in range(levels + 1))
    return Growth(form.name, inputs, tuple(relative_error(each, wanted) for each in found))


def random_inputs(inputs: str, inner: int, size: int, seed: int | None = None) -> Pair:
    """A (size, inner) and B (inner, size) of a kind in INPUTS, float32."""
    if inputs not in INPUTS:
        raise ArgumentError("random_inputs", "inputs", inputs, f"one of {', '.join(INPUTS)}")
    draw = torch.Generator()
    draw.manual_seed(seed) if seed is not None else draw.seed()
    return INPUTS[inputs](draw, inner, size)


def scaled_product(a: torch.Tensor, b: torch.Tensor, form: Form, level: int, scaling: str | None) -> torch.Tensor:
    """a @ b by sums from left to right, the inputs scaled before and the result scaled back where asked for."""
    if scaling is None:
        return summed_product(a, b, form, level)
    found = Scaling.of(a, b, scaling)
    return found.undo(summed_product(*found.apply(a, b), form, level))


def summed_product(a: torch.Tensor, b: torch.Tensor, form: str | Form, level: int) -> torch.Tensor:
    """a @ b by a form, every product's sums from left to right, as one thread of a GPU makes them."""
    left, right = prefix(a, "left", form, level), prefix(b, "right", form, level)
    total = left.new_zeros(left.shape[0], left.shape[1], right.shape[2])
    for j in range(left.shape[2]):
        total += left[:, :, j, None] * right[:, j, None, :]
    return suffix(total, form, level, (a.shape[0], b.shape[1]))


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """||found - wanted|| / ||wanted||, in float64; infinite where something should be 0."""
    away, size = (float(torch.linalg.norm(x)) for x in (found.double() - wanted, wanted))
    return away / size if size else (0.0 if away == 0 else float("inf"))


def row_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest relative error of a row or a column, which a small row's error cannot hide in.

    >>> row_error(torch.tensor([[1e3, 1e3], [2.0, 1.0]]), torch.tensor([[1e3, 1e3], [1.0, 1.0]]))
    0.7...
    """
    away = (found.double() - wanted.double()).square()
    size = wanted.double().square()
    parts = [(away.sum(d) / size.sum(d).clamp_min(torch.finfo(torch.float64).tiny)).max() for d in (0, 1)]
    return float(torch.stack(parts).max().sqrt())


def _normal(draw: torch.Generator, inner: int, size: int) -> Pair:
    return torch.randn(size, inner, generator=draw), torch.randn(inner, size, generator=draw)


def _uniform(draw: torch.Generator, inner: int, size: int) -> Pair:
    return torch.rand(size, inner, generator=draw), torch.rand(inner, size, generator=draw)


def _symmetric(draw: torch.Generator, inner: int, size: int) -> Pair:
    a, b = _uniform(draw, inner, size)
    return 2 * a - 1, 2 * b - 1


def _integer(draw: torch.Generator, inner: int, size: int) -> Pair:
    shapes = (size, inner), (inner, size)
    a, b = (torch.randint(-8, 9, shape, generator=draw).float() for shape in shapes)
    return a, b


def _rows(draw: torch.Generator, inner: int, size: int) -> Pair:
    """Rows of A and columns of B from 1 to 2^20: blocks of very different size in one sum."""
    a, b = _normal(draw, inner, size)
    spread = torch.logspace(0, 20, size, base=2)
    return a * spread[:, None], b * spread.flip(0)


def _inner(draw: torch.Generator, inner: int, size: int) -> Pair:
    """Columns of A from 1 to 2^20 and rows of B from 1 to 2^-20: products of one size from unlike factors."""
    a, b = _normal(draw, inner, size)
    spread = torch.logspace(0, 20, inner, base=2)
    return a * spread, b / spread[:, None]


INPUTS: Mapping[str, Callable[[torch.Generator, int, int], Pair]] = {
    "normal": _normal,
    "uniform": _uniform,
    "symmetric": _symmetric,
    "integer": _integer,
    "badly scaled rows": _rows,
    "badly scaled inside": _inner,
}
"""Kinds of inputs: normal; uniform from 0 to 1 and from -1 to 1; whole from -8 to 8; two that scaling helps."""
