"""Predictions against answers worked out by hand: each term alone, the two clocks, bounds, errors."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peaks_made_up import curve, peak
from rooflines import assumed, cpu, gpu, pointwise, product, view, without

from brrr.core.errors import ArgumentError, TraceError
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.counting.description import array
from brrr.roofline.gemm_families import (
    Products,
    Speeds,
    TiledProduct,
    best_tiling,
    family_name,
    family_of,
    product_s,
    tilings,
)
from brrr.roofline.lowering import fused
from brrr.roofline.peak import Curve
from brrr.roofline.peaks import MissingPeakError, Peaks, write
from brrr.roofline.predicting import Issued, period_s, predict, schedule, span_s
from brrr.roofline.shapes import suggest_shape
from tests.refusals import refused, values


def work(*operators: OperatorCost, nbytes: float | None = None, working_set: float = -1.0) -> Cost:
    """A cost of these operators."""
    eager = sum(each.bytes for each in operators)
    flop = sum(each.flop or 0.0 for each in operators)
    return Cost(flop, eager if nbytes is None else nbytes, eager, working_set, operators)


def microseconds(value_s: float | None) -> float:
    assert value_s is not None
    return round(value_s * 1e6, 6)


# Each term alone


TOTAL = OperatorCost("aten.sum", 0.0, 8e6, 4.0, "float32", ((1,),), "reduction")
LEVELS = {"copy": curve({1e6: 8e12, 50e6: 8e12, 500e6: 4e12})}
ONCE = {"copy": curve({1e6: 8e12}), "copy-once": curve({1e6: 0.5e12})}
REPLAYS = {**gpu().curves, "graph-replay": Curve("kernels", ((1.0, peak(4e-6, "s")), (4.0, peak(8e-6, "s"))))}
BY_HAND: dict[str, tuple[Cost, Peaks, dict[str, Any], dict[str, Any]]] = {  # a cost, where, how, what is predicted
    "400 MB at 4 TB/s are 100 µs, the kernel's start and end 1 µs, issuing 5": (
        work(pointwise(400e6)), gpu(), {"calls": 1},
        {"span_s": 101, "busy_s": 101, "period_s": 106, "latency_s": 106, "bound": "memory", "margin": math.inf}),
    "in a loop the next one follows 1 µs behind": (
        work(pointwise(400e6)), gpu(), {"calls": 100}, {"period_s": (5 + 100 * 101 + 99 * 1) / 100}),
    "2 GFLOP of plain operations at 20 TFLOP/s are 100 µs; 40 MB would take 10": (
        work(pointwise(40e6, 2e9)), gpu(), {}, {"span_s": 101, "bound": "compute", "margin": 10}),
    "short types are computed in float32": (work(pointwise(4e6, 2e9, dtype="bfloat16")), gpu(), {}, {"span_s": 101}),
    "without a figure of their own they are half of 40 TFLOP/s of multiply-adds": (
        work(pointwise(40e6, 2e9)), gpu(**without(gpu(), "arithmetic.fp32.mul")), {},
        {"compute_s": 100, "notes": "half the rate of fused multiply-adds"}),
    "arithmetic that nobody knows is left out": (
        work(pointwise(1e6, 1e6, dtype="float64")), gpu(), {}, {"compute_s": 0, "notes": "fp64"}),
    "views and operators in place have their own host cost": (
        work(view(), pointwise(4e3, name="aten.mul_")), gpu(), {}, {"host_s": 1 + 4, "kinds": ("measured",)}),
    "10 MB out of the cache at 8 TB/s": (work(pointwise(10e6)), gpu(curves=LEVELS), {}, {"memory_s": 1.25}),
    "they come from memory in a call that touches 1 GB": (
        work(pointwise(10e6), working_set=1e9), gpu(curves=LEVELS), {}, {"memory_s": 2.5}),
    "1 MB once took 2 µs, start and end included": (
        work(pointwise(1e6)), gpu(curves=ONCE), {}, {"memory_s": 1, "busy_s": 2}),
    "half of it takes half of what is left": (work(pointwise(5e5)), gpu(curves=ONCE), {}, {"memory_s": 0.5}),
    "a reduction reads": (
        work(TOTAL), gpu(curves={"copy": curve({1e6: 4e12}), "read": curve({1e6: 2e12})}), {}, {"memory_s": 4}),
    "without the number of multiprocessors the rate alone counts": (
        work(product(8448, 8448, 8448)), replace(gpu(), device="Some GPU"), {},
        {"compute_s": 2 * 8448**3 / 800e6, "notes": "without tiles and waves"}),
    "an assumed figure is one": (
        work(pointwise(1e6)), gpu(**without(gpu(), "kernel.floor"), assumed={"kernel.floor": assumed(1e-6)}), {},
        {"kinds": ("measured", "assumed")}),
    "a host that takes 5 µs for each of ten operators of 1.001 µs": (
        work(*[pointwise(4e3)] * 10), gpu(), {"calls": 10_000},
        {"host_s": 50, "busy_s": 10.01, "span_s": 19.01, "period_s": 50 + 1e-4, "bound": "overhead"}),
    "a graph: ten kernels, 0.5 µs between, are 14.51 µs; a replay is 6 µs to issue": (
        work(*[pointwise(4e3)] * 10), gpu(), {"how": "graph", "calls": 1},
        {"span_s": 14.51, "host_s": 6, "latency_s": 20.51, "period_s": 20.51}),
    "and the next replay follows 1 µs behind": (
        work(*[pointwise(4e3)] * 10), gpu(), {"how": "graph", "calls": 10},
        {"period_s": (6 + 10 * 14.51 + 9 * 1) / 10}),
    "a cost without operators is one kernel": (
        Cost(4e9, 400e6), gpu(), {}, {"memory_s": 100, "compute_s": 100, "bound": "balanced"}),
    "and faster in a short type": (Cost(4e9, 400e6), gpu(), {"dtype": "bfloat16"}, {"compute_s": 5}),
    "a graph's replay by its number of kernels": (
        work(*[pointwise(4e3)] * 4), gpu(curves=REPLAYS), {"how": "graph"}, {"host_s": 8}),
    "100 µs of compute and 300 µs of memory": (
        work(pointwise(4e6, 2e9), pointwise(1.2e9)), gpu(), {}, {"bound": "memory", "margin": 3}),
    **{f"400 MB take 100 µs, and {gflop} GFLOP?": (
        work(pointwise(400e6, gflop * 1e9)), gpu(), {}, {"bound": bound, "margin": margin})
       for gflop, bound, margin in ((0.2, "memory", 10), (1.7, "memory", 1 / 0.85), (1.9, "balanced", 1 / 0.95),
                                    (2.0, "balanced", 1.0), (2.2, "balanced", 1.1), (2.4, "compute", 1.2))},
    "a CPU does one after the other: calling takes 1 µs; 400 MB at 50 GB/s 8 ms": (
        work(pointwise(400e6), pointwise(400e6)), cpu(), {},
        {"span_s": None, "busy_s": None, "period_s": 2 * 8001, "latency_s": 2 * 8001}),
    "a CPU's products have a rate by size": (
        work(product(512, 512, 512, "float32", 4)), cpu(), {}, {"compute_s": 2 * 512**3 / (200e3 * 2**0.5)}),
    "1 MB took 20 µs on a CPU with the call's 1 µs in it": (
        work(pointwise(1e6)), cpu(curves={"copy": curve({1e6: 50e9, 8e6: 100e9})}), {}, {"period_s": 20}),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case: str) -> None:
    """Times in µs."""
    asked, device, how, expected = BY_HAND[case]
    found = predict(asked, device=device, **how)
    for name, value in expected.items():
        given = getattr(found, name)
        if name == "notes":
            assert any(value in note for note in given)
        elif name in ("bound", "kinds", "margin") or value is None:
            assert given == (pytest.approx(value) if name == "margin" else value), name
        else:
            assert given * 1e6 == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize(("call", "missing"), [
    *((lambda name=name: predict(work(pointwise(1e6), pointwise(1e6)), device=gpu(**without(gpu(), name))), name)
      for name in ("host.pointwise", "kernel.floor", "gap.stream")),
    (lambda: predict(work(pointwise(1e6)), device=gpu(curves={})), "copy"),
    (lambda: predict(work(product(64, 64, 64, "float8_e4m3fn")), device="t4"), "of NVIDIA T4 gives no matmul.fp8"),
    (lambda: predict(work(product(512, 512, 512, "float32", 4)), device=gpu(), tf32=True), "matmul.tf32"),
])  # fmt: skip
def test_a_missing_figure_is_named(call: Callable[[], object], missing: str) -> None:
    with pytest.raises(MissingPeakError, match=missing):
        call()


def test_lines_that_a_debugger_hides_are_told() -> None:
    before, said = sys.gettrace(), "lines of Python were not counted"
    try:
        sys.settrace(None)
        plain = predict(lambda x: x * 2, array((8, 8), device="cpu"), device=gpu())
        sys.settrace(lambda frame, event, value: None)
        watched = predict(lambda x: x * 2, array((8, 8), device="cpu"), device=gpu())
    finally:
        sys.settrace(before)
    assert [any(note.startswith(said) for note in each.notes) for each in (plain, watched)] == [False, True]


# Products of matrices


SPEEDS = Speeds(800e12, 9e12, 132)
ENDLESS = Speeds(800e12, 1e18, 132)
"""With a cache that is never the limit."""


def cached(**changed: object) -> Peaks:
    """A GPU whose cache is faster than its memory: 9 TB/s and 4 TB/s."""
    levels = {1e6: 9e12, 40e6: 9e12, 200e6: 4e12}
    return gpu(curves={**gpu().curves, "read": curve(levels), "copy": curve(levels), **changed})


def only(product: Matmul, rows: int, columns: int, speeds: Speeds = ENDLESS) -> float:
    """Seconds with whole sums in tiles of this size."""
    return next(t.seconds for t in ways(product, speeds) if (t.rows, t.columns, t.split) == (rows, columns, 1))


def ways(product: Matmul, speeds: Speeds) -> list[TiledProduct]:
    """The tilings of a product that come into question."""
    rows, columns, split, blocks, seconds = tilings(Products.of([product]), family_of(product), speeds)
    waves = np.ceil(blocks[:, 0] / speeds.sm_count)
    every = map(TiledProduct, rows, columns, split, waves, seconds[:, 0])
    return [each for each in every if each.seconds < math.inf]


def test_tiles_go_in_waves_and_one_over_the_edge_costs_a_whole_one() -> None:
    """On 132 multiprocessors 133 tiles of 256 x 128 take as long as 264, and twice as long as 132."""
    assert best_tiling(Matmul(12 * 256, 11 * 128, 8192, dtype="bfloat16"), SPEEDS).waves == 1
    one, more, two = (only(Matmul(tiles * 256, 128, 1024, dtype="bfloat16"), 256, 128) for tiles in (132, 133, 264))
    assert more == two == pytest.approx(2 * one)
    whole, edge = (only(Matmul(size, 128, 1024, dtype="bfloat16"), 256, 128) for size in (512, 257))
    assert whole == edge


def test_a_long_sum_is_split_where_tiles_are_few() -> None:
    long = Matmul(128, 128, 65536, dtype="bfloat16")
    assert best_tiling(long, SPEEDS).split > 1
    assert product_s(long, SPEEDS) < product_s(Matmul(128, 128, 65536, 2, "bfloat16"), SPEEDS)  # no batch is split
    assert {each.split for each in ways(Matmul(128, 128, 64), SPEEDS)} == {1}, "nor is a short sum"


def test_what_the_library_is_known_to_take_is_all_that_is_tried() -> None:
    """Few columns of float32 get a wide tile, unless an operand is transposed or there are more columns or rows."""
    few = Matmul(2048, 6, 2048, dtype="float32")
    assert {(t.rows, t.columns) for t in ways(few, SPEEDS)} == {(32, 128)}
    assert {(t.rows, t.columns, t.split) for t in ways(replace(few, n=7), SPEEDS)} == {(64, 32, 16)}
    others = (replace(few, n=12), replace(few, m=4096), replace(few, transposed=(False, True)), replace(few, batch=2))
    assert all(len({(t.rows, t.columns) for t in ways(each, SPEEDS)}) > 3 for each in others)


def test_partial_sums_are_written_and_read_once_in_float32() -> None:
    """Where computing takes longest, the cache's share is the result and the partial sums: it halves with its time."""
    product = Matmul(256, 256, 8192, dtype="bfloat16")
    family = family_of(product)
    slow, fast = (ways(product, Speeds(1e12, cache, 132)) for cache in (1e12, 2e12))
    assert {each.split for each in slow} > {1, 2, 3}
    for one, other in zip(slow, fast, strict=True):
        written = one.waves * 132 * one.rows * one.columns * 2 / family.written
        partial = 4 * 256 * 256 * one.split * 2 / family.cache if one.split > 1 else 0
        assert (one.seconds - other.seconds) * 2e12 == pytest.approx(written + partial)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "transposed", "aligned", "family"),
    [(64, 64, 64, "bfloat16", False, 16, "short, 16 B"), (64, 63, 64, "bfloat16", False, 2, "short, 2 B"),
     (64, 64, 63, "bfloat16", True, 2, "short, 2 B"), (63, 64, 64, "float16", False, 16, "short, 16 B"),
     (64, 62, 64, "float16", True, 4, "short, 4 B"), (64, 1, 64, "bfloat16", False, 16, "short, 16 B"),
     (64, 62, 64, "tf32", False, 8, "tf32, less"), (64, 61, 64, "float32", False, 4, "float32"),
     (1, 64, 64, "float32", False, 16, "vector"), (64, 64, 64, "float64", False, 16, "float64")],
)  # fmt: skip
def test_the_alignment_chooses_the_kernels(
    m: int, n: int, k: int, dtype: str, transposed: bool, aligned: int, family: str
) -> None:
    made = Matmul(m, n, k, 1, dtype, (False, transposed))
    assert Products.of([made]).alignment == aligned and family_name(made) == family


