"""`Remote("https://...")`: a source that asks the class's gateway, which measures on the teacher's GPU.

BRRR_SOURCE=remote:https://class.example.org and BRRR_TOKEN_FILE=ada.token make it the source of all lessons. On a
JupyterHub the token is the hub's own, for the gateway that the hub itself names as BRRR_HUB_GATEWAY.
"""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

from brrr.core import errors
from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr.core.files import typed
from brrr.core.measurement import DeviceKind, Measurement, Point, Value
from brrr.core.recordings import SLUG, device_folders
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.on_device import OnDevice
from brrr_course.sources.rows import from_cells

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline

TOKEN_FILE, HUB_TOKEN, HUB_GATEWAY = "BRRR_TOKEN_FILE", "JUPYTERHUB_API_TOKEN", "BRRR_HUB_GATEWAY"
ANY_HTTP = "BRRR_ALLOW_HTTP"
"""`1` sends the token over http:// to another machine too: inside a cluster whose network is private."""
ANSWER_S, WAIT_S = 20.0, 5.0
"""How long an answer may take, and how long the gateway may hold one back for news."""
MOST_BYTES = 50_000_000
NOT_OURS = (LookupError, TypeError, AttributeError)
"""What reading an answer meets that is JSON and not the gateway's."""
SEE = "What was recorded stays: choose a recording as the source."


def bare(address: str) -> str:
    """An address without what may be secret in it: a name, a password, a query.

    >>> bare("https://ada:secret@class.example.org/brrr?token=secret")
    'https://class.example.org/brrr'
    """
    return re.sub(r"(?s)[?#].*", "", re.sub(r"(?s)^(\w+://)?.*@", r"\1", address))


class Connection:
    """A gateway's address and a token; each call is one request, and no redirect is followed.

    >>> Connection("http://127.0.0.1:8642", "3f9a.Zk3").url
    'http://127.0.0.1:8642'

    ArgumentError for an address that is no https:// one (http:// is for this machine alone) or holds more than a host,
    a port and a path, and for a token that cannot stand in a header; its calls raise UnavailableError where the gateway
    does not answer, and its own errors.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = bare(url).rstrip("/")
        try:
            self._parts = urlsplit(self.url)
            host, port = self._parts.hostname, self._parts.port
        except ValueError:  # an IPv6 address without its bracket, a port that is none
            host, port = None, None
        own = host in ("127.0.0.1", "localhost", "::1") or os.environ.get(ANY_HTTP) == "1"
        plain = bool(host) and self._parts.scheme == "http"
        safe = (host and self._parts.scheme == "https") or (plain and own)
        if not safe or self.url != url.rstrip("/"):
            hint = f"{ANY_HTTP}=1 allows http:// on a private network; a name, a password or a query has no place in it"
            raise ArgumentError("Remote", "url", self.url, "https://HOST, or http:// on this machine", hint)
        # The gateway listens on 127.0.0.1; on ::1, which `localhost` may mean too, somebody else may.
        self._host, self._port = "127.0.0.1" if plain and host == "localhost" else str(host), port
        if not token or not token.isascii() or not token.isprintable():
            raise ArgumentError("Remote", "token", "(not shown)", "the line that `brrr class token` printed")
        self._token = token

    def ask(
        self, method: str, path: str, content: object = None, read: Callable[[Any], Any] = lambda told: told
    ) -> Any:
        """What `read` makes of the gateway's answer; `content` goes as JSON."""
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=ANSWER_S)
        body = None if content is None else json.dumps(content)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            told = json.loads(answer.read(MOST_BYTES))
            if answer.status != 200:
                raise _error(told, f"{self.url} answers {answer.status}")
            return read(told)
        except BrrrError:
            raise
        except (OSError, http.client.HTTPException, ValueError, RecursionError, *NOT_OURS) as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(f"{self.url} does not answer as the class's gateway ({why}). {SEE}") from None
        finally:
            connection.close()


