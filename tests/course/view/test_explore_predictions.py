"""Predictions in the explorer: what they are made of, which time each is held against, and what is shown of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import views
from peaks_made_up import curve, gpu_peaks, peak
from synthetic import Synthetic

from brrr.core.errors import ArgumentError
from brrr.counting.cost import Cost
from brrr.counting.description import array
from brrr.gpu.device import this_device
from brrr.gpu.precision import float32_products
from brrr.roofline.peaks import Peaks, write
from brrr.roofline.predicting import predict
from brrr_course.experiments import NAMES
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Experiment, PredictedRun
from brrr_course.sources.recorded import Recorded
from brrr_course.view import explorer
from brrr_course.view.explorer import explore
from brrr_course.view.predictions import Predictions, time_of
from brrr_course.view.quantities import ratio
from brrr_course.view.words import as_bundle

HOOKED = tuple(name for name in NAMES if experiment_named(name).predicts not in (None, unpredicted))
N = 2**20


def run_of(name: str, variant: str, **point: Any) -> PredictedRun:
    found = experiment_named(name).predicted_run(variant, point)
    assert found is not None
    return found


# ---- the hooks: the same as tracing finds ----


def traced(fn: Callable[..., Any], *args: Any, **options: Any) -> Cost:
    from brrr.counting.tracing import cost

    return cost(fn, *args, **options)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("way", ["layer norm", "rms norm"])
def test_normalisations_as_tracing_finds_them(way: str, dtype: str) -> None:
    """But for the weights and each row's statistics, which are few."""
    from torch.nn.functional import layer_norm, rms_norm

    from brrr.roofline.lowering import as_on_gpu

    takes = [array((1024, 512), dtype), *(array(512, dtype) for _ in range(2 - (way == "rms norm")))]
    norm = layer_norm if way == "layer norm" else rms_norm
    (counted,) = as_on_gpu(traced(lambda x, *weights: norm(x, (512,), *weights), *takes).operators)
    (made,) = run_of("norms", way, tokens=1024, width=512, dtype=dtype).cost.operators
    assert (made.name, made.kind, made.form) == (counted.name, counted.kind, counted.form)
    assert made.dtype == counted.dtype == dtype
    assert (made.read_bytes, made.written_bytes) == pytest.approx((counted.read_bytes, counted.written_bytes), rel=0.01)


def test_repeat_has_an_operator_a_step_or_one_kernel() -> None:
    point: dict[str, Any] = {"repeat": 8, "elements": N, "dtype": "bfloat16"}
    eager, fused = (run_of("repeat", f"{way}-mul", **point).cost for way in ("eager", "cuda"))
    assert [len(each.operators) for each in (eager, fused)] == [8, 1]
    assert eager.flop == fused.flop == 8 * N
    assert (eager.eager_bytes, fused.eager_bytes) == (8 * 4 * N, 4 * N)
    assert fused.operators[0].dtype == "float32"  # the steps are done in float32


def test_fmas_run_at_their_own_rate() -> None:
    point: dict[str, Any] = {"repeat": 512, "elements": 2**26, "dtype": "float32"}
    mul, fma = (predict(run_of("repeat", f"cuda-{kind}", **point).cost, device=gpu_peaks()) for kind in ("mul", "fma"))
    assert fma.bound == mul.bound == "compute"
    assert fma.compute_s == pytest.approx(mul.compute_s)  # twice the FLOP at twice the rate


IN_A_CACHE, IN_MEMORY = 2**22, 2**28


@pytest.mark.parametrize(("numbers", "variant", "stride", "offset", "arrays"), [
    (IN_A_CACHE, "read", 1, 0, 1.0), (IN_A_CACHE, "read", 4, 0, 1.0), (IN_A_CACHE, "read", 16, 0, 0.5),
    (IN_A_CACHE, "write", 1, 0, 1.0), (IN_A_CACHE, "write", 4, 0, 1.0),
    (IN_MEMORY, "read", 8, 0, 1.0), (IN_MEMORY, "read", 16, 0, 1.0), (IN_MEMORY, "read", 32, 0, 0.5),
    (IN_MEMORY, "write", 1, 0, 1.0), (IN_MEMORY, "write", 8, 0, 2.0), (IN_MEMORY, "write", 16, 0, 1.5),
    (IN_MEMORY, "write", 1, 1, 1.25), (IN_MEMORY, "write", 1, 8, 1.0),
])  # fmt: skip
def test_strides_move_whole_sectors(numbers: int, variant: str, stride: int, offset: int, arrays: float) -> None:
    """In a cache one sector of 32 bytes for each number from a stride of eight on; the memory hands out two, and reads
    what is written in part."""
    run = run_of("strides", variant, stride=stride, offset=offset, numbers=numbers)
    assert run.cost.bytes == pytest.approx(arrays * 4 * numbers)


