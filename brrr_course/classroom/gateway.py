"""The gateway: the one address that students reach. It takes names and numbers, and gives measurements.

Every request carries a token; its body is small, its rate is limited, and what it may say is checked by `asked.parse`.
No code, no path and no pickle is ever taken from it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as Http
from starlette.responses import Response
from starlette.routing import Mount, Route

from brrr.core import __version__
from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr_course.classroom import asked, teacher
from brrr_course.classroom.tokens import Known, User
from brrr_course.classroom.turns import Request, TooManyError, Turns
from brrr_course.experiments import PLAYED, experiment, own_choice

MOST_BODY_BYTES = 8192
RATE, BURST = 20.0, 100.0
"""Requests a second and user, and how many at once after a pause."""
LONGEST_WAIT_S = 30.0
MOST_ANSWERS = 2000
OWN_CHOICE = "brrr's own choice"
STATUS: tuple[tuple[type[BrrrError], int], ...] = (
    (ArgumentError, 400), (NotRecordedError, 404), (TooManyError, 429), (UnavailableError, 422),
)  # fmt: skip
"""What goes wrong as HTTP says it; the rest is the gateway's own trouble, 507: a full disk."""

Handler = Callable[["Gateway", Http, User, Any], Awaitable[object]]


class Gateway:
    """The service's routes over `Turns`; `app` is what uvicorn serves.

    >>> Gateway(turns, of_class(store)).app  # doctest: +SKIP
    <starlette.applications.Starlette object>
    """

    def __init__(self, turns: Turns, known: Known, *, longest_s: float = 60.0, prefix: str = "/",
                 serving: Path | None = None) -> None:  # fmt: skip
        self.turns, self._known, self._longest_s = turns, known, longest_s
        self._levels: dict[str, tuple[float, float]] = {}
        self.truths = teacher.Truths(serving)
        routes = [
            Route("/health", _health),
            self._route("GET", "/about", _about),
            self._route("POST", "/measure", _measure),
            self._route("GET", "/requests/{id}", _look),
            self._route("DELETE", "/requests/{id}", _cancel),
            self._route("GET", "/points/{experiment}", _points),
            self._route("POST", "/answers", _answer),
            self._route("GET", "/answers", _answers, teacher=True),
            self._route("POST", "/scores", _enter),
            self._route("GET", "/scores/{experiment}", _scores),
            self._route("GET", "/status", _status, teacher=True),
            self._route("GET", "/lessons", _lessons, teacher=True),
            self._route("GET", "/guesses/{lesson}", _guesses, teacher=True),
            *teacher.page_routes(),
        ]
        self.app = Starlette(routes=[Mount(prefix.rstrip("/"), routes=routes)])

    def _route(self, method: str, path: str, handler: Handler, *, teacher: bool = False) -> Route:
        async def call(http: Http) -> Response:
            try:
                user = await self._user(http, teacher)
                content = asked.loads(body) if (body := await _body(http)) else None
                return _json(await handler(self, http, user, content))
            except _Refused as refused:
                return refused.response
            except BrrrError as error:
                status = next((code for kind, code in STATUS if isinstance(error, kind)), 507)
                return _error(status, type(error).__name__, str(error))
            except Exception as error:  # what it says may tell of the machine: the student gets its kind
                self.turns.trouble = f"{type(error).__name__}: {error}"
                return _error(500, "BrrrError", f"the gateway failed ({type(error).__name__}): tell your teacher")

        return Route(path, call, methods=[method])

    async def _user(self, http: Http, teacher: bool) -> User:
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        user = await self._known(token)
        if user is None or scheme.lower() != "bearer":
            self._limit("")
            raise _Refused(401, "the token is missing, unknown or has expired: ask your teacher for a new one")
        self._limit(user.name)
        if teacher and not user.teacher:
            raise _Refused(403, "this is for the teacher")
        return user

    def _limit(self, name: str) -> None:
        """A bucket that fills at RATE and holds BURST; strangers share one."""
        now_s = time.monotonic()
        level, then_s = self._levels.get(name, (BURST, now_s))
        level = min(BURST, level + (now_s - then_s) * RATE)
        self._levels[name] = (max(0.0, level - 1), now_s)
        if level < 1:
            raise _Refused(429, f"more than {RATE:.0f} requests a second: slow down")

    def request(self, http: Http, user: User) -> Request:
        """The request of that id if it is this user's; another's is as unknown as none."""
        found = self.turns.requests.get(http.path_params["id"])
        if found is None or found.user != user.name:
            raise NotRecordedError("there is no such request of yours; ask again")
        return found


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        self.response = _error(status, "UnavailableError", reason)


