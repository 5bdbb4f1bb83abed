"""What lessons 05 and 05b are made of: generated code, a choice of lines, tables of memory, Triton for an exercise."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import brrr_course
from brrr import elementwise
from brrr.core.errors import ArgumentError, NotRecordedError, UnavailableError
from brrr_course.experiments import NAMES, experiment
from brrr_course.experiments import fusion as theory
from brrr_course.lessons import codegen, triton_here
from brrr_course.lessons import codegen as generated_module
from brrr_course.lessons.codegen import WORKS, generated, recorded, write
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.comparison import lines_here
from brrr_course.lessons.guessing import guess
from brrr_course.sources import source
from brrr_course.view.explorer import explore

# ---- the kernel that torch.compile wrote ----


@pytest.mark.parametrize("name", WORKS)
def test_the_recorded_kernel_is_one_and_tells_its_origin(name: str) -> None:
    code = generated(name, on="recorded:h200")
    assert len(code.kernels) == 1
    assert code.language == "python" and code.kernels[0].startswith("@triton.jit\ndef triton_")
    assert code.kernels[0].count("tl.store(") == 1, "nothing but the result is stored"
    assert code.badge.kind == "RECORDED" and code.badge.device == "NVIDIA H200"
    assert str(code.badge) in repr(code) and str(code.badge) in code._repr_html_()


def test_two_cosines_are_one_load_and_one_store() -> None:
    (kernel,) = generated("cos_cos", on="recorded:h200").kernels
    assert kernel.count(".cos(") == 2 and kernel.count("tl.load(") == 1


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_what_is_compiled_here_reads_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "WORKS", {"cos_cos": WORKS["cos_cos"]})  # each takes seconds to compile
    paths = write(tmp_path, "cpu")
    assert [path.stem for path in paths] == ["cos_cos"]
    code = recorded("cos_cos", f"recorded:{paths[0].parent.parent.name}", tmp_path)
    assert code.language == "cpp" and len(code.kernels) == 1 and code.kernels[0].count(".cos()") == 2
    assert torch.__version__ in code.badge.torch


def test_without_a_compiler_the_recorded_one_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_module, "has_cpp_compiler", lambda: False)
    assert generated("cos_cos", on="cpu").badge.kind == "RECORDED"


def test_errors_of_generated_code(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"name.*'relu'.*cos_cos, chain, softmax"):
        generated("relu")
    with pytest.raises(NotRecordedError, match=r"cos_cos\.txt is not there; .*brrr_course\.lessons\.codegen"):
        recorded("cos_cos", root=tmp_path)


# ---- which lines ----


def test_where_the_data_have_no_gpu_the_cpus_own_lines_are_shown() -> None:
    found, names = experiment("cos_cos"), ["one", "cuda", "triton"]
    assert [line.name for line in lines_here(found, source("recorded:h200"), names)] == names
    assert [line.name for line in lines_here(found, source("cpu"), names)] == ["cpu one", "cpu blocks"]
    shown = explore("cos_cos", at={"elements": 2**28}, show={"speedup": {"compile": "eager", "cuda": "eager"}},
                    source="recorded:cpu").scene  # fmt: skip
    assert [line.name for line in shown.lines] == ["cpu blocks"]
    assert shown.quantity.base(shown.lines[0]).name == "cpu eager"


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_in_for_a_line_of_the_gpu_runs_elsewhere(name: str) -> None:
    found = experiment(name)
    for line in found.lines:
        assert not line.stands_in_for or not found.variant(line.variant).on_gpu
        assert all(found.variant(found.line(each).variant).on_gpu for each in line.stands_in_for)


# ---- memory ----


def test_memory_beside_time() -> None:
    g = guess("memory of a chain", unit="x", answer="2x")
    at = {"activation": "hardswish", "depth": 8, "elements": 2**26}
    lines = ["compile saved", "compile", "cpu eager"]
    found = compare(g, "remat", lines, of="memory", source=source("recorded:h200"), **at)  # type: ignore[arg-type]
    assert [row[0] for row in found.rows] == ["torch.compile, all saved", "torch.compile, its own choice"]
    saved, again = (float(row[2].split()[0]) for row in found.rows)
    assert found.rows[0][2].endswith("GB") and found.rows[1][2].endswith("MB")
    assert again / 1000 < saved
    assert found.rows[0][3] == "1x" and found.badge.startswith("RECORDED")
    none = compare(None, "remat", ["cpu eager"], of="memory", source=source("recorded:h200"), **at)  # type: ignore[arg-type]
    assert not none.rows and "none of these lines" in none.text


# ---- a line against a copy ----


def test_a_line_is_measured_beside_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = elementwise("y = 2 * x", x=torch.randn(2**12))
    found = codegen.against_copy(kernel)
    assert [row[0] for row in found.rows] == ["y = 2 * x", "a copy"]
    assert found.badge.startswith("LIVE") and "not one kernel" in found.text
    monkeypatch.setenv("BRRR_STATIC", "1")
    assert not codegen.against_copy(kernel).rows


# ---- Triton or its stand-in ----


def test_without_triton_a_kernel_can_be_written_but_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setitem(sys.modules, "triton", None)
    triton, tl = triton_here.load()
    assert tl.constexpr is None
    kernel = triton.jit(lambda: None)
    with pytest.raises(UnavailableError, match="Triton is not installed"):
        kernel[(1,)]
    with pytest.raises(UnavailableError, match=r"triton\.cdiv"):
        triton.cdiv(3, 2)


def test_without_a_gpu_the_interpreter_is_asked_for_before_triton_is_loaded() -> None:
    pytest.importorskip("triton", reason="Triton has no build for this system")
    code = (
        "import sys; assert 'triton' not in sys.modules; from brrr_course.lessons.triton_here import triton; "
        "print(triton.knobs.runtime.interpret)"
    )
    environment = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.usefixtures("cells_here")
def test_the_interpreter_is_asked_for_by_each_lesson_that_asks_for_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice that was put back between two lessons in one process is made again by the second."""
    pytest.importorskip("triton", reason="Triton has no build for this system")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("triton", "tl", "triton"):
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)
        assert getattr(brrr_course, name) is not None and os.environ["TRITON_INTERPRET"] == "1"
    assert not {"triton", "tl"} & vars(brrr_course).keys() and brrr_course.explore is vars(brrr_course)["explore"]


# ---- what the lesson's text says ----

LESSON = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "05_fusion.py"


def test_the_table_of_numbers_moved_is_the_theorys() -> None:
    rows = re.findall(r"^# \| (.*?) \| .*? \| (\d+)n \| (\d+)n \|$", LESSON.read_text("utf-8"), flags=re.MULTILINE)
    kinds = {label: kind for kind, label in theory.KINDS.items()}
    assert len(rows) == 6
    for label, *numbers in rows:
        moved = [round(each / 2**26) for each in theory.moved(kinds[label], 2**26)]
        assert moved == [int(each) for each in numbers], label
