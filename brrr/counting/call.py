"""One call of one torch operator, with its arguments by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatched operator: its name without overload and without the underscore of its in-place form.

    `args` holds every argument of the schema by name, those left out with their default. `written` are the arguments
    that it changes; `targets` those of them that are `out=` arguments.
    """

    name: str
    full_name: str
    args: dict[str, Any]
    outputs: tuple[torch.Tensor, ...]
    written: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether it changes an argument that is not an `out=` argument."""
        return len(self.written) > len(self.targets)

    @property
    def output(self) -> torch.Tensor:
        """Its first result."""
        return self.outputs[0]

    @property
    def size(self) -> int:
        """The elements of its first result; of all tensors of its first list where it changes lists in place."""
        if self.outputs:
            return self.outputs[0].numel() if not self._foreach else sum(out.numel() for out in self.outputs)
        return sum(t.numel() for t in self.tensors(next(iter(self.args))))

    @property
    def _foreach(self) -> bool:
        return self.full_name.startswith("aten._foreach")

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor given for an argument."""
        found = self.args[name]
        assert isinstance(found, torch.Tensor), f"{self.full_name}: {name} is no tensor"
        return found

    def has(self, name: str) -> bool:
        """Whether an optional tensor was given."""
        return self.args.get(name) is not None

    def tensors(self, name: str) -> list[torch.Tensor]:
        """The tensors given for an argument: none, one, or a list's."""
        return [leaf for leaf in _pytree.tree_leaves(self.args[name]) if isinstance(leaf, torch.Tensor)]

    def each_argument(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor with the name of its argument."""
        return ((name, tensor) for name in self.args for tensor in self.tensors(name))

    def all_tensors(self) -> list[torch.Tensor]:
        """Arguments, then results."""
        return [*(tensor for _, tensor in self.each_argument()), *self.outputs]


def call_of(func: Any, args: Any, kwargs: Any, out: Any) -> Call:
    """The call of an operator as the dispatcher made it."""
    outputs = tuple(leaf for leaf in _pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor))
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator: its arguments have no names
        named = {str(place): value for place, value in enumerate([*args, *kwargs.values()])}
        return Call(str(func), str(func), named, outputs)
    full_name = schema.name.replace("::", ".")
    written = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    targets = tuple(a.name for a in schema.arguments if a.is_out)
    return Call(_functional(full_name), full_name, _named(schema, args, kwargs), outputs, written, targets)


def _named(schema: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    return {**defaults, **given, **kwargs}


def _functional(name: str) -> str:
    """The name of the form that changes nothing: aten.add for aten.add_."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name
