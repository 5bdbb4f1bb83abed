"""A class for each test: one that is a coroutine runs in a loop of its own, with the class open around it."""

import asyncio
import inspect
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from played_class import Classroom, Client, Clock, Played

from brrr_course.classroom import gateway, tokens, turns
from brrr_course.classroom.turns import Turns


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The class's file."""
    return tmp_path / "class.db"


@pytest.fixture
def engine() -> Played:
    """One worker, which ends a point when it is let."""
    return Played()


@pytest.fixture
def prefix() -> str:
    """Where the gateway lies at its address."""
    return "/"


@pytest.fixture
def room(path: Path, engine: Played, prefix: str) -> Classroom:
    return Classroom(path, engine, prefix=prefix)


@pytest.fixture
def ada(room: Classroom) -> Client:
    return room.client("ada")


@pytest.fixture
def bob(room: Classroom) -> Client:
    return room.client("bob")


@pytest.fixture
def prof(room: Classroom) -> Client:
    return room.client("prof", teacher=True)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (turns, gateway, tokens):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def seconds_are_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of size 42 is expected to take 42 s."""
    monkeypatch.setattr(turns.DurationEstimator, "seconds", lambda self, step: float(step.point["size"]))
    monkeypatch.setattr(Turns, "_charge", lambda self, user, seconds: None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine to its end; what it is given is entered before: the class, then who asks."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for each in pyfuncitem.funcargs.values():
                if isinstance(each, Classroom | Client):
                    await stack.enter_async_context(each)
            names = inspect.signature(pyfuncitem.obj).parameters
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(run())
    return True
