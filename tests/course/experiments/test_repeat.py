"""The experiment `repeat`: theory, kernels (interpreted, and the code they compile to), what is run, and the knee."""

import math
import re
import shutil
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import pytest
import torch
from interpreter import ptx

from brrr.core.errors import ArgumentError, NotRecordedError, UnavailableError
from brrr.core.files import PACKAGE
from brrr_course.experiments import repeat as work
from brrr_course.experiments.lazily import name_of
from brrr_course.experiments.repeat import knee
from brrr_course.nouns.expression import Table

NVCC = shutil.which("nvcc")


# ---- what is run ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["mul", "fma"])
@pytest.mark.parametrize("repeat", [1, 2, 64, 512])
def test_a_step_too_few_or_too_many_is_found(repeat: int, kind: str, dtype: str) -> None:
    inputs = work.RepeatInputs(5000, dtype, "cpu")
    error = work.fused_error(inputs.x, inputs.factor, inputs.addend_for(kind), repeat)
    out = torch.empty_like(inputs.x)
    for steps in (repeat - 1, repeat, repeat + 1):
        work.blockwise(inputs, kind, steps, out)
        assert (error(out) <= work.TOLERANCE[name_of(inputs.dtype)]) == (steps == repeat)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_at_each_step_is_checked_step_by_step(dtype: str) -> None:
    inputs = work.RepeatInputs(300_001, dtype, "cpu")
    what = inputs.x, inputs.factor_tensor, inputs.addend_tensor
    for kind in ("mul", "fma"):
        error = work.stepwise_error(inputs.x, inputs.factor, inputs.addend_for(kind), 100)
        right = work.chain(kind, 100)(*what)
        assert error(right) <= work.EXACT
        assert not error(work.chain(kind, 99)(*what)) <= work.EXACT
        right[-1] = float("nan")
        assert math.isnan(error(right))


def test_fused_on_the_cpu_passes_over_the_memory_once_whatever_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, all steps on one before the next, and without torch's threads, which each step would wait for."""
    inputs, out = work.RepeatInputs(4 * work.BLOCK + 5, "float32", "cpu"), torch.empty(4 * work.BLOCK + 5)
    touched: list[tuple[int, int]] = []
    multiply = np.multiply

    def noted(before: Any, factor: Any, out: Any) -> None:
        touched.append((out.ctypes.data, out.size))
        multiply(before, factor, out=out)

    def refused(*given: Any, **more: Any) -> None:
        raise AssertionError("a step of torch's")

    monkeypatch.setattr(work.np, "multiply", noted)
    monkeypatch.setattr(torch.Tensor, "mul_", refused)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    work.blockwise(inputs, "mul", 8, out)
    steps = [sum(1 for _ in same) for _, same in groupby(touched)]
    assert steps == [8] * 5 and max(size for _, size in touched) * 4 <= 2**17, "bytes that a core's cache holds"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_factors_are_near_one_and_the_type_holds_them(dtype: str) -> None:
    for _ in range(20):
        inputs = work.RepeatInputs(1, dtype, "cpu")
        assert 1 + work.NEAR_ONE <= inputs.factor <= 1 + 2 * work.NEAR_ONE
        assert float(torch.tensor(inputs.factor, dtype=inputs.dtype)) == inputs.factor


# ---- Triton ----


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": torch.randn(4, dtype=torch.float64)}, "x is torch.float64"),
        ({"x": [1.0]}, "x is 'list'"),
        ({"repeat": -1}, "repeat is -1"),
        ({"repeat": 1.5}, "repeat is 1.5"),
        ({"repeat": True}, "repeat is True"),
        ({"out": torch.randn(5)}, r"out is \(5,\); expected shape \(4,\)"),
        ({"x": torch.randn(4, 4)[:, 0]}, "contiguous"),
    ],
)
def test_what_does_not_fit_triton_is_refused(changed: dict[str, Any], message: str) -> None:
    kernels = pytest.importorskip("brrr.kernels.repeat")
    given: dict[str, Any] = {"x": torch.randn(4), "repeat": 3, "factor": 2.0, **changed}
    with pytest.raises(ArgumentError, match=message):
        kernels.repeat_multiply(**given)
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        kernels.repeat_multiply(torch.randn(4), 3, 2.0)


