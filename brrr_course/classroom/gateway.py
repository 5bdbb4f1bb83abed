"""The gateway: the one address that students reach. It takes names and numbers, and gives measurements.

Whatever is asked for, and by whom, its rate is limited first. All but `/health` and the teacher's page needs a token; a
body is small, and what it may say is checked by `asked.parse`. No code, no path and no pickle is ever taken from it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Http
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from brrr.core import __version__
from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr_course.classroom import query, teacher
from brrr_course.classroom.ranking import ClassRanking
from brrr_course.classroom.tokens import Known, User
from brrr_course.classroom.turns import Request, TooManyError, Turns
from brrr_course.experiments import experiment
from brrr_course.lessons.sharing import OWN

MOST_BODY_BYTES = 8192
RATE, BURST = 20.0, 100.0
"""Requests a second and user, and how many at once after a pause."""
LINE_S = 5.0
"""So long a stranger waits in the line of their address, which may be a proxy's with the whole class behind it."""
MOST_LEVELS = 4000
LONGEST_WAIT_S = 30.0
BODY_S = 10.0
"""The rest of a request may take so long."""
MOST_AT_ONCE = 128
"""Requests of one user that are being answered, those that wait for news among them."""
TABLE_S = 2.0
"""How old a ranking may be."""
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
        self._at_once = Counter[str]()
        self.ranking = ClassRanking(turns.store, turns.engine.kind)
        self.tables: dict[str, tuple[float, object]] = {}
        self._ranked = asyncio.Lock()
        routes = [
            Route("/health", _health), self._route("GET", "/about", _about), self._route("POST", "/measure", _measure),
            self._route("GET", "/requests/{id}", _look), self._route("DELETE", "/requests/{id}", _cancel),
            self._route("GET", "/points/{experiment}", _points), self._route("POST", "/answers", _answer),
            self._route("DELETE", "/answers", _withdraw),
            self._route("POST", "/scores", _enter), self._route("GET", "/scores/{experiment}", _scores),
            self._route("GET", "/status", _status, teacher=True),
            self._route("GET", "/lessons", _lessons, teacher=True),
            self._route("GET", "/guesses/{lesson}", _guesses, teacher=True),
            self._route("GET", "/laptops", _laptops, teacher=True), *teacher.page_routes(),
        ]  # fmt: skip
        # A redirect to the same with or without a slash would go where the request's Host says.
        router = Router(routes, redirect_slashes=False)
        self.app = Starlette(routes=[Mount(prefix.rstrip("/"), router)], middleware=[Middleware(self._door)])
        self.app.router.redirect_slashes = False

    def _door(self, app: ASGIApp) -> ASGIApp:
        """What every request passes, whatever it asks for, and where each that fails is answered."""

        async def door(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self._let_in(Http(scope))
                await app(scope, receive, send)
            except Exception as error:
                await self._failed(error)(scope, receive, send)

        return door

    def _failed(self, error: Exception) -> Response:
        if isinstance(error, _Refused):
            return error.response
        if isinstance(error, TimeoutError | ClientDisconnect):
            return _error(408, "UnavailableError", f"the rest of the request did not come within {BODY_S:.0f} s")
        if isinstance(error, BrrrError):
            status = next((code for kind, code in STATUS if isinstance(error, kind)), 507)
            return _error(status, type(error).__name__, str(error))
        # what it says may tell of the machine: students get its kind
        self.turns.trouble = f"{type(error).__name__}: {error}"
        return _error(500, "BrrrError", f"the gateway failed ({type(error).__name__}): tell your teacher")

    def _route(self, method: str, path: str, handler: Handler, *, teacher: bool = False) -> Route:
        async def call(http: Http) -> Response:
            if (user := http.state.user) is None:
                raise _Refused(401, "the token is missing, unknown or has expired: ask your teacher for a new one")
            if teacher and not user.teacher:
                raise _Refused(403, "this is for the teacher")
            with self._one_of_few(user):
                body = await asyncio.wait_for(_body(http), BODY_S)
                return _json(await handler(self, http, user, query.loads(body) if body else None))

        return Route(path, call, methods=[method])

    async def _let_in(self, http: Http) -> None:
        """Say whose request it is; a user's is refused above their rate, strangers of one address stand in a line."""
        if "content-length" in http.headers and "transfer-encoding" in http.headers:
            raise _Refused(400, "a body has a Content-Length or a Transfer-Encoding: with both, two ends may differ")
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        http.state.user = user = await self._known(token if scheme.lower() == "bearer" else "")
        if user is not None:
            self._limit(user.name)
        else:
            await asyncio.sleep(self._limit(f"\n{http.client.host if http.client else ''}", line_s=LINE_S))

    def _limit(self, name: str, line_s: float = 0.0) -> float:
        """A bucket that holds BURST and fills at RATE: the seconds until there is enough in it, if at most so many."""
        now_s = time.monotonic()
        if len(self._levels) > MOST_LEVELS:
            self._levels = {who: each for who, each in self._levels.items() if now_s - each[1] < BURST / RATE + LINE_S}
        level, then_s = self._levels.get(name, (BURST, now_s))
        level = min(BURST, level + (now_s - then_s) * RATE) - 1
        if level < -line_s * RATE:
            raise _Refused(429, f"more than {RATE:.0f} requests a second: slow down")
        self._levels[name] = (level, now_s)
        return max(0.0, -level / RATE)

    @contextmanager
    def _one_of_few(self, user: User) -> Iterator[None]:
        if self._at_once[user.name] >= MOST_AT_ONCE:
            raise _Refused(429, f"{MOST_AT_ONCE} requests of {user.name} are being answered: wait for one to end")
        self._at_once[user.name] += 1
        try:
            yield
        finally:
            self._at_once[user.name] -= 1

    async def table(self, name: str) -> object:
        """The ranking of a game, a moment old at most, made once for all who ask meanwhile."""
        async with self._ranked:
            made_s, table = self.tables.get(name, (0.0, None))
            if table is None or time.monotonic() - made_s > TABLE_S:
                table = await self.turns.store.reading(self.ranking.table, name, tuple(self.turns.devices))
                self.tables[name] = (time.monotonic(), table)
        return table

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
    """A text is JSON already. ASCII, for what a student sends may hold half a character, and comes back in an error."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(content if isinstance(content, str) else json.dumps(content), status, headers, "application/json")


def _error(status: int, error: str, reason: str) -> Response:
    response = _json({"error": error, "reason": reason}, status)
    if status == 429:
        response.headers["Retry-After"] = "1"
    if status in (400, 401, 408, 413, 429):  # the rest of a body is not waited for, nor what was sent with it
        response.headers["Connection"] = "close"
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
    wanted = query.parse(content, gateway.turns.engine.kind, gateway._longest_s)
    return gateway.turns.state(await gateway.turns.ask(user.name, wanted))


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
    """The next of what the class has measured of an experiment, later than the row of a number."""
    name, after = experiment(http.path_params["experiment"]).name, int(_number(http, "after", 2**53))
    store = gateway.turns.store
    return await store.reading(store.known, name, tuple(gateway.turns.devices), after)


async def _answer(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A guess, or an exercise's mark, of who agreed to send it; the newest counts."""
    given = query.fields("answers", content, kind=str, name=str, value=str)
    kind, name, value = given.values()
    if (kind, name) not in await asyncio.to_thread(teacher.asked_by_lessons):
        raise ArgumentError("answers", kind, name, "an exercise (check) or a question (guess) of this course's lessons")
    if not 0 < len(value) <= 300 or not value.isprintable():
        raise ArgumentError("answers", "value", value, "1 to 300 printable characters")
    if (kind, name) == OWN:
        teacher.laptop(value)
    store = gateway.turns.store
    await store.writing(store.answer, user.name, kind, name, value)
    return {}


async def _withdraw(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A student who agreed does no longer: their answers are taken out."""
    store = gateway.turns.store
    return {"answers": await store.writing(store.withdraw, user.name)}


async def _enter(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A student's schedule for the ranking, under a name of their choice: measured, and its result found right."""
    given, turns = query.fields("scores", content, experiment=str, point=dict, shown=str), gateway.turns
    wanted = gateway.ranking.asked(given["experiment"], given["point"])
    await turns.store.writing(gateway.ranking.enter, user.name, given["shown"], wanted, tuple(turns.devices))
    gateway.tables.pop(wanted.experiment, None)
    return await gateway.table(wanted.experiment)


async def _scores(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    return await gateway.table(http.path_params["experiment"])


async def _status(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    return gateway.turns.overview()


async def _lessons(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """What the page lists, and what the class measures with."""
    return {"lessons": list((await asyncio.to_thread(teacher.titles)).items()), "device": gateway.turns.device}


async def _guesses(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """A lesson's guesses, counted; `reveal=1` adds the recording's figures, and with `own=1` the class's instead."""
    lesson, params = http.path_params["lesson"], http.query_params
    reveal, own = bool(params.get("reveal")), bool(params.get("own"))
    questions = await gateway.truths.of(lesson, own=reveal and own)
    if questions is None:
        return {"questions": None}
    if not reveal:
        gateway.truths.forget(lesson)
    store = gateway.turns.store
    return await store.reading(teacher.counted, store, questions, reveal)


async def _laptops(gateway: Gateway, http: Http, user: User, content: Any) -> object:
    """What browsers measured of the students' own GPUs, without names."""
    store = gateway.turns.store
    return {"laptops": await store.reading(teacher.laptops, store)}


def _number(http: Http, name: str, most: float) -> float:
    text = http.query_params.get(name, "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ArgumentError(http.url.path, name, text, f"a number from 0 to {most:g}")
    return value
