"""Which module an operator runs in."""

import sys
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

_CALL = nn.Module._call_impl.__code__
_ENGINE = torch.autograd.graph._engine_run_backward.__code__


class Modules:
    """Names the innermost module of the operator that runs now, by the calls that are under way.

    In a backward pass it is that of the operator whose gradient is computed: autograd's node has its number. The sum
    of a tensor's gradients, where it was used twice, is in the module whose gradient comes last. What a checkpoint
    computes again is called as before. No hook is set, for what a hook runs would count as the program's own.
    """

    def __init__(self) -> None:
        self._names = WeakKeyDictionary[nn.Module, dict[int, str]]()
        self._before = WeakKeyDictionary[nn.Module, str]()
        self._of_node: dict[int, str] = {}
        self._next = torch._C._autograd._get_sequence_nr()

    def now(self) -> str:
        """Its name behind that of the outermost one's class, such as "Net.layers.0"; "" where none is called."""
        node: Any = torch._C._current_autograd_node()
        frame: FrameType | None = sys._getframe()
        called = list[nn.Module]()
        while frame is not None and not (node and frame.f_code is _ENGINE):
            if frame.f_code is _CALL:
                called.append(frame.f_locals["self"])
            frame = frame.f_back
        name = ""
        if called:
            name = (node and self._before.get(called[0])) or self._named(called[-1], called[0])
            self._before[called[0]] = name
        elif node:  # autograd numbers what it does to the whole tensor after an operator in place on a view of it
            name = self._of_node.get(node._sequence_nr() - (node.name() == "CopySlices"), "")
        made = torch._C._autograd._get_sequence_nr()  # most operators make a node, some two, some none
        self._of_node.update(dict.fromkeys(range(self._next, made), name))
        self._next = max(self._next, made)
        return name

    def _named(self, outer: nn.Module, inner: nn.Module) -> str:
        if outer not in self._names:
            self._names[outer] = {id(each): f".{name}" * bool(name) for name, each in outer.named_modules()}
        return type(outer).__name__ + self._names[outer].get(id(inner), f".{type(inner).__name__}")
