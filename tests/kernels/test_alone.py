"""Each kernel by itself, as `python -m brrr.kernels.relu` runs it: compiled, or checked in Triton's interpreter."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import UnavailableError
from brrr.core.files import PACKAGE
from brrr.core.measurement import Estimate
from brrr.gpu import nvrtc
from brrr.kernels import alone
from brrr.kernels.alone import CudaFile, Example

NOT_KERNELS = ("peaks", "probe")
"""What `brrr calibrate` and the timer launch."""
FILES = [path for path in PACKAGE.rglob("*.cu") if path.stem not in NOT_KERNELS]
MODULES = {path: re.findall(r"python -m ([\w.]+)", path.read_text(encoding="utf-8")) for path in FILES}
IN_TRITON = ("repeat", "fused", "pseudo_linear", "linear_relu")
ALL = """
import runpy, sys
for name in sys.argv[1:]:
    try:
        runpy.run_module(name, run_name="__main__")
    except SystemExit as end:
        print(name, end.code)
"""


@pytest.mark.parametrize("path", [path for path in MODULES if path.stem not in IN_TRITON], ids=lambda path: path.name)
def test_a_kernel_in_cuda_runs_alone_or_says_why_it_was_not_launched(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "compiled", lambda source: f"{source.path} compiles")
    (name,) = MODULES[path]
    monkeypatch.delitem(sys.modules, "triton", raising=False)  # whose interpreter takes others
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(name, run_name="__main__")
    said = capsys.readouterr().out
    assert end.value.code == 0 and ("right (relative error" in said or "Nothing was launched: " in said), said


def test_kernels_in_triton_are_right_in_its_interpreter() -> None:
    pytest.importorskip("triton")
    names = [f"brrr.kernels.{name}" for name in IN_TRITON]
    ran = subprocess.run(
        [sys.executable, "-c", ALL, *names], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert all(f"{name} 0" in ran.stdout for name in names), ran.stdout + ran.stderr
    assert ran.stdout.count("right (relative error") >= 7 and "WRONG" not in ran.stdout


def status(examples: list[Example]) -> object:
    """With which a kernel's module ends."""
    with pytest.raises(SystemExit) as end:
        alone.alone(lambda device: examples)
    return end.value.code


def test_without_a_gpu_it_is_run_anew_in_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setitem(
        sys.modules, "triton", SimpleNamespace(knobs=SimpleNamespace(runtime=SimpleNamespace(interpret=False)))
    )
    monkeypatch.setattr("brrr.gpu.device.cuda_problem", lambda: "no GPU")
    monkeypatch.setattr(alone.subprocess, "call", lambda command, env: asked.append((command, env)) or 3)
    assert status([]) == 3
    ((command, env),) = asked
    assert command[:2] == [sys.executable, "-m"] and env["TRITON_INTERPRET"] == "1"


def test_on_a_gpu_a_kernel_is_checked_timed_and_placed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brrr.gpu.device.cuda_problem", lambda: "")
    monkeypatch.setattr("brrr.roofline.device_model.known_here", lambda kind: "datasheet:h200")
    busy_s = Estimate(2e-3, 2e-3, 2e-3, 9)
    monkeypatch.setattr("brrr.timing.measure", lambda launch: SimpleNamespace(busy_s=busy_s))
    x = torch.ones(4)
    twice, wrong = (lambda: (x, x + x)), (lambda: x)
    found = [
        Example("two results", 0.0, 4.8e9, twice, (x.double(), 2 * x.double())),
        Example("of which one is wrong", 0.0, 4.8e9, twice, (x.double(), x.double())),
        Example("one", 0.0, 4.8e9, wrong, 2 * x.double()),
    ]
    assert status(found[:1]) == 0
    assert status(found) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == rows[1] and rows[0].startswith("two results: right (relative error 0.0e+00), 2 ms, 2.4 TB/s")
    assert "50 % of the roofline" in rows[0]
    assert [row.partition(" (")[0] for row in rows[2:]] == ["of which one is wrong: WRONG", "one: WRONG"]


def test_without_a_gpu_a_source_is_compiled_if_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(nvrtc, "compiler", lambda: "NVRTC 13.0")
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *args: given.append(args[1:]) or b"x" * 1500)
    source = CudaFile("kernels/relu.cu", ("-DA=1",))
    assert alone.compiled(source) == "kernels/relu.cu compiles: 1.5 kB for sm_75, 1.5 kB for sm_90"
    assert given == [("kernels/relu.cu", arch, ("-DA=1",)) for arch in ("sm_75", "sm_90")]

    def refused(*args: Any) -> bytes:
        raise UnavailableError("no such name, line 3")

    monkeypatch.setattr(nvrtc, "compile_cubin", refused)
    assert alone.compiled(CudaFile("kernels/relu.cu")) == "no such name, line 3"

    def absent() -> str:
        raise RuntimeError("libnvrtc.so.13 is not there")

    monkeypatch.setattr(nvrtc, "compiler", absent)
    assert nvrtc.missing() == "libnvrtc.so.13 is not there"
    assert alone.compiled(CudaFile("kernels/relu.cu")).startswith("kernels/relu.cu was not compiled: NVRTC is not here")


def test_nan_is_wrong() -> None:
    assert not Example("", 0, 0, lambda: torch.tensor([torch.nan]), torch.ones(1).double()).error <= 1.0
