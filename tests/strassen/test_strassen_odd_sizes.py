"""Odd sizes: cores and thin products, copies to aligned rows; exact in whole numbers, and stated as they are run."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from brrr.roofline.device_model import model_of
from brrr.strassen import IMPLEMENTATIONS, Implementation, execution, matmul, odd_sizes, plan
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.cost import buffers_of, seconds, workspace_bytes
from brrr.strassen.execution import cut_steps, pass_steps, prepare_right, prepared, steps
from brrr.strassen.implementations import Problem, Sizes
from brrr.strassen.launcher import run_all
from brrr.strassen.layers import planned
from brrr.strassen.odd_sizes import Copied, copied, core_of, thin_parts
from brrr.strassen.operands import Arena, Right
from brrr.strassen.planner import plan_of
from brrr.strassen.request import Limits, Request

ON_CPU = ("fp64", "sgemm", "fp16x3", "fp16", "bf16")


def whole(*shape: int, dtype: torch.dtype = torch.float32, largest: int = 3) -> torch.Tensor:
    """Whole numbers so small that every sum and product of them is exact."""
    return torch.randint(-largest, largest + 1, shape).to(dtype)


def filled(m: int, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((m, n), math.nan, dtype=dtype)


def cut(way: Implementation, core: Sizes, a: torch.Tensor, right: Right, out: torch.Tensor) -> None:
    nbytes = workspace_bytes(Problem(way, a.shape[0], right.n, right.k, str(a.dtype)[6:]))
    run_all(cut_steps(way, core, a, right, out, Arena(nbytes, "cpu")))


# --- the product beside a core ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("rest", list(product((0, 1, 3), repeat=3)))
def test_any_rest_is_exact(rest: tuple[int, int, int], level: int) -> None:
    core = (48, 64, 32)
    m, n, k = (size + more for size, more in zip(core, rest, strict=True))
    a, b, out = whole(m, k, largest=9), whole(k, n, largest=9), filled(m, n)
    cut(Implementation("sgemm", level, "winograd"), core, a, Right.of(b), out)
    assert torch.equal(out, a @ b)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("inner", ON_CPU)
def test_every_inner_product_beside_a_core(inner: str, made: bool, turned: bool) -> None:
    """Prepared or not, as Linear's weights lie or not: the same numbers, and nothing beside the result is written."""
    for level in (1, 2, 3):
        if level not in IMPLEMENTATIONS[inner].kind.levels:
            continue
        way = Implementation(inner, level, "strassen", prepared=made)
        dtype = getattr(torch, way.kind.operands[-1])
        a, b = whole(69, 37, dtype=dtype, largest=1), whole(37, 65, dtype=dtype, largest=1)
        b = b.t().contiguous().t() if turned else b
        core = (64, 64, 32)
        right = Right.of(b)
        if made:
            part = prepare_right(right.cut(64, 32), way)
            right = replace(part, source=right.source, core=(64, 32))
        wide = filled(69, 80, dtype)
        cut(way, core, a, right, wide[:, :65])
        assert torch.equal(wide[:, :65].double(), a.double() @ b.double())
        assert wide[:, 65:].isnan().all()


def test_strided_operands_and_results_beside_a_core() -> None:
    a, b = whole(140, 70)[::2, ::2], whole(35, 66)[:, ::2]
    for out in (filled(33, 70).t(), filled(70, 66)[:, ::2]):
        cut(Implementation("sgemm", 1, "strassen"), (64, 32, 32), a, Right.of(b), out)
        assert torch.equal(out, a @ b)


@pytest.mark.parametrize("sizes", [(1025, 1025, 1025), (1024, 1537, 1024), (1601, 1024, 1031), (1536, 1024, 1537)])
@pytest.mark.parametrize("name", ["sgemm-strassen-1", "sgemm-winograd-3", "sgemm-strassen-2-prepared"])
def test_a_way_as_it_is_run_is_exact(name: str, sizes: Sizes) -> None:
    m, n, k = sizes
    a, b, out = whole(m, k), whole(k, n), filled(m, n)
    for right in (b, b.t().contiguous().t()):
        prepared(IMPLEMENTATIONS[name], a, right, out.fill_(math.nan))()
        assert torch.equal(out, a @ b)


