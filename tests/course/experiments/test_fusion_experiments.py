"""Cosines, fusion and rematerialisation: bytes held against `brrr.cost`, workloads, and both exercises."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import brrr_course.lessons.exercises.lesson_05b as exercise_fuse
from brrr.core.measurement import Point
from brrr.counting.description import array
from brrr.counting.tracing import cost as counted
from brrr_course.experiments import experiment, remat
from brrr_course.experiments import fusion as theory
from brrr_course.experiments import remat as remat_work
from brrr_course.experiments import sines as sines_work
from brrr_course.experiments.checked import error_against, peak_bytes_of
from brrr_course.lessons.calculations import cases, tables
from brrr_course.lessons.checking import check
from brrr_course.lessons.marks import Wrong
from brrr_course.sources.timers import measure_point

COS, FUSION, REMAT, SINES = (experiment(name) for name in ("cos_cos", "fusion", "remat", "sines"))
HERE = Path(__file__).resolve().parents[2]
W = theory.WIDTH


# ---- bytes and FLOP: the tables of the experiments against the counter ----


@pytest.mark.parametrize("way", ["script", "cuda"])
def test_a_chain_of_sines_in_other_words_is_the_same(way: str) -> None:
    x = torch.randn(1000)
    assert error_against(sines_work.chain(8), (x,))(sines_work.IMPLEMENTATIONS[way](8, x)()) <= 1e-6


# ---- workloads ----


def test_saved_activations_take_the_memory_that_was_counted() -> None:
    point: Point = {"activation": "hardswish", "depth": 16, "elements": 2**18}
    arrays = {
        way: remat_work.peak_bytes(REMAT.variant(f"cpu-{way}"), point) / (4 * 2**18) for way in ("eager", "checkpoint")
    }
    assert arrays["eager"] >= 1 + remat.saved_arrays("eager", 16)
    assert 1 + remat.saved_arrays("checkpoint", 16) <= arrays["checkpoint"] <= 0.7 * arrays["eager"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize(("activation", "depth"), [("hardswish", 16), ("cos", 4)])
def test_the_compiler_saves_all_or_nothing_at_any_size(activation: str, depth: int) -> None:
    for elements in (2**16, 2**18):
        inputs = remat_work.RematInputs.of(elements, "cpu")
        reference = remat_work._reference(activation, depth)
        check_ = error_against(reference, (inputs.x.detach(), inputs.gradient), results=2)
        peaks = {}
        for way in ("compile-saved", "compile"):
            run = remat_work.both(remat_work.IMPLEMENTATIONS[way](activation, depth), inputs)
            assert check_(run()) <= remat_work.TOLERANCE
            peaks[way] = peak_bytes_of(run, "cpu")() / (4 * elements)
        assert peaks["compile-saved"] >= 1 + remat.saved_arrays("compile-saved", depth)
        assert peaks["compile"] == pytest.approx(2, abs=0.1), "y and dx"


def test_the_memory_of_a_call_is_measured_beside_its_times() -> None:
    point: Point = {"activation": "hardswish", "depth": 16, "elements": 2**16}
    found = measure_point(REMAT, ["cpu-eager", "cpu-checkpoint"], point, budget_s=0.01)
    saved, again = (run.measurement.peak_bytes for run in found.values())  # type: ignore[union-attr]
    assert saved is not None and again is not None and 2 * 4 * 2**16 <= again < saved


# ---- exercises ----


def test_the_bytes_of_the_exercise_are_those_that_are_counted() -> None:
    x, b = array((4096, 1024)), array(1024)
    found = counted(lambda x, b, g: torch.relu(x + b) * g, x, b, x)
    (told,) = cases(tables()["05b-bytes"], {})
    assert (told["by_three"], told["by_one"]) == (found.eager_bytes, found.bytes)


@pytest.fixture(scope="module")
def marks() -> dict[str, list[str]]:
    pytest.importorskip("triton", reason="Triton has no build for this system")
    ran = subprocess.run(
        [sys.executable, str(HERE / "fuse_cases.py")], capture_output=True, text=True, check=False, timeout=300,
        cwd=HERE.parent, env={**os.environ, "PYTHONPATH": str(HERE.parent), "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("case", "status", "says"),
    [
        ("right", "right", "interpreter"), ("no relu", "wrong", "ReLU is missing"), ("mask", "wrong", "mask"),
        ("one block", "wrong", "enough programs"), ("input", "wrong", "changed its input"),
        ("torch", "wrong", "torch still computes: mul, add, relu"), ("nothing", "wrong", "NoneType"),
        ("raises", "wrong", "no such thing"), ("number", "wrong", "not a function"),
    ],
)  # fmt: skip
def test_marks_of_a_fused_kernel(marks: dict[str, list[str]], case: str, status: str, says: str) -> None:
    assert marks[case][0] == status, marks[case]
    assert says in " ".join(marks[case][1:]), marks[case]


@pytest.mark.parametrize(
    ("gain", "kernels", "right"), [(2.33, 1, True), (2.11, 1, True), (2.0, 1, False), (2.3, 2, False)]
)
def test_marks_of_a_time(gain: float, kernels: int, right: bool) -> None:
    with nullcontext() if right else pytest.raises(Wrong):
        exercise_fuse.judged(gain * 1e-3, 1e-3, kernels)


def test_a_kernel_without_a_gpu_or_interpreter_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def fused(x: Any, scale: float, r: Any) -> Any:
        raise RuntimeError("0 active drivers ([]). There should only be one.")

    assert "TRITON_INTERPRET" in check("05b-fuse", fused=fused).hint
