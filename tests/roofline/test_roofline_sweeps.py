"""Predictions corrected by measured sweeps, the regression behind them, and host costs by form of the call."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peaks_made_up import curve, peak
from rooflines import gpu, product
from torch.nn import functional

from brrr.counting.cost import Cost, Form, Matmul, OperatorCost
from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.roofline.calibrate.reference_calls import COLUMNS
from brrr.roofline.corrections import corrections_of
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import host_class
from brrr.roofline.gemm_families import Speeds
from brrr.roofline.lowering import as_on_gpu
from brrr.roofline.peak import SweptCalls
from brrr.roofline.peaks import Peaks, recorded_peaks
from brrr.roofline.predicting import predict
from brrr.roofline.sweeps import Corrections, GaussianProcess, Hyperparameters, operator_points, parts_of
from tools.reference.fitting import START, START_OWN, fit, fitted

PRODUCT = ("dtype", "m", "n", "k", "batch", "layout")
OPERATOR = ("operator", "kind", "form", "dtype", "lines", "length", "read", "written")
LEVELS = {1e6: 9e12, 40e6: 9e12, 200e6: 4e12}


def with_cache() -> Peaks:
    return gpu(curves={**gpu().curves, "read": curve(LEVELS), "copy": curve(LEVELS)})


def work(*operators: OperatorCost) -> Cost:
    eager = sum(each.bytes for each in operators)
    return Cost(sum(each.flop or 0.0 for each in operators), eager, operators=operators)


def rows_sum(lines: int, length: int, name: str = "aten.sum", form: str = "rows") -> OperatorCost:
    made = Form(form, lines, length)
    return OperatorCost(
        name, 0.0, 4.0 * lines * length, 4.0 * lines, "float32", ((lines, length),), "reduction", (), made
    )


def swept(factor: float, *calls: OperatorCost | Matmul) -> Peaks:
    """A device where these calls took so many times as long as its models say."""
    base = with_cache()
    products = [each for each in calls if isinstance(each, Matmul)]
    operators = [each for each in calls if isinstance(each, OperatorCost)]
    sweeps = {}
    if products:
        rows = tuple((p.dtype, p.m, p.n, p.k, p.batch, "nt" if p.transposed[1] else "nn") for p in products)
        times = [predict(work(_of(p)), device=base).busy_s or 0.0 for p in products]
        sweeps["products"] = SweptCalls.of(PRODUCT, rows, [factor * time_s for time_s in times])
    if operators:
        told = tuple(
            (e.name, e.kind, e.form.name, e.dtype, e.form.lines, e.form.length, int(e.read_bytes), int(e.written_bytes))
            for e in operators
        )
        times = [predict(work(e), device=base).busy_s or 0.0 for e in operators]
        sweeps["operators"] = SweptCalls.of(OPERATOR, told, [factor * time_s for time_s in times])
    return replace(base, sweeps=sweeps, date=f"2000-01-01 {factor} {len(calls)} {hash(calls)}")


def _of(p: Matmul) -> OperatorCost:
    return replace(product(p.m, p.n, p.k, p.dtype, 2), matmuls=(p,))


SHAPES = [Matmul(size, size, size, dtype="bfloat16") for size in (512, 1024, 2048, 4096)]


@pytest.mark.parametrize("made", SHAPES)
def test_a_product_of_the_sweep_takes_what_it_took(made: Matmul) -> None:
    """Whatever the model thinks of it; its bytes and its FLOP alone take no longer for that."""
    before, after = (predict(work(_of(made)), device=each) for each in (with_cache(), swept(1.7, *SHAPES)))
    assert after.busy_s == pytest.approx(1.7 * (before.busy_s or 0.0), rel=1e-6)
    assert (after.memory_s, after.compute_s) == (before.memory_s, before.compute_s)
    assert "products corrected by a measured sweep of 4" in after.notes
    assert not any("corrected" in note for note in before.notes)


def test_bytes_and_flop_alone_take_no_longer_than_the_kernel() -> None:
    each = _of(SHAPES[-1])
    before, after = (predict(work(each), device=peaks) for peaks in (with_cache(), swept(0.5, *SHAPES)))
    assert after.compute_s == pytest.approx(0.5 * before.compute_s)
    assert max(after.memory_s, after.compute_s) < (after.busy_s or 0.0)


def test_what_holds_a_kernel_up_beyond_its_bytes_is_under_filled() -> None:
    calls = [rows_sum(lines, length) for lines in (16, 1024, 65536) for length in (64, 1024)]
    plain, slow = (predict(work(calls[-1]), device=peaks) for peaks in (with_cache(), swept(3.0, *calls)))
    assert (plain.bound, slow.bound) == ("memory", "under-filled")


def test_neighbours_tell_and_strangers_do_not() -> None:
    """A product near by is corrected by most of the factor; a far one hardly; one of other kernels not at all."""
    slow = swept(1.7, *SHAPES)

    def factor(made: Matmul) -> float:
        plain, corrected = (predict(work(_of(made)), device=each).busy_s for each in (with_cache(), slow))
        assert plain and corrected
        return corrected / plain

    near = factor(Matmul(1100, 1000, 1064, dtype="bfloat16"))
    far = factor(Matmul(8, 16384, 16, dtype="bfloat16"))
    assert 1.25 < near < 1.75 and 0.95 < far < near
    assert factor(Matmul(1024, 1023, 1024, dtype="bfloat16")) == 1


def test_a_product_with_a_row_goes_by_those_with_a_row() -> None:
    """Where the sweep has some; else by those without."""
    base, made = with_cache(), [_of(each) for each in SHAPES]
    plain = [predict(work(each), device=base).busy_s or 0.0 for each in made]
    rows = [(p.dtype, p.m, p.n, p.k, 1, "nn", added) for added in (0, 1) for p in SHAPES]
    times = tuple(factor * time_s for factor in (1.1, 2.0) for time_s in plain)
    both = replace(base, sweeps={"products": SweptCalls.of((*PRODUCT, "added"), rows, times)}, date="2000-01-01 row")
    with_row = replace(made[1], name="aten.addmm")
    for peaks, each, factor in ((both, made[1], 1.1), (both, with_row, 2.0)):
        assert predict(work(each), device=peaks).busy_s == pytest.approx(factor * plain[1])
    without = predict(work(with_row), device=swept(1.7, *SHAPES)).busy_s
    assert without == pytest.approx(1.7 * plain[1], rel=0.1)


def test_float16_goes_by_its_own_sweep_where_there_is_one() -> None:
    """Where rows begin on no 16 bytes its kernels are others; where they do, the sweep of bfloat16 counts."""
    odd = [Matmul(size, size + 1, size, dtype="float16") for size in (512, 1024, 2048, 4096)]
    base = with_cache()
    base = replace(base, curves={**base.curves, "matmul.fp16": base.curves["matmul.bf16"]})
    rows = [(each.dtype, each.m, each.n, each.k, 1, "nn") for each in (*odd, *SHAPES)]
    plain = [predict(work(_of(each)), device=base).busy_s or 0.0 for each in (*odd, *SHAPES)]
    times = tuple(
        time_s * (2.0 if each.dtype == "float16" else 1.3) for each, time_s in zip((*odd, *SHAPES), plain, strict=True)
    )
    both = replace(base, sweeps={"products": SweptCalls.of(PRODUCT, rows, times)}, date="2000-01-01 both")
    for size, n, low, high in ((1500, 1501, 1.5, 2.1), (1536, 1536, 1.1, 1.4)):
        each = _of(Matmul(size, n, size, dtype="float16"))
        before, after = (predict(work(each), device=peaks).busy_s or 0.0 for peaks in (base, both))
        assert low < after / before < high


def test_an_operator_of_the_sweep_takes_what_it_took_and_another_goes_by_its_class() -> None:
    calls = [rows_sum(lines, length) for lines in (16, 1024, 65536) for length in (64, 1024)]
    slow = swept(3.0, *calls)
    other, columns = rows_sum(1000, 1000, "aten.prod"), rows_sum(1000, 1000, form="columns")
    for each, factor, off in (*((each, 3, 1e-6) for each in calls), (rows_sum(4096, 256), 3, 0.1), (other, 3, 0.15),
                              (columns, 1, 1e-9)):  # fmt: skip
        plain, corrected = (predict(work(each), device=peaks).busy_s for peaks in (with_cache(), slow))
        assert corrected == pytest.approx(factor * (plain or 0.0), rel=off)
    assert "aten.prod was not in the sweep" in " ".join(predict(work(other), device=slow).notes)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.floats(-1, 1)), min_size=1, max_size=15, unique_by=lambda each: each[0]),
    st.floats(-1e3, 1e3),
)
@settings(max_examples=50, deadline=None)
def test_a_regression_stays_near_its_residuals(given_: list[tuple[int, float]], place: float) -> None:
    """Never further out than they are by much; far from all of them it comes back towards zero and their mean."""
    nearby = GaussianProcess(np.array([[float(x)] for x, _ in given_]), Hyperparameters((2.0,), 0.3, 0.05, 0.3))
    most, residual = max(abs(y) for _, y in given_), [y for _, y in given_].__getitem__
    assert abs(nearby.at(np.array([place]), residual)) <= 2.5 * most + 1e-9
    assert all(abs(nearby.at(np.array([float(x)]), residual) - y) < 0.6 * most + 0.05 for x, y in given_)


def test_names_share_what_is_common_and_keep_what_is_their_own() -> None:
    """Twice as slow as the rest of the class everywhere: elsewhere too, and no other one is."""
    wide, own = Hyperparameters((3.0,), 0.5, 0.01, 1.0), Hyperparameters((3.0,), 0.2, 0.0, 1.0)
    places, between = np.array([[float(x)] for x in range(10)] * 2), np.array([4.5])
    residual = ([0.1] * 10 + [0.8] * 10).__getitem__
    nearby = GaussianProcess(places, wide, ["one"] * 10 + ["slow"] * 10, own)
    assert nearby.at(between, residual, "slow") == pytest.approx(0.8, abs=0.05)
    assert nearby.at(between, residual, "one") == pytest.approx(0.1, abs=0.05)
    assert 0.2 < nearby.at(between, residual, "unknown") < 0.7


# What a GPU does in one piece


def test_a_dropouts_gradient_reads_its_mask_as_bytes() -> None:
    x = array((64, 96), requires_grad=True)
    counted = cost(lambda x: functional.dropout(x, 0.1), x, backward=True)
    forward, backward = as_on_gpu(counted.operators)
    assert (forward.name, backward.name) == ("aten.native_dropout", "aten.native_dropout_backward")
    assert backward.read_bytes == 64 * 96 * (4 + 1) and backward.written_bytes == 64 * 96 * 4
    product = as_on_gpu(cost(lambda x: x * x, x, backward=True).operators)  # no mask
    assert all("dropout" not in each.name for each in product)


def test_a_graph_that_draws_random_numbers_sets_their_seed_before_each_replay() -> None:
    peaks, x = with_cache(), array((64, 96))
    times = {}
    for name, run in (("drawn", lambda x: functional.dropout(x, 0.1)), ("not", torch.relu)):
        graph, eager = (predict(run, x, device=peaks, how=how) for how in ("graph", "eager"))
        assert graph.span_s and eager.span_s
        times[name] = graph.span_s - eager.span_s, [each.name for each in graph.operators]
    assert times["not"] == (pytest.approx(0, abs=1e-12), ["aten.relu"])
    assert times["drawn"][1] == ["aten.fill_", "aten.fill_", "aten.native_dropout"]
    fill_s = predict(lambda x: x.fill_(1), array(1), device=peaks).span_s
    gap_s = peaks.measured["gap.stream"].value
    assert times["drawn"][0] == pytest.approx(2 * ((fill_s or 0) + gap_s), rel=0.2)


def test_an_rms_norm_and_a_dropout_are_one_operator_on_a_gpu() -> None:
    counted = cost(lambda x, w: functional.rms_norm(x, (64,), w), array((8, 64), device="cpu"), array(64, device="cpu"))
    (norm,) = as_on_gpu(counted.operators)
    assert (norm.name, norm.kind, norm.form) == ("aten._fused_rms_norm", "norm", Form("rows", 8, 64))
    assert norm.read_bytes == 4 * (8 * 64 + 64) and norm.written_bytes == 4 * 8 * 64
    assert norm.flop == sum(each.flop or 0 for each in counted.operators)
    (drop,) = as_on_gpu(cost(lambda x: functional.dropout(x), array((8, 64), device="cpu")).operators)
    assert (drop.name, drop.read_bytes, drop.written_bytes) == ("aten.native_dropout", 2048, 2048 + 512)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_gradients_of_an_rms_norm_are_one_operator_on_a_gpu(dtype: str, weighted: bool) -> None:
    """As many bytes as those of a layer norm, which has a mean for each row beside."""

    def of(norm: Callable[..., object]) -> OperatorCost:
        x = array((8, 512), dtype, device="cpu", requires_grad=True)
        w = array(512, dtype, device="cpu", requires_grad=weighted)
        counted = cost(lambda x, w: norm(x, (512,), w if weighted else None), x, w, backward=True)
        forward, backward = as_on_gpu(counted.operators)
        assert (forward.backward, backward.backward) == (False, True)
        return backward

    found, like = of(functional.rms_norm), of(functional.layer_norm)
    assert found.name == "aten._fused_rms_norm_backward" and (found.kind, found.form) == (like.kind, like.form)
    assert found.form.name == ("rows and sums" if weighted else "rows") and found.dtype == dtype
    assert found.read_bytes == pytest.approx(like.read_bytes, rel=0.05)
    assert found.written_bytes == pytest.approx(like.written_bytes, rel=0.05)


def test_a_convolutions_bias_is_a_kernel_of_its_own() -> None:
    x, w, b = array((2, 8, 6, 6), device="cpu"), array((16, 8, 3, 3), device="cpu"), array(16, device="cpu")
    bare, added = as_on_gpu(cost(functional.conv2d, x, w, b).operators)
    assert (bare,) == tuple(as_on_gpu(cost(functional.conv2d, x, w).operators))
    assert (added.name, added.kind, added.form) == ("aten.add_", "pointwise", Form("broadcast", 2 * 16, 4 * 4))
    assert (added.read_bytes, added.written_bytes, added.flop) == (4 * (16 * 32 + 16), 4 * 16 * 32, 16 * 32)
    w, b = array((8, 1, 3, 3), device="cpu"), array(8, device="cpu")
    (only,) = as_on_gpu(cost(partial(functional.conv2d, groups=8), x, w, b).operators)
    assert (only.name, only.form.name) == ("aten.convolution", "depthwise"), "torch's own kernel adds it"


def convolutions() -> list[OperatorCost]:
    """Of one size in all but the number of images and the window."""
    forms = [Form("window", 4096, 441, images, window) for images in (1, 4, 16, 64) for window in (1, 9, 49)]
    return [OperatorCost("aten.convolution", 1e8, 1e6, 1e6, "float32", (), "convolution", (), form) for form in forms]


def in_a_sweep(rows: Sequence[tuple[OperatorCost, float]], fits: Mapping[str, tuple[float, ...]]) -> Corrections:
    """What a sweep of these operators says, each of which took so many µs where the model says 1."""
    told = tuple(
        (e.name, e.kind, e.form.name, e.dtype, e.form.lines, e.form.length, e.form.over, e.form.window,
         int(e.read_bytes), int(e.written_bytes), int(e.flop or 0))
        for e, _ in rows
    )  # fmt: skip
    device = gpu(sweeps={"operators": SweptCalls.of(COLUMNS, told, [1e-6 * took for _, took in rows], fits=fits)})
    return Corrections(device, lambda product: 1e-6, lambda products: Speeds(1e12, 1e12, 1), lambda each: 1e-6)


def test_images_and_window_tell_convolutions_apart() -> None:
    """Nothing else differs: a model without them would give all the same factor."""
    rows = [(each, 1.0 + (each.form.over > 8) + 4 * (each.form.window > 1)) for each in convolutions()]
    swept = in_a_sweep([row for row in rows if row[0].form.over != 16], {})
    for images, window, low, high in ((32, 49, 4.5, 7), (2, 49, 4, 6.5), (2, 1, 0.8, 1.6)):
        other = replace(rows[0][0], form=Form("window", 4096, 441, images, window))
        factor, known = swept.of_operator(other) or (0.0, False)
        assert low < factor < high and known


def test_beyond_a_sweep_its_end_counts() -> None:
    """Twice or a thousand times the largest of a sweep is as far off its model as the largest was."""
    sizes = [rows_sum(2**power, 1024) for power in range(4, 16)]
    swept = in_a_sweep([(each, 2.0 if each.form.lines < 1000 else 4.0) for each in sizes], {})
    beyond = [swept.of_operator(rows_sum(2**power, 1024)) or (0.0, False) for power in (16, 20, 26)]
    assert beyond[0] == beyond[1] == beyond[2] and beyond[0][0] == pytest.approx(4, rel=0.1)


def test_more_rows_than_were_swept_count_as_several_times_as_many_as_were() -> None:
    """Norms of more rows than any that was swept are as far off the model as those of the most, by their length."""
    made = [
        (replace(rows_sum(2**power, length), kind="norm"), factor)
        for power in range(4, 13)
        for length, factor in ((64, 1.2), (4096, 3.0))
    ]
    swept = in_a_sweep(made, {})

    def factor(lines: int, length: int) -> float:
        return (swept.of_operator(replace(rows_sum(lines, length), kind="norm")) or (0.0, False))[0]

    assert factor(2**14, 4096) == pytest.approx(3, rel=0.02) == factor(2**24, 4096)
    assert factor(2**21, 64) == pytest.approx(factor(2**26, 64), rel=0.001)


@pytest.mark.parametrize(("kind", "held"), [("attention", False), ("convolution", False), ("copy", True)])
def test_only_what_counts_by_flop_goes_on_beyond_a_sweep(kind: str, held: bool) -> None:
    """A factor that falls with the length goes on falling there for attention; of a copy the sweep's end counts."""
    made = [
        (replace(rows_sum(1024, 2**power, form="all"), kind=kind, flop=2.0**power * 1e6), 2.0 + (12 - power) / 3)
        for power in range(4, 13)
    ]
    swept = in_a_sweep(made, {})
    near, far = (
        (swept.of_operator(replace(made[-1][0], form=Form("all", 1024, 2**power))) or (0.0, False))[0]
        for power in (13, 15)
    )
    assert (near == far) is held