@pytest.mark.parametrize(
    ("aligned", "less", "least", "most"),
    [((4096, 4096, 4096), (4096, 4095, 4096), 3, 99), ((4096, 4096, 4096), (4096, 4096, 4088), 1, 1.5)],
)  # fmt: skip
def test_odd_rows_run_on_slow_kernels_and_rows_on_no_line_of_the_cache_take_longer(
    aligned: tuple[int, ...], less: tuple[int, ...], least: float, most: float
) -> None:
    on, off = (product_s(Matmul(*size, dtype="bfloat16"), SPEEDS) for size in (aligned, less))
    assert least * on < off < most * on


def test_a_square_product_is_compute_bound() -> None:
    """Within a fifth of 2 x 8448^3 FLOP at the best measured rate."""
    p = predict(work(product(8448, 8448, 8448)), device=cached())
    assert p.busy_s == pytest.approx(2 * 8448**3 / 800e12, rel=0.2)
    assert p.bound == "compute"


def test_a_skinny_product_is_bound_by_its_weights() -> None:
    """One row: 8192 x 8192 weights of 2 bytes at 4 TB/s, and the start of the kernel."""
    for rows in (1, 8):
        p = predict(work(product(rows, 8192, 8192), working_set=400e6), device=cached())
        assert p.memory_s == pytest.approx(2 * 8192 * 8192 / 4e12, rel=0.01)
        assert p.busy_s is not None and p.memory_s < p.busy_s < 1.5 * p.memory_s and p.bound == "memory"


