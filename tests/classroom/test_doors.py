"""The gateway beside who holds it up: locks, silence, floods, a slow hub; nobody else waits for them."""

import asyncio
import os
import resource
import socket
import sqlite3
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
from played_class import Classroom, Played, asks, served, settle

from brrr_course.classroom import connections, serving, tokens
from brrr_course.classroom import gateway as gateway_module
from brrr_course.classroom import store as store_module
from brrr_course.classroom.store import Store
from brrr_course.classroom.tokens import User, of_hub
from brrr_course.classroom.turns import TooManyError
from brrr_course.experiments import experiment
from brrr_course.sources.remote import Remote


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "class.db"


# -- the class's file -------------------------------------------------------------------------------------------------


def test_all_of_the_class_s_files_are_their_owner_s_alone(path: Path) -> None:
    before, path = os.umask(0), path.parent / "made" / path.name
    try:
        for _ in range(2):
            store = Store(path)
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            store.hold("workers")
            store.write("DELETE FROM answer")
            found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
            assert found.keys() >= {"class.db", "class.db-wal", "class.db-shm", "class.db.workers.lock"}
            assert set(found.values()) == {0o600}
            store.close()
            for each in path.parent.iterdir():
                each.chmod(0o644)  # as an older brrr left them
    finally:
        os.umask(before)


def test_who_locks_the_file_holds_up_who_writes_alone(path: Path) -> None:
    async def run() -> None:
        async with Classroom(path, Played()) as room, room.client("ada") as ada:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            writes = asyncio.create_task(ada.post("/answers", json={"kind": "guess", "name": "q", "value": "1"}))
            assert (await ada.get("/about")).status_code == (await ada.get("/points/matmul")).status_code == 200
            assert not writes.done()
            other.execute("ROLLBACK")
            assert (await writes).status_code == 200
            room.store._db.execute("PRAGMA busy_timeout = 1")
            other.execute("BEGIN IMMEDIATE")
            refused = await ada.post("/measure", json=asks(64))
            assert refused.status_code == 507 and "another program holds it" in refused.text
            assert str(path.parent) not in refused.text
            other.close()

    asyncio.run(run())


def test_the_loop_itself_asks_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Classroom(path, Played(at_once=True)) as room, room.client("ada") as ada:
            loop, seen = threading.current_thread(), list[str]()
            for name in ("read", "write", "save", "hold", "alive"):
                real = getattr(Store, name)

                def watched(*values: Any, real: Any = real, name: str = name) -> Any:
                    assert threading.current_thread() is not loop, name
                    seen.append(name)
                    return real(*values)

                monkeypatch.setattr(Store, name, watched)
            told = (await ada.post("/measure", json=asks(64))).json()
            point = {"experiment": "schedule", "point": {"chunks": 1, "buffers": 2}, "shown": "ada"}
            answers = [
                await ada.get(f"/requests/{told['id']}?wait=5"), await ada.get("/points/matmul"),
                await ada.post("/answers", json={"kind": "guess", "name": "q", "value": "1"}),
                await ada.post("/scores", json=point), await ada.get("/scores/schedule"),
            ]  # fmt: skip
            cancelled = (await ada.post("/measure", json=asks(128))).json()["id"]
            answers.append(await ada.delete(f"/requests/{cancelled}"))
            assert [each.status_code for each in answers] == [200, 200, 200, 404, 200, 200]
            await settle()
            assert set(seen) == {"read", "write", "save"}
            monkeypatch.undo()

    asyncio.run(run())


def test_a_long_list_comes_in_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAGE", 2)
    with served(path, Played(at_once=True)) as (url, token, _):
        asking = Remote(url, token)
        for size in (64, 128, 256, 512, 1024):
            asking.measure(experiment("matmul"), "cpu", {"size": size})
        fresh = Remote(url, token)
        assert len(fresh.connection.ask("GET", "/points/matmul")) == 2
        assert len(fresh.known(experiment("matmul"), "cpu")) == 5


# -- connections ------------------------------------------------------------------------------------------------------


def silent(url: str, text: bytes = b"GET /about HT") -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    found = socket.create_connection((host, int(port)))
    found.sendall(text)
    found.settimeout(20)
    return found


