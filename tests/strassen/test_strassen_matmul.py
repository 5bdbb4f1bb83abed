"""matmul: right in every way, shape and type on the CPU, within its predicted error and its workspace; its refusals."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.strassen import IMPLEMENTATIONS, Implementation, explain, matmul, product
from brrr.strassen.accuracy import predicted_error
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import prepare_right, prepared, steps
from brrr.strassen.implementations import Problem
from brrr.strassen.launcher import run_all
from brrr.strassen.operands import Arena, Right
from brrr.strassen.planner import plan_of
from tests.refusals import refused, values
from tests.strassen_on_gpu import error

SHAPES = [(1, 1, 1), (2, 3, 5), (16, 16, 16), (33, 70, 41), (64, 8, 100), (101, 203, 77), (1, 64, 9), (65, 1, 300)]
ON_CPU = [way for way in IMPLEMENTATIONS.values() if "cpu" in way.kind.devices]
ROOM = 3.0
"""Small matrices scatter: so many times the predicted error may be seen."""


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


# --- every way --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ON_CPU, ids=lambda way: way.name)
def test_every_way_is_right_and_within_its_predicted_error(way: Implementation) -> None:
    for operand in way.kind.operands:
        dtype = getattr(torch, operand)
        for m, k, n in ((33, 70, 41), (64, 256, 64)):
            a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
            out = torch.full((m, n), math.nan, dtype=dtype)
            prepared(way, a, b, out)()
            found = error(out, a, b)
            assert found <= ROOM * predicted_error(way, k, operand), (operand, m, k, n)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("form", ["strassen", "winograd"])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_any_size_in_float64(m: int, k: int, n: int, form: str, level: int) -> None:
    a, b = normal(m, k, dtype=torch.float64), normal(k, n, dtype=torch.float64)
    found = matmul(a, b, form=form, level=level)
    assert torch.allclose(found, a @ b, rtol=1e-11, atol=1e-11 * math.sqrt(k))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_empty_matrices(level: int) -> None:
    for m, k, n in ((0, 4, 4), (4, 0, 4), (4, 4, 0)):
        found = matmul(torch.ones(m, k), torch.ones(k, n), level=level, inner="sgemm")
        assert torch.equal(found, torch.zeros(m, n))


@pytest.mark.parametrize("inner", ["sgemm", "fp16x3", "bf16"])
@pytest.mark.parametrize("level", [0, 1])
def test_strided_operands_and_results(inner: str, level: int) -> None:
    a, b = normal(70, 40).t()[::2], normal(50, 140)[::2, ::2][:, :70].t()[:, :25]
    b = normal(70, 25 * 2)[:, ::2]
    kinds = [(a, b), (a.contiguous(), normal(25, 70).t())]
    for left, right in kinds:
        for out in (torch.empty(20, 25), torch.empty(25, 20).t(), torch.empty(20, 60)[:, ::2][:, :25]):
            made = matmul(left, right, inner=inner, level=level, out=out)
            assert made is out
            assert error(out, left, right) <= ROOM * predicted_error(Implementation(inner, level, "strassen"), 70)


def test_a_transposed_right_side_is_read_as_it_lies() -> None:
    w = normal(24, 40)
    assert Right.of(w.t()).source.data_ptr() == w.data_ptr() and Right.of(w.t()).transposed
    a = normal(16, 40)
    assert error(matmul(a, w.t(), level=2, inner="sgemm"), a, w.t()) < 1e-5


@pytest.mark.parametrize("inner", ["sgemm", "bf16", "fp16x3"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_right_side_made_once_lies_as_its_products_want_it(inner: str, level: int) -> None:
    """Library products take (k, n) however the operand lies, split ones (n, k); both give the same numbers."""
    way = Implementation(inner, level, "strassen", prepared=True)
    a, w = normal(30, 44), normal(52, 44)
    found = [prepare_right(each, way) for each in (w.t(), w.t().contiguous())]
    results = []
    for right in found:
        assert right.made_transposed == (inner == "fp16x3") and right.factors
        out = torch.full((30, 52), math.nan)
        run_all(steps(way, a, right, out, Arena(workspace_bytes(Problem(way, 30, 52, 44)), "cpu")))
        results.append(out)
    assert torch.equal(*results) and error(results[0], a, w.t()) <= ROOM * predicted_error(way, 44)
    kept = prepare_right(w.t(), way, once=False)
    assert kept.made_transposed, "what is made for one product is not turned"


def test_a_right_side_made_for_another_way_is_refused() -> None:
    a, b = normal(64, 64), normal(64, 64)
    right = prepare_right(b, Implementation("sgemm", 2, "strassen"))
    with pytest.raises(ArgumentError, match="prepared for"):
        steps(IMPLEMENTATIONS["sgemm-strassen-3"], a, right, torch.empty(64, 64), Arena(2**22, "cpu"))


def test_a_kernel_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(way: Implementation, *_: Any) -> Any:
        if way.inner != "sgemm":
            raise UnavailableError("no compiler")
        return steps(way, *_)

    monkeypatch.setattr(product, "steps", missing)
    a, b = normal(40, 40), normal(40, 40)
    split = explain(a, b, inner="fp16x3", level=1)
    monkeypatch.setattr(product, "plan_of", lambda made, kind: plan_of(made, kind) if made.limits.inners else split)
    with pytest.warns(UserWarning, match="no compiler; the library's product is taken"):
        assert torch.equal(matmul(a, b, accuracy="fp32"), a @ b)
    with pytest.raises(UnavailableError, match="no compiler"):
        matmul(a, b, inner="fp16x3", level=1)


# --- memory -----------------------------------------------------------------------------------------------------------


class Allocations(TorchDispatchMode):
    """The bytes of all storages that operators make, as long as they live; `most` is the largest sum."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, int] = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import weakref

        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                key = storage._cdata
                if key not in self.alive and not self._given(storage):
                    self.alive[key] = storage.nbytes()
                    self.now += storage.nbytes()
                    self.most = max(self.most, self.now)
                    weakref.finalize(storage, self._gone, key)
        return found

    given: frozenset[int] = frozenset()

    def _given(self, storage: Any) -> bool:
        return storage.data_ptr() in self.given

    def _gone(self, key: int) -> None:
        self.now -= self.alive.pop(key, 0)