def test_a_row_is_added_in_another_way_to_few_rows_and_to_small_products() -> None:
    """What a sweep shows of a library's choice counts on its own side of the border, and not across it."""
    base = with_cache()
    sizes = [(m, 256, k) for m in (4, 8, 12, 16, 20, 24, 32, 48, 64) for k in (48, 64, 96, 192, 384, 768)]
    products = [Matmul(*size, dtype="bfloat16") for size in sizes]
    slow = [p.m > 16 and p.m * p.n * p.k < 2**21 for p in products]
    times = tuple(
        (4 if each else 1) * (predict(work(_of(p)), device=base).busy_s or 0)
        for p, each in zip(products, slow, strict=True)
    )
    rows = tuple((p.dtype, p.m, p.n, p.k, 1, "nn", 1) for p in products)
    peaks = fitted(
        replace(base, sweeps={"products": SweptCalls.of((*PRODUCT, "added"), rows, times)}, date="2000-01-01 choice")
    )
    for m, n, k, factor in ((14, 256, 80, 1), (18, 256, 80, 4), (40, 256, 80, 4), (40, 256, 512, 1)):
        each = replace(_of(Matmul(m, n, k, dtype="bfloat16")), name="aten.addmm")
        plain, found = (predict(work(each), device=one).busy_s for one in (base, peaks))
        assert plain and found and found / plain == pytest.approx(factor, rel=0.25), (m, n, k)


