"""What a callable holds, and putting it back as it was: a count runs its Python, which may keep what it computed."""

import functools
import gc
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch

Place = tuple[Any, str]
Undo = Callable[[], object]

PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.Size,
    CodeType,
    BuiltinFunctionType,
)
"""What holds nothing else."""
LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "pandas", "matplotlib", "triton", "IPython"}
"""Their functions, classes and modules are left alone, and objects of their classes but for those below."""
LOOKED_INTO = {"builtins", "collections", "functools", "weakref", "types", "queue", "_queue", "_thread", "torch"}
CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
NOTHING = object()
KEPT_BY_LIBRARIES = (*CONTAINERS, functools._lru_cache_wrapper, torch.Tensor)
"""Of what a module of an installed package, or a class of it, holds, only this is looked at."""


@contextmanager
def as_before(held: Iterable[Any]) -> Iterator[None]:
    """Around a count: attributes, containers, variables, gradients, random numbers and autocast's casts are put back.

    They are those of the objects held, as `reached` finds them; not what an iterator has given already. A cache of
    `functools` that took something meanwhile is emptied.
    """
    back = [undo for each in held for undo in _undoing(each)]
    back.append(partial(random.setstate, random.getstate()))
    if "numpy" in sys.modules:
        drawn = sys.modules["numpy"].random
        back.append(partial(drawn.set_state, drawn.get_state()))
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    torch.clear_autocast_cache()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        torch.clear_autocast_cache()
        for undo in back:
            undo()


def holders(wanted: Callable[[Any], bool]) -> list[str]:
    """The types of what holds some objects, wherever it is."""
    found = [each for each in gc.get_objects() if wanted(each)]
    by = [each for each in gc.get_referrers(*found) if each is not found and not isinstance(each, FrameType)]
    return sorted({type(each).__name__ for each in by})


def reached(roots: Iterable[Any]) -> Iterator[Any]:
    """Everything that can be got at from some objects, each once, the nearest first."""
    waiting, seen = deque(roots), dict[int, Any]()
    while waiting:
        each = waiting.popleft()
        if not isinstance(each, PLAIN) and id(each) not in seen:
            seen[id(each)] = each  # kept, so that no other gets its number
            yield each
            waiting.extend(_inside(each))


def _inside(each: Any) -> list[Any]:
    """What an object holds."""
    kind = next((kind for kind in CONTAINERS if isinstance(each, kind)), None)
    if kind is not None:
        return list(kind.values(each) if hasattr(kind, "values") else kind.__iter__(each))
    if isinstance(each, tuple | frozenset):
        return list(each)
    if isinstance(each, partial | MethodType | staticmethod | classmethod | property | functools._lru_cache_wrapper):
        names = ("func", "args", "keywords", "__self__", "__func__", "__wrapped__", "fget")
        return [getattr(each, name, None) for name in names]
    held = [_get(*place) for place in _places(each)]
    if isinstance(each, type):
        held += vars(each).values()
        return [one for one in held if not _is_foreign(each) or isinstance(one, KEPT_BY_LIBRARIES)]
    if isinstance(each, FunctionType):
        return [*held, vars(each)]
    if isinstance(each, ModuleType) or not _is_looked_into(type(each)):
        return []
    scripted = list(each.parameters(False)) if isinstance(each, torch.jit.ScriptModule) else []
    return [*held, *scripted, getattr(each, "__dict__", None), *type(each).__mro__]


def _places(each: Any) -> list[Place]:
    """Where an object holds single things: a function its variables, a tensor its gradient, any other its slots.

    Of an installed package, a class has the variables of its module, and a function only what it closes over.
    """
    if isinstance(each, FunctionType):
        cells = [(cell, "cell_contents") for cell in each.__closure__ or ()]
        return [
            *cells,
            *([] if _is_foreign(each) else [(each, "__defaults__"), (each, "__kwdefaults__"), *_globals(each)]),
        ]
    if isinstance(each, type):
        module = sys.modules.get(each.__module__)
        known = module is not None and _is_foreign(each) and not _is_core(each)
        return [(vars(module), name) for name in vars(module)] if known else []
    if isinstance(each, torch.Tensor):
        return [(each, "grad"), (each, "requires_grad")] if each.is_leaf else []
    kinds = [kind for kind in type(each).__mro__ if not _is_core(kind)]
    slots = [name for kind in kinds for name, slot in vars(kind).items() if isinstance(slot, MemberDescriptorType)]
    return [(each, name) for name in slots]