@contextmanager
def allocations(*given: torch.Tensor) -> Iterator[Allocations]:
    """What is allocated inside, the given tensors left out."""
    watch = Allocations()
    watch.given = frozenset(each.untyped_storage().data_ptr() for each in given)
    with watch:
        yield watch


@pytest.mark.parametrize("name", ["strassen-1", "winograd-1", "strassen-2", "strassen-3"])
def test_never_more_memory_than_stated(name: str) -> None:
    """But for what a second and a third level's sums take between them, where torch makes them."""
    way, (m, k, n) = IMPLEMENTATIONS[f"sgemm-{name}"], (130, 96, 70)
    a, b, out = normal(m, k), normal(k, n), torch.empty(m, n)
    stated = workspace_bytes(Problem(way, m, n, k))
    with allocations(a, b, out) as watch:
        run_all(steps(way, a, Right.of(b), out, Arena(stated, "cpu")))
    assert error(out, a, b) <= ROOM * predicted_error(way, k)
    assert watch.most <= (stated if way.level == 1 else 1.5 * stated)


def test_a_limit_is_kept_and_said() -> None:
    a, b, out = normal(256, 256), normal(256, 256), torch.empty(256, 256)
    limit = 6 * 4 * 256 * 256
    with refused("workspace_bytes", limit):
        matmul(a, b, level=2, form="strassen", inner="sgemm", workspace_bytes=limit)
    with allocations(a, b, out) as watch:
        matmul(a, b, level=1, form="strassen", inner="sgemm", workspace_bytes=limit, out=out)
    assert 0 < watch.most <= limit and error(out, a, b) < 1e-5
    assert explain(a, b, workspace_bytes=0).implementation.level == 0


