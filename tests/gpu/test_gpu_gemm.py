"""Products of matrices on a GPU: every way is right, padding against float64, kernels named with their grids."""

import random
import re

import pytest
import torch

from brrr.core.measurement import Point
from brrr.kernels import padding
from brrr.kernels.padding import padded_matmul
from brrr.roofline.shapes import LAYOUTS
from brrr.running.graphs import capture
from brrr_course.experiments import experiment
from tests.gpu.measuring import timed
from tests.strassen_on_gpu import error

GEMM, MANY = (experiment(name) for name in ("gemm", "gemm_many"))
LAUNCH = re.compile(r"\S+ \d+x\d+x\d+ of \d+")
ALLOWED = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def operand(rows: int, columns: int, dtype: torch.dtype, *, transposed: bool) -> torch.Tensor:
    made = torch.randn(*((columns, rows) if transposed else (rows, columns)), device="cuda").to(dtype)
    return made.t() if transposed else made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
def test_padded_products_against_float64(dtype: torch.dtype, layout: tuple[bool, bool]) -> None:
    draw = random.Random(f"{dtype} {layout}")
    for _ in range(4):
        m, k, n = (draw.choice((1, 2, 7, 64, 129, 513, draw.randrange(1, 1500))) for _ in range(3))
        a, b = operand(m, k, dtype, transposed=layout[0]), operand(k, n, dtype, transposed=layout[1])
        for found in (padded_matmul(a, b), padded_matmul(a, b)):  # the first call tries, the second takes the fastest
            assert found.shape == (m, n) and found.dtype == dtype
            assert error(found, a, b) <= ALLOWED[dtype], (m, k, n)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_every_padding_that_may_be_tried_is_right(dtype: torch.dtype, layout: tuple[bool, bool]) -> None:
    a, b = operand(257, 131, dtype, transposed=layout[0]), operand(131, 321, dtype, transposed=layout[1])
    for sizes in ((264, 136, 328), (257 if not layout[0] else 264, 136, 352)):
        found = padding._padded(a, b, sizes)
        assert found.shape == (257, 321) and error(found, a, b) <= ALLOWED[dtype]
    grown = padding._grown(a, 264, 136)
    assert torch.equal(grown[:257, :131], a) and not grown[257:].any() and not grown[:, 131:].any()


def test_a_padded_product_passes_gradients_and_goes_into_a_graph() -> None:
    a, b = (torch.randn(*shape, device="cuda").bfloat16() for shape in ((2048, 2048), (2048, 1025)))
    plain, padded = ([each.clone().requires_grad_() for each in (a, b)] for _ in range(2))
    dy = torch.randn(2048, 1025, device="cuda").bfloat16()
    torch.mm(*plain).backward(dy)
    padded_matmul(*padded).backward(dy)
    for one, other in zip(plain, padded, strict=True):
        assert one.grad is not None and other.grad is not None
        assert float((one.grad - other.grad).norm() / one.grad.norm()) < 1e-2
    found = capture(lambda: padded_matmul(a, b)).replay()
    assert error(found, a, b) <= ALLOWED[torch.bfloat16]


def test_a_measurement_names_its_kernels_and_their_grids() -> None:
    point: Point = {"columns": 129, "size": 512, "dtype": "float32"}
    for name, run in timed(GEMM, point, ["nn", "nt", "tn", "linear", "zeros"]).items():
        launched = run.measurement.launched
        assert launched and all(LAUNCH.fullmatch(each) for each in launched), name
        assert len(launched) <= (run.measurement.kernels or 0)
        assert run.measurement.power_w is None, "it ran for less than a second"


def test_kernels_of_a_graph_are_those_of_the_loop() -> None:
    point: Point = {"count": 4, "size": 256, "dtype": "float32"}
    found = {name: run.measurement.launched for name, run in timed(MANY, point, ["loop", "graph"]).items()}
    assert found["loop"] and len(found["graph"]) == len(found["loop"])
    assert len(set(found["graph"])) == len(set(found["loop"])), "a graph's kernels share an id, not a name"
