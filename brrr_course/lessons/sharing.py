"""Guesses and marks for the class, sent by those who agree: the room sees how many, the teacher who."""

import threading
from contextlib import suppress
from types import EllipsisType

from brrr.core.errors import BrrrError, UnavailableError
from brrr_course.sources import source
from brrr_course.sources.browser import when_kept
from brrr_course.sources.remote import Remote
from brrr_course.view.display import message_html

MOST = 300
"""Characters that the gateway takes of a question and of an answer."""

AGREED = ("check", "share")
"""The answer that says a student agreed to be named to the teacher; without it, others of theirs are only counted."""

OWN = ("yours", "GPU")
"""The answer that holds what a browser measured of a student's own GPU."""

_agreed: list[Remote] = []


class Said(str):
    """A sentence that shows itself without quotation marks, in a notebook with its lines broken between words."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return message_html("open", str(self))


def share(agree: bool | EllipsisType = True) -> Said:
    """Agree to send your guesses and the marks of your exercises to the class's gateway, for this session.

    >>> share(...)
    Nothing is sent.

    The class sees how many gave which answer; your teacher also sees the name of your token.

    Parameters
    ----------
    agree : bool or ...
        False stops it, and deletes from the class's file all that you sent, in earlier sessions too; ``...`` decides
        nothing, and nothing is sent.

    Returns
    -------
    str
        What happens from now on.

    Raises
    ------
    UnavailableError
        If `BRRR_SOURCE` names no gateway, or if it does not answer.
    """
    _agreed.clear()
    if agree is ... or (not agree and not isinstance(source(), Remote)):
        return Said("Nothing is sent.")
    if not agree:
        gateway("share").connection.ask("DELETE", "/answers")
        return Said("Nothing is sent from now on, and what you had sent is taken out.")
    found, (kind, name) = gateway("share"), AGREED
    found.connection.ask("POST", "/answers", {"kind": kind, "name": name, "value": "named"})
    _agreed.append(found)
    return Said("Your guesses and the marks of your exercises are sent from now on. The class sees how many gave which "
                "answer, your teacher also the name of your token; share(False) takes them out again.")  # fmt: skip


def send(kind: str, name: str, value: str) -> None:
    """Send a `guess` or the like if the student agreed: behind the lesson, which no failure of it disturbs."""
    for each in _agreed:
        content = {"kind": kind, "name": line(name), "value": line(value)}
        threading.Thread(target=_post, args=(each, content), daemon=True).start()


when_kept.append(lambda peaks: send(*OWN, peaks))


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
