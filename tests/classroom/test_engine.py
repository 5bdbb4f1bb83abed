"""A scheduler that others started, by a client that is played: which workers are taken, how long a point may take."""

import asyncio
from typing import Any

import distributed
import pytest

from brrr.core.errors import UnavailableError
from brrr_course.classroom.engine import Dask


class Done:
    """An answer that is there."""

    def __await__(self) -> Any:
        yield from ()
        return {"answers": {}}

    def release(self) -> None: ...


class Client:
    """Answers what its workers are said to answer."""

    answers: dict[str, Any]

    def __init__(self, address: str, **_: object) -> None:
        self.submitted: list[tuple[Any, ...]] = []

    def __await__(self) -> Any:
        yield from ()
        return self

    def subscribe_topic(self, topic: str, heard: object) -> None: ...

    async def wait_for_workers(self, count: int, timeout: float) -> None: ...

    async def run(self, function: object, kind: str, on_error: str) -> dict[str, Any]:
        return {address: answer for address, answer in self.answers.items() if kind == "cuda" and on_error == "return"}

    def submit(self, function: object, *given: Any, **_: Any) -> Any:
        self.submitted.append(given)
        return Done()


def joined(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Any:
    monkeypatch.setattr(distributed, "Client", Client)
    monkeypatch.setattr(Client, "answers", answers, raising=False)
    return Dask.joined("tcp://there:8786", "cuda", 7.5)


def test_a_worker_that_answers_is_taken_and_one_that_cannot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found() -> Any:
        return await (await joined(monkeypatch, a={"device": "h"}, b=OSError("gone"), c={}, d="nothing")).hellos()

    assert asyncio.run(found()) == [{"device": "h", "worker": "a"}]


def test_where_none_answers_the_first_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(**answers: Any) -> Any:
        return await (await joined(monkeypatch, **answers)).hellos()

    with pytest.raises(UnavailableError, match="gone"):
        asyncio.run(found(b=OSError("gone")))
    with pytest.raises(UnavailableError, match="there is no worker"):
        asyncio.run(found())


def test_a_worker_is_told_its_kind_and_how_long_a_point_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> Any:
        engine = await joined(monkeypatch)
        await engine.submit("key", {"point": 1}, 2.0, None)
        return engine._client.submitted

    assert asyncio.run(asked()) == [("key", {"point": 1}, "cuda", 7.5)]