def _globals(function: FunctionType) -> list[Place]:
    """The global variables that a function names, there or not, and what it names of modules among them."""
    codes, names = [function.__code__], set[str]()
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    spaces = {id(function.__globals__): function.__globals__}
    for space in (waiting := [function.__globals__]):
        for each in [space[name] for name in names & space.keys()]:
            if isinstance(each, ModuleType) and not _is_foreign(each) and id(vars(each)) not in spaces:
                spaces[id(vars(each))] = vars(each)
                waiting.append(vars(each))
    return [(space, name) for space in spaces.values() for name in names]


def _module_of(each: Any) -> str:
    return str(each.__name__ if isinstance(each, ModuleType) else each.__module__)


def _is_core(each: Any) -> bool:
    """Whether a function, a class or a module is Python's or torch's own."""
    return _module_of(each).partition(".")[0] in LIBRARIES


def _is_foreign(each: Any) -> bool:
    """Whether it is that, or belongs to another package that was installed."""
    return _is_core(each) or _is_installed(_module_of(each))


@functools.cache
def _is_installed(module: str) -> bool:
    return "-packages" in str(getattr(sys.modules.get(module), "__file__", ""))


def _is_looked_into(kind: type) -> bool:
    if issubclass(kind, torch.nn.Module | torch.Tensor):
        return True
    library = kind.__module__.partition(".")[0]
    return library not in LIBRARIES or (library in LOOKED_INTO and not kind.__module__.startswith("torch._"))


def _get(owner: Any, name: str) -> Any:
    if isinstance(owner, dict):
        return owner.get(name, NOTHING)
    try:
        return getattr(owner, name)
    except (AttributeError, ValueError):  # a slot, a cell that is not filled
        return NOTHING


def _undoing(each: Any) -> list[Undo]:
    """What puts an object back, and touches nothing where nothing has changed."""
    kind = next((kind for kind in CONTAINERS if isinstance(each, kind)), None)
    if kind is not None:
        keys = list(kind.__iter__(each))
        was = dict(zip(keys, kind.values(each), strict=True)) if hasattr(kind, "values") else keys
        return [partial(_refill, each, kind, was, _numbers(each, kind))]
    back: list[Undo] = [partial(_put, *place, _get(*place)) for place in _places(each)]
    if isinstance(each, type) and not _is_core(each):
        back.append(partial(_reset, each, dict(vars(each))))
    if isinstance(each, functools._lru_cache_wrapper):
        back.append(partial(_forget, each, each.cache_info().misses))
    return back


def _numbers(each: Any, kind: Any) -> list[int]:
    return [*map(id, kind.__iter__(each)), *map(id, kind.values(each) if hasattr(kind, "values") else ())]


def _refill(each: Any, kind: Any, was: Iterable[Any], numbers: list[int]) -> None:
    if _numbers(each, kind) != numbers:
        kind.clear(each)
        (kind.update if hasattr(kind, "update") else kind.extend)(each, was)


def _reset(each: type, was: dict[str, Any]) -> None:
    for name in {*was, *vars(each)}:
        if vars(each).get(name, NOTHING) is not was.get(name, NOTHING):
            delattr(each, name) if name not in was else setattr(each, name, was[name])


def _forget(each: Any, misses: int) -> None:
    if each.cache_info().misses != misses:
        each.cache_clear()


def _put(owner: Any, name: str, was: Any) -> None:
    now = _get(owner, name)
    if now is was or isinstance(now, ModuleType):  # one that was imported meanwhile stays
        return
    if isinstance(owner, dict):
        owner.pop(name, None) if was is NOTHING else owner.__setitem__(name, was)
    else:
        delattr(owner, name) if was is NOTHING else setattr(owner, name, was)