def _json(content: object, status: int = 200) -> Response:
    """ASCII, for what a student sends may hold half a character, and comes back in an error."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(json.dumps(content), status, headers, "application/json")


def _error(status: int, error: str, reason: str) -> Response:
    response = _json({"error": error, "reason": reason}, status)
    if status == 429:
        response.headers["Retry-After"] = "1"
    return response


async def _body(http: Http) -> bytes:
    found = b""
    async for piece in http.stream():
        found += piece
        if len(found) > MOST_BODY_BYTES:
            raise _Refused(413, f"a request has at most {MOST_BODY_BYTES} bytes")
    return found


async def _health(http: Http) -> Response:
    return _json({"brrr": __version__})


async def _about(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """The class's device: what a source needs to know before it asks."""
    machine = gateway.turns.machine
    assert machine is not None
    return {"brrr": __version__, "kind": gateway.turns.engine.kind, "user": user.name, "device": machine.device,
            "slug": machine.slug, "torch": gateway.turns.run.torch}  # fmt: skip


async def _measure(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    wanted = asked.parse(content, gateway.turns.engine.kind, gateway._longest_s)
    return gateway.turns.state(gateway.turns.ask(user.name, wanted))


async def _look(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """How far a request is; `wait` holds the answer back until there is news, at most so many seconds."""
    request, wait_s = gateway.request(http, user), _number(http, "wait", LONGEST_WAIT_S)
    if request.ended_s is None and wait_s:
        with suppress(TimeoutError):
            await asyncio.wait_for(request.changed.wait(), wait_s)
    return gateway.turns.state(request)


async def _cancel(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    request = gateway.request(http, user)
    await gateway.turns.cancel(request)
    return gateway.turns.state(request)


async def _points(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """What the class has measured of an experiment, later than the row of a number."""
    name, after = experiment(http.path_params["experiment"]).name, int(_number(http, "after", 2**53))
    return gateway.turns.store.known(name, gateway.turns.devices, after)


async def _answer(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A guess, or an exercise's mark, of who agreed to send it; the newest counts."""
    given = asked.fields("answers", content, kind=str, name=str, value=str)
    if given["kind"] not in ("guess", "check"):
        raise ArgumentError("answers", "kind", given["kind"], "guess or check")
    for name in ("name", "value"):
        if not 0 < len(given[name]) <= 300 or not given[name].isprintable():
            raise ArgumentError("answers", name, given[name], "1 to 300 printable characters")
    store = gateway.turns.store
    who = store.digest(user.name)
    if store.read("SELECT COUNT(*) FROM answer WHERE who = ?", who)[0][0] >= MOST_ANSWERS:
        raise TooManyError(f"{MOST_ANSWERS} answers of one student are kept, and no more")
    store.write("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)", who, given["kind"], given["name"], given["value"])
    return {}


async def _answers(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """How often each answer was given to a question, or mark to an exercise."""
    rows = gateway.turns.store.read("SELECT value FROM answer WHERE name = ?", http.query_params.get("name", ""))
    return Counter(value for (value,) in rows).most_common()


async def _enter(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A student's schedule for the ranking, under a name of their choice: measured, and its result found right."""
    given = asked.fields("scores", content, experiment=str, point=dict, shown=str)
    if not 0 < len(given["shown"].strip()) <= 30 or not given["shown"].isprintable():
        raise ArgumentError("scores", "shown", given["shown"], "1 to 30 printable characters")
    wanted = _played(gateway, given["experiment"], given["point"])
    store, who = gateway.turns.store, gateway.turns.store.digest(user.name)
    if _seconds(gateway, wanted) is None:
        raise NotRecordedError(f"{wanted.experiment} at {wanted.point} was not measured: measure it first")
    taken = "SELECT 1 FROM score WHERE challenge = ? AND shown = ? AND who != ?"
    if given["shown"] == OWN_CHOICE or store.read(taken, wanted.experiment, given["shown"], who):
        raise ArgumentError("scores", "shown", given["shown"], "a name that nobody else has")
    store.write("UPDATE score SET shown = ? WHERE challenge = ? AND who = ?", given["shown"], wanted.experiment, who)
    values = (wanted.experiment, who, given["shown"], json.dumps(wanted.point))
    store.write("INSERT OR IGNORE INTO score VALUES (?, ?, ?, ?)", *values)
    return await _ranked(gateway, wanted.experiment)


async def _scores(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    return await _ranked(gateway, http.path_params["experiment"])


async def _ranked(gateway: Gateway, name: str) -> list[dict[str, Any]]:
    """The fastest first: each student's best schedule, and the package's own if anybody measured it."""
    rows = gateway.turns.store.read("SELECT shown, point FROM score WHERE challenge = ?", name)
    own = [(OWN_CHOICE, json.dumps(own_choice(name, variant))) for variant in _variant(gateway, name)]
    found = [(shown, json.loads(point)) for shown, point in [*rows, *own]]
    timed = [(_seconds(gateway, _played(gateway, name, point)), shown, point) for shown, point in found]
    best: dict[str, dict[str, Any]] = {}
    for seconds, shown, point in sorted((each for each in timed if each[0] is not None), key=itemgetter(0)):
        best.setdefault(shown, {"seconds": seconds, "shown": shown, "point": point})
    return list(best.values())


def _variant(gateway: Gateway, name: str) -> tuple[str, ...]:
    if name not in PLAYED:
        raise ArgumentError("scores", "experiment", name, f"one of {', '.join(PLAYED)}")
    return experiment(name).variants_on(gateway.turns.engine.kind)


def _played(gateway: Gateway, name: str, point: Any) -> asked.Asked:
    content = {"experiment": name, "variants": list(_variant(gateway, name)), "point": point}
    return asked.parse(content, gateway.turns.engine.kind)


def _seconds(gateway: Gateway, wanted: asked.Asked) -> float | None:
    """The period of what was measured and found right; None where it was not."""
    (answer, *_) = [*gateway.turns.store.answers(wanted, gateway.turns.devices).values(), {}]
    return float(answer["cells"]["period_s"]) if "cells" in answer else None


async def _status(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    return gateway.turns.overview()


async def _lessons(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """What the page lists, and what the class measures with."""
    return {"lessons": list((await asyncio.to_thread(teacher.titles)).items()), "device": gateway.turns.device}


async def _guesses(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A lesson's guesses, counted; `reveal=1` adds the recording's figures, and with `own=1` the class's instead."""
    lesson, asked = http.path_params["lesson"], http.query_params
    reveal, own = bool(asked.get("reveal")), bool(asked.get("own"))
    questions = await gateway.truths.of(lesson, own=reveal and own)
    if questions is None:
        return {"questions": None}
    if not reveal:
        gateway.truths.forget(lesson)
    return await asyncio.to_thread(teacher.counted, gateway.turns.store.path, questions, reveal=reveal)


def _number(http: Http, name: str, most: float) -> float:
    text = http.query_params.get(name, "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ArgumentError(http.url.path, name, text, f"a number from 0 to {most:g}")
    return value
