"""Guesses and marks for the class, sent without a name by those who agree."""

import threading
from contextlib import suppress

from brrr.core.errors import BrrrError, UnavailableError
from brrr_course.sources import source
from brrr_course.sources.remote import Remote

MOST = 300
"""Characters that the gateway takes of a question and of an answer."""

_agreed: list[Remote] = []


def share(agree: bool = True) -> str:
    """Agree, for this session, to send guesses and the marks of exercises to the class's gateway, without a name.

    >>> share(False)
    'Nothing is sent.'

    UnavailableError where `BRRR_SOURCE` names no gateway.
    """
    _agreed[:] = [gateway("share")] if agree else []
    sent = "Guesses and marks are sent to the class, without a name; share(False) ends it."
    return sent if agree else "Nothing is sent."


def send(kind: str, name: str, value: str) -> None:
    """Send a `guess` or a `check` if the student agreed: behind the lesson, which no failure of it disturbs."""
    for each in _agreed:
        content = {"kind": kind, "name": line(name), "value": line(value)}
        threading.Thread(target=_post, args=(each, content), daemon=True).start()


def _post(to: Remote, content: dict[str, str]) -> None:
    with suppress(BrrrError):
        to.connection.ask("POST", "/answers", content)


def line(text: str) -> str:
    """A text as the gateway takes it: one line, not too long."""
    return " ".join(text.split())[:MOST]


def gateway(call: str) -> Remote:
    """The class's gateway; UnavailableError, naming the call, where `BRRR_SOURCE` names none."""
    found = source()
    if not isinstance(found, Remote):
        raise UnavailableError(f"{call}: the source is {found.name}; BRRR_SOURCE=remote:URL names the class's gateway")
    return found
