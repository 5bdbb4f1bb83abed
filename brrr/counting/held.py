"""The tensors that a callable holds: a module's parameters, a closure's variables."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree


def device_around(fn: Any, leaves: Iterable[Any]) -> torch.device:
    """The device of the tensors given or held, so that descriptions join them; without any, the GPU if there is one.

    >>> device_around(torch.nn.Linear(2, 2), [])
    device(type='cpu')
    """
    for tensor in (*_pytree.tree_leaves(list(leaves)), *held(fn)):
        if isinstance(tensor, torch.Tensor):
            return tensor.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def held(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """Tensors within a value: itself, a module's, those a function can reach by its closure, defaults and globals."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif depth:
        for inner in _within(value):
            yield from held(inner, depth - 1)


def _within(value: Any) -> list[Any]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if hasattr(value, "__self__"):
        return [value.__self__, value.__func__] if hasattr(value, "__func__") else [value.__self__]
    if callable(value) and not isinstance(value, type) and not hasattr(value, "__code__"):
        return list(getattr(value, "__dict__", {}).values())
    if hasattr(value, "__code__"):
        return [*_cells(value), *(value.__defaults__ or ()), *_globals(value)]
    return []


def _cells(function: Any) -> list[Any]:
    """What a closure's variables hold; one that is not set yet holds nothing."""
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            continue
    return contents


def _globals(function: Any) -> list[Any]:
    """The tensors, modules and functions among the globals that a function names; not whole libraries."""
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [value for value in named if isinstance(value, torch.Tensor | torch.nn.Module) or _is_own(value, function)]


def _is_own(value: Any, function: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == function.__module__
