"""What a program holds, put back as it was: weights, buffers, gradients, modes, optimisers, random numbers."""

import copy
import dis
import random
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import is_not
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from brrr.core.errors import ArgumentError
from brrr.gpu import GPU, free_bytes

LARGEST = 20_000
"""So many objects are looked at behind a function, no more."""
FOREIGN = ("builtins", "torch", "numpy", "types", "functools", "threading", "logging", "_io", "re", "pathlib", "brrr")
"""Objects of these packages are not looked into, but for those named."""


PLAIN = (str, bytes, int, float, complex, type(None), torch.dtype, torch.device)
"""What holds nothing."""


@dataclass(frozen=True)
class Held:
    """What a program holds: modules, what keeps a state, tensors, generators, and all that holds these in turn."""

    roots: list[nn.Module] = field(default_factory=list)
    stateful: list[Any] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)
    holders: list[Any] = field(default_factory=list)


@contextmanager
def kept_as_it_was(around: tuple[Any, ...]) -> Iterator[dict[str, nn.Module]]:
    """The modules found in or behind some objects, by name; when it is over, what was found is as before.

    Parameters, buffers, gradients, modes, what optimisers, schedulers and scalers hold, generators, the random numbers
    of torch, numpy and Python, whether gradients are on, and the number of threads; what lists, dictionaries,
    attributes and variables hold, as a cache does. ArgumentError for a lazy module.
    """
    modules, back = snapshot(around)
    try:
        yield modules
    finally:
        back()


def snapshot(around: tuple[Any, ...]) -> tuple[dict[str, nn.Module], Callable[[], None]]:
    """The modules found in or behind some objects, by name, and what puts all as it was, as often as it is called."""
    held = found_in(around)
    modules = {
        f"{type(root).__name__}{'.' * bool(name)}{name}": each
        for root in held.roots for name, each in root.named_modules()
    }  # fmt: skip
    tensors = {id(each): each for each in held.tensors}
    for root in held.roots:
        tensors |= {id(each): each for each in (*root.parameters(), *root.buffers())}
    for each in held.stateful:
        tensors |= {id(one): one for group in getattr(each, "param_groups", ()) for one in group["params"]}
    if any(nn.parameter.is_lazy(each) for each in tensors.values()):
        raise ArgumentError("diagnose", "fn", "a lazy module", "a module with its parameters: call it once first")
    place = _place(tensors.values())
    every: list[Callable[[], Any]] = [_tensor_back(each, place) for each in tensors.values()]
    every += [_module_back(each) for each in modules.values()]
    every += [_state_back(each) for each in held.stateful]
    every += [_contents_back(each) for each in held.holders]
    every += [partial(each.set_state, each.get_state()) for each in held.generators]
    every += [partial(random.setstate, random.getstate()), partial(np.random.set_state, np.random.get_state())]
    every += [partial(torch.set_grad_enabled, torch.is_grad_enabled())]
    every += [partial(torch.set_num_threads, torch.get_num_threads())]
    every += [partial(torch.set_rng_state, torch.get_rng_state())]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        every += [partial(torch.cuda.set_rng_state, torch.cuda.get_rng_state())]

    def back() -> None:
        lost = []
        for each in reversed(every):
            try:
                each()
            except Exception as error:  # one that cannot be put back keeps none of the others from it
                lost.append(str(error).partition("\n")[0] or type(error).__name__)
        if lost:
            warnings.warn(f"diagnose: not all is as it was: {'; '.join(dict.fromkeys(lost))}", stacklevel=2)

    return modules, back


def _contents_back(each: Any) -> Callable[[], None]:
    """Puts back what a list, a dictionary, a set, a variable or an attribute held, where that has changed."""
    if isinstance(each, CellType):
        return partial(setattr, each, "cell_contents", each.cell_contents)
    if isinstance(each, FunctionType):
        told = each.__globals__
        names = {one.argval for one in dis.get_instructions(each) if one.opname == "STORE_GLOBAL"}
        return partial(told.update, {name: told[name] for name in names & told.keys()})
    kept = copy.copy(each)

    def back() -> None:
        if len(each) != len(kept) or any(map(is_not, _items(each), _items(kept))):
            each.clear()
            (each.extend if hasattr(each, "extend") else each.update)(kept)

    return back


def _items(each: Any) -> Iterable[Any]:
    return (one for pair in each.items() for one in pair) if isinstance(each, dict) else each


def _tensor_back(each: torch.Tensor, place: str | None) -> Callable[[], None]:
    """Puts a tensor's numbers and gradient back, and touches neither where nothing has changed."""
    value, wanted = each.detach().to(place, copy=True), each.requires_grad
    gradient = each.grad if each.is_leaf else None
    was = None if gradient is None else gradient.detach().to(place, copy=True)

    def back() -> None:
        with torch.no_grad():
            if each.shape != value.shape or not torch.equal(each.detach().to(value.device), value):
                each.resize_(value.shape).copy_(value) if each.shape != value.shape else each.copy_(value)
            if each.is_leaf:
                each.grad = gradient
                each.requires_grad_(wanted)
            if gradient is not None and was is not None:
                gradient.copy_(was)

    return back


