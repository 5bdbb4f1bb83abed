"""Products of many blocks: CUDA's kernel emulated on the CPU, Triton's interpreted, what cuBLAS is asked for."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hosted import hosted, needs_gxx

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.files import PACKAGE
from brrr.gpu import cublas
from brrr.gpu.launching import fastest
from brrr.strassen.gemm import products as fastest_product
from brrr.strassen.gemm import sgemm
from brrr.strassen.gemm.products import batched, prepared_batched
from brrr.strassen.gemm.sgemm import TILINGS, Tiling
from tests.interpreter import interpreted_cases

KERNELS = PACKAGE / "strassen/gemm"


def operands(products: int, m: int, n: int, k: int, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(products, m, k), torch.randn((products, n, k) if transposed else (products, k, n))


def wanted_of(left: torch.Tensor, right: torch.Tensor, transposed: bool) -> torch.Tensor:
    return left.double() @ (right.double().mT if transposed else right.double())


def error(found: torch.Tensor, wanted: torch.Tensor, k: int = 0) -> float:
    """The relative error; with k, of sums of k normal numbers, whose size is not taken for less than is usual."""
    size = max(float(torch.linalg.norm(wanted)), (k * wanted.numel()) ** 0.5)
    return float(torch.linalg.norm(found.double() - wanted)) / size


# --- The CUDA kernel, on the CPU --------------------------------------------------------------------------------------

ODD = (
    Tiling(64, 64, 8, across=16, stages=2, bursts=1),
    Tiling(64, 64, 8, across=8, stages=3),
    Tiling(128, 64, 8, across=8, stages=4, fences=0),
    Tiling(64, 256, 16, stages=3, bursts=8),
)
CASES = [
    # products, m, n, k, right transposed, quads out, blocks
    (2, 70, 68, 24, True, True, 1),
    (2, 131, 260, 33, False, True, 2),
    (1, 200, 129, 1, True, False, 3),
    (3, 5, 7, 13, False, False, 1),
    (5, 1, 1, 40, True, False, 4),
]
PAIRS = [
    *(
        (tiling, CASES[(number + more) % len(CASES)])
        for number, tiling in enumerate((*TILINGS, *ODD))
        for more in (0, 2)
    ),
    *((ODD[0], case) for case in CASES[1:]),
]
"""Each tiling in two cases, and one of them in all: each pair is compiled."""


def compiled(folder: Path, tiling: Tiling, transposed: bool, quads: bool, tail: bool, kernels: Path = KERNELS) -> Any:
    """The kernel as plain C++; `kernels` is the folder of its source."""
    defines = tiling.defines(transposed, quads, tail)
    return hosted("sgemm_host.cpp", folder / f"{secrets.token_hex(8)}.so", f"-I{kernels}", *defines)


def run(library: Any, left: torch.Tensor, right: torch.Tensor, n: int, blocks: int, group: int = 2) -> torch.Tensor:
    """What the kernel writes; what lies around it must stay as it was."""
    products, m, k = left.shape
    margin = 64
    memory = torch.full((products * m * n + 2 * margin,), math.nan)
    out = memory[margin:-margin]
    addresses = [ctypes.c_void_p(each.data_ptr()) for each in (left, right, out)]
    verdict = library.sgemm_host_run(*addresses, products, m, n, k, group, blocks, secrets.randbelow(2**31))
    assert verdict == 0, "1: read beyond an operand, 2: wrote beyond shared memory, 3: a barrier that nobody opens"
    assert memory[:margin].isnan().all() and memory[-margin:].isnan().all(), "wrote beyond the result"
    return out.view(products, m, n)


@needs_gxx
@pytest.mark.parametrize(("tiling", "case"), PAIRS, ids=str)
def test_the_kernel_is_right(tmp_path: Path, tiling: Tiling, case: tuple[int, int, int, int, bool, bool, int]) -> None:
    products, m, n, k, transposed, quads, blocks = case
    library = compiled(tmp_path, tiling, transposed, quads, tail=k % tiling.depth != 0)
    assert library.sgemm_shared_bytes() == tiling.shared_bytes and library.sgemm_threads() == tiling.threads
    left, right = operands(products, m, n, k, transposed)
    found = run(library, left, right, n, min(blocks, sgemm.tiles_of(products, m, n, tiling)))
    assert error(found, wanted_of(left, right, transposed), k) < 5e-7


@needs_gxx
def test_a_nan_spoils_its_own_row_and_column_only(tmp_path: Path) -> None:
    library = compiled(tmp_path, ODD[0], True, True, tail=True)
    left, right = operands(2, 66, 68, 19, True)
    left[0, 65, 3], right[1, 67, 18] = math.nan, math.inf
    found, wanted = run(library, left, right, 68, 2), torch.bmm(left, right.mT)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert int(found.isnan().sum()) == 68


MUTATIONS = {
    "waits for one copy too few": ("wait_for_copies<STAGES - 2>()", "wait_for_copies<STAGES - 1>()"),
    "does not meet the other threads": ("__syncthreads();", ";"),
    "fills the stage that is being read": ("filling = STAGES - 1;", "filling = 0;"),
    "does not exchange neighbours": ("(across ^ 1)", "across"),
    "reads rows beyond the end": ("row < last ? row : last", "row"),
}


@needs_gxx
@pytest.mark.parametrize("change", MUTATIONS.values(), ids=list(MUTATIONS))
def test_the_emulation_finds_a_mistake(tmp_path: Path, change: tuple[str, str]) -> None:
    source = (PACKAGE / "strassen/gemm/sgemm.cu").read_text(encoding="utf-8")
    assert change[0] in source
    (tmp_path / "sgemm.cu").write_text(source.replace(*change), encoding="utf-8")
    tiling = dataclasses.replace(ODD[0], stages=3)
    library = compiled(tmp_path, tiling, True, True, tail=False, kernels=tmp_path)
    left, right = operands(1, 70, 72, 64, True)
    try:
        found = run(library, left, right, 72, 1)
    except AssertionError:
        return
    assert not error(found, wanted_of(left, right, True)) < 5e-7


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


def test_auto_tries_a_shape_once_and_never_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    fastest_product.forget()
    left, right = operands(2, 3, 4, 5, True)
    ran: list[str] = []
    monkeypatch.setattr(fastest_product, "_library", lambda *_: lambda: ran.append("library"))
    monkeypatch.setattr(fastest_product, "_ours", lambda *_: {True: lambda: ran.append("ours")})
    monkeypatch.setattr(fastest_product, "seconds_of", lambda run, index: 2.0 - (run(), ran[-1] == "ours")[1])
    monkeypatch.setattr(sgemm, "prepared", lambda *_, **__: lambda: ran.append("again"))
    monkeypatch.setattr("brrr.gpu.cublas_lt.capturing", lambda: captured)
    tensors = SimpleNamespace(device=SimpleNamespace(index=0), shape=left.shape, data_ptr=lambda: 0)
    arguments: Any = (tensors, right, torch.empty(2, 3, 4), True)
    captured = True
    fastest_product.prepared_fastest(*arguments)()
    captured = False
    fastest_product.prepared_fastest(*arguments)()
    captured = True
    fastest_product.prepared_fastest(*arguments)()
    assert ran == ["library", "library", "ours", "ours", "again"]
    fastest_product.forget()


def test_auto_is_torch_on_the_cpu() -> None:
    left, right = operands(2, 3, 4, 5, True)
    out = batched(left, right, torch.empty(2, 3, 4), right_transposed=True, how="auto")
    assert error(out, wanted_of(left, right, True)) < 1e-6


def test_tilings_fit_and_the_choice_follows_the_waves() -> None:
    for tiling in TILINGS:
        assert tiling.shared_bytes * tiling.blocks <= 227 * 1024, "of an H100's multiprocessor"
        assert tiling.threads * tiling.blocks * 255 <= 65536, "registers"
    large = sgemm.cycles(49, 2048, 2048, 2048, TILINGS[0], 132)
    assert large == pytest.approx(49 * 2048**3 / (128 * 132) / TILINGS[0].share, rel=0.05)
    assert sgemm.choose(49, 2048, 2048, 2048, 132) == TILINGS[0]
    assert sgemm.choose(1, 512, 512, 4096, 132) != TILINGS[0], "8 tiles would leave 124 multiprocessors idle"


# --- Triton's, in the interpreter -------------------------------------------------------------------------------------


def test_the_triton_kernel_in_the_interpreter() -> None:
    found = interpreted_cases("strassen_products_cases.py")
    assert found["shapes"] < 5e-7 and found["tilings"] < 5e-7
    assert all(found["special"].values()), found["special"]


# --- cuBLAS -----------------------------------------------------------------------------------------------------------


class PlayedBlas:
    """cuBLAS's words on CPU memory: column-major matrices, by their addresses and the distance between them."""

    Operation = SimpleNamespace(N=0, T=1)
    ComputeType = SimpleNamespace(COMPUTE_32F=68, COMPUTE_32F_FAST_TF32=77)
    GemmAlgo = SimpleNamespace(DEFAULT=-1)

    def __init__(self) -> None:
        self.asked: tuple[int, ...] = ()

    def sgemm_strided_batched(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, one: int, a: int, lda: int, step_a: int,
        b: int, ldb: int, step_b: int, zero: int, c: int, ldc: int, step_c: int, count: int,
    ) -> None:  # fmt: skip
        assert handle == 1 and tb == 0
        assert ctypes.c_float.from_address(one).value == 1 and ctypes.c_float.from_address(zero).value == 0
        for p in range(count):
            left = columns(a + 4 * p * step_a, lda, m if ta else k)
            product = (left.t() if ta else left) @ columns(b + 4 * p * step_b, ldb, n)
            columns(c + 4 * p * step_c, ldc, n).copy_(product)

    def gemm_strided_batched_ex(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, one: int, a: int, a_type: int, lda: int,
        step_a: int, b: int, b_type: int, ldb: int, step_b: int, zero: int, c: int, c_type: int, ldc: int,
        step_c: int, count: int, how: int, algorithm: int,
    ) -> None:  # fmt: skip
        self.asked = (a_type, b_type, c_type, how, algorithm)
        if a_type == c_type == 0:
            args = (a, lda, step_a, b, ldb, step_b, zero, c, ldc, step_c, count)
            self.sgemm_strided_batched(handle, ta, tb, m, n, k, one, *args)