def test_a_fit_finds_what_matters() -> None:
    """Of times that depend on the number of images alone: these by a short scale, nothing else by one."""
    draw = random.Random(5)
    made = []
    for _ in range(120):
        lines, length, images = 2 ** draw.randint(6, 14), draw.randint(8, 4000), 2 ** draw.randint(0, 8)
        form = Form("window", lines, length, images, draw.choice((1, 9)))
        each = replace(convolutions()[0], flop=2.0 * lines * length * 64, form=form)
        made.append((each, 1.0 + 2 * (form.over.bit_length() % 2)))
    plain = in_a_sweep(made[:80], {})
    (name,) = plain.operators
    found = fit(plain.group_of_operators(name))
    features = operator_points([made[0][0]], 1).shape[1]
    shared, own = parts_of(found, features)
    images = 5
    assert min(shared.scales[images], own.scales[images]) < 1.5 < min((*shared.scales[:5], *own.scales[:5]))
    better = in_a_sweep(made[:80], {name: found})

    def error(of: Corrections) -> float:
        return fmean(abs(math.log((of.of_operator(each) or (1.0, False))[0] / took)) for each, took in made[80:])

    assert error(better) < 0.05 < error(plain)


@pytest.mark.parametrize(
    ("heads", "tokens", "tiles", "waves", "filled"),
    [(4, 256, 8, 1, 1.0), (9, 100, 9, 2, 1.28), (8, 64, 8, 1, 2.0), (3, 129, 6, 1, 256 / 129)],
)
@pytest.mark.parametrize("backward", [False, True])
def test_attention_lies_by_the_waves_of_its_tiles(
    heads: int, tokens: int, tiles: int, waves: int, filled: float, backward: bool
) -> None:
    """On eight multiprocessors, in tiles of 128 queries."""
    name = f"aten._scaled_dot_product_flash_attention{'_backward' * backward}"
    flop = 4.0 * heads * tokens**2 * 64 * (2.5 if backward else 1)
    each = OperatorCost(name, flop, 1e6, 1e6, "bfloat16", (), "attention", (), Form("all", heads * tokens, 64))
    over, whole, log_waves = operator_points([each], 8)[0][-3:]
    assert 2**log_waves == pytest.approx(tiles / 8) and over == pytest.approx(filled)
    assert whole == pytest.approx(waves / (tiles / 8) if tiles > 8 else 1.0)


