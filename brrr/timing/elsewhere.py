"""Refuses tensors on a device that nothing here waits for: their time would be that of asking for the work."""

import inspect
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.core.heavy import torch
from brrr.gpu import is_gpu, kind_of, tensors_on

MOST = 4096
"""So many things that a function or its result holds are looked at: it may be a list of millions."""


def refuse_elsewhere(call: str, place: object, *held: Any) -> None:
    """ArgumentError where a function, or its result, holds tensors that lie neither where it is timed nor on the CPU.

    It looks and calls nothing: under a mode of torch that sees each operator, what is compiled would run as written,
    and go on so. What a function makes elsewhere and neither holds nor returns is not seen.
    """
    if "torch" not in sys.modules:
        return
    found = {each.device.type for each in tensors_in(held)} - {"cpu", tensors_on(place)}
    if found:
        kinds = sorted(map(kind_of, found))
        hint = f"device={kinds[0]!r} measures there" if is_gpu(kinds[0]) else "brrr measures on a CPU or an accelerator"
        what = "tensors on the device that is timed, or on the CPU: nothing would wait for the others"
        raise ArgumentError(call, "fn", f"one with tensors on {', '.join(sorted(found))}", what, hint)


def tensors_in(held: tuple[Any, ...]) -> Iterator[Any]:
    """The tensors in some objects, in what functions name and close over, and in modules; descriptions lie nowhere."""
    from torch._subclasses import FakeTensor

    waiting, seen = deque(held), dict[int, Any]()
    while waiting and len(seen) < MOST:
        each = waiting.popleft()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, torch.Tensor):
            yield from [] if isinstance(each, FakeTensor) else [each]
        else:
            waiting.extend(_inside(each))


def _inside(each: Any) -> list[Any]:
    if isinstance(each, FunctionType):
        with suppress(ValueError):  # a variable that has no value yet
            named = inspect.getclosurevars(each)
            return [*named.nonlocals.values(), *named.globals.values(), each.__defaults__, each.__kwdefaults__]
    if isinstance(each, partial):
        return [each.func, each.args, each.keywords]
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    if isinstance(each, Mapping):
        return [*each.values()]
    if isinstance(each, list | tuple | set):
        return [*each][:MOST]
    return [] if isinstance(each, type | ModuleType) else [*getattr(each, "__dict__", {}).values()]