def _error(told: object, otherwise: str) -> BrrrError:
    """The gateway's error as one of brrr's; a class that it names and brrr has not becomes the base of them all."""
    found = told if isinstance(told, dict) else {}
    kind: Any = getattr(errors, str(found.get("error")), None)
    reason = str(found.get("reason", otherwise))
    known = isinstance(kind, type) and issubclass(kind, BrrrError)
    error: BrrrError = BrrrError.__new__(kind if known else BrrrError)  # an ArgumentError is made of other arguments
    error.args = (reason,)
    return error


def token(url: str) -> str:
    """The token of this student: from the file that BRRR_TOKEN_FILE names, else the hub's, for the hub's gateway alone.

    UnavailableError if there is none.
    """
    if path := os.environ.get(TOKEN_FILE):
        try:
            return Path(path).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UnavailableError(f"{TOKEN_FILE} is {path!r}: {error}; your teacher gave you such a file") from None
    found, gateway = os.environ.get(HUB_TOKEN), os.environ.get(HUB_GATEWAY, "")
    if found and gateway.rstrip("/") == url.rstrip("/"):  # it opens the student's own server, too
        return found
    hub = f"; the hub's token goes to {bare(gateway) or f'the address that the hub sets as {HUB_GATEWAY}'} alone"
    raise UnavailableError(
        f"{TOKEN_FILE} is not set: it names the file with the token that your teacher gave you{hub if found else ''}"
    )


