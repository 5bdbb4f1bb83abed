"""Cosines, fusion and rematerialisation: bytes held against `brrr.cost`, workloads, and an exercise's bytes."""

import shutil

import pytest
import torch

from brrr.core.measurement import Point
from brrr.counting.description import array
from brrr.counting.tracing import cost as counted
from brrr_course.experiments import cos_cos, experiment, fusion, remat
from brrr_course.experiments import sines as sines_work
from brrr_course.experiments.checked import error_against, peak_bytes_of
from brrr_course.lessons.calculations import cases, tables
from brrr_course.sources.timers import measure_point

COS, FUSION, REMAT, SINES = (experiment(name) for name in ("cos_cos", "fusion", "remat", "sines"))


# ---- bytes and FLOP: the tables of the experiments against the counter ----


@pytest.mark.parametrize("way", ["script", "cuda"])
def test_a_chain_of_sines_in_other_words_is_the_same(way: str) -> None:
    x = torch.randn(1000)
    assert error_against(sines_work.chain(8), (x,))(sines_work.IMPLEMENTATIONS[way](8, x)()) <= 1e-6


# ---- workloads ----


@pytest.mark.parametrize("work", [*fusion.WORKS.values(), cos_cos.TWO], ids=lambda work: work.operators.__name__)
def test_what_triton_runs_is_there(work: fusion.Work) -> None:
    x = torch.ones(2, fusion.WIDTH)
    if work.triton:
        assert callable(fusion.IMPLEMENTATIONS["triton"](work, {"x": x, "r": x}, {}))


def test_saved_activations_take_the_memory_that_was_counted() -> None:
    point: Point = {"activation": "hardswish", "depth": 16, "elements": 2**18}
    arrays = {
        way: REMAT.workload(f"cpu-{way}", point).others["peak_bytes"]() / (4 * 2**18) for way in ("eager", "checkpoint")
    }
    assert arrays["eager"] >= 1 + remat.saved_arrays("eager", 16)
    assert 1 + remat.saved_arrays("checkpoint", 16) <= arrays["checkpoint"] <= 0.7 * arrays["eager"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize(("activation", "depth"), [("hardswish", 16), ("cos", 4)])
def test_the_compiler_saves_all_or_nothing_at_any_size(activation: str, depth: int) -> None:
    for elements in (2**16, 2**18):
        inputs = remat.RematInputs.of(elements, "cpu")
        reference = remat._reference(activation, depth)
        check_ = error_against(reference, (inputs.x.detach(), inputs.gradient), results=2)
        peaks = {}
        for way in ("compile-saved", "compile"):
            run = remat.both(remat.IMPLEMENTATIONS[way](activation, depth), inputs)
            assert check_(run()) <= remat.TOLERANCE
            peaks[way] = peak_bytes_of(run, "cpu")() / (4 * elements)
        assert peaks["compile-saved"] >= 1 + remat.saved_arrays("compile-saved", depth)
        assert peaks["compile"] == pytest.approx(2, abs=0.1), "y and dx"


def test_the_memory_of_a_call_is_measured_beside_its_times() -> None:
    point: Point = {"activation": "hardswish", "depth": 16, "elements": 2**16}
    found = measure_point(REMAT, ["cpu-eager", "cpu-checkpoint"], point, budget_s=0.01)
    saved, again = (run.measurement.peak_bytes for run in found.values())  # type: ignore[union-attr]
    assert saved is not None and again is not None and 2 * 4 * 2**16 <= again < saved


# ---- an exercise ----


def test_the_bytes_of_the_exercise_are_those_that_are_counted() -> None:
    x, b = array((4096, 1024)), array(1024)
    found = counted(lambda x, b, g: torch.relu(x + b) * g, x, b, x)
    (told,) = cases(tables()["05b-bytes"], {})
    assert (told["by_three"], told["by_one"]) == (found.eager_bytes, found.bytes)