def test_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(DeviceMemoryError, match="a workspace needs 4096 bytes on cpu"):
        Arena(4096, "cpu")


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 2])
def test_gradients(level: int) -> None:
    a = normal(5, 6, dtype=torch.float64).requires_grad_()
    b = normal(6, 7, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: matmul(a, b, level=level), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: matmul(a, b, level=level), (a, b))


def test_only_wanted_gradients() -> None:
    a, b = normal(4, 4).requires_grad_(), normal(4, 4)
    matmul(a, b, level=1, inner="sgemm").sum().backward()
    assert torch.allclose(a.grad, b.sum(1).expand(4, 4), atol=1e-5)  # type: ignore[arg-type]
    assert not matmul(a.detach(), b).requires_grad


# --- refusals ---------------------------------------------------------------------------------------------------------

A, B = torch.ones(4, 6), torch.ones(6, 5)


OPTIONS = {
    "level": [4, True], "form": ["karatsuba"], "inner": ["dgemm", "fp64", "tf32"], "workspace_bytes": [-1],
    "accuracy": ["fp12", -1.0, math.nan, 1e-12],
}  # fmt: skip


@pytest.mark.parametrize(("argument", "value"), values(OPTIONS))
def test_options_that_are_refused(argument: str, value: Any) -> None:
    with refused(argument):
        matmul(A, B, **{argument: value})


@pytest.mark.parametrize(("call", "argument", "value"), [
    (lambda: matmul([1.0], B), "a", "list"),  # type: ignore[arg-type]
    (lambda: matmul(torch.ones(4), B), "a", "shape (4,)"),
    (lambda: matmul(A, torch.ones(5, 5)), "b", "shape (5, 5)"),
    (lambda: matmul(A, B.double()), "b", "torch.float64 on cpu"),
    (lambda: matmul(A.int(), B.int()), "a", "torch.int32"),
    (lambda: matmul(A, B.to("meta"), level=0), "b", "torch.float32 on meta"),
    (lambda: matmul(A, B, level=1, inner="sgemm", workspace_bytes=9), "workspace_bytes", 9),
    (lambda: matmul(A, B, out=torch.ones(4, 4)), "out", "torch.float32 (4, 4) on cpu"),
    (lambda: matmul(A, B, out=A[:, :5]), "out", "the memory of an operand"),
    (lambda: matmul(A, B, out=[]), "out", "list"),  # type: ignore[arg-type]
    (lambda: matmul(A.clone().requires_grad_(), B, out=torch.ones(4, 5)), "out", "a tensor"),
])  # fmt: skip
def test_what_is_refused(call: Any, argument: str, value: Any) -> None:
    with refused(argument, value):
        call()


# --- again and again --------------------------------------------------------------------------------------------------


def test_memory_that_is_not_there_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is made again for what is free; what was asked for and does not fit is an error that says the bytes."""
    a, b = (torch.randint(-3, 4, (300, 300)).float() for _ in range(2))
    least = workspace_bytes(Problem(Implementation("sgemm", 1, "strassen"), 300, 300, 300))
    monkeypatch.setattr(product, "is_gpu", lambda device: True)
    monkeypatch.setattr(product, "RESERVED", 0)
    monkeypatch.setattr(product, "free_bytes", lambda device: 2**24)
    monkeypatch.setattr(product, "plan_of", lambda request, kind: plan_of(
        request if request.free_bytes is None else replace(request, free_bytes=least), kind
    ))  # fmt: skip
    taken: list[int] = []

    def small(nbytes: int, device: torch.device) -> Arena:
        taken.append(nbytes)
        if nbytes > least:
            raise DeviceMemoryError("no more")
        return Arena(nbytes, device)

    monkeypatch.setattr(product, "Arena", small)
    monkeypatch.setattr(product, "free_bytes", lambda device: 0)
    assert torch.equal(matmul(a, b, level=1, form="strassen", inner="sgemm"), a @ b)
    with pytest.raises(DeviceMemoryError, match=r"it needs a workspace of \d+ bytes, and \d+ are free"):
        matmul(a, b, level=2, form="strassen", inner="sgemm")
    assert taken[0] == least and len(taken) == 2
