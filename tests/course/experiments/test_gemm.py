"""Products of matrices, column by column: grid and plan, workloads, kernels' names, the predictor's claims."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Measurement, Point
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm import MAKERS, Operands, blocks, grids, matmul_of, settle_s, tile, tiles
from brrr_course.nouns.source import Evidence
from brrr_course.sources.plan import steps as planned

GEMM = experiment("gemm")


# ---- the grid, the plan, the costs ----


def test_the_recording_stays_small() -> None:
    rows = [len(step.variants) for step in planned([GEMM], "cuda")]
    assert sum(rows) <= 6000
    assert sum(len(step.variants) for step in planned([GEMM], "cpu")) <= 100


def test_zeros_are_multiplied_long_enough_for_the_power() -> None:
    points = [point for point in GEMM.points() if GEMM.has("zeros", point) and point["dtype"] == "tf32"]
    assert [(point["columns"], point["size"]) for point in points if settle_s(point)] == [(4096, 8192)]


def test_shapes_by_hand() -> None:
    point: Point = {"columns": 3, "size": 8, "dtype": "bfloat16"}
    shapes = {name: matmul_of(name, point) for name in ("nn", "nt", "tn", "linear")}
    assert [(each.m, each.n, each.k) for each in shapes.values()] == [(8, 3, 8)] * 3 + [(3, 8, 8)]
    assert [each.transposed for each in shapes.values()] == [
        (False, False), (False, True), (True, False), (False, True)]  # fmt: skip
    assert matmul_of("nn", {**point, "dtype": "tf32"}).dtype == "float32"


def test_what_is_predicted_is_the_product_of_the_way() -> None:
    point: Point = {"columns": 3, "size": 8, "dtype": "float16"}
    assert GEMM.predicted_run("padded", point) is None
    for name in ("nn", "nt", "tn", "linear"):
        run = GEMM.predicted_run(name, point)
        assert run is not None and run.cost.matmuls == (matmul_of(name, point),)


# ---- workloads ----


def test_zeros_give_zeros() -> None:
    given = Operands.of(24, 5, "bfloat16", "cpu")
    run, error = MAKERS["zeros"](given)
    found = run()
    assert found.dtype == torch.bfloat16 and error(found) == 0
    found[3, 4] = -0.5
    assert error(found) == 0.5
    assert bool(given.x.any()), "the ways that share the operands still have their numbers"


def test_a_layout_is_prepared_before_the_call_and_the_ways_share_their_numbers() -> None:
    given = Operands.of(16, 5, "float32", "cpu")
    assert Operands.of(16, 5, "float32", "cpu") is given
    results = {name: MAKERS[name](given)[0]() for name in ("nn", "nt", "tn", "padded")}
    assert all(torch.allclose(each, given.w @ given.x, atol=1e-5) for each in results.values())
    before = MAKERS["nt"](given)[0]
    given.x.zero_()
    assert before().any(), "x was laid out beforehand"


# ---- kernels' names ----


@pytest.mark.parametrize(
    ("kernel", "sides", "count"),
    [
        ("cutlass_80_simt_sgemm_256x128_8x4_nn_align1 64x1x2 of 256", (256, 128), 128),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x32x8_stage3_warpsize1x2x1 32x2x8 of 64", (64, 32), 512),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT 4x8x1 of 384", (64, 8), 32),
        ("internal::gemvx::kernel 512x1x1 of 64", None, 512),
        ("gemv2T_kernel_val 7x3x1 of 128", None, 21),
    ],
)
def test_tile_and_blocks_of_a_kernel(kernel: str, sides: tuple[int, int] | None, count: int) -> None:
    assert (tile(kernel), blocks(kernel)) == (sides, count)


# ---- a made-up machine ----


def kernels_of(named: dict[int, str]) -> Evidence:
    """A source that knows the kernels of W x in float32, by the columns, and another one's of bfloat16."""
    rows = {(n, 2048, dtype): Measurement(launched=(kernel if dtype == "float32" else "other 9x9x9 of 1", "splitK"))
            for n, kernel in named.items() for dtype in ("float32", "bfloat16")}  # fmt: skip
    source: Any = SimpleNamespace(kind="cuda", known=lambda experiment, variant: rows if variant == "nn" else {})
    return Evidence(GEMM, source)


def test_the_tiles_and_grids_of_a_sweep() -> None:
    evidence = kernels_of({
        1: "gemv2T_kernel_val 64x8x1 of 128", 2: "cutlass_80_simt_sgemm_256x128_8x4_nn_align1 12x1x1 of 128",
        3: "nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT 64x8x1 of 384",
        4: "cutlass_80_simt_sgemm_128x64_8x5_nn_align1 64x8x1 of 128",
    })  # fmt: skip
    assert tiles(evidence, 32, 128).values == {(1,): False, (2,): False, (3,): False, (4,): True}
    assert grids(evidence).values == {(1,): 512, (2,): 12, (3,): 512, (4,): 512}
    with pytest.raises(NotRecordedError, match="no kernel's name"):
        grids(kernels_of({}))
