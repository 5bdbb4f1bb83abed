"""What a call is given to run: refused where it cannot be called, or where calling it runs nothing of it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from brrr.core.errors import ArgumentError

_LATER: Mapping[str, tuple[Callable[[object], Any], Callable[[object], Any], str]] = {
    "generator": (inspect.isgeneratorfunction, inspect.isgenerator, "lambda: list(f())"),
    "coroutine": (inspect.iscoroutinefunction, inspect.iscoroutine, "lambda: asyncio.run(f())"),
    "asynchronous generator": (inspect.isasyncgenfunction, inspect.isasyncgen, "a loop over it, in asyncio.run"),
}


def require_callable(call: str, argument: str, fn: Any, expected: str, hint: str = "") -> None:
    """ArgumentError for what cannot be called, and for a generator or coroutine function, whose call runs nothing.

    >>> def halves(x): yield x / 2
    >>> require_callable("measure", "fn", halves, "a function")
    Traceback (most recent call last):
    brrr.core.errors.ArgumentError: measure: fn is <function halves at ...>; expected one that has run when it ...
    """
    if not callable(fn):
        raise ArgumentError(call, argument, fn, expected, hint)
    behind = getattr(fn, "_torchdynamo_orig_callable", None)
    bodies = [fn, getattr(fn, "forward", None), inspect.getattr_static(type(fn), "__call__", None), behind]
    for kind, (makes, _, instead) in _LATER.items():
        if any(makes(each) for each in bodies):
            raise _later(call, argument, kind, fn, instead)


def require_run(call: str, argument: str, fn: Any, result: Any) -> None:
    """The same, once it is seen what it returned: a lambda does not tell before."""
    for kind, (_, is_made, instead) in _LATER.items():
        if is_made(result):
            getattr(result, "close", lambda: None)()  # a coroutine warns where nobody awaits it
            raise _later(call, argument, kind, fn, instead)


def _later(call: str, argument: str, kind: str, fn: Any, instead: str) -> ArgumentError:
    said = f"one that has run when it returns; calling a {kind} function runs nothing of it yet: write {instead}"
    return ArgumentError(call, argument, fn, said)


def require_keywords(call: str, fn: Any, given: dict[str, Any]) -> None:
    """ArgumentError for a keyword that is neither the call's own nor the function's."""
    try:
        theirs = inspect.signature(getattr(fn, "forward", fn)).parameters
    except (TypeError, ValueError):  # one that is not written in Python
        return
    if not any(each.kind is each.VAR_KEYWORD for each in theirs.values()):
        for name in given.keys() - theirs.keys():
            known = ", ".join(theirs) or "none"
            raise ArgumentError(call, name, given[name], f"a keyword of {call}, or of the function ({known})")
