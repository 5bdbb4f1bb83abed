"""What a callable holds, and putting it back as it was: a count runs its Python, which may keep what it computed."""

import functools
import gc
import random
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CellType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree

Undo = Callable[[], object]

LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "pandas", "matplotlib", "triton", "IPython"}
"""Their functions, classes and modules are left alone, and objects of their classes but for those below."""
LOOKED_INTO = {"builtins", "collections", "functools", "weakref", "types", "queue", "_thread", "torch"}
CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
KEPT_BY_LIBRARIES = (*CONTAINERS, functools._lru_cache_wrapper, torch.Tensor)
"""Of what a class of an installed package and its module hold, only this is looked at."""
PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
"""What holds nothing else."""
MOST = 200_000
"""Objects that are looked at: a walk of some seconds. A data set of small tuples can be longer than it."""
NOTHING = object()


@contextmanager
def as_before(held: Iterable[Any]) -> Iterator[None]:
    """Around a count: attributes, containers, variables, gradients, random numbers and autocast's casts are put back.

    They are those of the objects held, as `reached` finds them; not what an iterator has given already. A cache of
    `functools` that holds a description then is emptied.
    """
    back = [undo for each in held for undo in undoing(each)]
    back.append(partial(torch.set_default_dtype, torch.get_default_dtype()))
    back.append(partial(random.setstate, random.getstate()))
    if "numpy" in sys.modules:
        drawn = sys.modules["numpy"].random
        back.append(partial(drawn.set_state, drawn.get_state()))
    torch.clear_autocast_cache()
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()):
            yield
    finally:
        torch.clear_autocast_cache()
        put_back(back, "cost")


def put_back(every: Iterable[Undo], call: str) -> None:
    """Undoes each; one that cannot be undone keeps none of the others from it, and a warning tells of it."""
    lost = []
    for undo in every:
        try:
            undo()
        except Exception as error:
            lost.append(str(error).partition("\n")[0] or type(error).__name__)
    if lost:
        warnings.warn(f"{call}: not all is as it was: {'; '.join(dict.fromkeys(lost))}", stacklevel=2)


def reached(roots: Iterable[Any]) -> Iterator[Any]:
    """What can be got at from some objects, each once, the nearest first; more than MOST is told by a warning."""
    waiting, seen = deque(roots), dict[int, Any]()
    while waiting:
        each = waiting.popleft()
        if not isinstance(each, PLAIN) and id(each) not in seen:
            if len(seen) == MOST:
                warnings.warn(f"the program holds over {MOST} objects: what it changes in others stays", stacklevel=2)
                return
            seen[id(each)] = each  # kept, so that no other gets its number
            yield each
            waiting.extend(_inside(each))


def _inside(each: Any) -> list[Any]:
    """What an object holds; of a function the variables that it names, of a class also its module's."""
    if isinstance(each, FunctionType):
        named = [_get(*place) for place in _places(each)]
        return [*(each.__closure__ or ()), each.__defaults__, each.__kwdefaults__, vars(each), *named]
    if isinstance(each, type):
        held = [*vars(each).values(), *(_get(*place) for place in _places(each))]
        own = [one for one in held if not _is_foreign(each) or isinstance(one, KEPT_BY_LIBRARIES)]
        return [*own, *each.__bases__] if each.__module__.partition(".")[0] not in LIBRARIES else []
    if isinstance(each, functools._lru_cache_wrapper):  # whose own dictionary fits to a list that is not seen
        return [getattr(each, "__wrapped__", None)]
    library = type(each).__module__.partition(".")[0]
    hidden = library in LIBRARIES - LOOKED_INTO or type(each).__module__.startswith("torch._")
    if isinstance(each, ModuleType) or (hidden and not isinstance(each, torch.nn.Module | torch.Tensor)):
        return []
    return [*gc.get_referents(each), getattr(each, "__dict__", None)]


def _is_foreign(each: Any) -> bool:
    """Whether a function, a class or a module belongs to Python, torch, or another package that was installed."""
    name = str(each.__name__ if isinstance(each, ModuleType) else each.__module__)
    return name.partition(".")[0] in LIBRARIES or "-packages" in str(getattr(sys.modules.get(name), "__file__", ""))


