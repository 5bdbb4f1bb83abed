"""`split_operands.cu` run thread by thread on the CPU: the reference's bits, no deadlock, counts at zero."""

import ctypes
import re
from pathlib import Path

import pytest
import torch
from hosted import by_nvcc, hosted, needs_gxx, needs_nvcc

from brrr.core.files import PACKAGE
from brrr.strassen.split import guard
from brrr.strassen.split.guard import SPREAD, lost_digits, noted
from brrr.strassen.split.operands_kernel import Operands, SplitSource, Terms, operand, operands, summed_rows
from brrr.strassen.split.split_steps import split_exponents
from tests import strassen_sums_calls as calls
from tests.strassen_split_calls import split

KERNELS = PACKAGE / "strassen/split"


def compiled(source: Path, folder: Path) -> ctypes.CDLL:
    return hosted("strassen_split_operands_host.cpp", folder / "split_operands.so", f"-I{source.parent}")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(PACKAGE / "strassen/split/split_operands.cu", tmp_path_factory.mktemp("split"))


def hard(rows: int, k: int) -> torch.Tensor:
    """Normal numbers, rows of very different size, some subnormal, one infinity, one NaN, a row of zeros."""
    x = torch.randn(rows, k) * torch.exp2(torch.randint(-140, 100, (rows, 1)).double()).float()
    if rows > 4:
        x[1, k // 2], x[2, 0], x[3] = float("inf"), float("nan"), 0.0
    return x


def room(x: torch.Tensor) -> Terms:
    """Terms full of rubbish, with some more behind them."""
    rows, width = x.shape[0], -(-x.shape[1] // 8) * 8
    spoilt = [torch.full((rows * width + 64,), 7.0).half()[: rows * width] for _ in range(2)]
    both = [each.view(1, rows, width) for each in spoilt]
    return Terms(both[0], both[1], torch.full((1, rows), 99, dtype=torch.int32))


def same(one: Terms, other: Terms) -> bool:
    terms = ((one.hi, other.hi), (one.lo, other.lo))
    bits = all(
        torch.equal(a.nan_to_num(3.0), b.nan_to_num(3.0)) and torch.equal(a.isnan(), b.isnan()) for a, b in terms
    )
    return bits and torch.equal(one.exponents, other.exponents)


def host_split(
    library: ctypes.CDLL, sources: list[SplitSource], blocks: int, seed: int = 0, hurried: bool = False
) -> tuple[int, bool]:
    """The emulation's verdict, run twice, and whether what it counts in is zero again."""
    argument, counts = operands(sources, blocks)
    assert isinstance(argument, Operands)
    for each in argument.each:
        each.lag = min(each.lag, each.deep) if hurried else each.lag  # the least that is right
    verdict = max(int(library.brrr_host_split(ctypes.byref(argument), blocks, seed + i)) for i in range(2))
    return verdict, counts is None or not counts.any()


def source(x: torch.Tensor, out: Terms, turned: bool) -> SplitSource:
    return SplitSource(x.mT.contiguous().mT if turned else x, out)


SHAPES = [(1, 1), (5, 3), (130, 200), (65, 1000), (70, 4100), (3, 9001), (64, 64), (200, 129)]


@needs_gxx
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_bit_by_bit_the_reference_s(kernel: ctypes.CDLL, shape: tuple[int, int], turned: bool) -> None:
    x = hard(*shape)
    expected, found = split(x, kernels=False), room(x)
    assert host_split(kernel, [source(x, found, turned)], 3) == (0, True)
    assert same(found, expected)
    assert bool((found.hi.view(-1).untyped_storage().size() // 2) >= found.hi.numel() + 64)
    for term in (found.hi, found.lo):
        behind = torch.empty(0, dtype=torch.float16).set_(term.untyped_storage())[term.numel() :]
        assert bool((behind == 7.0).all()), "it wrote behind the end"


@needs_gxx
@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True), (False, False)], ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_two_operands_in_one_launch(kernel: ctypes.CDLL, turned: tuple[bool, bool], blocks: int) -> None:
    given = hard(90, 300), hard(150, 300)
    found = [room(x) for x in given]
    sources = [source(x, out, each) for x, out, each in zip(given, found, turned, strict=True)]
    assert host_split(kernel, sources, blocks, blocks, hurried=blocks > 2) == (0, True)
    assert all(same(out, split(x, kernels=False)) for x, out in zip(given, found, strict=True))


@needs_gxx
@pytest.mark.parametrize(("rows", "k", "level"), [(1, 1, 1), (5, 300, 1), (13, 1030, 2), (16, 64, 3), (3, 2, 3)])
def test_the_exponents_of_rows_that_are_summed(kernel: ctypes.CDLL, rows: int, k: int, level: int) -> None:
    for x in (hard(rows, k), torch.randn(rows, k + 3)[:, :k]):
        for form, side in (("strassen", "left"), ("winograd", "transposed")):
            block_rows = -(-rows // 2**level)
            found, expected = (torch.full((block_rows,), 99, dtype=torch.int32) for _ in range(2))
            split_exponents(x, side, form, level, expected)
            gain = level * (1 if form == "strassen" else 2)
            made = summed_rows(x, found, 2**level, gain)
            assert kernel.brrr_host_exponents(ctypes.byref(made), block_rows, 5) == 0
            assert torch.equal(found, expected)


def test_sums_of_rows_scaled_by_their_exponents_fit_float16() -> None:
    for form in ("strassen", "winograd"):
        x = torch.full((7, 40), 3.4e38) * torch.randint(0, 2, (7, 40)).mul(2).sub(1)
        made = calls.split_pre_add(x * 2.0**-10, "left", form, 2)
        assert bool(made.high.isfinite().all()) and float(made.high.abs().max()) > 2**8


@needs_nvcc
@pytest.mark.parametrize("architecture", [80, 90])
def test_it_compiles_and_four_blocks_fit_a_multiprocessor(architecture: int, tmp_path: Path) -> None:
    code = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    _, said = by_nvcc(PACKAGE / "strassen/split/split_operands.cu", tmp_path, code)
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    of_the_split = ("8", "4") if architecture == 80 else ("0", "0")  # the product of the terms needs 9.0 anyway
    assert spilled == [("0", "0"), ("0", "0"), of_the_split]


def test_a_tile_waits_for_tasks_before_it_alone() -> None:
    for rows, k in ((1024, 1024), (64, 10000), (8, 16)):
        terms = Terms(*(torch.empty(1, 1, 1).expand(1, rows, -(-k // 8) * 8) for _ in range(3)))
        cut = operand(SplitSource(torch.empty(k, rows).t(), terms), 528)
        assert cut.turned and cut.lag >= min(cut.deep, cut.tiles) and cut.tasks == 2 * cut.tiles


# ---- the guard: what is noted of both operands, the decision, the classical product in its place ----


def noting(a: torch.Tensor, b: torch.Tensor, blocks: int, library: ctypes.CDLL) -> tuple[torch.Tensor, torch.Tensor]:
    """What the kernel notes of a (m, k) and b (k, n), each split as it lies."""
    left, right = noted(a.shape[1], torch.device("cpu"))
    outs = [room(each) for each in (a, b.t())]
    notes = ({"peaks": left}, {"inner": right})
    made = [SplitSource(x, out, **each) for x, out, each in zip((a, b.t()), outs, notes, strict=True)]
    assert host_split(library, made, blocks)[0] == 0
    assert all(same(out, split(x.contiguous(), kernels=False)) for x, out in zip((a, b.t()), outs, strict=True))
    return left, right


LAYOUTS = [(a, b) for a in ("rows", "columns") for b in ("rows", "columns")]


def lying(x: torch.Tensor, way: str) -> torch.Tensor:
    return x.contiguous() if way == "rows" else x.t().contiguous().t()


@needs_gxx
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 2), (70, 130, 150), (9, 1030, 66)], ids=str)
def test_what_is_noted_of_both_operands(
    kernel: ctypes.CDLL, shape: tuple[int, int, int], layout: tuple[str, str]
) -> None:
    m, k, n = shape
    a, b = torch.randn(m, k), torch.randn(k, n) * torch.exp2(torch.randint(-30, 30, (k, 1)).double()).float()
    a[m // 2], b[k // 2] = 0.0, 0.0
    left, right = noting(lying(a, layout[0]), lying(b, layout[1]), 3, kernel)
    peaks = torch.zeros(k, dtype=torch.bool)
    peaks[a[a.any(1)].abs().argmax(1)] = True
    assert torch.equal(left[:k] > 0, peaks) and not left[k]
    assert torch.equal(right.view(torch.float32), b.abs().amax(1))


@needs_gxx
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("spread", [1.0, 2.0**11, 2.0**13])
def test_the_guard_replaces_what_may_be_lost_and_nothing_else(
    kernel: ctypes.CDLL, spread: float, layout: tuple[str, str]
) -> None:
    m, k, n = 130, 75, 140
    a, b = torch.randn(m, k), torch.full((k, n), 1.5)
    a[:, 7], b[7] = 100.0, 1.5 / spread
    a, b, out = lying(a, layout[0]), lying(b, layout[1]), torch.full((m, n + 3), -7.0)
    lost = lost_digits(a, b)
    assert lost == (spread > SPREAD)
    left, right = noting(a, b, 3, kernel)
    for keep in (True, False):
        made = guard.argument(a, b, out[:, :n], left, right, keep)
        assert kernel.brrr_host_guard(ctypes.byref(made), 3, 1) == 0
        assert not left.any() and bool(right.any()) == keep
        expected = a @ b if lost else torch.full((m, n), -7.0)
        torch.testing.assert_close(out[:, :n], expected, **({} if lost else {"rtol": 0, "atol": 0}))
        assert bool((out[:, n:] == -7.0).all())
        left[:k] = (a.abs() == a.abs().amax(1, keepdim=True)).any(0).int()
