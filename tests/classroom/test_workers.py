"""Real workers and real children: measuring, and what is left after a kill, a hang, a crash and a lack of memory."""

import asyncio
import os
import signal
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from played_class import Classroom, asks

from brrr.core.errors import UnavailableError
from brrr.core.private import private_folder
from brrr_course.classroom import worker as worker_module
from brrr_course.classroom.clock import steady
from brrr_course.classroom.engine import Dask
from brrr_course.classroom.worker import Child, ChildDiedError
from brrr_course.experiments import experiment
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.rows import from_cells

MATMUL = experiment("matmul")
LIMIT_S = 60.0


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.kill()


def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A child that does something else when it is asked for size 13; it says hello as the real one."""
    script = tmp_path / "faulty.py"
    script.write_text(
        "import os, sys, time\n"
        "from brrr_course.classroom import child\n"
        "real = child._measured\n"
        "def measured(request, *more):\n"
        f"    if request['point']['size'] == 13:\n        {body}\n"
        "    return real(request, *more)\n"
        "child._measured = measured\n"
        "child.main(sys.argv[1])\n",
        "utf-8",
    )
    real = worker_module.subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        return real([sys.executable, str(script), command[-1]], **options)

    monkeypatch.setattr(worker_module.subprocess, "Popen", popen)


def test_a_child_measures_stays_warm_and_is_fresh_after_a_fault(child: Child) -> None:
    told = child.measure("1", asks(64, "cpu", "queue"), "cpu", LIMIT_S)
    row = from_cells(told["answers"]["queue"]["cells"], MATMUL, "cpu")
    assert row.measurement.latency_s is not None and row.error < 1e-4
    assert child._process is not None
    first = child._process.pid
    child.measure("2", asks(128), "cpu", LIMIT_S)
    assert child._process.pid == first
    told = child.measure("3", asks(64, "gpu"), "cpu", LIMIT_S)  # asked.parse would never let it through
    assert "error" in told["answers"]["gpu"]
    child.measure("4", asks(64), "cpu", LIMIT_S)


OUT = "{'answers': {'cpu': {'error': 'DeviceMemoryError', 'reason': 'out of memory'}}, 'seconds': 1.0}"
FAULTS = {
    "a hang": ("time.sleep(600)", 0.5, "TimedOutError"),
    "a lack of memory": (f"return {OUT}", LIMIT_S, "DeviceMemoryError"),
    "a crash, with something printed": ("print('{}', flush=True); os.kill(os.getpid(), 11)", LIMIT_S, None),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_told_and_the_next_point_is_measured_by_a_fresh_child(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    body, limit_s, error = FAULTS[what]
    faulty(tmp_path, monkeypatch, body)
    child.hello("cpu")
    first = child._process
    if error is None:
        with pytest.raises(ChildDiedError, match="status -11"):
            child.measure("1", asks(13), "cpu", limit_s)
    else:
        told = child.measure("1", asks(13), "cpu", limit_s)["answers"]["cpu"]
        assert told["error"] == error and ("was stopped" in told["reason"]) == (what == "a hang")
    assert "cells" in child.measure("2", asks(64), "cpu", LIMIT_S)["answers"]["cpu"]
    assert child._process is not first


def test_a_child_measures_without_what_dask_sets(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in worker_module.OF_DASK:
        monkeypatch.setenv(name, "1")
    child.hello("cpu")
    assert child._process is not None
    there = psutil.Process(child._process.pid).environ()
    assert not set(worker_module.OF_DASK) & set(there) and "PATH" in there


def test_a_child_ends_when_its_worker_does(tmp_path: Path) -> None:
    code = (
        "from brrr_course.classroom.worker import Child; c = Child(); c.hello('cpu'); print(c._process.pid, flush=True)"
    )
    code += "; input()"
    parent = psutil.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.05)


def with_dask(path: Path, act: Callable[[Classroom], Awaitable[None]], limit_s: float = LIMIT_S) -> None:
    async def run() -> None:
        engine = await Dask.embedded([], workers=1, limit_s=limit_s)
        room: Any = Classroom(path, engine)  # type: ignore[arg-type]
        try:
            async with room:
                await act(room)
        finally:
            await engine.close()

    asyncio.run(run())


async def answer(room: Classroom, size: int, *variants: str) -> dict[str, Any]:
    async with room.client(f"somebody {size}") as client:
        told = (await client.post("/measure", json=asks(size, *variants))).json()
        while told["state"] != "done":
            told = (await client.get(f"/requests/{told['id']}?wait=5")).json()
    return dict(told["answers"])


def measuring() -> psutil.Process | None:
    """The child that uses the CPU now."""
    found = [
        each for each in psutil.Process().children(recursive=True) if "brrr_course.classroom.child" in each.cmdline()
    ]
    return next((each for each in found if each.cpu_percent(0.2) > 15), None)


async def no_code_comes_from_a_folder_that_others_know(engine: Any) -> None:
    """dask's own scratch folder is below /tmp, whoever made it, and stands first in where Python imports from."""
    (where,) = (
        await engine._client.run(eval, "next(iter(__import__('distributed').Worker._instances)).local_directory")
    ).values()
    assert where.startswith(str(private_folder("dask"))) and "dask-scratch-space" not in " ".join(sys.path)