def _module_back(module: nn.Module) -> Callable[[], None]:
    """Puts a module's mode back, and the very parameters and buffers that it had."""
    training, parameters, buffers = module.training, dict(module._parameters), dict(module._buffers)

    def back() -> None:
        module.training = training
        for held, was in ((module._parameters, parameters), (module._buffers, buffers)):
            held.clear()
            held.update(was)  # type: ignore[arg-type]

    return back


def _state_back(each: Any) -> Callable[[], None]:
    """Puts a state back; that of an optimiser into the very tensors that held it, which others may know."""
    state = copy.deepcopy(each.state_dict())
    by_parameter = each.state.items() if isinstance(each, torch.optim.Optimizer) else ()
    held = [(parameter, dict(values)) for parameter, values in by_parameter]

    def back() -> None:
        each.load_state_dict(copy.deepcopy(state))  # which may keep what it is given
        for parameter, values in held:
            for name, tensor in values.items():
                loaded = each.state[parameter].get(name)
                alike = isinstance(tensor, torch.Tensor) and isinstance(loaded, torch.Tensor)
                if alike and (loaded.shape, loaded.dtype) == (tensor.shape, tensor.dtype):
                    each.state[parameter][name] = tensor.copy_(loaded)

    return back


def _place(tensors: Iterable[torch.Tensor]) -> str | None:
    """Where copies go: beside the tensors, or into the host's memory where a quarter of the GPU's is not enough."""
    on_gpu = [each for each in tensors if each.is_cuda]
    nbytes = sum(each.nbytes for each in on_gpu)
    return "cpu" if on_gpu and 2 * nbytes > free_bytes(GPU) / 4 else None


def found_in(around: tuple[Any, ...]) -> Held:
    """What is found among objects, and behind functions, modules and objects."""
    found = Held()
    seen: dict[int, Any] = {}
    waiting: list[Any] = [around]
    while waiting and len(seen) < LARGEST:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, PLAIN):
            continue
        seen[id(each)] = each  # kept, so that no other gets its number
        if isinstance(each, nn.Module):
            found.roots.append(each)
            own = [vars(one) for one in each.modules() if not isinstance(one, torch.jit.ScriptModule)]
            names = [(values, name) for values in own for name in values if name[0] != "_"]
            waiting[:0] = [values[name] for values, name in names]  # last
            found.holders.extend(own)
        elif isinstance(each, torch.Tensor):
            found.tensors.append(each)
        elif isinstance(each, torch.Generator):
            found.generators.append(each)
        elif isinstance(each, torch.optim.Optimizer) or _keeps_state(each):
            found.stateful.append(each)
        else:
            waiting += _behind(each)
            found.holders.extend(_holders(each))
    return found


def _holders(each: Any) -> list[Any]:
    """What can be given other contents: itself, its attributes, or the variables of a function's closure."""
    if isinstance(each, list | dict | set | deque):
        return [each]
    if isinstance(each, FunctionType):
        return [each, *(cell for cell in each.__closure__ or () if _filled(cell))] if _behind(each) else []
    looked_into = type(each).__module__.partition(".")[0] not in FOREIGN and hasattr(each, "__dict__")
    return [vars(each)] if looked_into and not isinstance(each, type | ModuleType) else []


def _keeps_state(each: Any) -> bool:
    """A scheduler, a gradient scaler and their like."""
    mine = type(each).__module__.startswith("torch.") and not isinstance(each, type)
    return mine and hasattr(each, "state_dict") and hasattr(each, "load_state_dict")


def _behind(each: Any) -> list[Any]:
    """What a container, a function or an object of the user's own holds."""
    if isinstance(each, Mapping):
        return list(each.values())
    if isinstance(each, list | tuple | set | frozenset):
        return list(each)
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    if isinstance(each, FunctionType):
        return _of_function(each)
    if hasattr(each, "func") and hasattr(each, "args"):  # functools.partial
        return [each.func, each.args, getattr(each, "keywords", None)]
    if isinstance(each, type | ModuleType | BuiltinFunctionType | CodeType):
        return []
    if type(each).__module__.partition(".")[0] in FOREIGN:
        return []
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(each, "__dict__", {}).values(), *(getattr(each, name, None) for name in slots)]


def _of_function(function: FunctionType) -> list[Any]:
    """Its closure, its defaults, and the globals that it, or a function written in it, names."""
    if function.__module__ is not None and function.__module__.partition(".")[0] in FOREIGN:
        return []
    names: set[str] = set()
    codes: list[Any] = [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    globals_ = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *globals_]


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not yet
        return False
