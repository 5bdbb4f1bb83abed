"""Split products on a GPU: right at any shape and scale by each kernel, in a graph, on any stream; exact as SGEMM."""

import pytest
import torch

from brrr.running.graphs import capture
from brrr.strassen.accuracy import split_error
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import prepare_right, steps
from brrr.strassen.implementations import Implementation, Problem
from brrr.strassen.launcher import run_all
from brrr.strassen.multiply import matmul
from brrr.strassen.operands import Arena
from brrr.strassen.split.operands_kernel import SplitSource, empty_terms, prepared_splits
from brrr.strassen.split.product_kernel import prepared_product
from brrr_course.experiments.strassen_errors import HARD, INPUTS, random_inputs, row_error
from tests.strassen_split_calls import TILINGS, split, split_product, together

TOLERANCE = 6e-7
"""Of each entry, relative to the lengths of its row and column."""

SHAPES = [
    *[(1, 1, 1, 1), (1, 5, 7, 3), (1, 128, 192, 64), (1, 129, 193, 65), (2, 130, 200, 150), (3, 64, 100, 1000)],
    *[(2, 1000, 999, 777), (5, 257, 66, 8), (1, 4096, 200, 72), (7, 512, 512, 1024)],
]
RAGGED = [(1, 129, 193, 65), (3, 64, 100, 1000), (5, 257, 66, 8)]
"""What every tiling meets; the usual ones meet all shapes."""
hopper = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
    reason="wgmma is compute capability 9.0's",
)


def worst(found: torch.Tensor, a: torch.Tensor, w: torch.Tensor) -> float:
    exact = a.double() @ w.double().mT
    lengths = a.double().norm(dim=-1).unsqueeze(-1) * w.double().norm(dim=-1).unsqueeze(-2)
    return float(((found - exact) / lengths).abs().max())


