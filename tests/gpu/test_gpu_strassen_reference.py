"""The reference on a real GPU: exact for integers, the CPU's sums to the last bit, errors that grow as expected."""

import pytest
import torch

from brrr.strassen.accuracy import amplification
from brrr.strassen.algebra.blocks import products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.algebra.reference import post_add, pre_add, product
from brrr_course.lessons.scaling_by_powers import STEPS, RowScaling

BOTH = pytest.mark.parametrize("form", FORMS)
LEVELS = pytest.mark.parametrize("level", range(4))


@BOTH
@LEVELS
def test_products_of_integers_are_exact(form: str, level: int) -> None:
    a, b = (torch.randint(-(10**6), 10**6, shape, device="cuda") for shape in ((33, 70), (70, 21)))
    assert torch.equal(product(a, b, form, level).cpu(), a.cpu() @ b.cpu())


@BOTH
@LEVELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_the_cpus(form: str, level: int, dtype: torch.dtype) -> None:
    x = torch.randn(50, 77, device="cuda").to(dtype)
    for side in ("left", "right"):
        assert torch.equal(pre_add(x, side, form, level).cpu(), pre_add(x.cpu(), side, form, level))
    products = torch.randn(products_shape(50, 77, level), device="cuda").to(dtype)
    made = post_add(products, form, level, (50, 77), relu=True)
    assert torch.equal(made.cpu(), post_add(products.cpu(), form, level, (50, 77), relu=True))


@BOTH
def test_growth_of_the_librarys_products_from_level_1_to_3(form: str) -> None:
    """Below what it would be if shorter sums were no more exact; 15 % are for rounding in the additions."""
    assert not torch.backends.cuda.matmul.allow_tf32
    a, b = torch.randn(2, 2048, 2048, device="cuda")
    wanted = a.double() @ b.double()
    errors = [float((product(a, b, form, level).double() - wanted).norm()) for level in (1, 3)]
    assert errors[0] < errors[1] < 1.15 * errors[0] * amplification(form) ** 2


@pytest.mark.parametrize("way", STEPS)
def test_scaling_is_the_cpus(way: str) -> None:
    a, b = torch.randn(2, 40, 40, device="cuda") * torch.logspace(-12, 12, 40, device="cuda")
    here, there = RowScaling.of(a, b, way), RowScaling.of(a.cpu(), b.cpu(), way)
    for x, y in zip(here.apply(a, b), there.apply(a.cpu(), b.cpu()), strict=True):
        assert torch.equal(x.cpu(), y)
    assert torch.equal(here.undo(a).cpu(), there.undo(a.cpu()))
