"""What lesson 07 is made of beside the experiment: the drawing of tiles and waves, the table of zeros, exercises."""

import json
import math
from typing import Any

import pytest
from formulas import Kept, time_of

from brrr.core.measurement import Measurement, Value
from brrr.counting.cost import Matmul
from brrr.gpu.datasheet import hardware
from brrr.roofline.shapes import product_time_s
from brrr_course import model_lines
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm import DTYPES, MOST
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.drawings import drawing, gemm_tiles
from brrr_course.lessons.drawings.gemm_tiles import STOPS, Tiling, foretold
from brrr_course.nouns.source import Evidence

SMS = hardware("h200").sm_count
SWEPT = sorted({*STOPS, *range(3, MOST + 1, 7), 2048})
GEMV = "internal::gemvx::kernel 512x1x1 of 64"


def seconds(n: int) -> float:
    """A staircase: another step behind every 128 columns."""
    return 1e-5 * math.ceil(n / 128)


def kernel(n: int, dtype: str) -> str:
    """A vector's kernel for one column; tiles of 256 x 128, the sums in four parts, as cuBLAS cuts 385 columns."""
    if n == 1:
        return GEMV
    if dtype == "bfloat16":
        return f"nvjet_sm90_tst_128x64_64x5_2x1_v_bz_TNT {math.ceil(n / 64)}x16x1 of 384"
    across = math.ceil(n / 256)
    return f"cutlass_80_simt_sgemm_256x128_8x4_nn_align1 {16 * across}x1x4 of 256"


SWEEP = {
    (n, 2048, dtype): Measurement(span_s=time_of(seconds(n)), launched=(kernel(n, dtype), "reduce"))
    for dtype in ("float32", "bfloat16")
    for n in SWEPT
}
SOURCE: Any = Kept({"nn": SWEEP})


def shown(**at: Value) -> Any:
    return drawing("gemm-tiles", source=SOURCE, **at)


# ---- the tiles ----


def test_a_kernels_tiles_by_its_name_and_its_grid() -> None:
    assert Tiling.of(kernel(385, "float32"), 385) == Tiling(columns=256, rows=128, across=2, down=16, parts=4)
    other = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x128x8_stage3 32x6x4 of 128"
    assert Tiling.of(other, 705) == Tiling(columns=128, rows=64, across=6, down=32, parts=4), "sides in either order"
    assert Tiling.of(GEMV, 1) is None
    cut = Tiling.of("nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT 4x22x1 of 384", 65)
    assert cut is not None and (cut.tiles, cut.work, cut.parts) == (cut.across * cut.down,) * 2 + (1,)


@pytest.mark.parametrize("n", [n for n in STOPS if n > 1])
def test_the_tiles_cover_the_result_and_no_column_of_them_is_idle(n: int) -> None:
    for dtype in ("float32", "bfloat16"):
        cut = Tiling.of(kernel(n, dtype), n)
        assert cut is not None
        assert 0 <= cut.across * cut.columns - n < cut.columns and cut.down * cut.rows == 2048
        assert cut.work == math.prod(map(int, kernel(n, dtype).split()[-3].split("x")))


# ---- the drawing ----


@pytest.mark.parametrize(
    ("n", "dtype", "told"),
    [
        (1, "float32", "the library's kernel for it, internal::gemvx::kernel, names no tiles"),
        (256, "float32", "64 blocks, 1 wave of 132 multiprocessors, 48.5 % full. 100 % of the tiles' area is result."),
        (257, "float32", "128 blocks, 1 wave of 132 multiprocessors, 97 % full. 50.2 % of the tiles' area is result."),
        (1088, "float32", "320 blocks, 3 waves of 132 multiprocessors, 80.8 % full"),
        (64, "bfloat16", "16 blocks, 1 wave of 132 multiprocessors, 12.1 % full. 100 % of the tiles' area is result."),
        (65, "bfloat16", "32 blocks, 1 wave of 132 multiprocessors, 24.2 % full. 50.8 % of the tiles' area is result."),
    ],
)
def test_the_text_at_several_stops(n: int, dtype: str, told: str) -> None:
    text = shown(columns=n, dtype=dtype).text
    assert told in text
    assert "each sum" not in text or dtype == "float32"


