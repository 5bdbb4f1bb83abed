"""The sums of blocks on a real GPU, by CUDA C++ against torch's operators."""

import pytest
import torch

from brrr.strassen.algebra.blocks import products_shape
from tests import strassen_sums_calls as calls

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SHAPES = [(1, 1), (17, 33), (64, 128), (255, 511), (1000, 1024)]


def unlike(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """||mine - theirs|| / ||theirs||; a NaN is unlike anything."""
    scale = float(theirs.double().norm()) or 1.0
    return float((mine.double() - theirs.double()).norm()) / scale


def allowed(dtype: torch.dtype) -> float:
    """Sums are made in one order in float32, and rounded once."""
    return 0.0 if dtype == F32 else 1e-3 if dtype == F16 else 8e-3


@pytest.mark.parametrize(
    ("level", "dtype"), [(level, dtype) for level in range(4) for dtype in (F32, F16, BF16)], ids=str
)
def test_all_of_them(level: int, dtype: torch.dtype) -> None:
    for number, (rows, columns) in enumerate(SHAPES):
        form = ("strassen", "winograd")[number % 2]
        x = torch.randn(rows, columns, device="cuda").to(dtype)
        other = torch.randn(columns, rows, device="cuda").to(dtype).t()
        for each, side, turned in ((x, "left", False), (other, "right", False), (x[:, 1:], "right", True)):
            if each.numel():
                made = calls.pre_add(each, side, form, level, transposed=turned, kernels="cuda")
                wanted = calls.pre_add(each, side, form, level, transposed=turned, kernels="torch")
                assert unlike(made, wanted) <= allowed(dtype)
        products = torch.randn(products_shape(rows, columns, level), device="cuda").to(dtype)
        bias = torch.randn(columns, device="cuda").to(dtype)
        made, wanted = (
            calls.post_add(products, form, level, (rows, columns), bias=bias, relu=True, kernels=each)
            for each in ("cuda", "torch")
        )
        assert unlike(made, wanted) <= allowed(dtype)
        if not level:
            continue
        keeps = [torch.empty(rows, columns, dtype=dtype, device="cuda") for _ in range(2)]
        made, wanted = (
            calls.step(products, form, level, (rows, columns), bias=bias, keep=keep, kernels=each)
            for each, keep in zip(("cuda", "torch"), keeps, strict=True)
        )
        assert unlike(keeps[0], keeps[1]) <= allowed(dtype) and unlike(made, wanted) <= 2 * allowed(dtype)


def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("needs 40 GiB of GPU memory")
    x = torch.zeros(2**16 + 3, 2**15 + 16, dtype=BF16, device="cuda")
    x[-1, -8:] = 1.0
    out = calls.pre_add(x, "left", "strassen", 1, kernels="cuda")
    # The ones are in A22, and so in M1, M2, M4 and, taken off, in M7.
    row, last = x.shape[0] - out.shape[1] - 1, x.shape[1] - out.shape[2]
    for product, sign in ((0, 1), (1, 1), (3, 1), (6, -1)):
        assert out[product, row, last - 8 : last].eq(sign).all()
    assert int(out.count_nonzero()) == 4 * 8
    y = calls.post_add(out, "strassen", 1, (x.shape[0], x.shape[1]), kernels="cuda")
    assert y[-1, last - 8 : last].eq(2.0).all(), "C21 = M2 + M4"
    assert y[row, last - 8 : last].eq(1.0).all(), "C11 = M1 + M4 - M5 + M7"
    assert int(y.count_nonzero()) == 2 * 8


@pytest.mark.parametrize("shape", [(1, 1), (300, 1030), (513, 64), (65, 1)])
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("form", ["strassen", "winograd"])
def test_exponents_by_one_kernel_are_torchs(shape: tuple[int, int], level: int, form: str) -> None:
    for x in (torch.randn(shape, device="cuda"), torch.randn(shape[0], shape[1] + 3, device="cuda")[:, : shape[1]]):
        x *= torch.exp2(torch.randint(-60, 60, (shape[0], 1), device="cuda").float())
        found = calls.split_pre_add(x, "left", form, level).exponents[0]
        assert torch.equal(found, calls.exponents_in_torch(x, "left", form, level))