def test_gradients_through_a_core() -> None:
    a, b = whole(1025, 1025).requires_grad_(), whole(1025, 1025).requires_grad_()
    assert core_of(Problem(IMPLEMENTATIONS["sgemm-strassen-2"], 1025, 1025, 1025)) != (1025, 1025, 1025)
    matmul(a, b, level=2, form="strassen", inner="sgemm").sum().backward()
    expected = torch.ones(1025, 1025)
    assert torch.equal(a.grad, expected @ b.detach().t()) and torch.equal(b.grad, a.detach().t() @ expected)  # type: ignore[arg-type]


# --- what goes through the levels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [way for way in IMPLEMENTATIONS.values() if way.level], ids=lambda way: way.name)
def test_cores_are_within_the_sizes_and_leave_little(way: Implementation) -> None:
    operand = way.kind.operands[-1]
    for m, n, k in ((1, 1, 1), (63, 4097, 4097), (4097, 4097, 4097), (4096, 4097, 4096), (5000, 1537, 8191)):
        problem = Problem(way, m, n, k, operand)
        core = core_of(problem)
        for part, size in zip(core, (m, n, k), strict=True):
            assert 0 < part <= size and size - part <= odd_sizes.LARGEST_REST * size
        assert sum(x * y * z for x, y, z in [core, *thin_parts(core, (m, n, k))]) == m * n * k


def test_whole_blocks_are_left_alone_and_one_row_more_is_split_off() -> None:
    for level in (1, 2, 3):
        way = Implementation("sgemm", level, "strassen")
        assert core_of(Problem(way, 8192, 8192, 8192)) == (8192, 8192, 8192)
        assert core_of(Problem(way, 8193, 8192, 8192))[0] == core_of(Problem(way, 8192, 8193, 8192))[1] == 8192
        assert core_of(Problem(way, 8191, 8191, 8191)) == (8191, 8191, 8191)
        assert core_of(Problem(way, 8193, 8193, 8193, whole=True)) == (8193, 8193, 8193)
    assert core_of(Problem(Implementation("sgemm"), 4097, 4097, 4097)) == (4097, 4097, 4097)


def test_of_k_nothing_is_added_to_a_result_in_a_short_type() -> None:
    for n in (1025, 4097, 16385):
        for name in ("bf16-strassen-1", "bf16-winograd-3"):
            assert core_of(Problem(IMPLEMENTATIONS[name], n, n, n, "bfloat16"))[2] == n


@pytest.mark.parametrize("name", ["sgemm-strassen-2-prepared", "sgemm-strassen-3"])
def test_the_prediction_and_the_plan_know_of_it(name: str) -> None:
    model, way = model_of("h200"), IMPLEMENTATIONS[name]
    made, rounded_up = (seconds(Problem(way, 4097, 4097, 4097, whole=each), model) for each in (False, True))
    core = seconds(Problem(way, 4096, 4096, 4097), model)
    assert core < made < rounded_up
    found = plan(
        4097, 4097, 4097, level=way.level, form="strassen", inner="sgemm", prepared=way.prepared, device="h200"
    )
    assert "The levels take 4096 x" in found.why
    (layer,) = planned(((4097, 4097),), 4097, "float32", "h200", Limits(level=3, form="strassen", inner="sgemm"))
    assert "The levels take" not in layer.why and "rounding up adds" in layer.why


# --- aligned rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("inner", ["bf16", "fp16", "sgemm"])
@pytest.mark.parametrize("sizes", [(70, 65, 67), (70, 64, 67), (70, 65, 64), (1, 3, 5)])
def test_copies_to_aligned_rows_are_exact(sizes: Sizes, inner: str, turned: bool) -> None:
    m, n, k = sizes
    way = IMPLEMENTATIONS[inner]
    for operand in way.kind.operands:
        dtype = getattr(torch, operand)
        a, b = whole(m, k, dtype=dtype, largest=1), whole(k, n, dtype=dtype, largest=1)
        right = Right.of(b.t().contiguous().t() if turned else b)
        for copies in (Copied(True, True, True), Copied(bool(k % 8), True, bool(n % 8))):
            if way.dtype != operand and not all(copies):
                continue
            arena, out = Arena(2**20, "cpu"), filled(m, n, dtype)
            arena.memory.fill_(255)  # NaN in every type: what lies behind the rows must not count
            made = pass_steps(Problem(way, m, n, k, operand), a, right, out, arena, copies)
            run_all(made)
            assert torch.equal(out.double(), a.double() @ b.double())


