"""`suggest_shape`: what is better near a product, and what it refuses; the sizes that rows of whole 16 bytes need."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.counting.cost import ITEMSIZE, Matmul
from brrr.gpu.datasheet import hardware
from brrr.roofline import shapes
from brrr.roofline.gemm_families import Products
from brrr.roofline.shapes import LAYOUTS, TYPES, copy_s, product_time_s, suggest_shape, whole
from tests.refusals import refused, values

sizes = st.integers(1, 4099)
layouts = st.sampled_from(LAYOUTS)


# ---- whole 16 bytes ----


@given(sizes, sizes, sizes, layouts, st.sampled_from(["float32", "bfloat16", "float16", "float64"]))
def test_whole_rows_begin_at_16_bytes_and_hold_the_product(
    m: int, n: int, k: int, transposed: tuple[bool, bool], dtype: str
) -> None:
    asked = Matmul(m, n, k, dtype=dtype, transposed=transposed)
    made, each = whole(asked), 16 // ITEMSIZE[dtype]
    assert Products.of([made]).alignment == 16
    grown = [(made.m, m), (made.n, n), (made.k, k)]
    assert all(0 <= large - small < each for large, small in grown)
    assert whole(made) == made and (made.dtype, made.transposed) == (dtype, transposed)


@pytest.mark.parametrize(("transposed", "grown"), [
    ((False, False), (9, 16, 16)), ((False, True), (9, 16, 16)), ((True, False), (16, 16, 9)),
    ((True, True), (16,) * 3),
])  # fmt: skip
def test_only_sizes_along_which_a_matrix_lies_are_rounded(
    transposed: tuple[bool, bool], grown: tuple[int, int, int]
) -> None:
    made = whole(Matmul(9, 9, 9, dtype="float16", transposed=transposed))
    assert (made.m, made.n, made.k) == grown
    assert whole(Matmul(8, 16, 24, dtype="float16")).n == 16 and whole(Matmul(9, 9, 9)).n == 12


# ---- suggestions, on a predictor made up for the test ----


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A device on which one thing decides: the test says which."""
    rule: dict[str, Any] = {"slow": lambda p: False}
    monkeypatch.setattr(shapes, "_product_s", lambda p, model: 1e-15 * p.flop * (5 if rule["slow"](p) else 1))
    return rule


def found(m: int = 100, n: int = 129, k: int = 64, dtype: str = "bfloat16", **options: Any) -> list[tuple[str, Any]]:
    made = suggest_shape(m, n, k, dtype, device="h200", **options)
    return [(each.what, each) for each in made.better]


def test_odd_columns_are_padded_or_others_taken(made_up: dict[str, Any]) -> None:
    made_up["slow"] = lambda p: p.n % 8 != 0
    better = found()
    assert [what for what, _ in better][:2] == ["smaller", "padded"]
    smaller, padded = (each for _, each in better[:2])
    assert (padded.product.n, smaller.product.n) == (136, 128)
    assert smaller.gain == pytest.approx(5.0), "of its share of the work"
    assert padded.gain == pytest.approx(5 * 129 / 136)
    assert padded.seconds == pytest.approx(1e-15 * 2 * 100 * 136 * 64)


def test_of_larger_sizes_the_further_is_told_only_where_it_gains_more(made_up: dict[str, Any]) -> None:
    made = suggest_shape(100, 129, 64, device="h200", change=("m", "n", "k"), within=0.5)
    assert made.better == () and (made.asked.gain, made.asked.product) == (1, Matmul(100, 129, 64, dtype="bfloat16"))
    made_up["slow"] = lambda p: p.n < 500
    better = found(n=490, m=64)
    assert [(what, each.product.n) for what, each in better] == [("larger", 512)], "padding to 496 gains nothing"
    made_up["slow"] = lambda p: p.n < 512
    assert [each.product.n for what, each in found(n=500, m=64, within=0.3) if what == "larger"] == [512]
    made_up["slow"] = lambda p: p.n < 512 or 512 < p.n < 1024
    assert 1024 not in [each.product.n for _, each in found(n=500, m=64, within=0.9)]