def until_closed(held: socket.socket) -> bytes:
    """What was sent until the gateway closed the connection; TimeoutError where it does not."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := held.recv(4096):
            found += piece
    return found


def test_a_header_that_does_not_come_ends_its_connection(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    with served(path, Played()) as (url, _, _):
        for text in (b"", b"GET /about HT", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"):
            with silent(url, text) as held:
                assert until_closed(held).endswith(b"}") == text.endswith(b"\n")


def test_of_too_many_silent_connections_the_oldest_are_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 40)
    with served(path, Played()) as (url, token, _):
        held = [silent(url) for _ in range(30)]
        assert Remote(url, token).kind == "cpu"  # another is answered
        assert len(connections._silent) <= 10
        for each in held:
            each.close()


def test_a_body_that_stops_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "BODY_S", 0.1)
    with served(path, Played()) as (url, token, _):
        head = f"POST /measure HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n[1"
        with silent(url, head.encode()) as held:
            answer = until_closed(held)
        assert b" 408 " in answer and b"did not come within" in answer


def test_one_user_has_so_many_requests_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "MOST_AT_ONCE", 2)

    async def run() -> None:
        async with Classroom(path, Played()) as room, room.client("ada") as ada, room.client("bob") as bob:
            waits = f"/requests/{(await ada.post('/measure', json=asks(64))).json()['id']}?wait=1"
            codes = sorted(each.status_code for each in await asyncio.gather(*(ada.get(waits) for _ in range(4))))
            assert codes == [200, 200, 429, 429] and (await bob.get("/about")).status_code == 200
            assert (await ada.get("/about")).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize(("soft", "hard", "raised", "most"), [
    (1024, 1 << 20, 4500, 4000), (1024, 1024, 1024, 524), (1 << 20, 1 << 20, None, 4000), (256, 256, 256, 100),
])  # fmt: skip
def test_connections_fit_into_the_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, most: int
) -> None:
    told = list[Any]()
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: told.append(limits))
    assert connections.most_connections() == most and told == ([(raised, hard)] if raised else [])


def test_a_lack_of_files_is_not_told_a_thousand_times() -> None:
    told = list[Any]()
    loop: Any = SimpleNamespace(default_exception_handler=told.append)
    connections.say_little(loop, {"exception": OSError(24, "Too many open files")})
    connections.say_little(loop, other := {"exception": ValueError()})
    assert told == [other]


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", None)])
def test_the_address_told_is_one_that_students_reach(host: str, said: str | None) -> None:
    assert serving._reached(host) not in serving.EVERYWHERE if said is None else serving._reached(host) == said


# -- strangers, and a hub that is slow ---------------------------------------------------------------------------------


def test_strangers_are_held_back_before_anything_is_asked_about_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "ARRIVALS", 4.0)
    monkeypatch.setattr(gateway_module, "RATE", 0.001)
    monkeypatch.setattr(tokens, "FRESH_S", 60.0)

    async def run() -> None:
        async with Classroom(path, Played()) as room, room.client("ada") as ada, room.client("bob") as arrives:
            assert (await ada.get("/about")).status_code == 200
            asked, real = list[str](), room.store.read
            room.store.read = lambda query, *values: asked.append(query) or real(query, *values)
            identity = ada.headers["authorization"].partition(".")[0]
            stranger = [f"{'Bearer x' if n % 2 else identity}.{n}" for n in range(20)]
            wrong = [await ada.get("/about", headers={"Authorization": each}) for each in stranger]
            assert [each.status_code for each in wrong] == [401] * 4 + [429] * 16 and len(asked) == 4
            assert wrong[0].headers["connection"] == "close"
            assert [(await each.get("/about")).status_code for each in (ada, arrives)] == [200, 200]

    asyncio.run(run())


@pytest.mark.parametrize("prefix", ["/", "/services/brrr"])
def test_nobody_is_sent_to_another_host(path: Path, prefix: str) -> None:
    async def run() -> None:
        async with Classroom(path, Played(), prefix=prefix) as room, room.client("ada") as ada:
            for there in ("/about/", "/teacher/", "", "//evil.example/about/"):
                answer = await ada.get(f"{prefix.rstrip('/')}{there}", headers={"Host": "evil.example"})
                assert "location" not in answer.headers, there

    asyncio.run(run())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A JupyterHub that takes its time; what it was asked."""
    asked = list[str]()

    class HubAuth:
        def __init__(self, **_: object) -> None: ...

        def user_for_token(self, token: str) -> Any:
            asked.append(token)
            time.sleep(0.05)
            if token == "broken":
                raise RuntimeError("500 of the hub")
            return {"kind": "user", "name": token} if token == "ada" else None

        def check_scopes(self, *_: object) -> bool:
            return True

    modules = {name: ModuleType(name) for name in ("jupyterhub", "jupyterhub.services", "jupyterhub.services.auth")}
    modules["jupyterhub.services.auth"].HubAuth = HubAuth  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "service")
    return asked


def test_a_hub_is_asked_once_of_a_token_also_of_one_that_it_does_not_know(
    path: Path, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise TooManyError

    async def run() -> None:
        store = Store(path)
        known = of_hub(store, "brrr")
        users = await asyncio.gather(*(known(name, list) for name in ["ada"] * 20 + ["eve"] * 20))
        assert users == [User("ada")] * 20 + [None] * 20 and sorted(hub) == ["ada", "eve"]
        reading, store.reading = store.reading, None  # type: ignore[assignment]  # who is known is asked about in the loop alone
        assert await known("ada", refused) == User("ada") and await known("eve", refused) is None and len(hub) == 2
        store.reading = reading  # type: ignore[method-assign]
        monkeypatch.setattr(tokens, "HEARD_S", -1.0)
        assert await known("ada", refused) == User("ada"), "who was met is no stranger"
        with pytest.raises(TooManyError):
            await known("eve", refused)
        assert hub[2:] == ["ada"]
        store.close()

    asyncio.run(run())


def test_a_hub_that_fails_is_said(path: Path, hub: list[str]) -> None:
    async def run() -> None:
        async with Classroom(path, Played()) as room, room.client("ada") as ada:
            room.gateway._known = of_hub(room.store, "brrr")
            answer: httpx.Response = await ada.get("/about", headers={"Authorization": "Bearer broken"})
            assert (
                answer.status_code == 422 and "the hub does not answer" in answer.text and "500 of" not in answer.text
            )

    asyncio.run(run())


def test_the_documented_workers_have_a_private_folder_and_a_clock_that_never_goes_back() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "classroom.md").read_text("utf-8")
    (block,) = (each for each in text.split("```") if "dask worker" in each)
    assert block.index('DASK_TEMPORARY_DIRECTORY="$(mktemp -d)"') < block.index("dask scheduler")
    assert "--preload brrr_course.classroom.clock" in block
