"""The source Remote, and an explorer on it, over a gateway that really listens."""

import asyncio
import json
import runpy
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from played_class import Classroom, Played, served

from brrr.core.errors import ArgumentError, BrrrError, DeviceMemoryError, NotRecordedError, UnavailableError
from brrr_course import sources as source_module
from brrr_course.experiments import experiment
from brrr_course.lessons import together
from brrr_course.nouns.source import Shared
from brrr_course.sources import remote as remote_module
from brrr_course.sources import source
from brrr_course.sources.live import Live
from brrr_course.sources.remote import Connection, Remote
from brrr_course.view.explorer import explore
from brrr_course.view.predictions import measured_peaks

MATMUL = experiment("matmul")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture(autouse=True)
def _own_sources(monkeypatch: pytest.MonkeyPatch, synthetic_root: Path) -> Iterator[None]:
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    for name in ("BRRR_SOURCE", "BRRR_TOKEN_FILE", "JUPYTERHUB_API_TOKEN", "BRRR_HUB_GATEWAY"):
        monkeypatch.delenv(name, raising=False)
    yield
    source_module._live.clear()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[str, str, Classroom]]:
    with served(tmp_path / "class.db", Played(at_once=True)) as found:
        yield found


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[str, str, Classroom]]:
    """A class whose worker ends nothing by itself."""
    with served(tmp_path / "class.db", Played()) as found:
        yield found


def test_a_point_is_measured_kept_and_known_to_the_class(room: tuple[str, str, Classroom]) -> None:
    url, token, there = room
    ada, bob = Remote(url, token), Remote(url, token)
    found = ada.measure(MATMUL, "cpu", {"size": 64})
    assert found.latency_s is not None and ada.measure(MATMUL, "cpu", {"size": 64}) is found
    assert bob.known(MATMUL, "cpu") == ada.known(MATMUL, "cpu") == {(64,): found}
    bob.measure_together(MATMUL, ["cpu", "queue", "gpu"], {"size": 64})
    assert there.engine.measured == [(64, ("cpu",)), (64, ("queue",))]
    assert ada.live and ada.name == f"remote:{url}" and ada.variants(MATMUL) == ("cpu", "queue")
    assert str(ada.badge(MATMUL)).startswith("LIVE, REMOTE, CPU QUEUE · Synthetic CPU · 20")
    assert ada.badge(experiment("first_call")).kind == "LIVE, REMOTE"
    assert isinstance(ada, Shared) and not isinstance(Live("cpu"), Shared)


def test_the_gateway_s_errors_arrive_as_brrr_s_own(tmp_path: Path) -> None:
    with served(tmp_path / "class.db", Played(at_once=True, error="DeviceMemoryError")) as (url, token, _):
        asked = Remote(url, token)
        with pytest.raises(DeviceMemoryError, match="made up"):
            asked.measure(MATMUL, "cpu", {"size": 64})
        with pytest.raises(ArgumentError, match="expected 1 to 32768"):
            asked.measure(MATMUL, "cpu", {"size": 10**9})
        with pytest.raises(UnavailableError, match="at most 60 s"):
            asked.measure(MATMUL, "cpu", {"size": 32768})
        with pytest.raises(NotRecordedError, match="traces no timelines"):
            asked.timeline(MATMUL, "cpu", {"size": 64})
        with pytest.raises(UnavailableError, match="token is missing, unknown"):
            Remote(url, "wrong.token")


def test_peaks_of_this_machine_are_not_taken_for_the_class_s(room: tuple[str, str, Classroom]) -> None:
    url, token, _ = room
    assert measured_peaks(Remote(url, token), "cpu") is None


@pytest.mark.parametrize(
    "url",
    [
        "http://class.example.org",
        "class.example.org",
        "ftp://localhost",
        "https://",
        "https://[::1",
    ],
)
def test_a_token_goes_nowhere_unencrypted(url: str) -> None:
    with pytest.raises(ArgumentError, match="https://HOST"):
        Connection(url, "a.b")


def test_a_private_network_may_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_ALLOW_HTTP", "1")
    assert Connection("http://class.example.org/services/brrr/", "a.b").url == "http://class.example.org/services/brrr"
    for bad in ("", "a\r\nX: y", "é"):
        with pytest.raises(ArgumentError, match="brrr class token"):
            Connection("http://class.example.org", bad)