# The two clocks


@pytest.mark.parametrize(
    ("steps", "gap", "moments", "span"),
    [   # issued at 2, 3, 7: the first runs 2 to 6; the second waits for it, and the gap; the third starts at once
        ([(2, 4), (1, 1), (4, 1)], 0.5, [(2, 2, 6), (3, 6.5, 7.5), (7, 8.0, 9.0)], 7),
        ([(2, 1), (8, 1)], 0.5, [(2, 2, 3), (10, 10, 11)], 2.5),  # a device that waits has no gap
        ([(2, 1), (3, None), (1, 1)], 0.0, [(2, 2, 3), (5, 5, 5), (6, 6, 7)], 2),  # a view costs the host alone
    ],
)  # fmt: skip
def test_the_two_clocks_by_hand(steps: list[Any], gap: float, moments: list[Any], span: float) -> None:
    issued = [Issued(*each) for each in steps]
    assert [tuple(each) for each in schedule(issued, gap)] == moments
    assert period_s(issued, 1, gap) == moments[-1][2] and span_s(issued, gap) == span


# Fusion


def test_a_fused_chain_moves_the_compulsory_bytes() -> None:
    """Three operators of 400 MB, 400 MB of them compulsory: a third of the bytes, one call, one kernel."""
    p = predict(work(*[pointwise(400e6, 1e6)] * 3, nbytes=400e6), device=gpu(), how="compiled", calls=1)
    (only,) = p.operators
    assert microseconds(only.device_s) == 101 and microseconds(p.host_s) == 20
    assert only.name == "fused(aten.mul, aten.mul, aten.mul)"