def _places(each: Any) -> list[tuple[Any, str]]:
    """Where an object holds single things, there or not: a tensor its gradient, a function its global variables."""
    if isinstance(each, CellType):
        return [(each, "cell_contents")]
    if isinstance(each, torch.Tensor):
        return [(each, "grad"), (each, "requires_grad")] if each.is_leaf else []
    if isinstance(each, FunctionType):
        return [] if _is_foreign(each) else _globals(each)
    if isinstance(each, type):
        module = getattr(sys.modules.get(each.__module__), "__dict__", {})
        own = each.__module__.partition(".")[0] not in LIBRARIES
        return [(module, name) for name in module if own and not name.startswith("__")]
    kinds = [vars(kind).items() for kind in type(each).__mro__ if "__slots__" in vars(kind)]
    return [(each, name) for kind in kinds for name, slot in kind if isinstance(slot, MemberDescriptorType)]


def _globals(function: FunctionType) -> list[tuple[Any, str]]:
    """The global variables that a function names, and what it names of modules among them."""
    codes, names = [function.__code__], set[str]()
    for code in codes:
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    spaces = [function.__globals__]
    for space in spaces:
        modules = [each for name in names & space.keys() if isinstance(each := space[name], ModuleType)]
        spaces += [
            vars(each) for each in modules if not _is_foreign(each) and all(vars(each) is not one for one in spaces)
        ]
    return [(space, name) for space in spaces for name in names]


def _get(owner: Any, name: str) -> Any:
    try:
        return owner.get(name, NOTHING) if isinstance(owner, dict) else getattr(owner, name)
    except (AttributeError, ValueError):  # a slot, a cell that is not filled
        return NOTHING


def undoing(each: Any) -> list[Undo]:
    """What puts an object back, and touches nothing where nothing has changed."""
    kind = next((kind for kind in CONTAINERS if isinstance(each, kind)), None)
    if kind is not None:
        return [partial(_refill, each, kind, _parts(each, kind))]
    back: list[Undo] = [partial(_put, *place, _get(*place)) for place in _places(each)]
    if isinstance(each, type) and not _is_foreign(each):
        back.append(partial(_reset, each, dict(vars(each))))
    if type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided and not each.is_nested:
        back.append(partial(_point, each, each.detach(), _lying(each)))
    if isinstance(each, functools._lru_cache_wrapper):
        back.append(partial(_forget, each))
    return back


def _parts(each: Any, kind: Any) -> list[Any]:
    """A container's elements; of a dictionary its keys, then its values."""
    return [*kind.__iter__(each), *(kind.values(each) if hasattr(kind, "values") else ())]


def _refill(each: Any, kind: Any, was: list[Any]) -> None:
    if list(map(id, _parts(each, kind))) != list(map(id, was)):
        kind.clear(each)
        pairs = zip(was[: len(was) // 2], was[len(was) // 2 :], strict=False)
        kind.extend(each, was) if hasattr(kind, "extend") else kind.update(each, was if kind is set else pairs)


def _reset(each: type, was: dict[str, Any]) -> None:
    for name in {*was, *vars(each)}:
        if name not in was:
            delattr(each, name)
        elif vars(each).get(name, NOTHING) is not was[name]:
            setattr(each, name, was[name])


def _lying(each: torch.Tensor) -> tuple[Any, ...]:
    """Where a tensor's elements lie, and as what."""
    return each.untyped_storage()._cdata, each.storage_offset(), each.shape, each.stride(), each.dtype


def _point(each: torch.Tensor, was: torch.Tensor, lying: tuple[Any, ...]) -> None:
    if _lying(each) != lying:  # its `data` was set
        each.data = was


def _forget(each: Any) -> None:
    links = [one for one in gc.get_referents(each) if not isinstance(one, FunctionType | type)]
    if any(isinstance(one, FakeTensor) for one in _pytree.tree_leaves([links, *map(gc.get_referents, links)])):
        each.cache_clear()


def _put(owner: Any, name: str, was: Any) -> None:
    now = _get(owner, name)
    if now is was or isinstance(now, ModuleType):  # one that was imported meanwhile stays
        return
    if isinstance(owner, dict):
        owner.update({name: was}) if was is not NOTHING else owner.pop(name)
    else:
        object.__setattr__(owner, name, was) if was is not NOTHING else object.__delattr__(owner, name)
