"""cuBLAS played on the CPU: it multiplies what the addresses that it is given say."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

from brrr.gpu import cublas


class PlayedBlas:
    """cuBLAS's words on CPU memory: column-major matrices, by their addresses."""

    Operation = SimpleNamespace(N=0, T=1)
    ComputeType = SimpleNamespace(COMPUTE_32F=68, COMPUTE_32F_FAST_TF32=77)
    GemmAlgo = SimpleNamespace(DEFAULT=-1)

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.asked: tuple[int, ...] = ()

    def sgemm(self, *args: int) -> None:
        self.calls.append("sgemm")
        self._multiply(*args)

    def gemm_ex(self, handle: int, ta: int, tb: int, m: int, n: int, k: int, one: int, *rest: int) -> None:
        self.calls.append("gemm_ex")
        a, a_type, lda, b, b_type, ldb, zero, c, c_type, ldc, how, algorithm = rest
        self.asked = (a_type, b_type, c_type, how, algorithm)
        if a_type == 0:
            self._multiply(handle, ta, tb, m, n, k, one, a, lda, b, ldb, zero, c, ldc)

    def _multiply(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, one: int, a: int, lda: int, b: int, ldb: int,
        zero: int, c: int, ldc: int,
    ) -> None:  # fmt: skip
        assert ctypes.c_float.from_address(one).value == 1 and ctypes.c_float.from_address(zero).value == 0
        left = columns(a, lda, m if ta else k)
        right = columns(b, ldb, k if tb else n)
        product = (left.t() if ta else left) @ (right.t() if tb else right)
        columns(c, ldc, n).copy_(product)


def columns(address: int, leading: int, count: int) -> torch.Tensor:
    """The column-major (leading, count) matrix at an address, in place."""
    memory = (ctypes.c_float * (leading * count)).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32).view(count, leading).t()


def played(monkeypatch: pytest.MonkeyPatch, library: PlayedBlas | None = None) -> tuple[cublas.Blas, PlayedBlas]:
    monkeypatch.setattr(cublas, "check_product", lambda *_: None)
    blas, library = object.__new__(cublas.Blas), library or PlayedBlas()
    blas._cublas, blas._handle, blas.device_index = library, 1, 0  # type: ignore[assignment]
    blas._scales = ctypes.c_float(1.0), ctypes.c_float(0.0)
    return blas, library