def columns(address: int, leading: int, count: int) -> torch.Tensor:
    """The column-major (leading, count) matrix at an address, in place."""
    memory = (ctypes.c_float * (leading * count)).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32).view(count, leading).t()


def played() -> tuple[cublas.Blas, PlayedBlas]:
    blas, library = object.__new__(cublas.Blas), PlayedBlas()
    blas._cublas, blas._handle, blas.device_index = library, 1, 0
    blas._scales = ctypes.c_float(1.0), ctypes.c_float(0.0)
    return blas, library


class OnGpu:
    """A CPU tensor that says it lies on a GPU, so that the played library is reached."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.device = tensor, SimpleNamespace(type="cuda", index=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def ask(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, **how: bool) -> PlayedBlas:
    blas, library = played()
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
    assert batched(left, right, out, right_transposed=transposed) is out
    assert error(out, wanted_of(left, right, transposed)) < worst


def test_prepared_reads_its_operands_when_called() -> None:
    left, right = operands(2, 3, 4, 5, False)
    out = torch.empty(2, 3, 4)
    launch = prepared_batched(left, right, out, right_transposed=False)
    left.zero_()
    launch()
    assert (out == 0).all()


@pytest.mark.parametrize("how", ["cublas", "cuda", "triton"])
def test_on_the_cpu_the_others_say_what_they_need(how: Any) -> None:
    left, right = operands(2, 3, 4, 5, True)
    with pytest.raises(UnavailableError, match="on the CPU"):
        batched(left, right, torch.empty(2, 3, 4), right_transposed=True, how=how)


ONES = torch.ones(2, 3, 5), torch.ones(2, 4, 5), torch.ones(2, 3, 4)


@pytest.mark.parametrize(
    ("tensors", "options", "message"),
    [
        (ONES, {"how": "fast"}, "one of cublas, torch"),
        (ONES, {"right_transposed": False}, "right is"),
        ((ONES[0], ONES[1], ONES[2][:1]), {}, "by those of left and right"),
        ((ONES[0][:, :, ::2], ONES[1], ONES[2]), {}, "contiguous"),
        ((ONES[0][0], ONES[1], ONES[2]), {}, "3 axes"),
        ((ONES[0], ONES[1].double(), ONES[2]), {}, "right is"),
        ((ONES[0], ONES[1], ONES[2].half()), {}, "out is"),
        ((ONES[0].half(), ONES[1].half(), ONES[2].bfloat16()), {}, "float16 or float32"),
        ((ONES[0].half(), ONES[1].half(), ONES[2]), {"how": "cuda"}, "true float32"),
        (ONES, {"how": "cuda", "tf32": True}, "true float32"),
        ((ONES[0].half(), ONES[1].half(), ONES[2]), {"tf32": True}, "TF32 is a way to multiply float32"),
        ((ONES[0].int(), ONES[1].int(), ONES[2].int()), {}, "float32, float16 or bfloat16"),
        ((torch.ones(2, 4, 4), ONES[1][:, :, :4].contiguous(), None), {}, "the memory of left or right"),
    ],
)
def test_what_is_refused(tensors: tuple[Any, Any, Any], options: dict[str, Any], message: str) -> None:
    left, right, out = tensors
    with pytest.raises(ArgumentError, match=message):
        batched(left, right, left if out is None else out, **{"right_transposed": True, **options})