class RemoteTurn:
    """A request at the gateway: `done` asks how it is, `said` tells the place in the queue, `cancel` takes it back."""

    def __init__(self, source: Remote, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        self._source, self._experiment, self._point = source, experiment, dict(point)
        self._content = {"experiment": experiment.name, "variants": list(variants), "point": self._point}
        self._state: Mapping[str, Any] = {}
        self._ask()

    def _ask(self) -> None:
        self._source.connection.ask("POST", "/measure", self._content, self._take)

    @property
    def said(self) -> str:
        """Where it stands, for the reader.

        >>> turn.said  # doctest: +SKIP
        'Waiting for the class's GPU: place 3 of 17.'
        """
        if self._state["state"] == "waiting":
            return f"Waiting for the class's device: place {self._state['place']} of {self._state['of']}."
        return "Measuring on the class's device." if self._state["state"] == "running" else ""

    def done(self, wait_s: float = WAIT_S) -> bool:
        """Whether it has ended; the gateway holds its answer back until there is news, at most so long."""
        if self._state["state"] != "done":
            try:
                self._source.connection.ask("GET", f"{self._path}?wait={wait_s:g}", read=self._take)
            except NotRecordedError:  # the gateway was started again, and had answered it before
                self._ask()
        return bool(self._state["state"] == "done")

    def cancel(self) -> None:
        """Take it back; what nobody else wants is stopped where it runs."""
        if self._state["state"] != "done":
            self._source.connection.ask("DELETE", self._path)

    @property
    def _path(self) -> str:
        return f"/requests/{quote(self._state['id'])}"

    def _take(self, state: Mapping[str, Any]) -> None:
        typed(tuple[str, Literal["waiting", "running", "done"]], [state["id"], state["state"]])
        if state["state"] == "waiting":
            typed(tuple[int, int], [state["place"], state["of"]], "place")
        for variant in self._content["variants"] if state["state"] == "done" else state["answers"]:
            self._source.keep(self._experiment, variant, tuple(self._point.values()), state["answers"][variant])
        self._state = state


class Remote(OnDevice):
    """Measure on the class's device, through its gateway; what anybody of the class measured is there at once.

    `Remote("https://class.example.org").measure(experiment("matmul"), "gpu", {"size": 4096})` waits for its turn.

    Raises UnavailableError where the gateway does not answer or does not know the token.
    """

    badge_kind = "LIVE, REMOTE"

    def __init__(self, url: str, token_: str | None = None) -> None:
        self.connection = Connection(url, token_ or token(url))
        self.kind: DeviceKind
        self.connection.ask("GET", "/about", read=self._introduce)
        self._measured: dict[tuple[str, str], dict[tuple[Value, ...], Measurement]] = {}
        self._failed: dict[tuple[str, str, tuple[Value, ...]], BrrrError] = {}
        self._last: dict[str, int] = {}

    def _introduce(self, about: Mapping[str, Any]) -> None:
        said = typed(tuple[str, ...], [about[key] for key in ("kind", "device", "slug", "torch")], "about")
        self.kind, self.device_name, self._slug, self.torch_version = said
        if not SLUG.fullmatch(self._slug) or not self.kind.isidentifier():  # a folder's name, and its machine's
            raise ValueError(f"slug is {self._slug!r}")

    @property
    def name(self) -> str:
        """`remote:https://...`, as `BRRR_SOURCE` takes it."""
        return f"remote:{self.connection.url}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where recordings of such a device lie, if there are any: its measured peaks are this one's."""
        return device_folders(self._slug)

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        """What the class has measured; asked for once, and again after each measurement of one's own."""
        experiment.variant(variant)
        if experiment.name not in self._last:
            self._update(experiment)
        return self._measured.get((experiment.name, variant), {})

    def turn(self, experiment: Experiment, variants: Sequence[str], point: Point) -> RemoteTurn:
        """Ask for the variants of a point that exist there, without waiting."""
        full = experiment.point(**point)
        return RemoteTurn(self, experiment, [name for name in variants if experiment.has(name, full)], full)

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """Wait for the turn and return the measurement; kept, so that asking again returns the same."""
        full = experiment.point(**point)
        key = tuple(full.values())
        failed_at = (experiment.name, variant, key)
        if failed_at not in self._failed and key not in self._measured.get((experiment.name, variant), {}):
            self._wait(experiment, [variant], full)
        if failed := self._failed.pop(failed_at, None):
            raise failed
        return self._measured[experiment.name, variant][key]

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Wait for those of the variants that the class's device has, measured interleaved."""
        full = experiment.point(**point)
        missing = [name for name in self.variants(experiment) if name in variants and experiment.has(name, full)
                   and tuple(full.values()) not in self.known(experiment, name)]  # fmt: skip
        if missing:
            self._wait(experiment, missing, full)

    def _wait(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        turn = RemoteTurn(self, experiment, variants, point)
        try:
            while not turn.done():
                pass
        except KeyboardInterrupt:
            turn.cancel()
            raise

    def keep(self, experiment: Experiment, variant: str, key: tuple[Value, ...], answer: Mapping[str, Any]) -> None:
        """Keep what the gateway answered of a variant, checked as a recording's row is, or its error."""
        if "cells" not in answer:
            self._failed[experiment.name, variant, key] = _error(answer, "not measured")
            return
        try:
            row = from_cells(answer["cells"], experiment, self.device_name)
            if (row.variant, row.point) != (variant, key or row.point):
                raise ValueError(f"it is of {row.variant} {row.point}")
        except (ValueError, *NOT_OURS) as error:
            self._failed[experiment.name, variant, key] = UnavailableError(
                f"{self.name}: its row of {experiment.name} does not fit ({error}): is its brrr of another version?"
            )
            return
        self._measured.setdefault((experiment.name, variant), {})[row.point] = row.measurement

    def _update(self, experiment: Experiment) -> None:
        def read(told: Any) -> None:
            for number, variant, answer in told:
                self._last[experiment.name] = typed(int, number, "number")
                if "cells" in answer:
                    self.keep(experiment, typed(str, variant, "variant"), (), answer)

        after = -1
        while after < (after := self._last.setdefault(experiment.name, 0)):  # page by page, until none is new
            self.connection.ask("GET", f"/points/{experiment.name}?after={after}", read=read)

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """None: the gateway measures, and traces nothing."""
        return ()

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """NotRecordedError: the gateway measures, and traces nothing."""
        raise NotRecordedError(f"{self.name}: the class's device traces no timelines. {SEE}")