def test_products_stay_between_fused_kernels() -> None:
    names = [each.name for each in fused(work(product(64, 64, 64), view(), pointwise(8e3), pointwise(8e3)))]
    assert names == ["aten.mm", "fused(aten.mul, aten.mul)"]


def test_what_passes_between_neighbours_is_not_moved() -> None:
    """Each reads 4 kB and writes 4 kB: of four times 4 kB, the first read and the last write are left."""
    *_, merged = fused(work(product(64, 64, 64), pointwise(8e3), pointwise(8e3)))
    assert (merged.read_bytes, merged.written_bytes) == (4e3, 4e3)


def test_sines_in_one_kernel_are_limited_by_their_arithmetic() -> None:
    """31 operations each at 20 TFLOP/s: 64 of them outlast the bytes by far; one by one each takes its bytes."""
    x = array((2**24,), device="cpu")

    def sines(x: Any) -> Any:
        for _ in range(64):
            x = x.sin()
        return x

    merged, eager = (predict(sines, x, device=gpu(), how=how) for how in ("compiled", "eager"))
    assert merged.bound == "compute" and merged.compute_s == pytest.approx(64 * 31 * 2**24 / 20e12)
    assert eager.bound == "memory" and eager.cost.flop == 64 * 2**24
    assert any("special functions" in note for note in merged.notes)
    assert not any("special functions" in note for note in predict(lambda x: x + 1, x, device=gpu()).notes)
    on_cpu = predict(sines, x, device=cpu())
    assert on_cpu.compute_s == pytest.approx(64 * 2**24 / 20e9)  # whose special functions nobody measured


