"""What must hold of every prediction, whatever the peaks look like."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peaks_made_up import curve
from rooflines import cpu, gpu, pointwise, product, view

from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.roofline.gemm_families import Products, Speeds, best_tiling, families, family_name, family_of, product_s
from brrr.roofline.lowering import fused
from brrr.roofline.peaks import short
from brrr.roofline.predicting import Issued, period_s, predict, schedule, span_s
from brrr.roofline.prediction import GRAPH_GAIN, RIDGE, bound_of
from brrr.roofline.sweeps import product_points
from brrr.roofline.terms import OperatorTime

sizes = st.floats(1.0, 1e9)
rates = st.floats(1e9, 1e13)
curves = st.dictionaries(sizes, rates, min_size=1, max_size=6).map(lambda found: curve(dict(sorted(found.items()))))
times = st.floats(1e-8, 1e-3)
steps = st.lists(st.builds(Issued, times, times | st.none()), min_size=1, max_size=20)
operators = st.lists(
    st.builds(pointwise, sizes, st.floats(0, 1e10)) | st.builds(view) | st.builds(product, *[st.integers(1, 3000)] * 3),
    min_size=1, max_size=12,
)  # fmt: skip


def whole(found: list[OperatorCost], share: float = 1.0) -> Cost:
    """A cost of these operators, of whose bytes a share is compulsory."""
    eager = sum(each.bytes for each in found)
    return Cost(sum(each.flop or 0.0 for each in found), eager * share, eager, operators=tuple(found))


@given(sizes, st.floats(1, 100), curves, curves, curves)
@settings(max_examples=60, deadline=None)
def test_more_bytes_are_never_faster(nbytes: float, factor: float, copy: object, once: object, slow: object) -> None:
    """On any curves: noisy ones, with dips and with rates that grow faster than the sets."""
    for peaks in (
        gpu(curves={"copy": copy, "copy-once": once}),
        gpu(curves={"copy": slow}),
        cpu(curves={"copy": slow}),
    ):
        few, many = (predict(whole([pointwise(each)]), device=peaks) for each in (nbytes, nbytes * factor))
        assert many.period_s >= few.period_s * (1 - 1e-9)


@given(sizes, st.floats(1, 100), st.floats(1, 100), curves)
@settings(max_examples=60, deadline=None)
def test_a_larger_working_set_is_never_faster(nbytes: float, one: float, two: float, copy: object) -> None:
    less, more = sorted((nbytes * one, nbytes * two))
    near, far = (
        predict(replace(whole([pointwise(nbytes)]), working_set_bytes=size), device=gpu(curves={"copy": copy}))
        for size in (less, more)
    )
    assert far.period_s >= near.period_s * (1 - 1e-9)


@given(steps, st.integers(1, 5), times)
def test_a_loop_takes_at_least_either_clock(chain: list[Issued], calls: int, gap: float) -> None:
    period = period_s(chain, calls, gap)
    assert period >= sum(step.host_s for step in chain) * (1 - 1e-9)
    assert period >= span_s(chain, gap) * (1 - 1e-9)
    assert period <= (sum(step.host_s + (step.device_s or 0.0) for step in chain) + gap * len(chain)) * (1 + 1e-9)


@given(steps, times)
def test_nothing_starts_before_it_may(chain: list[Issued], gap: float) -> None:
    free = float("-inf")
    for step, (issued, start, end) in zip(chain, schedule(chain, gap), strict=True):
        assert start >= issued
        if step.device_s is not None:
            assert start == max(issued, free + gap)
            free = end


@given(operators)
@settings(max_examples=50, deadline=None)
def test_a_graph_spans_no_more_than_the_stream(found: list[OperatorCost]) -> None:
    eager, graph = (predict(whole(found), device=gpu(), how=how) for how in ("eager", "graph"))
    assert graph.span_s is not None and eager.span_s is not None and eager.busy_s is not None
    assert eager.busy_s <= graph.span_s * (1 + 1e-9) <= eager.span_s * (1 + 2e-9)
    for each in (eager, graph):
        assert each.span_s is not None and each.period_s >= each.span_s * (1 - 1e-9)
        assert each.latency_s >= each.period_s * (1 - 1e-9) or each.calls > 1
        assert each.margin >= 1


@given(operators, st.floats(0.05, 1.0))
@settings(max_examples=50, deadline=None)
def test_a_compiler_adds_nothing(found: list[OperatorCost], share: float) -> None:
    """No more kernels, no more bytes, the same FLOP and the same products."""
    cost = whole(found, share)
    made = fused(cost)
    assert len(made) <= sum(each.kind != "view" for each in found)
    assert sum(each.bytes for each in made) <= cost.eager_bytes * (1 + 1e-9)
    assert abs(sum(each.flop or 0 for each in made) - cost.flop) <= 1e-6 * max(1.0, cost.flop)
    assert tuple(p for each in made for p in each.matmuls) == cost.matmuls


dtypes = st.sampled_from(["bfloat16", "float16", "float32", "tf32", "float64"])
products = st.builds(Matmul, *[st.integers(1, 5000)] * 3, st.integers(1, 20), dtypes, st.tuples(*[st.booleans()] * 2))


@given(products, st.integers(1, 200))
@settings(max_examples=150, deadline=None)
def test_tiles_never_beat_the_rate(made: Matmul, processors: int) -> None:
    """Each family has its share of the rate, and its tiles are padded."""
    share = family_of(made).share
    assert product_s(made, Speeds(1e12, 1e12, processors)) >= made.flop / (share * 1e12) * (1 - 1e-9)


@given(st.lists(products, min_size=2, max_size=6), st.booleans())
@settings(max_examples=100, deadline=None)
def test_products_side_by_side_are_what_each_is_alone(made: list[Matmul], added: bool) -> None:
    every = Products.of(made)
    assert list(every) == made and every.families.tolist() == [family_name(each) for each in made]
    for name in set(map(family_name, made)):
        of = [place for place, each in enumerate(made) if family_name(each) == name]
        rates = 1e12 * (1.0 + np.arange(len(of)))
        points = product_points(every.part(of), families()[name], Speeds(rates, 5e12, 132), added)
        for place, rate, point in zip(of, rates, points, strict=True):
            alone = product_points(Products.of([made[place]]), families()[name], Speeds(rate, 5e12, 132), added)
            assert alone[0] == pytest.approx(point)
            best = best_tiling(made[place], Speeds(float(rate), 5e12, 132))
            assert 2 ** point[9] == pytest.approx(best.rows * best.columns)


def test_a_product_of_more_than_2_to_the_63_multiply_adds_is_no_small_one() -> None:
    huge = Products.of([Matmul(2_300_000, 2_300_000, 2_300_000)])
    assert product_points(huge, families()["float32"], Speeds(1e12, 5e12, 132), added=True)[0][-2] == 0


@given(products, st.sampled_from(["a100", "h100", "h200", "b200"]))
@settings(max_examples=60, deadline=None)
def test_no_product_beats_the_datasheet(made: Matmul, name: str) -> None:
    from brrr.gpu.datasheet import hardware

    tf32, dtype = made.dtype == "tf32", "float32" if made.dtype == "tf32" else made.dtype
    each = replace(product(made.m, made.n, made.k), dtype=dtype, matmuls=(replace(made, dtype=dtype),))
    p = predict(whole([each]), device=f"datasheet:{name}", tf32=tf32)
    promised = max(value for (kind, _), value in hardware(name).peaks.items() if kind == short(made.dtype))
    assert p.busy_s is not None and p.busy_s >= made.flop / promised * (1 - 1e-9)


@given(products, st.integers(1, 200), st.integers(2, 4))
@settings(max_examples=100, deadline=None)
def test_more_of_a_batch_is_never_faster(made: Matmul, processors: int, factor: int) -> None:
    """From two products on: a single one may split its sum, which a batch does not."""
    some, more = (replace(made, batch=batch) for batch in (made.batch + 1, (made.batch + 1) * factor))
    speeds = Speeds(1e14, 5e12, processors)
    assert product_s(more, speeds) >= product_s(some, speeds) * (1 - 1e-9)


@given(products, st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_a_faster_cache_and_unit_never_take_longer(made: Matmul, factor: int) -> None:
    slow, fast = Speeds(1e14, 5e12, 132), Speeds(factor * 1e14, factor * 5e12, 132)
    assert product_s(made, fast) <= product_s(made, slow) * (1 + 1e-9)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=8), st.floats(0, 1e-2), st.floats(0, 1e-2))
def test_bounds_are_one_of_five_with_a_margin(found: list[tuple[float, float]], host_s: float, held_s: float) -> None:
    """Overhead is what the host adds, under-filled what holds the device up: neither is ever taken for the other."""
    chain = [OperatorTime("op", 0.0, memory, compute, max(memory, compute)) for memory, compute in found]
    work_s = sum(each.work_s for each in chain)
    period = work_s + held_s + host_s
    bound, margin = bound_of(chain, period, work_s + held_s)
    assert margin >= 1 and (bound == "overhead") == (period >= GRAPH_GAIN * (work_s + held_s))
    assert bound == "overhead" or (bound == "under-filled") == (work_s < period / 2)
    if bound == "balanced" and len(found) > 1:
        assert margin <= RIDGE * (1 + 1e-9)
