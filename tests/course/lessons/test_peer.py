"""Another estimator's times, with a made-up package in its place."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from brrr.counting.cost import Matmul
from brrr_course.lessons import gemm_estimates as peer


class Interface:
    """Takes a nanosecond for each element of the result; has no kernel for a single column."""

    def __init__(self, backend: str, flags: str, gpu: str) -> None:
        assert (backend, flags) == ("any", "timed")
        self.gpu = gpu

    def makeNvMatmulHeuristicsProblem(self, m: int, n: int, k: int, layout: str, batch: int) -> tuple[Any, ...]:
        return m, n, k, layout, batch

    def get(self, problem: tuple[Any, ...], count: int, precision: str) -> list[dict[str, Any]]:
        m, n, _, layout, batch = problem
        assert count == 1 and precision == "TST" and layout == "no, yes"
        return [{"runtime": 1e-9 * m * n * batch * (2 if self.gpu == "slow" else 1)}] if n > 1 else []


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: Any = ModuleType("nvMatmulHeuristics")
    made.NvMatmulHeuristicsInterfaceEx = Interface
    made.NvMatmulHeuristicsMatmulLayout = {"NT_ROW_MAJOR": "no, yes"}
    made.NvMatmulHeuristicsFlags = SimpleNamespace(PERF_MODEL_BASED_AUTO_TUNING="timed")
    made.NvMatmulHeuristicsTarget = SimpleNamespace(GENERIC="any")
    made.NvMatmulHeuristicsNvidiaGpu = {"H200_SXM": "fast", "H100_SXM": "slow"}
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", made)
    peer._estimator.cache_clear()
    yield
    peer._estimator.cache_clear()


PRODUCT = Matmul(100, 10, 64, dtype="bfloat16", transposed=(False, True))


@pytest.mark.usefixtures("package")
def test_the_time_of_the_first_kernel_counts() -> None:
    assert peer.heuristics_s(PRODUCT) == pytest.approx(1e-6)
    assert peer.heuristics_s(PRODUCT, "H100_SXM") == pytest.approx(2e-6)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("product", [replace(PRODUCT, n=1), Matmul(9, 9, 9, dtype="float64")])
def test_it_says_nothing_without_a_kernel_or_of_other_types(product: Matmul) -> None:
    assert peer.heuristics_s(product) is None


def test_without_the_package_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", None)
    assert peer.heuristics_s(PRODUCT) is None
