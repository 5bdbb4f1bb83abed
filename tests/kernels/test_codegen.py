"""Lines of CUDA C++: the emulation against torch, what is refused and how, and the generated text, compiled."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_kernels import ARCHES, compiled, needs_compiler

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.kernels.elementwise.emulate import FUNCTIONS
from brrr.kernels.elementwise.generate import NAME, KernelPlan, layout, source
from brrr.kernels.elementwise.kernel import elementwise
from brrr.kernels.elementwise.parse import LineError, from_log

X, R, ROW, COLUMN = torch.randn(33, 8), torch.randn(33, 8), torch.randn(8), torch.randn(33, 1)

LINES: list[tuple[str, dict[str, Any], Any]] = [
    ("y = cosf(cosf(x))", {"x": X}, X.cos().cos()),
    ("y = x * s + r;", {"x": X, "s": 1.5, "r": R}, X * 1.5 + R),
    ("float t = x + b; y = t < 0 ? 0 : t", {"x": X, "b": ROW}, torch.relu(X + ROW)),
    ("y = x * w + c", {"x": X, "w": ROW, "c": COLUMN}, X * ROW + COLUMN),
    ("y = -x - -2.0f * +x", {"x": X}, X),
    ("y = 1/2 * x + 7/2", {"x": X}, torch.full_like(X, 3.0)),
    ("y = x / 2 - 1.f / 4", {"x": X}, X / 2 - 0.25),
    ("y = x > 0 && x < 1 || x == -x ? 1.0f : 2e-1f", {"x": X}, torch.where((X > 0) & (X < 1), 1.0, 0.2)),
    ("y = !(x > 0) + (x > 0) * 3", {"x": X}, torch.where(X > 0, 3.0, 1.0)),
    ("y = fmaf(x, 2.0f, 1.0f) * floorf(fabs(x) + .5)", {"x": X}, (2 * X + 1) * (X.abs() + 0.5).floor()),
    ("y = fmaxf(x, 0.0f)", {"x": torch.tensor([float("nan"), 2.0])}, torch.tensor([0.0, 2.0])),
    ("y = x - x / 3 * 3 - 1 - 1", {"x": torch.ones(2)}, torch.full((2,), -2.0)),
    ("y = 0.5f * x * (1.0f + erff(x * 0.70710678f))", {"x": X}, torch.nn.functional.gelu(X)),
]


@pytest.mark.parametrize(("line", "inputs", "expected"), LINES, ids=[case[0] for case in LINES])
def test_the_emulation_gives_what_the_line_says(line: str, inputs: dict[str, Any], expected: torch.Tensor) -> None:
    kernel = elementwise(line, **inputs)
    torch.testing.assert_close(kernel(), expected, rtol=1e-5, atol=1e-6)
    assert kernel.source.startswith(f"// {line.rstrip(';')}")


def test_types_promote_and_half_types_round_once() -> None:
    x = torch.randn(1000).bfloat16()
    found = elementwise("y = cosf(cosf(x))", x=x)()
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, x.float().cos().cos().bfloat16())
    assert elementwise("y = x + r", x=x, r=torch.zeros(1000))().dtype == torch.float32
    assert elementwise("y = x + r", x=x, r=torch.zeros(1000, dtype=torch.float64))().dtype == torch.float64


def test_shapes_strides_and_nothing_at_all() -> None:
    assert elementwise("y = 2 * x", x=torch.ones(3, 4).t())().shape == (4, 3)
    assert elementwise("y = 2 * x", x=torch.empty(0, 4))().shape == (0, 4)
    assert elementwise("y = 2 * x", x=torch.tensor(1.5))().item() == 3.0
    out = elementwise("y = x", x=X)()
    assert out.data_ptr() != X.data_ptr(), "the result is memory of its own"


def test_others_of_the_same_kind_take_the_inputs_place() -> None:
    kernel = elementwise("y = x * s", x=X, s=2.0)
    assert torch.equal(kernel(x=R, s=3.0), R * 3)
    assert torch.equal(kernel(), X * 2), "the first inputs are still there"
    assert kernel.bytes == 2 * X.numel() * 4
    assert kernel(x=R[:5]).shape == (5, 8)
    for wrong, message in (({"z": R}, "stands in the line"), ({"s": "2"}, "a number")):
        with pytest.raises(ArgumentError, match=message):
            kernel(**wrong)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("", {"x": X}, "a line of CUDA C"),
    ("y = x // 2", {"x": X}, "one line without"),
    ("y = x\n", {"z": X}, "stands in the line"),
    ("y = x;\ny = 2", {"x": X}, "one line without"),
    ("x = 2 * x", {"x": X}, "another name"),
    ("y = x + r", {"x": X, "r": torch.randn(5)}, "broadcast"),
    ("y = x", {"x": torch.ones(3, dtype=torch.int64)}, "one of float32"),
    ("y = s", {"s": 2.0}, "at least one tensor"),
    ("y = x * s", {"x": X, "s": "2"}, "a tensor or a number"),
    ("y = x * s", {"x": X, "s": True}, "a tensor or a number"),
    ("y = x + r", {"x": X, "r": torch.ones(8, device="meta")}, "on one GPU"),
]


@pytest.mark.parametrize(("line", "inputs", "message"), WRONG, ids=[repr(case[0]) for case in WRONG])
def test_what_does_not_fit_is_refused(line: str, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        elementwise(line, **inputs)


NOT_UNDERSTOOD = [
    ("y = cossf(x)", 'function "cossf" is not known', ["        ^", "Did you mean cosf?"]),
    ("y = x + z", '"z" is not known', ["            ^"]),
    ("y = cosf(x", "')' was expected", []),
    ("y = x x", "';' was expected", []),
    ("y = powf(x)", "takes 2 arguments", ["        ^"]),
    ("y = 1/0 * x", "divided by zero", []),
    ("y = x $ 2", "'$' cannot stand here", []),
    ("cosf(x)", "gives no name a value", []),
    ("for (int i = 0; i < 3; i = i + 1) x; y = x", "understands only statements", []),
    ("y = " + "(" * 2000 + "x" + ")" * 2000, "inside each other", []),
]


@pytest.mark.parametrize(("line", "problem", "after"), NOT_UNDERSTOOD, ids=[case[0][:40] for case in NOT_UNDERSTOOD])
def test_what_is_not_understood_is_said_and_a_name_pointed_at(line: str, problem: str, after: list[str]) -> None:
    with pytest.raises(LineError) as raised:
        elementwise(line, x=X)
    said, echoed, *rows = str(raised.value).splitlines()
    assert problem in said and echoed == f"    {line}" and rows == after


def test_a_python_expression_is_not_run() -> None:
    for line in ("y = __import__('os') + x", "y = x if x else 0", "y = [x]", "y = x ** 2", "y = lambda: x"):
        with pytest.raises(LineError):
            elementwise(line, x=X)


@pytest.mark.parametrize(
    ("tensor", "shape", "steps", "width"),
    [
        (torch.ones(6, 8), (6, 8), ((48, 1),), 4),
        (torch.ones(8), (6, 8), ((8, 1), (6, 0)), 4),
        (torch.ones(6, 1), (6, 8), ((8, 0), (6, 1)), 1),
        (torch.ones(7), (6, 7), ((7, 1), (6, 0)), 1),
        (torch.ones(8, 6).t(), (6, 8), ((8, 6), (6, 1)), 1),
        (torch.ones(1), (2, 3), ((6, 0),), 1),
        (torch.ones(6, 12)[:, :8], (6, 8), ((8, 1), (6, 12)), 4),
    ],
)
def test_each_index_is_that_of_the_broadcast_element(
    tensor: torch.Tensor, shape: tuple[int, ...], steps: Any, width: int
) -> None:
    found = layout(tensor, shape)
    assert found.steps == steps
    assert found.vectors(4) is (width == 4)
    values = torch.arange(float(tensor.untyped_storage().nbytes() // 4))
    same = torch.as_strided(values, tensor.shape, tensor.stride()).expand(shape).flatten()
    index = found.index("i").replace("/", "//")
    for i, expected in enumerate(same.tolist()):
        assert eval(index, {"i": i}) == expected  # the index is made of i, numbers, * / % and +


def test_large_arrays_are_indexed_with_64_bits() -> None:
    small = elementwise("y = x", x=X)._plan
    large = KernelPlan(small.line, small.output, False, small.arrays, (), "float32", 2**31)
    assert "using Index = unsigned;" in source(small) and "using Index = unsigned long long;" in source(large)


COMPILED: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("y = cosf(cosf(x))", {"x": X}),
    "all kinds": ("y = x < 0 ? w : b * s", {"x": X, "w": ROW, "b": COLUMN, "s": 2}),
    "half types": ("y = x * r", {"x": X.bfloat16(), "r": R.half()}),
    "double": ("y = cos(x) + r", {"x": X.double(), "r": R}),
    "odd size": ("float y = x * w", {"x": torch.ones(3, 7), "w": torch.ones(7)}),
    "one element": ("y = x", {"x": torch.ones(1)}),
    "names": ("v = VECTORS * first + w + k", {"VECTORS": X, "first": R, "w": ROW, "k": 1.0}),
    "unaligned": ("y = 2.0f * x", {"x": torch.ones(9)[1:]}),
    "strided": ("y = 2.0f * x", {"x": torch.ones(8, 6).t()}),
}


@needs_compiler
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", COMPILED)
def test_the_generated_text_compiles(name: str, arch: str, tmp_path: Path) -> None:
    line, inputs = COMPILED[name]
    file = tmp_path / "generated.cu"
    file.write_text(elementwise(line, **inputs).source)
    code = compiled(file, arch, tmp_path)
    assert code.startswith(b"\x7fELF") and NAME.encode() in code


def wrong_source(line: str) -> str:
    right = elementwise("y = cosf(x)", x=X)._plan
    return source(KernelPlan(line, "y", False, right.arrays, (), "float32", right.count))


@needs_compiler
@pytest.mark.parametrize(
    ("line", "problem", "after"),
    [("y = cossf(x)", '"cossf" is undefined', ["        ^", "Did you mean cosf?"]),
     ("y = x x", 'expected a ";"', [])],
)  # fmt: skip
def test_the_compilers_error_is_that_of_the_students_line(
    line: str, problem: str, after: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "generated.cu"
    file.write_text(wrong_source(line))
    with pytest.raises(UnavailableError) as refused:
        compiled(file, "sm_90", tmp_path)
    found = from_log(line, str(refused.value), FUNCTIONS)
    assert problem in found.problem and str(found).splitlines()[2:] == after
    assert "generated" not in str(found) and "your_line" not in str(found)


def test_a_log_that_points_nowhere_is_shown() -> None:
    assert "out of memory" in str(from_log("y = x", "nvrtc: error: out of memory", ()))
    assert "no reason" in str(from_log("y = x", "", ()))


def test_without_nvrtc_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from brrr.kernels.elementwise import kernel

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(UnavailableError, match=r"lines of CUDA C.* cannot be compiled"):
        kernel._compiled("text of no kernel", "y = x", 0)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="PTX is made by nvcc")
def test_neighbours_are_loaded_sixteen_bytes_at_a_time(tmp_path: Path) -> None:
    import subprocess

    file, out = tmp_path / "generated.cu", tmp_path / "out.ptx"
    file.write_text(elementwise("y = x * w + b", x=X, w=ROW, b=ROW).source)
    subprocess.run(["nvcc", "-arch=sm_90", "-std=c++17", "-ptx", "-o", out, file], check=True)
    moves = [
        row.split()[0] for row in out.read_text().splitlines() if ".global" in row and row.strip()[:2] in ("ld", "st")
    ]
    assert moves and all(".v4." in move for move in moves)
