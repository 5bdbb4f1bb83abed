"""A scheduler that others started, by a client that is played: which workers are taken, how long a point may take."""

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


async def test_a_worker_that_answers_is_taken_and_one_that_cannot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await joined(monkeypatch, a={"device": "h"}, b=OSError("gone"), c={}, d="nothing")
    assert await found.hellos() == [{"device": "h", "worker": "a"}]


@pytest.mark.parametrize(("answers", "said"), [({"b": OSError("gone")}, "gone"), ({}, "there is no worker")])
async def test_where_none_answers_the_first_says_why(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnavailableError, match=said):
        await (await joined(monkeypatch, **answers)).hellos()


async def test_a_worker_is_told_its_kind_and_how_long_a_point_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await joined(monkeypatch)
    await engine.submit("key", {"point": 1}, 2.0, None)
    assert engine._client.submitted == [("key", {"point": 1}, "cuda", 7.5)]