def test_no_copies_without_room_for_them_or_of_what_does_not_lie_as_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "KINDS", ("cpu",))
    a, b, out = (torch.ones(size, dtype=torch.bfloat16) for size in ((1536, 1536), (1536, 1537), (1536, 1537)))
    assert copied(Problem(IMPLEMENTATIONS["bf16"], 1536, 1537, 1536, "bfloat16")) == Copied(False, True, True)
    for nbytes, left, count in ((2**24, a, 3), (100, a, 1), (2**24, a.t(), 1)):
        assert len(steps(IMPLEMENTATIONS["bf16"], left, Right.of(b), out, Arena(nbytes, "cpu"))) == count


def test_the_classical_product_takes_the_copies_that_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "KINDS", ("cpu",))
    for operand, n in ((torch.bfloat16, 1537), (torch.float32, 1025)):
        a, b, out = (whole(n, n, dtype=operand, largest=1) for _ in range(3))
        way, name = IMPLEMENTATIONS["bf16"], str(operand)[6:]
        problem = Problem(way, n, n, n, name)
        needed = workspace_bytes(problem)
        arena = Arena(needed, "cpu")
        made = steps(way, a, Right.of(b), out, arena)
        assert len(made) == 4 and arena.left_bytes == 0 and needed == buffers_of(problem).total > 0
        little = Arena(workspace_bytes(replace(problem, aligned=False)), "cpu")
        for each in (made, steps(way, a, Right.of(b), out, little)):
            out.fill_(math.nan)
            run_all(each)
            assert torch.equal(out.double(), (a.double() @ b.double()).to(torch.bfloat16).double())


def test_copies_are_planned_where_they_pay() -> None:
    for n in (512, 1000, 4096, 5000):
        assert not any(copied(Problem(IMPLEMENTATIONS["bf16"], n, n, n, "bfloat16")))
    for name, operand in (("bf16", "bfloat16"), ("fp16", "float16"), ("tf32", "float32")):
        assert all(copied(Problem(IMPLEMENTATIONS[name], 4097, 4097, 4097, operand)))
        assert not any(copied(Problem(IMPLEMENTATIONS[name], 33, 70, 41, operand)))
        assert not any(copied(Problem(IMPLEMENTATIONS[name], 1, 4097, 4097, operand)))
    assert not any(copied(Problem(IMPLEMENTATIONS["sgemm"], 4097, 4097, 4097)))
    assert not any(copied(Problem(IMPLEMENTATIONS["tf32"], 4100, 4100, 4100)))
    assert copied(Problem(IMPLEMENTATIONS["bf16"], 4096, 4097, 4096, "bfloat16")) == Copied(False, True, True)
    assert copied(Problem(IMPLEMENTATIONS["bf16"], 4096, 4096, 4097, "bfloat16")) == Copied(True, True, False)


def test_plans_state_the_copies_and_do_without_them_where_there_is_no_room() -> None:
    sizes = (4097, 4097, 4097)
    found = plan(*sizes, dtype="bfloat16", device="h200", level=0)
    tight = plan(*sizes, dtype="bfloat16", device="h200", level=0, workspace_bytes=2**20)
    assert found.workspace_bytes == workspace_bytes(Problem(IMPLEMENTATIONS["bf16"], *sizes, "bfloat16")) > 10**8
    assert tight.workspace_bytes == 0 and "16 bytes" in found.why and "16 bytes" not in tight.why
    assert found.predicted_s is not None and tight.predicted_s is not None
    assert found.predicted_s < tight.predicted_s / 2
    on_cpu = plan_of(Request(*sizes, "bfloat16", Limits(level=0)), "cpu")
    assert on_cpu.workspace_bytes == 0 and "16 bytes" not in on_cpu.why


@pytest.mark.parametrize("way", ["sgemm-strassen-1", "bf16-winograd-2", "sgemm-strassen-3"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (101, 30, 60), (4097, 1023, 777)])
def test_block_sizes_are_those_of_the_buffers(way: str, sizes: tuple[int, int, int]) -> None:
    made, (m, n, k) = IMPLEMENTATIONS[way], sizes
    rows, deep, columns = Problem(made, m, n, k).block
    assert buffer_shape(m, k, "left", made.level) == (made.products, rows, deep)
    assert buffer_shape(k, n, "right", made.level) == (made.products, deep, columns)
    assert products_shape(m, n, made.level) == (made.products, rows, columns)