@pytest.mark.parametrize("kind", ["attention", "convolution"])
@pytest.mark.parametrize("form", [Form(), Form("all", 0, 64), Form("window", 0, 0)])
def test_what_holds_nothing_lies_somewhere(kind: str, form: Form) -> None:
    each = OperatorCost("aten.convolution", 0.0, 0.0, 0.0, "float32", (), kind, (), form)
    assert all(map(math.isfinite, operator_points([each], 8)[0]))


def test_groups_are_fitted_as_long_as_there_is_time() -> None:
    rows = [(rows_sum(2**power, 1024), 2.0) for power in range(4, 16)]
    peaks = in_a_sweep([*rows, (rows_sum(64, 64, form="columns"), 1.0)], {}).peaks
    done, late = fitted(peaks), fitted(peaks, until_s=0.0)
    assert list(done.sweeps["operators"].fits) == ["reduction/rows"] and done.notes == peaks.notes  # one is too few
    assert not late.sweeps["operators"].fits
    assert late.notes == (*peaks.notes, "fits: 0 of 1 groups of calls, for lack of time")
    assert done.sweeps["operators"].columns == peaks.sweeps["operators"].columns


@pytest.mark.parametrize(
    ("kind", "name"),
    [("operators", "copy/to-float32"), ("products", "float64 and a row")],
)
def test_the_recorded_fits_are_those_of_the_recorded_times(kind: str, name: str) -> None:
    peaks = recorded_peaks("h200")
    corrections = corrections_of(peaks)
    group = (corrections.group_of_products if kind == "products" else corrections.group_of_operators)(name)
    assert fit(group) == pytest.approx(peaks.sweeps[kind].fits[name], rel=0.02)


