"""The pseudo-linear experiments and kernels on a real GPU; what is fast or slow is printed, not asserted."""

import pytest
import torch

from brrr.kernels.pseudo_linear import pseudo_linear
from brrr_course.experiments import experiment
from brrr_course.experiments import pseudo_linear as work
from brrr_course.experiments.checked import compile_now
from brrr_course.experiments.pseudo_linear import inexact_share, pseudo_error, whole_numbers

PSEUDO = experiment("pseudo_linear")
SHAPES = [(1, 1), (3, 7), (65, 67), (1000, 1031), (32768, 64), (33, 24576), (5, 100003), (1_000_003, 3), (2048, 4096)]
ALLOWED = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
@pytest.mark.parametrize(("batch", "width"), SHAPES)
def test_the_kernels_against_float64(batch: int, width: int, dtype: torch.dtype) -> None:
    x, g = (torch.randn(batch, width, device="cuda", dtype=dtype) for _ in range(2))
    w, b = (torch.randn(width, device="cuda", dtype=dtype) for _ in range(2))
    leaves = [each.requires_grad_() for each in (x, w, b)]
    y = pseudo_linear(*leaves)
    result = (y.detach(), *torch.autograd.grad(y, leaves, g))
    error = pseudo_error(x, w, b, g)(result)
    assert error <= ALLOWED[dtype], error


def test_the_same_input_gives_the_same_bits() -> None:
    x, g, w, b = (torch.randn(*shape, device="cuda") for shape in ((5000, 333), (5000, 333), (333,), (333,)))
    leaves = [each.requires_grad_() for each in (x, w, b)]
    first, *others = (torch.autograd.grad(pseudo_linear(*leaves), leaves, g) for _ in range(5))
    assert all(torch.equal(one, other) for again in others for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize(("batch", "width"), [(2**31 // 4096 + 3, 4096), (2**31 + 5, 1)])
def test_more_than_two_to_the_31_elements(batch: int, width: int) -> None:
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("needs 30 GB of GPU memory")
    x = torch.ones(batch, width, device="cuda", dtype=torch.bfloat16)
    x[-1] = 3
    w, b = torch.full((width,), 2.0, device="cuda"), torch.ones(width, device="cuda")
    leaves = [each.requires_grad_() for each in (x, w, b)]
    y = pseudo_linear(*leaves)
    assert bool((y[-1] == 7).all()) and bool((y[: batch // 2] == 3).all()) and bool((y[-1000:-1] == 3).all())
    dx, dw, db = torch.autograd.grad(y, leaves, torch.ones_like(y))
    assert bool((dx[-1] == 2).all()) and bool((dx[:1000] == 2).all())
    torch.testing.assert_close(dw, torch.full_like(dw, batch + 2.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(db, torch.full_like(db, float(batch)), rtol=1e-4, atol=0)


def test_a_width_after_another_is_compiled_and_not_run_eager() -> None:
    """torch runs eager without a word after eight compilations of one function; here the limit is raised."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()  # other tests have compiled these shapes already
    for width in range(32, 32 + 12 * 8, 8):
        inputs = work.PseudoInputs(width, 64, False, "cuda")
        layer = work.compiled(work.pseudo, inputs)
        before = counters["stats"]["unique_graphs"]
        compile_now(lambda layer=layer, inputs=inputs: layer(inputs.x, *inputs.parameters("pseudo")))  # type: ignore[misc]
        assert counters["stats"]["unique_graphs"] == before + 1, width


def test_products_of_whole_numbers_are_exact() -> None:
    x, w = (whole_numbers(rows, 4096, 4096, "cuda") for rows in (8192, 4096))
    share = inexact_share(torch.nn.functional.linear, x, w)
    print(f"inexact entries of cuBLAS's product: {share:.2%}")
    assert share == 0.0