@pytest.mark.parametrize("name", HOOKED)
def test_every_variant_is_predicted_or_none_wherever_it_exists(name: str) -> None:
    found, some = experiment_named(name), False
    for variant in found.variants:
        for point in found.points(quick=True):
            if not found.has(variant.name, point) or variant.device != "cuda":
                continue
            run = found.predicted_run(variant.name, point)
            if run is not None:
                times = predict(run.cost, device="datasheet:h200", how=run.how, dtype=run.dtype, calls=10)
                assert 0 < times.period_s < 100
                some = True
    assert some


def test_an_experiment_without_a_hook_counts_as_one_kernel() -> None:
    run = views.EXPERIMENT.predicted_run("graph", {"width": 64, "batch": 64})
    assert run is not None
    assert run.cost.operators == ()
    assert replace(views.EXPERIMENT, cost=None).predicted_run("graph", {"width": 64, "batch": 64}) is None


# ---- which time each is held against ----


def test_each_field_is_held_against_its_own() -> None:
    found = predict(run_of("cos_cos", "eager", elements=2**10, dtype="float32").cost, device="datasheet:h200")
    gpu, cpu, queue = (replace(experiment_named("unary").variants[0], device=d) for d in ("cuda", "cpu", "cpu-queue"))
    for field in ("period_s", "latency_s", "host_s", "span_s", "busy_s"):
        assert time_of(found, gpu, field) == getattr(found, field)
        assert time_of(found, cpu, field) == found.period_s
    assert time_of(found, gpu, "kernel_s") == found.busy_s
    assert time_of(found, queue, "kernel_s") == found.period_s
    assert time_of(found, queue, "latency_s") is None


# ---- what is shown ----


def test_shown_on_request() -> None:
    assert not explore("unary", source=Synthetic()).scene.predictions.on
    assert not explore("matmul", source=Synthetic()).predictions
    assert explore("matmul", source="recorded:h200", predict=True).predictions