def test_another_layout_and_another_type(made_up: dict[str, Any]) -> None:
    made_up["slow"] = lambda p: p.transposed != (True, False)
    [(what, each)] = found(n=128)
    assert (what, each.product.transposed, each.gain) == ("transposed", (True, False), pytest.approx(5))
    made_up["slow"] = lambda p: p.dtype != "tf32"
    [(what, each)] = found(n=128, dtype="float32")
    assert (what, each.product.dtype) == ("in another type", "tf32")
    assert each.cells[:4] == ("in another type", "100 x 128 x 64", "NN", "tf32") and str(each).startswith(
        "100 x 128 x 64, NN"
    )


def test_only_what_may_change_changes_and_only_so_far(made_up: dict[str, Any]) -> None:
    made_up["slow"] = lambda p: p.m != 1024
    assert found(m=1000, n=64) == []
    [(what, each)] = found(m=1000, n=64, change=("m",))
    assert (what, each.product.m, each.product.n) == ("larger", 1024, 64)
    assert found(m=1000, n=64, change=("m",), within=0.02) == []
    assert found(m=1000, n=64, change=())[:1] == []
    made_up["slow"] = lambda p: p.k != 1024
    assert [each.product.k for _, each in found(m=64, n=64, k=1025, change=("k",))] == [1024]


def test_a_gain_too_small_to_tell_is_none(made_up: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_product_s", lambda p, model: 1.0 if p.transposed == (False, False) else 1 / 1.019)
    assert found(n=128) == []
    monkeypatch.setattr(shapes, "_product_s", lambda p, model: 1.0 if p.transposed == (False, False) else 1 / 1.021)
    assert [what for what, _ in found(n=128, change=())] == ["transposed"]


def test_the_largest_gain_comes_first_and_none_is_below_one(made_up: dict[str, Any]) -> None:
    for n in (1, 7, 129, 1025):
        made = suggest_shape(2048, n, 2048, device="datasheet:h200", change=("m", "n", "k"))
        gains = [each.gain for each in made.better]
        assert gains == sorted(gains, reverse=True) and all(gain > 1.02 for gain in gains)


# ---- the true predictor, where the differences are large ----


@pytest.mark.parametrize("device", ["h200", "datasheet:h200"])
def test_one_column_too_many_in_a_short_type(device: str) -> None:
    made = suggest_shape(2048, 1025, 2048, "bfloat16", device=device)
    kinds = {each.what: each for each in made.better}
    assert kinds["padded"].product.n == 1032 and kinds["padded"].gain > 3
    assert kinds["smaller"].product.n == 1024 and kinds["smaller"].gain > 3
    good = suggest_shape(2048, 1024, 2048, "bfloat16", device=device)
    assert not {"padded", "larger", "smaller"} & {each.what for each in good.better}


def test_a_datasheet_tells_of_tensor_cores() -> None:
    made = suggest_shape(4096, 4096, 4096, "float32", device="datasheet:a100")
    asked = {dtype: suggest_shape(512, 512, 512, dtype, device="h200").asked.seconds for dtype in TYPES}
    assert min(asked.values()) > 0 and asked["float32"] > asked["tf32"]
    types = {each.product.dtype: each.gain for each in made.better if each.what == "in another type"}
    assert types["bfloat16"] > types["tf32"] > 4
    assert made.device == hardware("a100").name and repr(made).endswith(f"PREDICTED · {made.device}")


def test_a_device_that_nobody_knows_is_taken_for_an_h200() -> None:
    product = Matmul(2048, 1025, 2048, dtype="bfloat16")
    assert product_time_s(product, "some GPU") == product_time_s(product, "datasheet:h200") > 0
    assert product_time_s(product, "datasheet:a100") != product_time_s(product, "some GPU")
    assert copy_s(2**26, "bfloat16", "h200") > 1.5 * copy_s(2**25, "bfloat16", "h200") > 0
    assert copy_s(2**26, "float32", "h200") == pytest.approx(2 * copy_s(2**26, "bfloat16", "h200"), rel=0.25)


# ---- what it refuses ----


WRONG = {
    "m": [0, True], "n": [-3], "k": [1.5], "dtype": ["int8"], "within": [1.0, -0.1], "device": ["abacus"],
    "change": [("n", "x", "b")],
}  # fmt: skip


@pytest.mark.parametrize(("argument", "value"), values(WRONG))
def test_what_does_not_exist_is_refused(argument: str, value: Any) -> None:
    with refused(argument):
        suggest_shape(**{"m": 64, "n": 64, "k": 64, "device": "h200", argument: value})