async def the_clock_may_go_back(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = (await engine._client.run(eval, "__import__('distributed').batched.time.__name__")).values()
    assert name == steady.__name__
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_here_is_said_in_a_sentence(child: Child, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnavailableError, match="CUDA does not work here"):
        child.hello("cuda")
    assert "Traceback" not in capfd.readouterr().err


async def nobody_else_gets_in(engine: Any) -> None:
    """No process of the class has a port; the sockets that they meet at are their owner's alone."""
    mine = psutil.Process()
    every = [one for each in (mine, *mine.children(recursive=True)) for one in each.net_connections("inet")]
    assert not [one.laddr for one in every if one.status == psutil.CONN_LISTEN]
    meeting = Path(engine._meeting.name)
    assert stat.S_IMODE(meeting.stat().st_mode) == 0o700 and len(found := [*meeting.iterdir()]) == 3
    assert all(stat.S_ISSOCK(each.stat().st_mode) and stat.S_IMODE(each.stat().st_mode) == 0o600 for each in found)


@pytest.mark.usefixtures("own_environment")  # dask sets some for its workers
def test_a_class_measures_and_survives_a_killed_worker_a_cancel_and_ends_as_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(room: Classroom) -> None:
        await nobody_else_gets_in(room.engine)
        await no_code_comes_from_a_folder_that_others_know(room.engine)
        await the_clock_may_go_back(room.engine, monkeypatch)
        assert "cells" in (await answer(room, 64, "cpu", "queue"))["queue"]
        # the worker is killed while it measures: another begins the point again
        slow = asyncio.create_task(answer(room, 3000))
        while (busy := await asyncio.to_thread(measuring)) is None:
            assert not slow.done()
        parent = busy.parent()
        assert parent is not None
        os.kill(parent.pid, signal.SIGKILL)
        assert "cells" in (await slow)["cpu"]
        # somebody cancels while it measures: the child is killed, the next point gets a new one
        async with room.client("cyd") as cyd:
            told = (await cyd.post("/measure", json=asks(6000))).json()
            while await asyncio.to_thread(measuring) is None:
                await asyncio.sleep(0.05)
            assert (await cyd.delete(f"/requests/{told['id']}")).json()["state"] == "done"
            assert "cells" in (await answer(room, 128))["cpu"]
            assert not room.turns._open()
        rows = room.store.read("SELECT point, variant FROM point")
        assert len(rows) == len(set(rows)) == 4
        room.store.export(tmp_path)
        meetings.append(Path(room.engine._meeting.name))

    meetings = list[Path]()
    with_dask(tmp_path / "class.db", act)
    assert not meetings[0].exists()
    recorded = Recorded("cpu", tmp_path)
    assert set(recorded.known(MATMUL, "cpu")) == {(64,), (128,), (3000,)}
    assert set(recorded.known(MATMUL, "queue")) == {(64,)}
    assert recorded.badge(MATMUL).kind == "RECORDED"
