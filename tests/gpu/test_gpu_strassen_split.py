"""Split products on a GPU: right at any shape and scale by each kernel, in a graph, on any stream; exact as SGEMM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError
from brrr.running.graphs import capture
from brrr.strassen.accuracy import split_error
from brrr.strassen.multiply import matmul, prepare
from brrr.strassen.split import product
from brrr.strassen.split.splits import Part, empty_terms, prepared_splits
from brrr.strassen.split.splitting import prepared_product, split, split_product
from brrr_course.experiments.strassen_errors import HARD, INPUTS
from brrr_course.experiments.strassen_errors.inputs import random_inputs, row_error

TOLERANCE = 6e-7
"""Of each entry, relative to the lengths of its row and column."""

SHAPES = [
    *[(1, 1, 1, 1), (1, 5, 7, 3), (1, 128, 192, 64), (1, 129, 193, 65), (2, 130, 200, 150), (3, 64, 100, 1000)],
    *[(2, 1000, 999, 777), (5, 257, 66, 8), (1, 4096, 200, 72), (7, 512, 512, 1024)],
]
CUDA: dict[str, dict[str, Any]] = {
    "": {},
    "128 columns": {"columns": 128},
    "3 consumers": {"columns": 128, "consumers": 3},
    "steps of 32": {"depth": 32},
    "clusters": {"cluster": 2},
    "clusters, steps of 32": {"depth": 32, "cluster": 2},
    "128 columns, clusters": {"columns": 128, "cluster": 2},
    "chunks of 128": {"chunk": 128},
    "chunks of 512": {"chunk": 512},
    "all at one time": {"stagger": False},
}
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


def check(shape: tuple[int, int, int, int], **how: Any) -> None:
    a, w = operands(*shape)
    batch, m, n, _ = shape
    room = torch.full((batch * m * n + 256,), float("nan"), device="cuda")
    out = room[: batch * m * n].view(batch, m, n)
    left, right = split(a), split(w.mT.contiguous(), transposed=True)
    split_product(left, right, out, **how)
    assert worst(out, a, w) < TOLERANCE
    assert bool(room[batch * m * n :].isnan().all()), "it wrote behind the end"
    assert torch.equal(split_product(left, right, **how), out), "the same bits each time"


@hopper
@pytest.mark.parametrize(
    ("shape", "tiling"), [(shape, tiling) for tiling in CUDA for shape in (RAGGED if tiling else SHAPES)], ids=str
)
def test_cuda_at_any_shape(shape: tuple[int, int, int, int], tiling: str) -> None:
    check(shape, how="cuda", tiling=product.Tiling(**CUDA[tiling]))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 65, 130), (2, 1000, 777), (1, 30, 20000), (1, 10, 40000)], ids=str)
@pytest.mark.parametrize("scale", ["row", "matrix", "none"])
def test_splits_are_the_reference_s_bit_by_bit(shape: tuple[int, int, int], scale: str) -> None:
    x = torch.randn(*shape, device="cuda")
    x[..., : shape[2] // 2] *= torch.exp2(torch.randint(-140, 100, (*shape[:2], 1), device="cuda").double()).float()
    expected = split(x, how="torch", scale=scale)
    turned = x.mT.contiguous()
    splits = [
        split(given, scale=scale, transposed=transposed, how="cuda")
        for given, transposed in ((x, False), (turned, True))
    ]
    for found in splits:
        for one, other in ((found.hi, expected.hi), (found.lo, expected.lo), (found.exponents, expected.exponents)):
            assert torch.equal(one, other)


LARGE = [((1, 4096, 4096), (1, 4096, 4096)), ((7, 1000, 3001), (7, 777, 3001)), ((1, 64, 60000), (1, 8200, 60000))]


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0), reason="needs sm_80")
@pytest.mark.parametrize(("left", "right"), LARGE, ids=str)
@pytest.mark.parametrize("transposed", [(False, True), (True, False)], ids=str)
def test_two_operands_in_one_launch_again_and_again(
    left: tuple[int, int, int], right: tuple[int, int, int], transposed: tuple[bool, bool]
) -> None:
    given = [torch.randn(*shape, device="cuda") for shape in (left, right)]
    parts = [
        Part(x.mT.contiguous() if turned else x, empty_terms(x.shape[1], x.shape[2], x.shape[0], "cuda"), turned)
        for x, turned in zip(given, transposed, strict=True)
    ]
    run = prepared_splits(*parts, how="cuda")
    expected = [split(x, how="torch") for x in given]
    for _ in range(5):
        for part in parts:
            part.out.hi.fill_(float("nan")), part.out.lo.fill_(float("nan")), part.out.exponents.fill_(99)
        run()
        for part, other in zip(parts, expected, strict=True):
            assert torch.equal(part.out.exponents, other.exponents)
            assert torch.equal(part.out.hi, other.hi) and torch.equal(part.out.lo, other.lo)


def ways() -> list[str]:
    return ["torch", *(["cuda"] if torch.cuda.get_device_capability() == (9, 0) else [])]


def test_infinity_and_nan_spoil_their_own_row_and_column() -> None:
    a, w = torch.randn(150, 200, device="cuda"), torch.randn(210, 200, device="cuda")
    a[3, 5], w[7, 9] = float("inf"), float("nan")
    spoilt = torch.zeros(150, 210, dtype=torch.bool, device="cuda")
    spoilt[3], spoilt[:, 7] = True, True
    for how in ways():
        assert torch.equal(~split_product(split(a), split(w), how=how).isfinite(), spoilt), how


@pytest.mark.parametrize("k", [1024, 8192])
def test_as_exact_as_sgemm_and_as_the_model_says(k: int) -> None:
    a, w = torch.randn(1024, k, device="cuda"), torch.randn(1024, k, device="cuda")
    exact = a.double() @ w.double().T

    def error(found: torch.Tensor) -> float:
        return float((found - exact).norm() / exact.norm())

    for how in ways():
        found = error(split_product(split(a), split(w), how=how))
        assert found < error(a @ w.T), how
        if how == "cuda":
            assert split_error(k) / 1.3 < found < 1.3 * split_error(k)


@hopper
@pytest.mark.parametrize("tiling", ["", "128 columns", "128 columns, clusters"])
@pytest.mark.parametrize("inputs", ["normal", "uniform"])
def test_the_error_of_each_default_is_at_most_sgemm_s(tiling: str, inputs: str) -> None:
    draw = torch.randn if inputs == "normal" else torch.rand
    a, w = draw(2048, 4096, device="cuda"), draw(2048, 4096, device="cuda")
    exact = a.double() @ w.double().T
    found = split_product(split(a), split(w), how="cuda", tiling=product.Tiling(**CUDA[tiling]))
    assert float((found - exact).norm()) < float((a @ w.T - exact).norm())


def test_in_a_graph_and_on_another_stream() -> None:
    a, w = operands(1, 300, 260, 500)
    left, right, out = split(a), split(w), torch.empty(1, 300, 260, device="cuda")
    for how in ways():
        launch: Callable[[], Any] = prepared_product(left, right, out, how=how)
        launch()
        expected = out.clone()

        def both(launch: Callable[[], Any] = launch) -> None:
            split(a, out=left)
            launch()

        replay = capture(both)
        out.fill_(float("nan"))
        replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected), how
        stream = torch.cuda.Stream()
        out.fill_(float("nan"))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            launch()
        stream.synchronize()
        assert torch.equal(out, expected), how


def test_empty_results_and_empty_sums() -> None:
    for how in ways():
        assert split_product(split(torch.ones(0, 5).cuda()), split(torch.ones(3, 5).cuda()), how=how).shape == (0, 3)
        assert not split_product(split(torch.ones(4, 0).cuda()), split(torch.ones(3, 0).cuda()), how=how).any()


@hopper
def test_what_the_copy_engine_cannot_read_is_refused() -> None:
    terms = split(torch.randn(4, 16, device="cuda"))
    spoilt = type(terms)(terms.hi[:, :, 1:9], terms.lo[:, :, 1:9], terms.exponents, 8, True)
    with pytest.raises(ArgumentError, match="multiples of 16 bytes"):
        split_product(spoilt, spoilt, how="cuda")


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
        for right in (b, b.t().contiguous().t(), prepare(b, rows=m, inner="fp16x3", level=0)):
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