@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize(("pointer", "itemsize"), [("*fp32", 4), ("*bf16", 2), ("*fp16", 2)])
def test_triton_drops_no_step_and_moves_16_bytes_a_load(
    pointer: str, itemsize: int, fma: bool, architecture: int
) -> None:
    """ROUND steps in the loop and one in the rest, on each number that a thread holds; nothing beside them."""
    pytest.importorskip("triton")
    from brrr.kernels.repeat import BLOCK_BYTES, ROUND, WARPS, _repeat

    constants = {"FMA": fma, "ROUND": ROUND, "BLOCK": BLOCK_BYTES // itemsize}
    kinds = {"x": pointer, "y": pointer, "factor": "fp32", "addend": "fp32"}
    types = {name: kinds.get(name, "i32") for name in _repeat.arg_names}
    text = ptx(_repeat, constants, types, architecture, aligned=("x", "y", "count"), num_warps=WARPS)
    held = 2 * 16 // itemsize
    found = {name: len(re.findall(rf"\b{name}(?:\.rn)?\.f32\b", text)) for name in ("mul", "fma", "add")}
    assert found == {"mul": 0, "add": 0, "fma": 0} | {"fma" if fma else "mul": (16 + 1) * held}
    assert set(re.findall(r"(?:ld|st)\.global\S*", text)) == {"ld.global.v4.b32", "st.global.v4.b32"}


# ---- CUDA C++ and torch.compile: the code they compile to ----


@pytest.mark.skipif(NVCC is None, reason="nvcc is not here")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_cuda_drops_no_step_and_moves_16_bytes_a_load(architecture: str, tmp_path: Path) -> None:
    ptx = tmp_path / "repeat.ptx"
    command = [str(NVCC), f"-arch={architecture}", "-std=c++17", "-ptx", "-o", str(ptx)]
    subprocess.run([*command, str(PACKAGE / "kernels/repeat.cu")], check=True, capture_output=True)
    bodies = dict(re.findall(r"\.entry (brrr_repeat_\w+)\((.*?)\n}", ptx.read_text(), flags=re.DOTALL))
    assert len(bodies) == 6
    for name, body in bodies.items():
        wanted, other = ("fma", "mul") if "_fma_" in name else ("mul", "fma")
        held = 8 if "float32" in name else 16
        assert len(re.findall(rf"\b{wanted}\.rn\.f32\b", body)) >= (16 + 1) * held, name
        assert not re.findall(rf"\b({other}|add)\.rn\.f32\b", body), name
        assert len(re.findall(r"ld\.global\.v4\.", body)) >= 2 and len(re.findall(r"st\.global\.v4\.", body)) >= 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize(("kind", "dtype"), [("mul", torch.float32), ("fma", torch.float32), ("mul", torch.bfloat16)])
def test_torch_compile_makes_one_kernel_with_every_step(kind: str, dtype: torch.dtype) -> None:
    from torch._inductor.utils import run_and_get_code

    inputs = work.RepeatInputs(4096, str(dtype).removeprefix("torch."), "cpu")
    torch.compiler.reset()
    fused = torch.compile(work.chain(kind, 100), dynamic=False)
    y, code = run_and_get_code(fused, inputs.x, inputs.factor_tensor, inputs.addend_tensor)
    text = "\n".join(code)
    assert text.count('extern "C"') == 1 and text.count(" * ") == 100 and "pow" not in text
    assert work.fused_error(inputs.x, inputs.factor, inputs.addend_for(kind), 100)(y) <= work.TOLERANCE[name_of(dtype)]


def test_launches_refuse_what_is_not_on_a_gpu() -> None:
    from brrr.kernels import repeat as repeat_launch

    x = torch.randn(8)
    with pytest.raises(ArgumentError, match="x is 'cpu'; expected a tensor on a GPU"):
        repeat_launch.by_bindings(x, x, 1, 1.01)
    with pytest.raises(ArgumentError, match="repeat is -1"):
        repeat_launch.by_bindings(x, x, -1, 1.01)
    assert repeat_launch.kernel_name(x.bfloat16(), None) == "brrr_repeat_mul_bfloat16"
    assert repeat_launch.kernel_name(x, 0.5) == "brrr_repeat_fma_float32"


@pytest.mark.parametrize("flat", [3.0, 50.0])
def test_the_knee_is_where_both_times_are_equal(flat: float) -> None:
    """On the most elements that have enough numbers of steps."""
    at = [(repeat, elements) for elements in (2**20, 2**24) for repeat in (1, 2, 32, 64, 128, 512)]
    times = {(n, many): made_up.estimate(max(flat, float(n)) * many) for n, many in [*at, (1, 2**26)]}
    found = knee(None, Table(("repeat", "elements"), times))
    assert found.median == pytest.approx(flat) and found.low < found.median < found.high


@pytest.mark.parametrize(("repeats", "missing"), [((1, 2, 512), "fewer than 4"), ((1, 2, 4, 8), "8 steps are too few")])
def test_without_a_knee_nothing_is_claimed(repeats: tuple[int, ...], missing: str) -> None:
    with pytest.raises(NotRecordedError, match=missing):
        knee(None, Table(("repeat",), {(n,): made_up.estimate(max(50.0, float(n))) for n in repeats}))