def operands(batch: int, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal numbers, rows of very different size."""
    a, w = torch.randn(batch, m, k, device="cuda"), torch.randn(batch, n, k, device="cuda")
    for each in (a, w):
        each *= torch.exp2(torch.randint(-50, 50, (*each.shape[:2], 1), device="cuda").float())
    return a, w


@hopper
@pytest.mark.parametrize(
    ("shape", "tiling"), [(shape, tiling) for tiling in TILINGS for shape in (RAGGED if tiling else SHAPES)], ids=str
)
def test_cuda_at_any_shape(shape: tuple[int, int, int, int], tiling: str) -> None:
    a, w = operands(*shape)
    batch, m, n, _ = shape
    room = torch.full((batch * m * n + 256,), float("nan"), device="cuda")
    out = room[: batch * m * n].view(batch, m, n)
    left, right = together(a), together(w)
    run = prepared_product(left, right, out, TILINGS[tiling])
    run()
    assert worst(out, a, w) < TOLERANCE
    assert bool(room[batch * m * n :].isnan().all()), "it wrote behind the end"
    before = out.clone()
    run()
    assert torch.equal(before, out), "the same bits each time"


@pytest.mark.parametrize("shape", [(1, 1), (65, 130), (1000, 777), (30, 20000), (10, 40000)], ids=str)
def test_splits_are_the_reference_s_bit_by_bit(shape: tuple[int, int]) -> None:
    x = torch.randn(*shape, device="cuda")
    x[..., : shape[1] // 2] *= torch.exp2(torch.randint(-140, 100, (shape[0], 1), device="cuda").double()).float()
    expected = split(x, kernels=False)
    for found in (split(x), split(x.mT.contiguous(), transposed=True)):
        for one, other in ((found.hi, expected.hi), (found.lo, expected.lo), (found.exponents, expected.exponents)):
            assert torch.equal(one, other)


LARGE = [((4096, 4096), (4096, 4096)), ((1000, 3001), (777, 3001)), ((64, 60000), (8200, 60000))]


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0), reason="needs sm_80")
@pytest.mark.parametrize(("left", "right"), LARGE, ids=str)
@pytest.mark.parametrize("turned", [(False, True), (True, False)], ids=str)
def test_two_operands_in_one_launch_again_and_again(
    left: tuple[int, int], right: tuple[int, int], turned: tuple[bool, bool]
) -> None:
    given = [torch.randn(*shape, device="cuda") for shape in (left, right)]
    sources = [
        SplitSource(x.mT.contiguous().mT if each else x, empty_terms(x.shape[0], x.shape[1], "cuda"))
        for x, each in zip(given, turned, strict=True)
    ]
    run = prepared_splits(*sources)
    expected = [split(x, kernels=False) for x in given]
    for _ in range(5):
        for source in sources:
            source.out.hi.fill_(float("nan")), source.out.lo.fill_(float("nan")), source.out.exponents.fill_(99)
        run()
        for source, other in zip(sources, expected, strict=True):
            assert torch.equal(source.out.exponents, other.exponents)
            assert torch.equal(source.out.hi, other.hi) and torch.equal(source.out.lo, other.lo)


def kernels() -> list[bool]:
    return [False, *([True] if torch.cuda.get_device_capability() == (9, 0) else [])]


def test_infinity_and_nan_spoil_their_own_row_and_column() -> None:
    a, w = torch.randn(150, 200, device="cuda"), torch.randn(210, 200, device="cuda")
    a[3, 5], w[7, 9] = float("inf"), float("nan")
    spoilt = torch.zeros(150, 210, dtype=torch.bool, device="cuda")
    spoilt[3], spoilt[:, 7] = True, True
    for how in kernels():
        assert torch.equal(~split_product(split(a), split(w), kernels=how).isfinite(), spoilt), how


@pytest.mark.parametrize("k", [1024, 8192])
def test_as_exact_as_sgemm_and_as_the_model_says(k: int) -> None:
    a, w = torch.randn(1024, k, device="cuda"), torch.randn(1024, k, device="cuda")
    exact = a.double() @ w.double().T

    def error(found: torch.Tensor) -> float:
        return float((found - exact).norm() / exact.norm())

    for how in kernels():
        found = error(split_product(split(a), split(w), kernels=how))
        assert found < error(a @ w.T), how
        if how:
            assert split_error(k) / 1.3 < found < 1.3 * split_error(k)


def test_empty_results_and_empty_sums() -> None:
    assert split_product(split(torch.ones(0, 5).cuda()), split(torch.ones(3, 5).cuda())).shape == (0, 3)
    assert not split_product(split(torch.ones(4, 0).cuda()), split(torch.ones(3, 0).cuda())).any()


@hopper
@pytest.mark.parametrize("inputs", [*INPUTS, *HARD])
@pytest.mark.parametrize("shape", [(200, 300, 136), (1000, 1500, 999)], ids=str)
def test_no_row_is_worse_than_the_librarys(inputs: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = (x.cuda() for x in random_inputs(inputs, k, max(m, n), seed=3))
    a, b = a[:m], b[:, :n]
    exact = a.double() @ b.double()
    theirs = row_error(a @ b, exact, columns=False)
    for left in (a, a.t().contiguous().t()):
        way, out = Implementation("fp16x3", prepared=True), torch.empty(m, n, device="cuda")
        arena = Arena(workspace_bytes(Problem(way, m, n, k)), "cuda")
        run = steps(way, left, prepare_right(b, way), out, arena)
        for _ in range(2):
            run_all(run)
            assert row_error(out, exact, columns=False) <= 4 * theirs
        for right in (b, b.t().contiguous().t()):
            for _ in range(2):
                ours = row_error(matmul(left, right, inner="fp16x3", level=0), exact, columns=False)
                assert ours <= 4 * theirs or ours == theirs == 0


@hopper
def test_a_graph_decides_anew_at_each_replay() -> None:
    a, b, out = torch.randn(300, 400, device="cuda"), torch.randn(400, 200, device="cuda"), torch.empty(300, 200).cuda()
    run = capture(lambda: matmul(a, b, inner="fp16x3", level=0, out=out))
    spread = torch.logspace(-9, 9, 400, device="cuda")
    plain = [x.clone() for x in (a, b)]
    for graded in (False, True, False, True):
        a.copy_(plain[0] * spread if graded else plain[0])
        b.copy_(plain[1] / spread[:, None] if graded else plain[1])
        run.replay()
        assert row_error(out, a.double() @ b.double(), columns=False) < 1e-6
