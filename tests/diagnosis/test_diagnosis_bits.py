"""Fewer bits: which kind fits a product, and each kind's predicted gain beside the same layer as it was recorded."""

import functools
import re
import statistics
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from test_diagnosis_tried import tried
from traces import Maker, gains, plain
from traces import diagnosis as of_steps

from brrr.diagnosis.report import Diagnosis
from brrr.diagnosis.trials import NOT_SAFE
from brrr_course import Recorded
from brrr_course.experiments import experiment
from brrr_course.experiments.bits import ORDINARY, ROTATED_BYTES

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
INT4, INT8, FP8 = "weights alone in int4", "weights alone in int8", "the whole product in fp8"
RECORDED = {INT4: "int4", INT8: "int8", FP8: "fp8-rows-compiled"}
POINTS = [(1, 4096), (16, 4096), (256, 4096), (4096, 4096), (1, 8192), (4, 8192), (256, 8192)]


@functools.cache
def recorded_us(way: str, tokens: int, width: int) -> float | None:
    """A kernel's own time, None where it was not measured."""
    row = Recorded("h100").rows(experiment("bits"), way).get((tokens, width, ORDINARY))
    return row.measurement.kernel_s.median * 1e6 if row is not None and row.measurement.kernel_s is not None else None


def layers(tokens: int, width: int, way: str = "bf16") -> Callable[[Maker], None]:
    """Layers in turn, as many as were recorded, each with the time that it took there."""
    dtype, us = "bfloat16" if way == "bf16" else "float32", recorded_us(way, tokens, width)
    assert us is not None
    weight = ((width, width), (1, width), dtype)
    count = ROTATED_BYTES // (width * width * (2 if way == "bf16" else 4))

    def step(made: Maker) -> None:
        for _ in range(count):
            name = "ampere_bf16_s16816gemm" if way == "bf16" else "ampere_sgemm_128x64_tn"
            made.work("aten::mm", plain(tokens, width, dtype=dtype), weight, us=us, host_us=1.0, kernel=name)

    return step


diagnosis = functools.partial(of_steps, steps=3, device=H100)


def kinds(found: Diagnosis) -> Mapping[str, float]:
    """Each kind with the gain that is printed, the best first; empty where the remedy is not looked at."""
    said = [each.why for each in (*found.remedies, *found.dropped) if each.name == "fewer bits"]
    return {kind: float(gain) for kind, gain in re.findall(r"((?:weights|the whole)[\w ]+?) ([\d.]+)x", "".join(said))}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[int, int], tuple[Diagnosis, Mapping[str, float]]]:
    """At each point the diagnosis of bf16's layers, and what each kind gained when the same were recorded in it."""
    found = {}
    for at in POINTS:
        before = recorded_us("bf16", *at) or 0.0
        measured = {kind: before / us for kind, way in RECORDED.items() if (us := recorded_us(way, *at)) is not None}
        found[at] = diagnosis(tmp_path_factory.mktemp("bits"), layers(*at)), measured
    return found


def test_predicted_gains_are_near_those_of_the_recorded_layer(beside: Any) -> None:
    """What a trial would find: the layer in bf16 beside the same in int4, int8, and fp8 with its cast compiled.

    Where a kind was slower it is not taken, and gains nothing.
    """
    off = [abs(kinds(found)[kind] / max(1.0, gain) - 1)
           for found, measured in beside.values() for kind, gain in measured.items()]  # fmt: skip
    assert len(off) == 17 and statistics.median(off) < 0.02 and max(off) < 0.1, sorted(off)


def test_the_kind_that_fits_is_named_first(beside: Any) -> None:
    """Few rows: the weights alone; many: the whole product; nothing between them at 16 rows of 4096."""
    named = {at: next(iter(kinds(found))) if "fewer bits" in gains(found) else "" for at, (found, _) in beside.items()}
    assert named == {(1, 4096): INT4, (16, 4096): "", (256, 4096): "", (4096, 4096): FP8,
                     (1, 8192): INT4, (4, 8192): INT4, (256, 8192): FP8}  # fmt: skip
    for found, _ in beside.values():
        assert list(kinds(found).values()) == sorted(kinds(found).values(), reverse=True) and len(kinds(found)) == 3


@pytest.mark.parametrize("at", POINTS)
def test_the_page_has_the_gains(at: tuple[int, int], beside: Any) -> None:
    found, measured = beside[at]
    said = [f"{kinds(found)[kind]:.3g}x: {f'{measured[kind]:.2g}x' if kind in measured else '-'}" for kind in RECORDED]
    line = f"| {at[0]} x {at[1]} | {' | '.join(said)} |\n"
    assert line in (Path(__file__).resolve().parents[2] / "docs" / "diagnosis_remedies.md").read_text("utf-8"), line


@pytest.mark.parametrize(("tokens", "width"), [(1, 8192), (256, 8192), (4096, 8192)])
def test_tf32_gains_with_many_tokens_as_it_did_and_nothing_with_one(tokens: int, width: int, tmp_path: Path) -> None:
    found = diagnosis(tmp_path, layers(tokens, width, "float32"))
    full, short = recorded_us("float32", tokens, width), recorded_us("tf32", tokens, width)
    assert full is not None and short is not None
    every = {each.name: each.gain for each in (*found.remedies, *found.dropped)}
    assert every["tf32"] == pytest.approx(max(1.0, full / short), rel=0.25)
    assert ("tf32" in gains(found)) == (tokens > 1) and not kinds(found)


def test_a_device_without_fp8_is_offered_its_weights_alone(tmp_path: Path) -> None:
    here = kinds(diagnosis(tmp_path, layers(1, 8192), device=A100))
    assert here[INT4] > 1.2 and here[FP8] == 1.0


def test_training_and_batches_of_matrices_have_no_weights_to_store(tmp_path: Path) -> None:
    def trains(made: Maker) -> None:
        layers(1, 8192)(made)
        made.gradient("MmBackward0", plain(1, 8192, dtype="bfloat16"), us=1.0)

    def batched(made: Maker) -> None:
        made.work("aten::bmm", *[plain(64, 512, 512, dtype="bfloat16")] * 2, us=90.0)

    assert not kinds(diagnosis(tmp_path, trains)) and not kinds(diagnosis(tmp_path, batched))


def test_tf32_is_tried_as_a_setting_that_is_put_back_and_fewer_bits_are_not(tmp_path: Path) -> None:
    x, seen, before = torch.randn(64, 64), StringIO(), torch.get_float32_matmul_precision()

    def step() -> torch.Tensor:
        seen.write(torch.get_float32_matmul_precision() + "\n")
        return x @ x

    setting, program = tried(step, "tf32", "fewer bits")
    assert setting.gain is not None and {*seen.getvalue().split()} == {before, "high"}
    assert torch.get_float32_matmul_precision() == before and program.said == NOT_SAFE and program.gain is None