def test_asking_where_there_is_nothing_to_predict_from_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(views.EXPERIMENT, cost=None, rate=None)
    monkeypatch.setattr(explorer, "experiment_named", lambda name: bare)
    with pytest.raises(ArgumentError, match="predict"):
        explore("views", source=views.Recorded(), predict=True)
    assert explore("views", source=views.Recorded()).predictions == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An explorer over made-up times, each one kernel on the datasheet of an H200."""
    monkeypatch.setattr(explorer, "experiment_named", lambda name: views.EXPERIMENT)

    def make(**options: Any) -> Any:
        at = {"width": 1024, "batch": 64}
        return explore("views", at=at, source=views.Recorded(), predict=True, **options)

    return make


def test_a_row_says_predicted_bound_measured_and_their_ratio(asked: Any) -> None:
    shown = asked(lines=["prepared", "graph"])
    first = shown.predictions[0]
    alone = predict(Cost(1024.0 * 64, 4.0 * 1024 * 64), device="datasheet:h200")
    assert (first.line, first.predicted_s, first.bound) == ("prepared", alone.period_s, alone.bound)
    assert first.measured.median == {x: y for x, y, *_ in shown.data["prepared"]}[1024]
    assert first.residual == pytest.approx(first.measured.median / alone.period_s)
    text = as_bundle(shown.scene)["text/plain"]
    assert ratio(first.residual) in text
    assert "PREDICTED · NVIDIA H200 SXM · peaks: datasheet and assumed." in text


def test_what_is_drawn_is_in_the_unit_of_the_view(asked: Any) -> None:
    times, rates = (asked(lines=["prepared"], show=show).scene.predicted_data["prepared"] for show in ("time", "rate"))
    assert [x for x, _ in times] == list(views.WIDTHS)
    assert [y for _, y in rates] == pytest.approx([4.0 * 64 * x / y for x, y in times])
    gains = asked(show={"speedup": {"prepared": "module"}}).scene
    assert [y for _, y in gains.predicted_data["prepared"]] == pytest.approx([1.0] * len(views.WIDTHS))
    assert gains.predicted_here[0].predicted_s == dict(times)[1024]  # the table tells times, whatever is drawn
    assert asked(show="ladder").scene.predicted_data == {}


# ---- whose peaks ----


def cpu_peaks(name: str) -> Peaks:
    hosts = {f"host.{kind}": peak(1e-6, "s") for kind in ("pointwise", "copy", "reduction", "in-place")}
    rates = {"arithmetic.fp32.mul": peak(2e10, "FLOP/s"), "arithmetic.fp32.fma": peak(4e10, "FLOP/s")}
    streams = curve({65536.0: 1e10, 1e9: 1e10})
    return Peaks(name, "cpu", "2000-01-01T00:00:00+00:00", measured={**hosts, **rates},
                 curves={"copy": streams, "copy-once": streams, "read": streams})  # fmt: skip


def test_without_peaks_of_this_cpu_one_line_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.gpu.probe.cpu_name", lambda: "a CPU that nobody recorded")
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    write(tmp_path / "cpu", cpu_peaks("another CPU"))
    shown = explore("remat", source="cpu", predict=True)
    assert shown.predictions == []
    assert as_bundle(shown.scene)["text/plain"].count("run `brrr calibrate --device cpu`") == 1
    assert shown.scene.predicted_data == {}
    shown.sweep()


def test_with_peaks_of_this_cpu_a_live_measurement_has_a_residual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    monkeypatch.setenv("BRRR_QUICK", "1")
    write(tmp_path / "cpu", cpu_peaks(this_device("cpu").name))
    shown = explore(
        "cos_cos", at={"elements": 2**16, "dtype": "float32"}, source="cpu", lines=["cpu one"], predict=True
    )
    (row,) = shown.predictions
    assert row.predicted_s == pytest.approx(1e-6 + 2 * 4 * 2**16 / 1e10, rel=0.2)
    assert (row.measured, row.residual) == (None, None)
    shown.scene.source.measure(shown.scene.experiment, "cpu-one", shown.scene.point)
    (row,) = shown.predictions
    assert row.residual == pytest.approx(row.measured.median / row.predicted_s)


def test_a_figure_that_is_missing_is_named_and_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    full = cpu_peaks(this_device("cpu").name)
    few = replace(full, measured={name: each for name, each in full.measured.items() if name != "host.pointwise"})
    write(tmp_path / "cpu", few)
    shown = explore("cos_cos", source="cpu", lines=["cpu one"], predict=True)
    assert [row.predicted_s for row in shown.predictions] == [None]
    said = as_bundle(shown.scene)["text/plain"]
    assert "No prediction: " in said and "host.pointwise" in said


def test_the_recorded_gpu_has_its_own_peaks_and_not_its_cpu() -> None:
    said = as_bundle(explore("cos_cos", source="recorded:h200", predict=True).scene)["text/plain"]
    assert "PREDICTED · NVIDIA H200 · peaks: measured" in said
    assert "No peaks of that machine's CPU are recorded" in said


GROSS = {"unary": ["relu", "exp"], "working_set": ["torch copy"], "repeat": ["cuda mul", "cuda fma"],
         "norms": ["layer norm", "rms norm"]}  # fmt: skip


@pytest.mark.parametrize("name", GROSS)
def test_no_gross_error_on_the_recording_of_large_arrays(name: str) -> None:
    shown = explore(name, source="recorded:h200", lines=GROSS[name], predict=True)
    large = max(shown.scene.values[shown.scene.experiment.axes[0 if name != "repeat" else 1].name])
    for point in _points(shown.scene.experiment, shown.scene.source, large):
        for line in shown.scene.lines:
            found = shown.scene.predictions.row(line, point)
            if found.residual is not None and point.get("dtype", "float32") == "float32":
                assert 0.7 < found.residual < 1.5, (line.name, point)


def _points(found: Experiment, source: Any, large: Any) -> list[dict[str, Any]]:
    names = [axis.name for axis in found.axes]
    keys = {key for line in found.lines for key in source.known(found, line.variant)}
    return [dict(zip(names, key, strict=True)) for key in keys if large in key]


def test_the_edition_that_is_read_has_the_table_behind_the_picture(
    asked: Any, displayed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_STATIC", "1")
    asked(lines=["prepared"])._ipython_display_()
    found = [data for data, _ in displayed]
    assert ["image/png" in data for data in found] == [False, True, False]
    assert "PREDICTED · NVIDIA H200 SXM" in found[2]["text/plain"]
    assert "<table" in found[2]["text/html"]


@pytest.mark.parametrize("name", ["gemm_many", "mlp"])
def test_a_recorded_line_is_predicted_as_it_was_recorded(name: str) -> None:
    """Whatever torch is set to here."""
    found, made = experiment_named(name), {}
    point = {axis.name: axis.values[len(axis.values) // 2] for axis in found.axes}
    for tf32 in (False, True):
        with float32_products(tf32):
            lines = Predictions(found, Recorded("h200"), True)
            every = {each.name: lines.at(each.name, point) for each in found.variants}
            made[tf32] = {line: (each.period_s, each.basis) for line, each in every.items() if each is not None}
    assert made[False] and made[False] == made[True]