def test_calls_that_differ_in_nothing_can_be_fitted() -> None:
    swept = in_a_sweep([(convolutions()[0], 1.0)] * 40, {})
    (name,) = swept.operators
    group = swept.group_of_operators(name)
    unsure, equal = (replace(group, seconds=[took] * 40) for took in (math.nan, 1.1e-6))
    assert fit(unsure) == pytest.approx(_start_of(len(group.points[0])))
    assert all(math.isfinite(each) for each in fit(equal))


def _start_of(features: int) -> list[float]:
    """The hyperparameters that the ascent begins with."""
    return [x for scale, *rest in (START, START_OWN) for x in (*[scale] * features, *rest)]


def test_a_fit_of_other_features_does_not_count() -> None:
    """That of an older brrr, or of a newer one."""
    assert parts_of((1.0,) * 7, 3) == parts_of(None, 3)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell"])
def test_a_recurrent_cells_gates_are_one_kernel_behind_its_products(cell: str, backward: bool) -> None:

    counted = cost(getattr(torch.nn, cell)(64, 96), array((128, 64), device="cpu"), backward=backward)
    kernels = [each for each in as_on_gpu(counted.operators) if each.kind != "view"]
    name = f"aten._thnn_fused_{cell[:-4].lower()}_cell"
    assert [each.name for each in kernels[:4]] == ["aten.zeros", "aten.mm", "aten.mm", name]
    read, written = (9, 6) if cell == "LSTMCell" else (7, 6)
    assert (kernels[3].read_bytes, kernels[3].written_bytes) == (read * 128 * 96 * 4, written * 128 * 96 * 4)
    if backward and cell == "LSTMCell":
        assert [each.name for each in kernels[4:7]] == [f"{name}_backward", "aten.mm", "aten.sum"]
        assert kernels[4].backward and kernels[4].form.length == 4 * 128 * 96
    elif not backward:
        assert len(kernels) == 4