def test_a_fused_kernel_starts_as_a_pointwise_one() -> None:
    x = array((64,), device="cpu")
    measured = {**gpu().measured, "kernel.pointwise": peak(3e-6, "s")}
    for peaks, start_s in ((gpu(), 1e-6), (gpu(measured=measured), 3e-6)):
        found = predict(lambda x: x * 2 + 1, x, device=peaks, how="compiled")
        assert found.busy_s == pytest.approx(start_s, rel=1e-2)


def test_further_kernels_of_a_compiled_form_cost_what_was_measured_of_them() -> None:
    """The call itself 20 us; each kernel behind the first what calibration found, or its class's cost; not products."""
    total = OperatorCost("aten.sum", 1.0, 4e3, 4.0, "float32", ((1000,),), "reduction")
    chain = work(pointwise(8e3), total, pointwise(8.0), product(64, 64, 64))
    assumed = predict(chain, device=gpu(), how="compiled", calls=1)
    measured = {**gpu().measured, "host.compiled-kernel": peak(11e-6, "s")}
    found = predict(chain, device=gpu(measured=measured), how="compiled", calls=1)
    of_class = {name: microseconds(gpu().measured[f"host.{name}"].value) for name in ("pointwise", "matmul")}
    assert microseconds(assumed.host_s) == 20 + of_class["pointwise"] + of_class["matmul"]
    assert microseconds(found.host_s) == 20 + 11 + of_class["matmul"]


