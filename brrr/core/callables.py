"""What a call is given to run: refused where it cannot be called, or where calling it runs nothing of it."""

import inspect
from collections.abc import Callable
from itertools import islice
from typing import Any

from brrr.core.errors import ArgumentError

_INSTEAD = {
    "generator": "lambda: list(f())",
    "coroutine": "lambda: asyncio.run(f())",
    "asyncgen": "a loop over it in asyncio.run",
}
"""What runs only later, as `inspect` names it; what to write so that it runs."""
_LATER = ("__await__", "__next__", "wait", "add_done_callback", "block_until_ready", "__dask_graph__")
"""What awaitables, iterators, futures, collectives, jax's arrays and dask's graphs have; finished results do not."""


def require_callable(call: str, argument: str, fn: Any, expected: str, hint: str = "") -> None:
    """ArgumentError for what cannot be called, and for a generator or coroutine function, whose call runs nothing.

    >>> def halves(x): yield x / 2
    >>> require_callable("measure", "fn", halves, "a function")
    Traceback (most recent call last):
    brrr.core.errors.ArgumentError: measure: fn is <function halves at ...>; expected one that has run when it ...
    """
    if not callable(fn):
        raise ArgumentError(call, argument, fn, expected, hint)
    behind = [getattr(fn, name, None) for name in ("forward", "_torchdynamo_orig_callable")]
    _refuse_later(call, argument, fn, "function", [fn, *behind, inspect.getattr_static(type(fn), "__call__", None)])


def require_run(call: str, argument: str, fn: Any, result: Any) -> None:
    """The same, once it is seen what it returned: a lambda does not tell before."""
    _refuse_later(call, argument, fn, "", [result])


def later(result: Any) -> str:
    """What to note of a result, or one within it, that may be computed only after its call; "" of any other.

    >>> later([map(abs, [1])])
    'what fn returns (a map) may be computed only later, and that is not measured: let fn wait for it'
    """
    inside = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple | set) else ()
    kinds = [type(each) for each in (result, *islice(inside, 99))]
    found = next((kind.__name__ for kind in kinds if any(hasattr(kind, name) for name in _LATER)), "")
    said = f"what fn returns (a {found}) may be computed only later, and that is not measured: let fn wait for it"
    return said if found else ""


def refuse_shared(public: Callable[..., Any], fn: Any, **options: Any) -> None:
    """ArgumentError where an option that was given to a call is a keyword of its function's too, which it misses.

    >>> def call(fn, *args, device=None): refuse_shared(call, fn, device=device)
    >>> call(lambda device: 0, device="cpu")
    Traceback (most recent call last):
    brrr.core.errors.ArgumentError: call: device is 'cpu'; expected a keyword that the function does not have too. ...
    """
    try:
        theirs = inspect.signature(getattr(fn, "forward", fn)).parameters
    except (TypeError, ValueError):  # one that is not written in Python, or not callable
        return
    call, own, settled = public.__name__, inspect.signature(public).parameters, getattr(fn, "keywords", {})
    for name, value in options.items():
        if name in theirs and name not in settled and value != own[name].default:
            hint = f"Give the function its own: {call}(functools.partial(fn, {name}=...), ...), or a lambda."
            raise ArgumentError(call, name, value, "a keyword that the function does not have too", hint)


def _refuse_later(call: str, argument: str, fn: Any, of: str, found: list[Any]) -> None:
    for kind, instead in _INSTEAD.items():
        if any(map(getattr(inspect, f"is{kind}{of}"), found)):
            said = (
                f"one that has run when it returns; calling a {kind} function runs nothing of it yet: write {instead}"
            )
            raise ArgumentError(call, argument, fn, said)


def giving(out: Any, launch: Callable[[], Any], held: object = None) -> Callable[[], Any]:
    """The launch, then its result. A launch knows addresses only, so its inputs are held, lest torch give them away.

    >>> giving(3, lambda: None)()
    3
    """

    def run(kept: object = held) -> Any:
        launch()
        return out

    return run
