"""One call of one torch operator, with its arguments by name."""

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree

from brrr.counting.cost import Matmul

_FUSED_STEPS = ("aten._fused_adam", "aten._fused_sgd", "aten._fused_adagrad")


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatched operator: its name without overload and without the underscore of its in-place form.

    `args` holds every argument of the schema by name, those left out with their default. `written` are the arguments
    that it changes; `targets` those of them that are `out=` arguments. `only_view`: whether what it changes is how a
    tensor is seen (its sizes, strides, storage), as `transpose_` does, and no data.
    """

    name: str
    full_name: str
    args: dict[str, Any]
    outputs: tuple[torch.Tensor, ...]
    written: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    only_view: bool = False

    @property
    def output(self) -> torch.Tensor:
        """Its first result."""
        return self.outputs[0]

    @property
    def size(self) -> int:
        """The elements of its first result; of all tensors of its first list where it changes lists in place."""
        if self.outputs:
            return self.outputs[0].numel() if not self.of_lists else sum(out.numel() for out in self.outputs)
        return sum(t.numel() for t in self.tensors(next(iter(self.args))))

    @property
    def of_lists(self) -> bool:
        """Whether it takes lists of tensors, all of them in one kernel or a few."""
        return self.full_name.startswith(("aten._foreach", "aten._amp_foreach", *_FUSED_STEPS))

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
    if schema is None:  # a higher-order operator
        named = inspect.signature(func.__call__).bind(*args, **kwargs).arguments
        return Call(str(func), str(func), named, outputs)
    full_name = schema.name.replace("::", ".")
    name = full_name[:-1] if full_name.endswith("_") and not full_name.endswith("__") else full_name  # add for add_
    written = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    targets = tuple(a.name for a in schema.arguments if a.is_out)
    only_view = torch.Tag.inplace_view in func.tags
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    return Call(name, full_name, {**defaults, **given, **kwargs}, outputs, written, targets, only_view)


# ---------------------------------------------------------------------------------------------------------------------
# A formula: an operator's class, its FLOP from a call, and the matrix products in it.

Count = Callable[[Call], float]


@dataclass(frozen=True, slots=True)
class Formula:
    """How operators of one name count: `flop` what they do beside their matrix products."""

    kind: str
    flop: Count
    matmuls: Callable[[Call], tuple[Matmul, ...]] = lambda call: ()


def nothing(call: Call) -> float:
    """No floating-point operation."""
    return 0.0


def table(kind: str, counts: dict[str, Count]) -> dict[str, Formula]:
    """Formulas of one kind, keyed by aten.NAME; a key may hold several names, separated by spaces."""
    return {f"aten.{name}": Formula(kind, count) for names, count in counts.items() for name in names.split()}


def free(kind: str, names: str) -> dict[str, Formula]:
    """Operators of one kind that count nothing, their names separated by spaces."""
    return table(kind, {names: nothing})


def numbered(name: str) -> str:
    """An operator's name for any number of dimensions: upsample_bilinearnd for upsample_bilinear2d."""
    return re.sub(r"\d(?=d)", "n", name)


def window(call: Call) -> int:
    """The elements of a pooling window; one size is that of all its sides, of which its name tells how many."""
    sizes, sides = call.args.get("kernel_size", (1,)), next((n for n in (1, 3) if f"{n}d" in call.name), 2)
    return int(math.prod(sizes) if len(sizes) > 1 else sizes[0] ** sides)