def test_nothing_is_merged_behind_a_reduction() -> None:
    total = OperatorCost("aten.sum", 1.0, 4e3, 4.0, "float32", ((1000,),), "reduction")
    names = [each.name for each in fused(work(pointwise(8e3), total, pointwise(8.0)))]
    assert names == ["fused(aten.mul, aten.sum)", "aten.mul"]


# Bounds


def test_a_graph_that_gains_is_overhead() -> None:
    """Issuing takes 8 µs; in a graph it is work, 1 µs and 0.5 µs: 5.7 µs gain 1.4x on them, 6.7 µs 1.2x."""

    def bound(nbytes: float) -> str:
        norm = OperatorCost("aten.native_layer_norm", 0.0, nbytes / 2, nbytes / 2, "float32", ((1,),), "norm")
        return predict(work(*[norm] * 50), device=gpu()).bound

    assert bound(4.2e-6 * 4e12) == "overhead" and bound(5.2e-6 * 4e12) == "memory"


def test_a_graph_is_overhead_where_the_device_waits_for_its_replay() -> None:
    """Fifty tiny kernels take the device longer than the host takes to replay them; one does not."""
    many, one = (predict(work(*[pointwise(4e3)] * count), device=gpu(), how="graph") for count in (50, 1))
    assert (many.bound, one.bound) == ("under-filled", "overhead")
    assert many.margin == pytest.approx(many.period_s / many.memory_s)


# On a CPU


# Where the figures come from


def test_a_datasheet_is_asked_only_by_name() -> None:
    p = predict(work(pointwise(4.8e9)), device="datasheet:h200")
    assert p.kinds == ("datasheet", "assumed") and 1e-3 < p.memory_s < 1.3e-3  # at the share that an H200 reaches
    assert not any(used.kind == "measured" for used in p.basis)


def test_what_if_on_every_device() -> None:
    from brrr.gpu.datasheet import hardware_names

    for name in hardware_names():
        assert predict(work(pointwise(1e9)), device=f"datasheet:{name}").period_s > 0


