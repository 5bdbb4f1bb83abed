"""Steps that are kept: made once for the same addresses, right for new numbers there, and holding no memory."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from brrr.core.errors import UnavailableError
from brrr.strassen import Implementation, matmul
from brrr.strassen import product as kept
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import steps
from brrr.strassen.implementations import Problem
from brrr.strassen.launcher import run_all
from brrr.strassen.operands import Arena
from brrr.strassen.product import kept_steps, pointing

LEVEL = Implementation("sgemm", 1, "strassen")
WAYS_KEPT = (
    LEVEL,
    Implementation("sgemm"),
    Implementation("fp16x3"),
    Implementation("bf16", 1, "winograd"),
    Implementation("sgemm", 3, "strassen"),
)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept, "KINDS", ("cpu",))
    kept._KEPT.clear()
    yield
    kept._KEPT.clear()


class Made:
    """Counts how often steps are made."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *given: Any) -> Any:
        self.count += 1
        return steps(*given)


def arena_of(way: Implementation, n: int) -> Arena:
    return Arena(workspace_bytes(Problem(way, n, n, n)), "cpu")


def whole(*shape: int) -> torch.Tensor:
    return torch.randint(-3, 4, shape).float()


@pytest.mark.parametrize("way", WAYS_KEPT, ids=lambda way: way.name)
def test_made_once_for_the_same_addresses_and_right_for_new_numbers(way: Implementation) -> None:
    a, b, out, arena, made = whole(48, 48), whole(48, 48), torch.empty(48, 48), arena_of(way, 48), Made()
    for _ in range(3):
        a.copy_(whole(48, 48).sign())
        b.copy_(whole(48, 48).sign())
        run_all(kept_steps(made, way, a, b, out.fill_(torch.nan), arena))
        assert torch.equal(out, a @ b)
    assert made.count == 1


def test_anything_else_is_made_anew() -> None:
    a, b, out, arena, made = whole(48, 48), whole(48, 48), torch.empty(48, 48), arena_of(LEVEL, 48), Made()
    other, wide = torch.empty(48, 48), torch.empty(48, 96)
    given = [
        (LEVEL, a, b, out), (Implementation("sgemm", 1, "winograd"), a, b, out), (LEVEL, a.t(), b, out), (LEVEL, a,
                                                                                                          b.t(), out),
        (LEVEL, a[:40], b, out[:40]), (LEVEL, a, b, other), (LEVEL, b, a, out), (LEVEL, a, b, wide[:, ::2]),
    ]  # fmt: skip
    for _ in range(2):
        for way, left, right, result in given:
            run_all(kept_steps(made, way, left, right, result.fill_(torch.nan), arena))
            assert torch.equal(result, left @ right)
    assert made.count == len(given)


def test_what_is_kept_holds_no_memory() -> None:
    a, b, out, arena = whole(64, 64), whole(64, 64), torch.empty(64, 64), arena_of(LEVEL, 64)
    run_all(kept_steps(steps, LEVEL, a, b, out, arena))
    watched = [weakref.ref(each.untyped_storage()) for each in (a, b, out, arena.memory)]
    assert len(kept._KEPT) == 1 and all(each() is not None for each in watched)
    del a, b, out, arena
    assert all(each() is None for each in watched)


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 3)
    a, b, out, arena, made = whole(32, 32), whole(32, 32), torch.empty(32, 32), arena_of(LEVEL, 32), Made()
    for rows in (1, 2, 3, 4, 1, 4):
        kept_steps(made, LEVEL, a[:rows], b, out[:rows], arena)
        assert len(kept._KEPT) <= 3
    assert made.count == 5


def test_what_cannot_be_made_is_not_kept() -> None:
    def missing(*_: Any) -> Any:
        raise UnavailableError("no compiler")

    a, b, out, arena = whole(8, 8), whole(8, 8), torch.empty(8, 8), arena_of(LEVEL, 8)
    with pytest.raises(UnavailableError):
        kept_steps(missing, LEVEL, a, b, out, arena)
    assert not kept._KEPT
    run_all(kept_steps(steps, LEVEL, a, b, out, arena))
    assert torch.equal(out, a @ b)


def test_under_inference_mode_and_outside_of_it() -> None:
    a, b, out = whole(48, 48), whole(48, 48), torch.empty(48, 48)
    for _ in range(2):
        with torch.inference_mode():
            matmul(a, b, level=1, inner="sgemm", out=out)
        assert torch.equal(matmul(a, b, level=1, inner="sgemm", out=out), a @ b)


def test_a_pointing_tensor_lies_as_the_other() -> None:
    x = torch.arange(60.0).view(6, 10)
    for each in (x, x.t(), x[1:, 2:], x[::2, ::3], x[:1].expand(6, 10), x[:, 3], x[:0]):
        found = pointing(each)
        assert torch.equal(found, each) and found.stride() == each.stride() and found.dtype == each.dtype
        assert not each.numel() or found.data_ptr() == each.data_ptr()
    assert pointing(x.bfloat16()).dtype == torch.bfloat16
