"""Who asks: tokens of the class's own, kept as digests, or those of a JupyterHub."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.classroom.store import ClassStore

MOST_NAME = 64
FRESH_S = 1.0
"""What the file says of tokens is not asked again so long."""
AGAIN_S = 0.02
"""Nor sooner than this for a token that it does not know, however many come."""
HEARD_S, MOST_HEARD = 60.0, 10_000
"""What a hub said of a token is not asked again so long, of so many tokens."""
HUB_CALLS, STRANGER_S = 4, 0.05
"""So many at a time, and a pause after each that found nobody: who arrives waits in a line, and the hub has time.

Of those whom it knows it is asked beside that line."""


@dataclass(frozen=True)
class User:
    """A student, or a teacher, who also sees who waits and what was answered."""

    name: str
    teacher: bool = False


Known = Callable[[str], Awaitable["User | None"]]
"""From a token to who holds it; None for one that is unknown, or has expired."""


def issue(store: ClassStore, name: str, *, days: float = 120.0, teacher: bool = False) -> str:
    """A new token for a name; only its digest is kept, so this is the one time that it can be read.

    >>> issue(store, "ada")  # doctest: +SKIP
    '3f9a0c1d.Zk3...'

    ArgumentError for a name that is empty, long or not printable, and for days that are not positive.
    """
    if not name.strip() or len(name) > MOST_NAME or not name.isprintable():
        raise ArgumentError("brrr class token", "NAME", name, f"1 to {MOST_NAME} printable characters")
    if not 0 < days <= 3660:
        raise ArgumentError("brrr class token", "--days", days, "a number above 0, at most 3660")
    identity, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    expires = time.time() + days * 86400
    store.write("INSERT INTO token VALUES (?, ?, ?, ?, ?)", identity, name, _digest(secret), int(teacher), expires)
    return f"{identity}.{secret}"


def revoke(store: ClassStore, name: str) -> int:
    """End all tokens of a name; how many there were."""
    return store.write("DELETE FROM token WHERE name = ?", name)


def holds(store: ClassStore, name: str) -> int:
    """How many tokens a name has."""
    return int(store.read("SELECT COUNT(*) FROM token WHERE name = ?", name)[0][0])


def of_class(store: ClassStore) -> Known:
    """The class's own tokens; one that is revoked opens nothing after `FRESH_S`."""
    every, read_s, one = dict[str, tuple[str, str, int, float]](), float("-inf"), asyncio.Lock()

    async def read(since_s: float) -> None:
        """What the file says at that time or later, read once for all who wait for it."""
        nonlocal every, read_s
        if read_s >= since_s:
            return
        async with one:
            if read_s < since_s:
                now_s = time.monotonic()
                rows = await store.reading(store.read, "SELECT id, name, digest, teacher, expires FROM token")
                every, read_s = {row[0]: row[1:] for row in rows}, now_s

    def holder(token: str) -> User | None:
        identity, _, secret = token.partition(".")
        name, kept, teacher, expires = every.get(identity, ("", "", 0, 0.0))
        same = hmac.compare_digest(_digest(secret), kept)  # compared for an unknown id too, in the same time
        return User(name, bool(teacher)) if same and time.time() < expires else None

    async def known(token: str) -> User | None:
        asked_s = time.monotonic()
        await read(asked_s - FRESH_S)
        if token and holder(token) is None:  # or it was issued this moment
            await asyncio.sleep(read_s + AGAIN_S - asked_s)
            await read(asked_s)
        return holder(token)

    return known


def _digest(secret: str) -> str:
    """Of 256 random bits: no salt and no slow hash would add to that."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def of_hub(store: ClassStore, service: str) -> Known:
    """The class's own tokens, and those of the JupyterHub that runs this process as its service: admins are teachers.

    UnavailableError where this process is no service of a hub.
    """
    try:
        from jupyterhub.services.auth import HubAuth
    except ImportError as error:
        raise UnavailableError(f"--hub: {error}; install jupyterhub beside brrr") from None
    if not os.environ.get("JUPYTERHUB_API_TOKEN"):
        raise UnavailableError("--hub: JUPYTERHUB_API_TOKEN is not set: let the hub run this as its service (deploy/)")
    auth = HubAuth(cache_max_age=1)
    wanted, own = {f"access:services!service={service}", "access:services"}, of_class(store)
    arriving, here = ThreadPoolExecutor(HUB_CALLS), ThreadPoolExecutor(HUB_CALLS)
    heard = dict[str, tuple[float, User | None]]()
    asking: dict[str, asyncio.Future[User | None]] = {}

    def ask(token: str) -> User | None:
        try:
            model = auth.user_for_token(token)
        except Exception as error:
            raise UnavailableError(f"the hub does not answer ({type(error).__name__}): try again") from error
        if not model or model.get("kind") != "user" or not auth.check_scopes(wanted, model):
            time.sleep(STRANGER_S)
            return None
        return User(model["name"], bool(model.get("admin")))

    async def known(token: str) -> User | None:
        at_s, met = heard.get(token, (float("-inf"), None))
        if at_s > time.monotonic() - HEARD_S:
            return met
        if (user := await own(token)) or not token:
            return user
        if token not in asking:  # once, however many of its requests wait for it
            asking[token] = asyncio.get_running_loop().run_in_executor(here if met else arriving, ask, token)
            asking[token].add_done_callback(lambda _: asking.pop(token, None))
        user = await asyncio.shield(asking[token])
        if len(heard) > MOST_HEARD:
            for stranger in [each for each, (_, found) in heard.items() if found is None]:
                del heard[stranger]
        heard[token] = (time.monotonic(), user)
        return user

    return known