def test_recorded_peaks_are_taken_by_name(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(tmp_path, Path)
    write(tmp_path / "h200", gpu())
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    for name in ("h200", "NVIDIA H200"):
        assert predict(work(pointwise(1e6)), device=name).kinds == ("measured",)
    assert predict(work(pointwise(1e6)), device="datasheet:h200").kinds == ("datasheet", "assumed")
    assert predict(work(pointwise(1e6)), device="a100").kinds == ("datasheet", "assumed")


def test_without_a_recording_the_datasheet_says_so(tmp_path: Path, only_recordings: Callable[[Path], None]) -> None:
    only_recordings(tmp_path)
    p = predict(work(pointwise(1e6)), device="h200")
    assert p.kinds == ("datasheet", "assumed")
    assert any("no measured peaks are recorded for 'h200'" in note for note in p.notes)


def unnamed_answers() -> list[str]:
    """What each function says that takes a device, where none is named."""
    from brrr.strassen import plan

    p = predict(work(pointwise(1e6)))
    return [str(p), str(plan(64, 64, 64))]


def test_without_a_name_it_is_the_h200_where_this_machine_has_no_peaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    write(tmp_path / "h200", gpu())
    monkeypatch.setattr("brrr.gpu.device.cuda_problem", lambda: "there is none")
    monkeypatch.setattr("brrr.gpu.probe.cpu_name", lambda: "a CPU that nobody recorded")
    predicted, planned = unnamed_answers()
    assert "(NVIDIA H200, as no peaks of this machine are kept, eager, " in predicted
    assert "planned for the H200, as no peaks of this machine are kept" in planned


def test_without_a_name_it_is_this_machine_where_it_has_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr.gpu.device import this_device

    here = this_device("cpu").name
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    write(tmp_path / "h200", gpu())
    write(tmp_path / "cpu", replace(cpu(), device=here))
    monkeypatch.setattr("brrr.gpu.device.cuda_problem", lambda: "there is none")
    predicted, planned = unnamed_answers()
    assert f"({here}, eager, " in predicted
    assert "no peaks" not in planned
    with pytest.raises(ArgumentError, match=r'expected a GPU. Name one: device="h200"'):
        suggest_shape(64, 64, 64)


# What it is asked


def test_tensors_elsewhere_are_descriptions() -> None:
    p = predict(lambda x: x * 2, torch.ones(1000), device=gpu())
    q = predict(lambda x: x * 2, array(1000, device="cpu"), device=gpu())
    assert p.period_s == q.period_s
    assert any("shapes and types count, not where they are" in note for note in p.notes)


@pytest.mark.parametrize(
    ("missing", "expected_us"),
    [
        ("aten.threshold_backward", 5 * 2 + 20 + 4 + 5 * 3),
        ("", 5 * 2 + 20 + 4 + 9),
        ("backward-gradient", 5 * 2 + 20 + 9),
        ("backward-operator", 5 + 9),
    ],
)
def test_autograd_costs_the_host(missing: str, expected_us: float) -> None:
    """Each forward operator twice, each backward as measured or three times; at once, and for each gradient."""
    times = {"relu": 5, "pointwise-grad": 10, "backward": 20, "backward-gradient": 4, "backward-operator": 15}
    times["aten.threshold_backward"] = 9
    measured = {f"host.{name}": peak(value * 1e-6, "s") for name, value in times.items() if name != missing}
    p = predict(
        lambda x: x.relu(), array(64, requires_grad=True), device=gpu(measured=gpu().measured | measured), backward=True
    )
    assert microseconds(p.host_s) == pytest.approx(expected_us)


def test_lines_of_python_cost_the_host_but_not_in_a_graph() -> None:
    device = gpu(measured=gpu().measured | {"host.line": peak(1e-6, "s")})

    def slow(x):  # type: ignore[no-untyped-def]
        for _ in range(10):
            pass
        return x * 2

    more = predict(slow, array(64), device=device).host_s - predict(lambda x: x * 2, array(64), device=device).host_s
    assert more == pytest.approx(21e-6, abs=1.5e-6)
    graph = [predict(fn, array(64), device=device, how="graph").host_s for fn in (slow, lambda x: x * 2)]
    assert graph[0] == graph[1]


def test_a_training_step_costs_what_autograd_does() -> None:
    """A backward that the callable asks for itself counts as one."""
    times = {"relu": 5, "pointwise-grad": 10, "backward": 200, "backward-operator": 15}
    device = gpu(measured=gpu().measured | {f"host.{name}": peak(value * 1e-6, "s") for name, value in times.items()})
    w = torch.rand(8, requires_grad=True)

    def step(x):  # type: ignore[no-untyped-def]
        (x * w).sum().backward()

    assert predict(step, torch.rand(8), device=device).host_s > 200e-6
    assert predict(lambda x: (x * w).sum(), torch.rand(8), device=device).host_s < 200e-6


WRONG = {
    "device": ["h20", "datasheet:tpu", 3], "how": ["fast"], "calls": [0, True], "dtype": ["float7"], "backward": [True],
}  # fmt: skip


@pytest.mark.parametrize(("argument", "value"), values(WRONG))
def test_wrong_arguments(argument: str, value: object) -> None:
    with refused(argument, value):
        predict(Cost(1e6, 1e6), **{"device": gpu(), argument: value})  # type: ignore[arg-type]


def test_what_does_not_go_together() -> None:
    with pytest.raises(ArgumentError, match="A CUDA Graph needs a GPU"):
        predict(work(pointwise(1e6)), device=cpu(), how="graph")
    with refused("dtype", "int16"):
        predict(work(product(64, 64, 64, "int16")), device=gpu())
    with pytest.raises(ArgumentError, match=r"Write predict\(lambda x"):
        predict(3, device=gpu())  # type: ignore[arg-type]
    with refused("args", 1):
        predict(Cost(1e6, 1e6), 1, device=gpu())
    with pytest.raises(ArgumentError, match="at least one element"):
        predict(lambda x: x * 2, torch.ones(0), device=gpu())
    with pytest.raises(TraceError):
        predict(lambda x: x * float(x.sum().item()), array(10), device=gpu())


@pytest.mark.parametrize("flop", [-1.0, float("nan"), float("inf")])
def test_impossible_costs(flop: float) -> None:
    with refused("flop"):
        predict(Cost(flop, 1e6), device=gpu())