def test_the_gradients_of_a_cell_are_one_kernel_only_behind_a_cell() -> None:
    from torch import nn

    lstm = cost(nn.LSTMCell(64, 96), array((128, 64), device="cpu"), backward=True)
    kernels = [each for each in as_on_gpu(lstm.operators) if each.backward]
    alone = as_on_gpu([each for each in lstm.operators if each.backward])
    assert "aten._thnn_fused_lstm_cell_backward" in [each.name for each in kernels]
    assert "aten.tanh_backward" in [each.name for each in alone]


# Forms and their host costs

CLASSES = {"scalar": 5.9, "in-place-scalar": 4.9, "relu": 5.8, "unary": 4.5, "addmm": 9.0, "reduction-rows": 8.0,
           "view-shape": 3.0, "clone": 5.5, "cast": 6.1,
           "batch-norm": 20.0}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "expected"),
    [("x + 1.5", "scalar"), ("x + y", "pointwise"), ("x.mul_(2.0)", "in-place-scalar"), ("x.mul_(y)", "in-place"),
     ("x.relu()", "relu"), ("x.tanh()", "unary"), ("x.clone()", "clone"), ("x.sum(-1)", "reduction-rows"),
     ("x.sum()", "reduction"), ("x.view(-1)", "view"), ("x.t()", "view"), ("x @ y", "matmul"),
     ("torch.addmm(v, x, y)", "addmm"), ("x + v", "pointwise"), ("x.double()", "cast"),
     ("torch.nn.functional.batch_norm(x, None, None, training=True)", "batch-norm")],
)  # fmt: skip
def test_a_call_goes_by_the_host_cost_nearest_to_it(written: str, expected: str) -> None:

    square = array((64, 64), device="cpu")
    counted = cost(lambda x, y, v: eval(written, {"torch": torch}, {"x": x, "y": y, "v": v}), square, square,
                   array(64, device="cpu"))  # fmt: skip
    more = {f"host.{name}": peak(value * 1e-6, "s") for name, value in CLASSES.items()}
    rich = DeviceModel.measured(gpu(measured={**gpu().measured, **more}))
    assert host_class(counted.operators[-1], rich) == expected
    assert rich.has(
        f"host.{host_class(counted.operators[0], DeviceModel.measured(gpu()))}"
    )  # older peaks have the classes
