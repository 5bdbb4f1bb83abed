"""Kind and nasty inputs of a product, and the errors that are measured on them, against float64."""

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import BilinearForm
from brrr.strassen.algebra.reference import post_add, pre_add
from brrr_course.experiments.strassen_errors import HARD, INPUTS
from brrr_course.experiments.strassen_errors.scaling import Scaling

Pair = tuple[torch.Tensor, torch.Tensor]


def random_inputs(inputs: str, inner: int, size: int, seed: int | None = None) -> Pair:
    """A (size, inner) and B (inner, size) of a kind in INPUTS or in HARD, float32; without a seed always others."""
    if inputs not in (*INPUTS, *HARD):
        raise ArgumentError("random_inputs", "inputs", inputs, f"one of {', '.join((*INPUTS, *HARD))}")
    draw = torch.Generator()
    draw.manual_seed(seed) if seed is not None else draw.seed()
    return _spoilt(inputs, _drawn(inputs, (size, inner), draw), _drawn(inputs, (inner, size), draw), draw)


def _drawn(inputs: str, shape: tuple[int, int], draw: torch.Generator) -> torch.Tensor:
    """Uniform from 0 to 1 or from -1 to 1, whole from -8 to 8, else normal."""
    if inputs == "integer":
        return torch.randint(-8, 9, shape, generator=draw).float()
    if inputs in ("uniform", "symmetric"):
        low = -1.0 if inputs == "symmetric" else 0.0
        return low + (1 - low) * torch.rand(shape, generator=draw)
    return torch.randn(shape, generator=draw)


def _spoilt(inputs: str, a: torch.Tensor, b: torch.Tensor, draw: torch.Generator) -> Pair:
    """Numbers of very different size, where the kind of inputs has them."""
    size, inner = a.shape
    match inputs:
        case "badly scaled rows":  # blocks of very different size in one sum
            spread = torch.logspace(0, 20, size, base=2)
            return a * spread[:, None], b * spread.flip(0)
        case "badly scaled inside":  # products of one size from unlike factors
            spread = torch.logspace(0, 20, inner, base=2)
            return a * spread, b / spread[:, None]
        case "graded inside":
            spread = torch.logspace(-12, 12, inner)
            return a * spread, b / spread[:, None]
        case "masked":  # large numbers that meet rows of zeros
            a[:, ::8], b[::8] = -1e9, 0.0
        case "outlier channel":  # one large column that meets weights of zero
            a[:, inner // 2] *= 1e8
            b[inner // 2] = 0.0
        case "sparse":
            return torch.where(torch.rand(a.shape, generator=draw) < 0.01, a, 0.0), b
        case "uneven rows":
            return a * torch.logspace(0, 3, size)[torch.randperm(size, generator=draw), None], b
        case "contrary rows":  # half of A's rows are largest where B is smallest, the others not: no scaling helps both
            a[: size // 2, ::2] /= 2.0**30
            a[size // 2 :, 1::2] /= 2.0**30
            b[::2] *= 2.0**30
    return a, b


def scaled_product(
    a: torch.Tensor, b: torch.Tensor, form: BilinearForm, level: int, scaling: str | None
) -> torch.Tensor:
    """a @ b by sums from left to right, the inputs scaled before and the result scaled back where asked for."""
    if scaling is None:
        return summed_product(a, b, form, level)
    found = Scaling.of(a, b, scaling)
    return found.undo(summed_product(*found.apply(a, b), form, level))


def summed_product(a: torch.Tensor, b: torch.Tensor, form: str | BilinearForm, level: int) -> torch.Tensor:
    """a @ b by a form, every product's sums from left to right, as one thread of a GPU makes them."""
    left, right = pre_add(a, "left", form, level), pre_add(b, "right", form, level)
    total = left.new_zeros(left.shape[0], left.shape[1], right.shape[2])
    for j in range(left.shape[2]):
        total += left[:, :, j, None] * right[:, j, None, :]
    return post_add(total, form, level, (a.shape[0], b.shape[1]))


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """||found - wanted|| / ||wanted||, in float64; infinite where something should be 0."""
    away, size = (float(torch.linalg.norm(x)) for x in (found.double() - wanted, wanted))
    return away / size if size else (0.0 if away == 0 else float("inf"))


def row_error(found: torch.Tensor, wanted: torch.Tensor, columns: bool = True) -> float:
    """The largest relative error of a row or a column (or of rows alone), which a small row's error cannot hide in.

    >>> row_error(torch.tensor([[1e3, 1e3], [2.0, 1.0]]), torch.tensor([[1e3, 1e3], [1.0, 1.0]]))
    0.7...
    """
    away, size = (found.double() - wanted.double()).square(), wanted.double().square()
    tiny = torch.finfo(torch.float64).tiny
    parts = [(away.sum(d) / size.sum(d).clamp_min(tiny)).max() for d in ((0, 1) if columns else (1,))]
    return float(torch.stack(parts).max().sqrt())