@contextmanager
def elsewhere(answers: Mapping[str, str], host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[int, list[str]]]:
    """A server that is no gateway: its port, and what it is asked; what it has no answer for, it redirects."""
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            told = answers.get(self.path.partition("?")[0])
            self.send_response(302 if told is None else 200)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/stolen")
            self.end_headers()
            self.wfile.write((told or "").encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Quiet."""

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, port), Elsewhere)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()


NOT_OURS = pytest.raises(UnavailableError, match="does not answer as the class's gateway")


def test_no_redirect_takes_the_token_elsewhere() -> None:
    with elsewhere({}) as (port, asked), NOT_OURS:
        Connection(f"http://127.0.0.1:{port}", "a.b").ask("GET", "/about")
    assert asked == ["/about"]


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_localhost_is_the_address_that_the_gateway_listens_on() -> None:
    with elsewhere({"/about": "1"}) as (port, own), elsewhere({"/about": "2"}, "::1", port) as (_, stolen):
        assert Connection(f"http://localhost:{port}", "a.b").ask("GET", "/about") == 1
    assert own == ["/about"] and not stolen


ABOUT = {"kind": "cpu", "device": "a CPU", "slug": "a-cpu", "torch": "2"}
DONE = {"id": "a", "state": "done", "answers": {"cpu": {"error": "UnavailableError", "reason": "made up"}}}
DEEP = "[" * 100_000


def told(good: Mapping[str, Any], *others: Any) -> list[str]:
    """What a server may answer in its place: other JSON, and each value of it left out or of another kind."""
    broken = [{**good, name: value} for name in good for value in (None, 3.5, [], {"a": 1})]
    lacking = [{key: value for key, value in good.items() if key != name} for name in good]
    return [DEEP, "", *map(json.dumps, ({}, [], 3, None, "x", *broken, *lacking, *others))]


@pytest.mark.parametrize("answer", told(ABOUT, {**ABOUT, "slug": "../../etc"}, {**ABOUT, "kind": "a toaster"}))
def test_what_is_no_gateway_is_not_taken_for_one(answer: str) -> None:
    with elsewhere({"/about": answer}) as (port, _), NOT_OURS:
        Remote(f"http://127.0.0.1:{port}", "a.b")


def test_an_answer_of_another_kind_gives_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, room: tuple[str, str, Classroom]
) -> None:
    answers = {"/about": json.dumps(ABOUT)}
    with elsewhere(answers) as (port, _):
        asked = Remote(f"http://127.0.0.1:{port}", "a.b")
        monkeypatch.setattr(together, "gateway", lambda call: asked)
        waiting = {**DONE, "state": "waiting", "place": 1, "of": 2}
        for answer in told(DONE, *({**waiting, name: "x"} for name in ("place", "of")), {**DONE, "state": "lost"}):
            answers["/measure"] = answer
            with NOT_OURS:
                asked.measure(MATMUL, "cpu", {"size": 64})
        answers["/measure"] = json.dumps(DONE)
        with pytest.raises(UnavailableError, match="made up"):
            asked.measure(MATMUL, "cpu", {"size": 64})
        for answer in (
            DEEP,
            *map(json.dumps, ({"a": 1}, 3, None, [3], [[1, 2]], [["1", "cpu", {}]], [[1, 2, {"cells": 0}]])),
        ):
            answers |= dict.fromkeys(("/points/matmul", "/scores/schedule"), answer)
            for call in (lambda: asked.known(MATMUL, "cpu"), together.leaderboard):
                asked._last.clear()
                with NOT_OURS:
                    call()
    url, token, _ = room
    there = Remote(url, token)
    there.measure(MATMUL, "cpu", {"size": 64})
    cells = there.connection.ask("GET", "/points/matmul?after=0")[0][2]
    for variant, size in (("queue", 64), ("cpu", 128)):  # of another point than was asked for
        asked.keep(MATMUL, variant, (size,), cells)
        with pytest.raises(UnavailableError, match="does not fit"):
            asked.measure(MATMUL, variant, {"size": size})


@pytest.mark.parametrize("secret", [
    "https://ada:SECRET@host", "https://SECRET@host/x", "https://host/x?token=SECRET", "https://host#SECRET",
    "https://ada:SEC/RET@SECRET@host", "ftp://ada:SECRET@host", "ada:SECRET@host", "https://ada:SECRET@[::1",
    "https://ada:SECRET@host:port", "https://ada:SEC\nRET@host",
])  # fmt: skip
def test_no_password_is_shown(secret: str) -> None:
    for call, name in ((lambda url: Remote(url, "a.b"), secret), (source, secret), (source, f"remote:{secret}")):
        with pytest.raises(BrrrError) as caught:
            call(name)
        assert "SEC" not in str(caught.value).replace("://", ""), caught.value


def test_the_hub_s_token_goes_to_the_hub_s_gateway_alone(
    monkeypatch: pytest.MonkeyPatch, room: tuple[str, str, Classroom]
) -> None:
    url, token, _ = room
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", token)
    for hub in ("", "https://hub.example.org/services/brrr", url + "0"):
        monkeypatch.setenv("BRRR_HUB_GATEWAY", hub)
        with elsewhere({"/about": json.dumps(ABOUT)}) as (port, asked):
            for there in (url, f"http://127.0.0.1:{port}"):
                with pytest.raises(UnavailableError, match=r"goes to .* alone"):
                    Remote(there)
        assert not asked
    monkeypatch.setenv("BRRR_HUB_GATEWAY", url + "/")
    assert Remote(url).device_name == "Synthetic CPU"


def test_each_hub_s_configuration_names_its_gateway() -> None:
    found = SimpleNamespace(JupyterHub=SimpleNamespace(), Spawner=SimpleNamespace())
    runpy.run_path(str(DEPLOY / "jupyterhub_config.py"), {"get_config": lambda: found})
    profiles = yaml.safe_load((DEPLOY / "zero-to-jupyterhub.yaml").read_text("utf-8"))["singleuser"]["profileList"]
    for each in (found.Spawner.environment, profiles[0]["kubespawner_override"]["environment"]):
        assert each["BRRR_SOURCE"] == f"remote:{each['BRRR_HUB_GATEWAY']}"


def test_brrr_source_chooses_it_and_falls_back_to_the_recording(
    room: tuple[str, str, Classroom],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, token, _ = room
    monkeypatch.setenv("BRRR_SOURCE", f"remote:{url}")
    assert source().name == "recorded:h200" and "BRRR_TOKEN_FILE is not set" in capsys.readouterr().err
    monkeypatch.setenv("BRRR_TOKEN_FILE", "no.token")
    assert source().name == "recorded:h200" and "a file. Shown instead: recorded:h200.\n" in capsys.readouterr().err
    (tmp_path / "ada.token").write_text(token + "\n", "utf-8")
    monkeypatch.setenv("BRRR_TOKEN_FILE", str(tmp_path / "ada.token"))
    assert source().name == f"remote:{url}" and source() is source()
    assert ("live on the class's device", f"remote:{url}") in explore(
        "matmul", source="recorded:h200"
    ).panel.source.options
    monkeypatch.setenv("BRRR_SOURCE", "remote:http://127.0.0.1:9")
    assert source().name == "recorded:h200"
    assert "does not answer" in capsys.readouterr().err
    with pytest.raises(UnavailableError, match="What was recorded stays"):
        source("remote:http://127.0.0.1:9")  # asked for by name, it says no


async def until(true: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_an_explorer_shows_its_place_and_cancel_arrives(held: tuple[str, str, Classroom]) -> None:
    url, token, there = held
    before = Remote(url, token).turn(MATMUL, ["cpu"], {"size": 1})  # somebody is measuring
    shown = explore("matmul", at={"size": 64}, source=Remote(url, token))
    panel = shown.panel
    panel.measure.click()
    await until(lambda: "place 1 of 1" in panel.left.value)
    panel.cancel.click()
    await until(lambda: not panel._job.running)
    assert "Stopped" in shown.text and panel.failures == []
    assert not before.done(0) and [each.user for each in there.turns._open()] == ["ada"]
    assert there.engine.measured == []
    before.cancel()


async def test_an_explorer_measures_while_its_sliders_go_on_moving(held: tuple[str, str, Classroom]) -> None:
    url, token, there = held
    shown = explore("matmul", at={"size": 64}, source=Remote(url, token))
    panel = shown.panel
    panel.measure.click()
    await until(lambda: "Measuring on the class's device" in panel.left.value)
    shown.set(size=128)
    assert "At size 128" in shown.text
    there.release()
    await until(lambda: not panel._job.running)
    assert shown.data["cpu"] and panel.failures == []


def test_a_request_that_a_gateway_started_again_has_answered_is_asked_for_once_more(
    room: tuple[str, str, Classroom],
) -> None:
    url, token, _ = room
    asked = Remote(url, token)
    turn = asked.turn(MATMUL, ["cpu"], {"size": 64})
    turn._state = {"id": "of the gateway before", "state": "running", "answers": {}}
    while not turn.done():
        pass
    assert asked.known(MATMUL, "cpu")[64,].latency_s is not None


def test_losing_the_gateway_is_said_and_leaves_the_recording(tmp_path: Path) -> None:
    with served(tmp_path / "class.db", Played(at_once=True)) as (url, token, _):
        shown = explore("matmul", at={"size": 64}, source=Remote(url, token))
        shown.panel.measure.click()
        assert shown.data["cpu"]
    shown.set(size=256)
    shown.panel.measure.click()
    assert "does not answer" in shown.text and "choose a recording" in shown.text
    assert shown.data["cpu"]  # what was measured before stays
    shown.panel.source.value = "recorded:h200"
    assert shown.scene.source.name == "recorded:h200" and "latency" not in shown.text and shown.panel.failures == []


def test_a_row_that_does_not_fit_is_refused(room: tuple[str, str, Classroom], monkeypatch: pytest.MonkeyPatch) -> None:
    url, token, _ = room
    asked = Remote(url, token)
    for cells in ({}, {"size": "64"}, None):
        asked.keep(MATMUL, "cpu", (64,), {"cells": cells})
        with pytest.raises(UnavailableError, match="of another version"):
            asked.measure(MATMUL, "cpu", {"size": 64})


def test_an_error_of_an_unknown_kind_is_still_one_of_ours() -> None:
    for told in ({"error": "SystemExit", "reason": "x"}, {"error": "annotations"}, [], json.loads("3")):
        assert type(remote_module._error(told, "otherwise")) is BrrrError
