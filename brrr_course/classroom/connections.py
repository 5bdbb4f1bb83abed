"""Connections that say nothing, or read nothing, are closed after a while, and the oldest where there are too many."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections import Counter, defaultdict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""A request's header may take so long, and so long an answer until it is read."""
MOST = 4000
"""Connections at a time; of them a quarter may be silent, and half one address's."""
FILES = 500
"""Open files beside them: the workers', the database's, and what the system accepts before it is counted."""
_open = Counter[str]()
_silent = defaultdict[str, dict["SilenceLimited", asyncio.TimerHandle]](dict)
"""Of each address: how many connections it has, and those at which it is the client's turn, the oldest first."""


def most_connections() -> int:
    """Raise the limit of this process's open files as far as it may; so many connections fit below it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else max(100, min(MOST, soft - FILES))


class SilenceLimited(H11Protocol):
    """uvicorn's connection, which by itself waits for ever: for a header, and for its answer to be read.

    Here it is either the gateway's turn, which has a whole header and has not answered, or the client's, which has so
    long for it whatever it does meanwhile. An address with many connections loses its oldest of those first.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client's turn."""
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        _open[self.host] += 1
        self._look()
        if _open[self.host] > self._most() // 2:
            self._close_oldest(self.host)

    def data_received(self, data: bytes) -> None:
        """A whole header makes it the gateway's, a part of one does not. Who asks on before the answer gets no more."""
        super().data_received(data)
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False
        self._look()

    def on_response_complete(self) -> None:
        """Answered: the client's, to read it and to ask again."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._speak()
        _open[self.host] -= 1
        if not _open[self.host]:
            del _open[self.host], _silent[self.host]
        super().connection_lost(exc)

    def _look(self) -> None:
        """Whose turn it is now: the client's time goes on, or begins, or ends.

        Who asks again and has not read what was answered is not answered before they do.
        """
        if self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused:
            self._speak()
        elif self not in _silent[self.host]:
            if sum(map(len, _silent.values())) >= self._most() // 4:
                self._close_oldest(max(_silent, key=lambda host: len(_silent[host])))
            _silent[self.host][self] = self.loop.call_later(HEADER_S, self.transport.abort)

    def _most(self) -> int:
        return self.limit_concurrency or MOST

    @staticmethod
    def _close_oldest(host: str) -> None:
        oldest = next(iter(_silent[host]))
        oldest._speak()
        oldest.transport.abort()

    def _speak(self) -> None:
        if timer := _silent[self.host].pop(self, None):
            timer.cancel()


def say_little(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's own trouble, but for a lack of open files: that comes a thousand times a second, and ends by itself."""
    if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
        loop.default_exception_handler(context)
