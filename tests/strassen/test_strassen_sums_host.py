"""strassen_sums.cu itself, run thread by thread on the CPU: right numbers, and no access beyond any tensor's memory."""

import ctypes
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hosted import hosted, needs_gxx

from brrr.core.files import PACKAGE
from brrr.gpu.nvrtc import source_text
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.passes.launch import LETTERS, SOURCE, Tuning, arguments_of, edge_of, text_of, tuning_of
from brrr.strassen.passes.sums import Work, assembled_work, factors_work, run_in_torch
from tests import strassen_sums_calls as calls

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
pytestmark = needs_gxx

EACH = pytest.mark.parametrize(
    ("level", "dtype"), [*((level, F32) for level in range(4)), (1, F16), (2, BF16)], ids=str
)
"""Each job is compiled: every level, and every type at one of them."""
SHAPES = [(1, 1), (2, 3), (5, 8), (16, 16), (17, 33), (64, 128), (40, 200), (3, 70)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sums")


class Region(ctypes.Structure):
    """Memory that the kernel may touch."""

    _fields_ = (("start", ctypes.c_size_t), ("end", ctypes.c_size_t))


def compiled(work: Work, tuning: Tuning, folder: Path) -> Any:
    """The very text that the GPU gets, compiled for the CPU; each access goes by the list of what may be touched."""
    text = text_of(work, tuning) + source_text(SOURCE)
    name = f"sums{abs(hash(text))}"
    library = folder / f"{name}.so"
    (folder / f"{name}.cu").write_text(text, encoding="utf-8")
    run = hosted("strassen_sums_host.cpp", library, f'-DSOURCE="{folder / f"{name}.cu"}"').run_sums
    run.restype = ctypes.c_longlong
    return run


def on_host(work: Work, folder: Path, tuning: Tuning | None = None) -> None:
    """One launch as `strassen_launch.prepared` makes it, all its threads in turn."""
    chosen = tuning or tuning_of(work)
    blocks, arguments = arguments_of(work, chosen)
    run = compiled(work, chosen, folder)
    kinds = [ctypes.c_void_p] * 6 + [ctypes.c_int] * 2 + [ctypes.c_longlong] * 5
    given = [kind(value) for kind, value in zip(kinds, arguments, strict=True)]
    regions = [region_of(each) for each in work.tensors if each is not None and each.numel()]
    outside = run(*given, ctypes.c_uint(blocks), (Region * len(regions))(*regions), len(regions))
    assert outside == 0, f"{outside} accesses beyond the memory, or not aligned"


def region_of(tensor: torch.Tensor) -> Region:
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return Region(tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size())


def compared(work: Work, folder: Path, tuning: Tuning | None = None) -> None:
    """What the kernel writes is what torch's operators write, bit by bit."""
    written = {name: getattr(work, name) for name in ("matrix", "high", "low") if getattr(work, name) is not None}
    for each in written.values():
        each.fill_(math.nan)
    on_host(work, folder, tuning)
    kernels = {name: each.clone() for name, each in written.items()}
    run_in_torch(work)
    for name, each in written.items():
        assert torch.equal(kernels[name], each), f"{name}: {(kernels[name] != each).sum()} differ of {each.numel()}"


def laid_out(rows: int, columns: int, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Random numbers in one of several layouts."""
    if layout == "transposed":
        return torch.randn(columns, rows).to(dtype).t()
    if layout == "part":
        return torch.randn(rows + 2, columns + 3).to(dtype)[1:-1, 2:-1]
    if layout == "every other":
        return torch.randn(2 * rows, 2 * columns).to(dtype)[::2, ::2]
    return torch.randn(rows, columns).to(dtype)


def tensors_for(level: int, shape: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(products_shape(*shape, level)).to(dtype), torch.randn(shape[1]).to(dtype)


@EACH
def test_pre_add(level: int, dtype: torch.dtype, folder: Path) -> None:
    for number, (rows, columns) in enumerate(SHAPES):
        form = ("strassen", "winograd")[number % 2]
        for side in ("left", "right", "transposed"):
            x = laid_out(rows, columns, dtype, ("plain", "transposed", "part", "every other")[number // 2])
            out = torch.empty(buffer_shape(rows, columns, side, level), dtype=dtype)
            compared(factors_work(x, side, form, out, level=level), folder)


@EACH
def test_post_add(level: int, dtype: torch.dtype, folder: Path) -> None:
    for number, shape in enumerate(SHAPES):
        form = ("strassen", "winograd")[number % 2]
        products, bias = tensors_for(level, shape, F32 if number % 3 else dtype)
        out = laid_out(*shape, dtype, ("plain", "transposed", "part", "every other")[number // 2])
        given = bias if number % 2 else None
        compared(assembled_work(products, form, level, shape, given, number % 4 > 1, out), folder)


@pytest.mark.parametrize(("level", "dtype"), [(1, BF16), (2, F32), (3, BF16)], ids=str)
def test_step(level: int, dtype: torch.dtype, folder: Path) -> None:
    for number, shape in enumerate(SHAPES):
        products, bias = tensors_for(level, shape, dtype)
        keep = laid_out(*shape, dtype, ("plain", "part")[number % 2]) if number % 3 else None
        compared(
            calls.step_work(products, "strassen", level, shape, next_form="winograd", bias=bias, keep=keep), folder
        )


@pytest.mark.parametrize("level", [1, 2, 3])
def test_split(level: int, folder: Path) -> None:
    for rows, columns in SHAPES:
        x = torch.randn(rows, columns) * torch.logspace(-6, 6, rows)[:, None]
        made = calls.split_pre_add(x, "transposed", "winograd", level)
        out = calls.split_buffers(x, "right", level)
        work = split_work(x, level, made.exponents[0].clone(), out)
        compared(work, folder)
        back = torch.ldexp(out.high.double() + out.low.double(), made.exponents[:, :, None])
        wanted = calls.pre_add(x, "right", "winograd", level, transposed=True).double()
        unit = torch.exp2(made.exponents[:, :, None].double())
        # 22 bits of each number, or half of the smallest float16 there is
        assert bool(((back - wanted).abs() <= 2.0**-22 * wanted.abs() + 2.0**-25 * unit).all())
        assert bool((out.high.abs() <= 2**15).all())


def split_work(x: torch.Tensor, level: int, exponents: torch.Tensor, out: Any) -> Work:
    return factors_work(x, "transposed", "winograd", out.high, level=level, low=out.low, exponents=exponents)


@pytest.mark.parametrize("vector", [2, 4, 8])
@pytest.mark.parametrize("rolled", [False, True])
def test_every_cut_of_the_work(vector: int, rolled: bool, folder: Path) -> None:
    level, shape = 2, (21, 44)
    for dtype in (F32, BF16):
        products, bias = tensors_for(level, shape, dtype)
        keep, out = torch.empty(shape, dtype=dtype), torch.empty(buffer_shape(*shape, "left", level), dtype=dtype)
        work = assembled_work(products, "strassen", level, shape, bias, True, keep)
        cut = Tuning(vector, threads=32, ahead=2 * rolled, rolled=rolled)
        compared(replace(work, spread="winograd", high=out), folder, cut)


def test_a_nan_stays_one_and_spreads_to_where_it_is_summed(folder: Path) -> None:
    products = torch.zeros(products_shape(4, 16, 1))
    products[2, 0, 3] = math.nan  # M3 is in C12 and C22
    y = torch.empty(4, 16)
    on_host(assembled_work(products, "strassen", 1, (4, 16), None, True, y), folder)
    assert y.isnan().nonzero().tolist() == [[0, 11], [2, 11]]


def test_an_access_beyond_the_memory_is_found_out(folder: Path) -> None:
    x, out = torch.randn(5, 7), torch.empty(buffer_shape(5, 7, "left", 1))
    work = factors_work(x, "left", "strassen", out, level=1)
    with pytest.raises(AssertionError, match="beyond the memory"):
        on_host(replace(work, source=x[:4, :6], shape=(5, 7)), folder)


def test_arguments_are_of_the_kernels_types() -> None:
    text = (PACKAGE / SOURCE).read_text(encoding="utf-8")
    found = text[text.index("void brrr_strassen_sums(") :]
    types = found[found.index("(") + 1 : found.index(")")].split(",")
    assert "".join("P" if "*" in each else "q" if "long long" in each else "i" for each in types) == LETTERS


def test_words_only_where_they_fit() -> None:
    room, out = torch.empty(65 * 65 + 8), torch.empty(7, 32, 32)
    start = -room.data_ptr() // 4 % 4

    def edge(rows: int, columns: int, stride: int, at: int = 0) -> int:
        x = room[start + at :].as_strided((rows, columns), (stride, 1))
        return edge_of(factors_work(x, "left", None, out, level=1), 4)

    assert (edge(64, 64, 64), edge(63, 60, 64)) == (0, 1)
    assert edge(64, 64, 64, at=1) == edge(64, 64, 65) == edge(64, 62, 64) == 2
    work = factors_work(room[: 3 * 16].view(6, 8), "left", None, torch.empty(7, 3, 8), level=1)
    assert arguments_of(work, Tuning(8, threads=32))[0] == 1
