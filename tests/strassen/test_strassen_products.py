"""Products of many blocks: what cuBLAS is asked for, every type by torch, what is refused."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from played_blas import PlayedBlas, played

from brrr.core.errors import UnavailableError
from brrr.gpu.launching import fastest
from brrr.strassen.block_products import product_step
from brrr.strassen.implementations import INNERS


def operands(products: int, m: int, n: int, k: int, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(products, m, k), torch.randn((products, n, k) if transposed else (products, k, n))


def wanted_of(left: torch.Tensor, right: torch.Tensor, transposed: bool) -> torch.Tensor:
    return left.double() @ (right.double().mT if transposed else right.double())


def error(found: torch.Tensor, wanted: torch.Tensor, k: int = 0) -> float:
    """The relative error; with k, of sums of k normal numbers, whose size is not taken for less than is usual."""
    size = max(float(torch.linalg.norm(wanted)), (k * wanted.numel()) ** 0.5)
    return float(torch.linalg.norm(found.double() - wanted)) / size


def test_the_fastest_is_found_and_what_is_refused_is_passed_over() -> None:
    times = {"library": 1.0, "hardly faster": 0.985, "ours": 0.9, "slower than that": 0.97}
    asked: list[tuple[str, float]] = []

    def seconds(name: str, least: float) -> float:
        asked.append((name, least))
        if name not in times:
            raise UnavailableError(name)
        return times[name]

    assert fastest(["missing", *times], seconds, 0.98, (UnavailableError,)) == "ours"
    assert asked[:2] == [("missing", math.inf), ("library", math.inf)]
    assert [least for _, least in asked[2:]] == [0.98, 0.98, 0.9]
    assert fastest(["missing"], seconds, 0.98, (UnavailableError,)) is None
    with pytest.raises(UnavailableError):
        fastest(["missing"], seconds)


# --- cuBLAS -----------------------------------------------------------------------------------------------------------


class PlayedBatches(PlayedBlas):
    """The same of products that lie at a distance from each other."""

    def sgemm_strided_batched(self, *args: int) -> None:
        handle, ta, tb, m, n, k, one, a, lda, step_a, b, ldb, step_b, zero, c, ldc, step_c, count = args
        assert handle == 1 and tb == 0
        for p in range(count):
            at = (a + 4 * p * step_a, lda, b + 4 * p * step_b, ldb, zero, c + 4 * p * step_c, ldc)
            self._multiply(handle, ta, tb, m, n, k, one, *at)

    def gemm_strided_batched_ex(self, *args: int) -> None:
        *sizes, a, a_type, lda, step_a, b, b_type, ldb, step_b, zero, c, c_type, ldc, step_c, count, how, algorithm = (
            args
        )
        self.asked = (a_type, b_type, c_type, how, algorithm)
        if a_type == c_type == 0:
            rest = (a, lda, step_a, b, ldb, step_b, zero, c, ldc, step_c, count)
            self.sgemm_strided_batched(*sizes, *rest)


class OnGpu:
    """A CPU tensor that says it lies on a GPU, so that the played library is reached."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.device = tensor, SimpleNamespace(type="cuda", index=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def ask(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, **how: bool) -> PlayedBlas:
    with pytest.MonkeyPatch.context() as patch:
        blas, library = played(patch, PlayedBatches())
        blas.batched_product(*(OnGpu(each) for each in (left, right, out)), **how)()  # type: ignore[arg-type]
    return library


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("products", "m", "k", "n"), [(1, 1, 1, 1), (3, 2, 3, 5), (7, 16, 7, 4), (2, 5, 64, 33)])
def test_cublas_is_asked_by_columns(products: int, m: int, k: int, n: int, transposed: bool, tf32: bool) -> None:
    left, right = operands(products, m, n, k, transposed)
    out = torch.full((products, m, n), math.nan)
    library = ask(left, right, out, right_transposed=transposed, tf32=tf32)
    torch.testing.assert_close(out, torch.bmm(left, right.mT if transposed else right), rtol=1e-5, atol=1e-5)
    assert library.asked == ((0, 0, 0, 77, -1) if tf32 else ()), "true float32 must not go through TF32"


@pytest.mark.parametrize(("dtype", "into", "codes"), [
    (torch.bfloat16, torch.bfloat16, (14, 14, 14, 68, -1)),
    (torch.bfloat16, torch.float32, (14, 14, 0, 68, -1)),
    (torch.float16, torch.float32, (2, 2, 0, 68, -1)),
])  # fmt: skip
def test_halves_sum_in_float32(dtype: torch.dtype, into: torch.dtype, codes: tuple[int, ...]) -> None:
    left, right = torch.ones(2, 2, 2, dtype=dtype), torch.ones(2, 2, 2, dtype=dtype)
    assert ask(left, right, torch.ones(2, 2, 2, dtype=into), right_transposed=True).asked == codes


def test_empty_products_of_cublas() -> None:
    out = torch.full((2, 3, 4), math.nan)
    ask(torch.ones(2, 3, 0), torch.ones(2, 0, 4), out, right_transposed=False)
    assert (out == 0).all()
    ask(torch.ones(0, 3, 5), torch.ones(0, 5, 4), torch.ones(0, 3, 4), right_transposed=False)


# --- Asked for by name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dtype", "into", "worst"), [
    (torch.float64, torch.float64, 1e-14),
    (torch.float32, torch.float32, 1e-6),
    (torch.float16, torch.float16, 1e-3),
    (torch.bfloat16, torch.bfloat16, 8e-3),
    (torch.bfloat16, torch.float32, 1e-6),
    (torch.float16, torch.float32, 1e-6),
])  # fmt: skip
def test_torch_multiplies_every_type(dtype: torch.dtype, into: torch.dtype, worst: float, transposed: bool) -> None:
    left, right = (each.to(dtype) for each in operands(7, 9, 24, 16, transposed))
    out = torch.full((7, 9, 24), math.nan, dtype=into)
    product_step(INNERS["sgemm"], left, right, out, right_transposed=transposed)()
    assert error(out, wanted_of(left, right, transposed)) < worst
