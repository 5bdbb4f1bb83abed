"""The gateway beside who holds it up: locks, silence, floods, a slow hub; nobody else waits for them."""

import asyncio
import os
import random
import re
import resource
import socket
import sqlite3
import stat
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from played_class import QUESTION, Classroom, Client, Clock, Played, asks, served, settle
from starlette.routing import Mount

from brrr_course.classroom import connections, serving, tokens
from brrr_course.classroom import gateway as gateway_module
from brrr_course.classroom import store as store_module
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.tokens import User, issue, of_class, of_hub
from brrr_course.experiments import experiment
from brrr_course.sources.remote import Remote

# -- the class's file -------------------------------------------------------------------------------------------------


def test_all_of_the_class_s_files_are_their_owner_s_alone(path: Path) -> None:
    before, path = os.umask(0), path.parent / "made" / path.name
    try:
        for _ in range(2):
            store = ClassStore(path)
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


async def test_who_locks_the_file_holds_up_who_writes_alone(room: Classroom, ada: Client, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writes = asyncio.create_task(ada.post("/answers", json={"kind": "guess", "name": QUESTION, "value": "1"}))
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


async def test_the_loop_itself_asks_no_file(engine: Played, ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.at_once = True
    loop, seen = threading.current_thread(), list[str]()
    for name in ("read", "write", "save", "hold", "alive"):
        real = getattr(ClassStore, name)

        def watched(*values: Any, real: Any = real, name: str = name) -> Any:
            assert threading.current_thread() is not loop, name
            seen.append(name)
            return real(*values)

        monkeypatch.setattr(ClassStore, name, watched)
    told = (await ada.post("/measure", json=asks(64))).json()
    point = {"experiment": "schedule", "point": {"chunks": 1, "buffers": 2}, "shown": "ada"}
    answers = [
        await ada.get(f"/requests/{told['id']}?wait=5"), await ada.get("/points/matmul"),
        await ada.post("/answers", json={"kind": "guess", "name": QUESTION, "value": "1"}),
        await ada.post("/scores", json=point), await ada.get("/scores/schedule"),
    ]  # fmt: skip
    cancelled = (await ada.post("/measure", json=asks(128))).json()["id"]
    answers.append(await ada.delete(f"/requests/{cancelled}"))
    assert [each.status_code for each in answers] == [200, 200, 200, 404, 200, 200]
    await settle()
    assert set(seen) == {"read", "write", "save"}
    monkeypatch.undo()


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


ASKS = "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n"


def connected(url: str, text: bytes = b"GET /about HT") -> socket.socket:
    """A connection that reads little, and has said so much."""
    host, _, port = url.removeprefix("http://").partition(":")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(20)
    found.connect((host, int(port)))
    found.sendall(text)
    return found


def until_closed(held: socket.socket) -> bytes:
    """What was sent until the gateway closed the connection; TimeoutError where it does not."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := held.recv(4096):
            found += piece
    return found


def until(seen: Callable[[], bool]) -> None:
    """TimeoutError where it does not come."""
    end_s = time.monotonic() + 20
    while not seen():
        if time.monotonic() > end_s:
            raise TimeoutError
        time.sleep(0.005)


def drip(held: socket.socket, text: str, end: Callable[[], bool]) -> None:
    """A piece at a time, as long as the gateway takes it."""
    for piece in text:
        if end():
            return
        held.sendall(piece.encode())
        time.sleep(0.01)
    raise AssertionError("the gateway took it all")


SLOW = ["says nothing", "drips its header", "drips a body that nobody wants", "asks nothing more", "reads no answer",
        "reads no answer and asks again", "reads no answer of many", "reads no refusal", "drips a body"]  # fmt: skip


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("way", SLOW)
def test_however_a_connection_stalls_it_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch, way: str, before: int
) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    monkeypatch.setattr(gateway_module, "BODY_S", 0.1)
    monkeypatch.setattr(
        ClassStore, "known", lambda *_: "[" + 9_000_000 * " " + "]"
    )  # more than the system takes unread
    with served(path, Played()) as (url, token, _):
        here, much, made = ASKS.format("/about", token), ASKS.format("/points/matmul", token), list[Any]()
        long_body = "Content-Length: 9999\r\n\r\n" + 9999 * "x"
        drips = {
            "drips its header": here[:-2] + 999 * "X: y\r\n",
            "drips a body that nobody wants": "GET /health HTTP/1.1\r\nHost: x\r\n" + long_body,
            "drips a body": here.replace("GET", "POST")[:-2] + long_body,
        }
        said = {
            "says nothing": "", "asks nothing more": here, "reads no answer": much,
            "reads no answer and asks again": much, "reads no answer of many": 500 * much,
            "reads no refusal": much + here.replace(token, "x"),
        }  # fmt: skip
        real = connections.SilenceLimited.connection_made
        monkeypatch.setattr(
            connections.SilenceLimited, "connection_made", lambda *given: (made.append(given), real(*given))
        )

        def closed() -> bool:
            return bool(made) and not connections._open

        with connected(url, b"") as held:
            with suppress(OSError):  # it may be closed at any moment
                for _ in range(before):  # it was a good one until then
                    held.sendall(here.encode())
                    while (piece := held.recv(4096)) and not piece.endswith(b"}"):
                        pass
                if way in drips:
                    drip(held, drips[way], closed)
                else:
                    held.sendall(said[way].encode())
                if way == "reads no answer and asks again":
                    silent = connections._silent
                    until(lambda: any(each.flow.write_paused for host in silent.values() for each in host))
                    held.sendall(here.encode())
            until(closed)
        monkeypatch.setattr(connections.SilenceLimited, "connection_made", real)
        assert Remote(url, token).kind == "cpu"


def test_who_asks_on_before_the_answer_has_one_answer(path: Path) -> None:
    with served(path, Played()) as (url, token, _):
        for times in (2, 3, 50):
            with connected(url, times * ASKS.format("/about", token).encode()) as held:
                assert until_closed(held).count(b"HTTP/1.1 200") <= 1


@pytest.mark.parametrize("seed", range(8))
async def test_an_address_with_many_connections_loses_its_own(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever they do: no more than a quarter are silent, an address has half at most, the others keep theirs."""
    drawn, most, lost = random.Random(seed), 40, list[Any]()
    monkeypatch.setattr(connections, "_open", Counter())
    monkeypatch.setattr(connections, "_silent", defaultdict(dict))
    whole, talkers = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", drawn.random()

    class Wire(asyncio.Transport):
        def __init__(self, host: str) -> None:
            super().__init__({"peername": (host, 1), "sockname": ("127.0.0.1", 1)})
            self.closing, self.write, self.close = False, lambda data: None, self.abort

        def abort(self) -> None:
            if not self.closing:
                self.closing = True
                asyncio.get_running_loop().call_soon(lost.append, self)

        is_closing = lambda self: self.closing  # noqa: E731
        pause_reading = resume_reading = lambda self: None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3600)

    config = uvicorn.Config(app, limit_concurrency=most, lifespan="off", log_level="critical")
    state, there = uvicorn.server.ServerState(), list[tuple[Any, Wire]]()

    def connect(host: str) -> tuple[connections.SilenceLimited, Wire]:
        made, wire = connections.SilenceLimited(config, state, {}), Wire(host)
        made.connection_made(wire)
        return made, wire

    few = [connect("9.9.9.9") for _ in range(3)]
    for _ in range(400):
        if drawn.random() < 0.6 or not there:
            there.append(connect(drawn.choice(["1.1.1.1", "1.1.1.1", "2.2.2.2"])))
            if drawn.random() < talkers and not there[-1][1].closing:
                there[-1][0].data_received(whole)
        else:
            made, wire = drawn.choice(there)
            if not wire.closing:
                made.data_received(drawn.choice([b"GET / HT", b"TP/1.1\r\nHost: x\r\n\r\n", b"X"]))
        await asyncio.sleep(0)
        for wire in lost:
            next(made for made, each in [*few, *there] if each is wire).connection_lost(None)
        there = [(made, wire) for made, wire in there if wire not in lost]
        lost.clear()
        silent = {made for host in connections._silent.values() for made in host}
        assert len(silent) <= most // 4 and not any(wire.closing for _, wire in few)
        assert all(sum(made.host == host for made, _ in there) <= most // 2 for host in ("1.1.1.1", "2.2.2.2"))
        assert sum(connections._open.values()) == len(there) + 3
        assert silent == {made for made, _ in [*few, *there] if made.cycle is None or made.cycle.response_complete}
    for made, _ in [*few, *there]:
        made.connection_lost(None)
    assert not connections._open and not connections._silent
    for task in state.tasks:
        task.cancel()


FRAMED = [
    ("Content-Length: 3", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 3"),
    ("transfer-encoding:chunked", "CONTENT-LENGTH:0"), ("Content-Length: 3", "Content-Length: 4"),
    ("Transfer-Encoding: identity",), ("Transfer-Encoding: chunked, chunked",), ("Content-Length: +3",),
    ("Transfer-Encoding : chunked",), ("Content-Length: 3\r\n ,4",),
    ("Transfer-Encoding: \x0bchunked", "Content-Length: 3"),
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("fields", FRAMED)
def test_a_body_whose_end_two_readers_see_differently_ends_the_connection(
    path: Path, method: str, fields: tuple[str, ...]
) -> None:
    with served(path, Played()) as (url, token, _):
        head = "\r\n".join((f"{method} /about HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *fields))
        with connected(url, f"{head}\r\n\r\n0\r\n\r\n{ASKS.format('/about', token)}".encode()) as held:
            answer = until_closed(held)
        assert answer.count(b"HTTP/1.1 ") == 1 and answer[9:12] in (b"400", b"501"), answer


def test_a_body_that_stops_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "BODY_S", 0.1)
    with served(path, Played()) as (url, token, _):
        head = f"POST /measure HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n[1"
        with connected(url, head.encode()) as held:
            answer = until_closed(held)
        assert b" 408 " in answer and b"did not come within" in answer


async def test_one_user_has_so_many_requests_at_once(ada: Client, bob: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "MOST_AT_ONCE", 2)
    waits = f"/requests/{(await ada.post('/measure', json=asks(64))).json()['id']}?wait=1"
    codes = sorted(each.status_code for each in await asyncio.gather(*(ada.get(waits) for _ in range(4))))
    assert codes == [200, 200, 429, 429] and (await bob.get("/about")).status_code == 200
    assert (await ada.get("/about")).status_code == 200


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


def every_route(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each method and path that an app answers, so that a new route is among them."""
    for route in routes:
        if isinstance(route, Mount):
            yield from every_route(route.routes, prefix + route.path)
        else:
            path = re.sub("{.*?}", "x", prefix + route.path)
            yield from ((method, path) for method in route.methods or ["GET"])


@pytest.mark.parametrize("prefix", ["/", "/services/brrr"])
@pytest.mark.parametrize("token", ["", "Bearer made.up"])
async def test_strangers_have_a_limit_whatever_they_ask_for(
    room: Classroom, ada: Client, monkeypatch: pytest.MonkeyPatch, prefix: str, token: str
) -> None:
    monkeypatch.setattr(gateway_module, "BURST", 3.0)
    monkeypatch.setattr(gateway_module, "LINE_S", 0.0)
    monkeypatch.setattr(gateway_module, "RATE", 0.001)
    monkeypatch.setattr(tokens, "AGAIN_S", 0.0)
    found = [*every_route(room.gateway.app.routes)]
    assert {each.removeprefix(prefix.rstrip("/")) for _, each in found} >= {"/health", "/teacher", "/measure"}
    unknown = [("GET", "/"), ("GET", "/x"), ("PUT", f"{prefix}health"), ("OPTIONS", "*"), ("BREW", "/about//")]
    for method, place in (*found, *unknown):
        room.gateway._levels.clear()
        answers = [await ada.request(method, place, headers={"Authorization": token}) for _ in range(5)]
        codes = [each.status_code for each in answers]
        assert 429 not in codes[:3] and codes[3:] == [429] * 2, (method, place, codes)
        assert all(each.headers["connection"] == "close" for each in answers[3:])
        assert (await ada.get(f"{prefix.rstrip('/')}/about")).status_code == 200, "who is known is no stranger"


async def test_strangers_of_an_address_wait_in_a_line_as_long_as_it_is_short(
    room: Classroom, ada: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now_s = 0.0
    for name, value in (("BURST", 2.0), ("RATE", 100.0), ("LINE_S", 0.05)):
        monkeypatch.setattr(gateway_module, name, value)
    asks_health = [ada.get("/health", headers={"Authorization": ""}) for _ in range(10)]
    codes = sorted(each.status_code for each in await asyncio.gather(*asks_health))
    assert codes == [200] * 7 + [429] * 3
    waits = [room.gateway._limit("\nother", gateway_module.LINE_S) for _ in range(7)]
    assert waits == pytest.approx([0, 0, 0.01, 0.02, 0.03, 0.04, 0.05])
    with pytest.raises(gateway_module._Refused):
        room.gateway._limit("\nother", gateway_module.LINE_S)
    clock.now_s = 0.01  # who was refused has not made the line longer
    assert room.gateway._limit("\nother", gateway_module.LINE_S) == pytest.approx(0.05)


async def test_the_file_is_read_for_all_strangers_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "FRESH_S", 60.0)
    store = ClassStore(path)
    known, asked, real = of_class(store), list[str](), store.read
    store.read = lambda query, *values: asked.append(query) or real(query, *values)  # type: ignore[method-assign,func-returns-value]
    old = issue(store, "ada")
    assert await known(old) == User("ada")
    new = issue(store, "bob")
    found = await asyncio.gather(*(known(f"{old[:8]}.{n}") for n in range(50)), known(new), known(""), known(old))
    assert found == [None] * 50 + [User("bob"), None, User("ada")] and len(asked) == 2
    store.close()


@pytest.mark.parametrize("prefix", ["/", "/services/brrr"])
async def test_nobody_is_sent_to_another_host(ada: Client, prefix: str) -> None:
    for there in ("/about/", "/teacher/", "", "//evil.example/about/"):
        answer = await ada.get(f"{prefix.rstrip('/')}{there}", headers={"Host": "evil.example"})
        assert "location" not in answer.headers, there


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A JupyterHub that takes its time; what it was asked."""
    asked = list[str]()

    class HubAuth:
        def __init__(self, **_: object) -> None: ...

        def user_for_token(self, token: str) -> Any:
            asked.append(token)
            time.sleep(0.005)
            if token == "broken":
                raise RuntimeError("500 of the hub")
            return {"kind": "user", "name": token} if token.startswith("ada") else None

        def check_scopes(self, *_: object) -> bool:
            return True

    modules = {name: ModuleType(name) for name in ("jupyterhub", "jupyterhub.services", "jupyterhub.services.auth")}
    modules["jupyterhub.services.auth"].HubAuth = HubAuth  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "service")
    return asked


async def test_a_hub_is_asked_once_of_a_token_also_of_one_that_it_does_not_know(path: Path, hub: list[str]) -> None:
    store = ClassStore(path)
    known = of_hub(store, "brrr")
    users = await asyncio.gather(*(known(name) for name in ["ada"] * 20 + ["eve"] * 20))
    assert users == [User("ada")] * 20 + [None] * 20 and sorted(hub) == ["ada", "eve"]
    store.reading = None  # type: ignore[assignment,method-assign]  # who is known is asked about in the loop alone
    assert await known("ada") == User("ada") and await known("eve") is None and len(hub) == 2
    store.close()


async def test_who_arrives_at_a_hub_waits_behind_few_of_the_strangers(
    room: Classroom, ada: Client, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((tokens, "STRANGER_S"), (gateway_module, "LINE_S"), (gateway_module, "RATE")):
        monkeypatch.setattr(module, name, 0.001)
    strangers, stop = 8, asyncio.Event()
    monkeypatch.setattr(room.gateway, "_known", of_hub(room.store, "brrr"))

    async def flood(who: int) -> None:
        for number in count():
            made_up = {"Authorization": f"Bearer made up {who} {number}"}
            assert (await ada.get("/about", headers=made_up)).status_code in (401, 429)
            if stop.is_set():
                return

    floods = [asyncio.create_task(flood(who)) for who in range(strangers)]
    while len(hub) < 2 * strangers:
        await asyncio.sleep(0.001)
    for name in ("ada", "ada 2", "ada 3"):
        before = len(hub)
        answer = await ada.get("/about", headers={"Authorization": f"Bearer {name}"})
        assert answer.status_code == 200 and hub.index(name) - before <= 5 * strangers
    stop.set()
    await asyncio.gather(*floods)


async def test_whom_a_hub_knows_waits_behind_no_stranger(
    path: Path, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ClassStore(path)
    known = of_hub(store, "brrr")
    assert await known("ada") == User("ada")
    monkeypatch.setattr(tokens, "HEARD_S", -1.0)
    monkeypatch.setattr(tokens, "STRANGER_S", 0.2)
    strangers = [asyncio.create_task(known(f"made up {number}")) for number in range(2 * tokens.HUB_CALLS)]
    while len(hub) < 1 + tokens.HUB_CALLS:
        await asyncio.sleep(0.001)
    assert await known("ada") == User("ada") and not any(each.done() for each in strangers[tokens.HUB_CALLS :])
    assert await asyncio.gather(*strangers) == [None] * len(strangers)
    store.close()


async def test_a_hub_that_fails_is_said(
    room: Classroom, ada: Client, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room.gateway, "_known", of_hub(room.store, "brrr"))
    answer: httpx.Response = await ada.get("/about", headers={"Authorization": "Bearer broken"})
    assert answer.status_code == 422 and "the hub does not answer" in answer.text and "500 of" not in answer.text


def test_the_limits_are_those_that_the_page_for_teachers_promises() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "classroom_details.md").read_text("utf-8")
    rows = {row.split(" | ")[0]: row for row in text.splitlines() if row.startswith("| ")}
    for row, promises in {
        "| floods, malformed requests": [f"at most {gateway_module.LINE_S:.0f} s"],
        "| connections": [
            f"closed after {connections.HEADER_S:.0f} s", f"an address has {connections.MOST // 2} at most",
            {1000: "of a thousand such the oldest goes"}[connections.MOST // 4],
        ],
        "| strangers at a hub's gateway": [{4: "asked about four tokens"}[tokens.HUB_CALLS]],
    }.items():  # fmt: skip
        assert all(promise in rows[row] for promise in promises), row


def test_the_documented_workers_have_a_private_folder_and_a_clock_that_never_goes_back() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "classroom_details.md").read_text("utf-8")
    (block,) = (each for each in text.split("```") if "dask worker" in each)
    assert block.index('DASK_TEMPORARY_DIRECTORY="$(mktemp -d)"') < block.index("dask scheduler")
    assert "--preload brrr_course.classroom.clock" in block
