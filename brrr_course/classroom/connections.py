"""Connections that say nothing, or not all: each is closed after a while, and the oldest where there are too many."""

from __future__ import annotations

import asyncio
import errno
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""A request's header may take so long."""
MOST = 4000
"""Connections at a time; of them a quarter may be silent."""
FILES = 500
"""Open files beside them: the workers', the database's, and what the system accepts before it is counted."""
_silent: dict[SilenceLimited, asyncio.TimerHandle] = {}


def most_connections() -> int:
    """Raise the limit of this process's open files as far as it may; so many connections fit below it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else max(100, min(MOST, soft - FILES))


class SilenceLimited(H11Protocol):
    """uvicorn's connection, which by itself waits for a header for ever.

    Whoever holds many silent connections open has their oldest closed: a header that is sent at once is soon there.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It is silent at first."""
        super().connection_made(transport)
        self._fall_silent()

    def data_received(self, data: bytes) -> None:
        """A whole header ends the silence, a part of one does not."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._speak()
        elif self not in _silent and not self.transport.is_closing():
            self._fall_silent()

    def on_response_complete(self) -> None:
        """Answered, and kept for another request: silent again."""
        super().on_response_complete()
        if self not in _silent and not self.transport.is_closing() and self.cycle.response_complete:
            self._fall_silent()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._speak()
        super().connection_lost(exc)

    def _fall_silent(self) -> None:
        if len(_silent) >= (self.limit_concurrency or MOST) // 4:
            oldest = next(iter(_silent))
            oldest._speak()
            oldest.transport.abort()
        _silent[self] = self.loop.call_later(HEADER_S, self.transport.abort)

    def _speak(self) -> None:
        if timer := _silent.pop(self, None):
            timer.cancel()


def say_little(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's own trouble, but for a lack of open files: that comes a thousand times a second, and ends by itself."""
    if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
        loop.default_exception_handler(context)