def test_the_still_shows_the_times_the_tiles_and_the_waves(figures: list[Any]) -> None:
    shown(columns=513, dtype="float32").picture()
    stairs, result, waves = figures[-1].axes
    measured, dots, *_ = stairs.get_lines()
    assert list(measured.get_xdata()) == list(dots.get_xdata()) == list(STOPS)
    assert list(measured.get_ydata()) == pytest.approx([seconds(n) for n in STOPS], rel=1e-4)
    _, predicted = foretold(Evidence(experiment("gemm"), SOURCE), "float32")
    assert list(dots.get_ydata()) == pytest.approx([predicted[n] for n in STOPS], rel=1e-4)
    assert result.get_title(loc="left") == "the result: 48 tiles of 128 × 256, 255 columns too wide"
    used, over = result.patches
    assert (used.get_width(), over.get_x(), over.get_width()) == (513, 513, 255)
    assert waves.get_title(loc="left") == f"192 blocks in 2 waves of {SMS} multiprocessors"
    assert [bar.get_width() for bar in waves.patches] == pytest.approx([1, 1, 1, 192 / SMS - 1])


def test_the_figure_has_the_tiles_and_the_times_at_each_stop() -> None:
    made = shown(columns=385, dtype="bfloat16")
    figure = made.figure
    json.dumps(figure, allow_nan=False)
    assert [slider["texts"][slider["at"]] for slider in figure["sliders"]] == ["385", "bfloat16"]
    assert len(figure["tiles"]["at"]) == len(figure["say"]["at"]) == 2 * len(STOPS)
    for place, cut in enumerate(figure["tiles"]["at"]):
        n, dtype = STOPS[place // 2], ("float32", "bfloat16")[place % 2]
        tiling = Tiling.of(kernel(n, dtype), n)
        assert cut == (tiling and [n, tiling.columns, tiling.rows, tiling.across, tiling.down, tiling.work])
    measured, predicted = figure["lines"]
    assert [row[2] for row in measured["cuts"][0]] == pytest.approx([seconds(n) for n in STOPS], rel=1e-4)
    assert len(predicted["cuts"][1]) == len(STOPS)
    made.set(columns=1)
    assert made.text.startswith("At columns N 1, type bfloat16")


def test_a_kernel_without_tiles_has_the_staircase_alone(figures: list[Any]) -> None:
    shown(columns=1, dtype="float32").picture()
    _, result, waves = figures[-1].axes
    assert result.get_title(loc="left") == "no tiles: a kernel for one column"
    assert not waves.get_title(loc="left") and sum(bar.get_width() for bar in (*result.patches, *waves.patches)) == 0


def test_the_stops_lie_on_both_sides_of_tiles() -> None:
    assert set(STOPS) <= set(SWEPT) and sorted(set(STOPS)) == list(STOPS)
    for edge in (32, 64, 128, 256, 512, 768, 1024):
        assert {edge, edge + 1} <= set(gemm_tiles.STOPS)


# ---- zeros ----


def large(middle: float, clock: float, power: float | None = None) -> Measurement:
    return Measurement(span_s=time_of(middle), sm_clock_hz=clock, power_w=power)


def test_zeros_beside_random_numbers_with_and_without_power() -> None:
    some: Any = Kept(
        {
            "nn": {
                (4096, 8192, "float32"): large(10e-3, 1.98e9),
                (4096, 8192, "bfloat16"): large(0.8e-3, 1.5e9, 690.0),
                (4096, 8192, "float16"): large(0.8e-3, 1.4e9, 680.0),
                (1024, 8192, "tf32"): large(1e-3, 1.5e9),
            },
            "zeros": {
                (4096, 8192, "float32"): large(10e-3, 1.98e9),
                (4096, 8192, "bfloat16"): large(0.6e-3, 1.8e9, 420.0),
                (1024, 8192, "tf32"): large(1e-3, 1.5e9),
            },
        }
    )
    found = compare(None, "gemm", of="data", source=some)
    assert [row[0] for row in found.rows] == ["float32", "bfloat16"], "in the order of the types, both or nothing"
    assert found.rows[0][1] == "1x" and found.rows[0][-1] == "? and ?"
    assert found.rows[1][1:] == ("0.75x", "1.5 GHz and 1.8 GHz", "690 W and 420 W")
    assert len(found.header) == len(found.rows[0]) and "RECORDED" in found.badge
    assert "M = K = 8192, 4096 columns" in found.text and set(DTYPES) >= {row[0] for row in found.rows}


def test_without_such_a_product_a_sentence_says_so() -> None:
    found = compare(None, "gemm", of="data", source=SOURCE)
    assert found.rows == () and "has no such product of zeros" in found.text


def test_the_models_lines_are_given_out_as_a_copy_and_one_of_them_is_slow() -> None:
    lines = model_lines()
    lines["head"] = (1, 1, 1)
    assert model_lines()["head"] == (12287, 50257, 768) and len(lines) == 4
    rates = {}
    for name, (m, n, k) in model_lines().items():
        product = Matmul(m, n, k, dtype="bfloat16", transposed=(False, True))
        rates[name] = product.flop / product_time_s(product, "h200")
    slow = rates.pop("head")
    assert slow < 0.5 * min(rates.values()), "the exercise has one right line"


# ---- what the lesson's text says ----
