"""What runs only later is refused by every call that would run it, with what to write instead."""

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import torch

from brrr.core.callables import later, require_callable
from brrr.core.errors import ArgumentError
from brrr.counting.tracing import cost
from brrr.diagnosis.diagnosing import diagnose
from brrr.roofline.predicting import predict
from brrr.running.graphs import capture
from brrr.running.pipeline import Pipeline
from brrr.timing import measure, measure_together
from brrr.timing.cpu_queue import CpuQueue
from brrr.tracing.tracer import trace
from tests.refusals import refused


def generator(x: Any = None) -> Iterator[int]:
    yield 1


async def coroutine(x: Any = None) -> None:
    await asyncio.sleep(0)


async def asynchronous(x: Any = None) -> AsyncIterator[int]:
    yield 1


class Later(torch.nn.Module):
    def forward(self, x: Any = None) -> Iterator[int]:
        yield 1


class Called:
    async def __call__(self, x: Any = None) -> None: ...


class Inheriting(Called): ...


LATER = [
    generator, coroutine, asynchronous, Later(), Called(), Inheriting(), functools.partial(generator), Later().forward,
]  # fmt: skip


def in_a_queue(fn: Any) -> None:
    with CpuQueue() as queue:
        trace(fn, device=queue)


CALLS: dict[str, Callable[[Any], Any]] = {
    "cost": cost, "predict": lambda fn: predict(fn, device="h200"), "measure": lambda fn: measure(fn, device="cpu"),
    "together": lambda fn: measure_together([len, fn][1:], device="cpu"),
    "diagnose": lambda fn: diagnose(fn, device="cpu"),
    "trace": in_a_queue, "capture": capture,
    "Pipeline": lambda fn: Pipeline(fn, 1024, device="cpu"),
}  # fmt: skip
ARGUMENT = {"predict": "fn_or_cost", "Pipeline": "compute"}


@pytest.mark.parametrize("fn", LATER, ids=lambda fn: re.sub(" at 0x[0-9a-f]+", "", repr(fn)))
@pytest.mark.parametrize("name", CALLS)
def test_what_runs_later_is_refused(name: str, fn: Any) -> None:
    with pytest.raises(ArgumentError, match="runs nothing of it yet") as caught:
        CALLS[name](fn)
    assert caught.value.argument == ARGUMENT.get(name, "fn") and caught.value.value is fn


@pytest.mark.parametrize("fn", [generator, coroutine, asynchronous])
@pytest.mark.parametrize("name", ["cost", "predict", "measure", "diagnose"])
def test_a_function_that_returns_what_runs_later_is_refused(name: str, fn: Any) -> None:
    with refused("fn"):
        CALLS[name](lambda: fn())


def test_what_makes_such_a_function_run_is_taken() -> None:
    for fn in (lambda: list(generator()), lambda: asyncio.run(coroutine()), functools.partial(len, [1])):
        require_callable("measure", "fn", fn, "a function")
    assert measure(lambda: list(generator()), device="cpu", budget_s=0.01).period_s is not None


def test_results_that_may_be_computed_later_are_noted() -> None:
    """By what their types have, so that nothing of a result itself is asked."""

    class Row(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    loop = asyncio.new_event_loop()
    unfinished = [map(abs, [1]), iter([1]), Future(), loop.create_future(), torch.futures.Future(),
                  type("Work", (), {"wait": None})(), type("Delayed", (), {"__dask_graph__": None})(),
                  type("Array", (), {"block_until_ready": None})()]  # fmt: skip
    loop.close()
    for each in unfinished:
        for result in (each, [1, each], {"a": each}, (each, None)):
            assert f"(a {type(each).__name__}) may be computed only later" in later(result)
    for result in (None, 1.0, "text", [1, 2], torch.ones(3), {"wait": 1}, Row(wait=1), range(3), [[]], object, type):
        assert later(result) == "", result
