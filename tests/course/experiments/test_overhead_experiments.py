"""The experiments of lesson 03: what they run, and that a wrong result is refused."""

import shutil

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.experiments import experiment
from brrr_course.experiments.adds import additions, built
from brrr_course.experiments.host_cost import ON_GPU_ALONE, RUNGS, SMALL

ADDS, HOST, SCALING = (experiment(name) for name in ("adds", "host_cost", "scaling"))


# ---------------------------------------------------------------- what runs


def test_the_script_leaves_torch_as_it_was() -> None:
    before = torch._C._jit_texpr_fuser_enabled()
    workload = HOST.workload("cpu-script", {"elements": SMALL, "operators": 16})
    workload.check()
    workload.close()
    assert torch._C._jit_texpr_fuser_enabled() == before


def test_autograd_is_recorded_on_the_upper_rungs_only() -> None:
    recorded = {}
    for rung in RUNGS.keys() - {*ON_GPU_ALONE}:
        workload = HOST.workload(f"cpu-{rung}", {"elements": 8, "operators": 2})
        recorded[rung] = bool(workload.run().requires_grad)
        workload.close()
    assert [name for name, grad in recorded.items() if grad] == ["module-grad"]


def test_the_additions_are_made_one_by_one() -> None:
    from brrr_course.experiments.adds import repeated

    class Counted:
        made = 0

        def __add__(self, other: object) -> str:
            Counted.made += 1
            return "sum"

    assert repeated(Counted(), Counted(), additions(1))() == "sum"
    assert Counted.made == additions(1) == ADDS.cost_at("python", {"elements": 1}).flop  # type: ignore[union-attr]


@pytest.mark.skipif(shutil.which("g++") is None, reason="the loop in C++ needs g++")
def test_in_cpp_all_additions_are_made_and_without_a_compiler_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for elements in (1, 7, 4096):
        work = ADDS.workload("cpp", {"elements": elements})
        work.verified(out := work.run())
        assert out.shape == (elements,)
    monkeypatch.setenv("PATH", "")
    built.cache_clear()
    with pytest.raises(UnavailableError, match=r"needs g\+\+"):
        ADDS.workload("cpp", {"elements": 1})


# ---------------------------------------------------------------- the plan of a recording


def test_every_line_of_the_gpu_has_a_stand_in_where_a_cpu_can_do_it() -> None:
    for found, missing in ((HOST, {"graph", "pycuda"}), (SCALING, set())):
        gpu = {line.name for line in found.lines if found.variant(line.variant).on_gpu}
        gpu = {name for name in gpu if not name.endswith(("busy", "in a loop"))}
        assert gpu - {name for line in found.lines for name in line.stands_in_for} == missing


# ---------------------------------------------------------------- without a GPU or a library


def test_the_kernel_refuses_tensors_that_it_cannot_take() -> None:
    from brrr.kernels import relu

    x = torch.zeros(8)
    with pytest.raises(ArgumentError, match=r"relu: x is 'cpu'; expected a tensor on a GPU"):
        relu.prepared_launch(x, x)
    assert [relu.blocks(n) for n in (1, 1023, 1024, 1025, 2**26)] == [1, 1, 1, 2, 2**16]


def test_without_pycuda_only_its_line_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from brrr.gpu.launching import pycuda_driver

    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.autoprimaryctx", None)
    with pytest.raises(UnavailableError, match="only its line is missing"):
        pycuda_driver(0)
