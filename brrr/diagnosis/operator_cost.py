"""What an operator of a trace costs: it is called again on tensors of which only the description exists.

>>> from brrr.tracing.events import Inputs
>>> called = Inputs(((2, 3), (3, 4)), ((3, 1), (4, 1)), ("float", "float"), ("", ""))
>>> found = cost_of("aten::mm", called)
>>> found.flop, found.bytes
(48.0, 104)

A trace tells sizes, strides, types and numbers of the arguments where it was recorded with record_shapes=True.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from brrr.core.heavy import torch
from brrr.counting.cost import ITEMSIZE, OperatorCost
from brrr.tracing.events import Inputs

TYPES: Mapping[str, str] = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "long int": "int64", "long": "int64", "int": "int32", "short int": "int16", "signed char": "int8",
    "unsigned char": "uint8", "bool": "bool", "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
}  # fmt: skip
"""torch's names of types, by the profiler's."""
LIST_TYPE = "float32"
"""Of the tensors of a list the profiler tells no type."""


GENERATED = ("triton_poi_", "triton_red_", "triton_per_")
"""How torch.compile names the elementwise kernels and the reductions that it makes; products have other names."""
COMPOSITE = ("autograd::", "torch::", "profiler::")
"""What begins so is no operator with work of its own."""
COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph", "CompiledFunction")
"""How torch.compile names its regions; what it made for a CPU runs in them unseen."""


@lru_cache(maxsize=65536)
def cost_of(name: str, inputs: Inputs) -> OperatorCost | None:
    """The cost of one call of an operator ("aten::mm"), None where the trace does not tell enough to call it again.

    An operator that is made of others, as `aten::linear`, has none of its own: its parts are in the trace too.
    """
    from brrr.counting.mode import CostMode

    if name.startswith(GENERATED):
        return _generated(name, inputs)
    for overload in _overloads(name, len(inputs.sizes)):
        try:
            args, kwargs = _arguments(overload._schema, inputs)
            with CostMode() as counting:
                overload(*args, **kwargs)
        except Exception:  # another overload's arguments, or an operator that cannot be described
            continue
        if len(counting.operators) == 1:
            found: OperatorCost = counting.operators[0]
            return found
    return None


@lru_cache(maxsize=65536)
def kind_of(name: str) -> str:
    """The kind of an operator by its name alone, as a trace without sizes has it; "unknown" for what nobody counts.

    What only calls others, as `linear` or a node of autograd's graph, is "composed".

    >>> kind_of("aten::index_add_"), kind_of("aten::select"), kind_of("aten::linear"), kind_of("mylib::attention")
    ('index', 'view', 'composed', 'unknown')
    """
    from brrr.counting.conventions import formulas

    library, _, short = name.partition("::")
    names = [short, short.rstrip("_")]
    for each in names if library == "aten" else []:
        if (formula := formulas().get(f"aten.{each}")) is not None:
            return formula.kind
        packet = getattr(torch.ops.aten, each, None)
        forms = [getattr(packet, form)._schema for form in packet.overloads()] if packet is not None else []
        if any(
            found.alias_info is not None and not found.alias_info.is_write for form in forms for found in form.returns
        ):
            return "view"
    composed = name in _composed() or name.startswith(COMPOSITE) or not (short or name.startswith(COMPILED))
    return "composed" if composed else "unknown"


@cache
def _composed() -> frozenset[str]:
    """The operators that only call others."""
    named: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return frozenset(each.partition(".")[0] for each in named)


def _generated(name: str, inputs: Inputs) -> OperatorCost | None:
    """A kernel that torch.compile made: what it takes and what it writes, once each. Its arithmetic is not told."""
    described = zip(inputs.sizes, inputs.types, strict=True)
    tensors = [(size, TYPES[kind]) for size, kind in described if kind in TYPES and size]
    if not tensors:
        return None
    nbytes = [float(math.prod(size) * ITEMSIZE[dtype]) for size, dtype in tensors]
    dtype = max(tensors, key=lambda each: math.prod(each[0]))[1]
    shapes = tuple(size for size, _ in tensors)
    return OperatorCost(name, 0.0, sum(nbytes[:-1]), nbytes[-1], dtype, shapes, "fused")


def _overloads(name: str, count: int) -> Iterator[Any]:
    """The operator's forms with so many arguments; those that write into a result given come last."""
    library, _, short = name.partition("::")
    if name.startswith(COMPOSITE) or not short.isidentifier():
        return
    packet = getattr(getattr(torch.ops, library), short, None)
    names = packet.overloads() if packet is not None else []
    made = [getattr(packet, each) for each in sorted(names, key=lambda each: "out" in each)]
    usable = (each for each in made if torch._C._dispatch_has_kernel(each.name()))  # TorchScript's own take lists
    yield from (each for each in usable if len(each._schema.arguments) == count)


def _arguments(schema: Any, inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the schema has them; what the trace leaves empty is left out, or None."""
    args, kwargs = [], {}
    for place, argument in enumerate(schema.arguments):
        known = inputs.sizes[place], inputs.strides[place], inputs.types[place], inputs.numbers[place]
        value = _value(argument, *known)
        if argument.kwarg_only and argument.name == "device":
            kwargs["device"] = "meta"  # what makes a tensor makes a description
        elif argument.kwarg_only:
            if value is not None and argument.name in ("dtype", "alpha", "beta", "value"):
                kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _value(argument: Any, sizes: Any, strides: Any, kind: str, number: Any) -> Any:
    if kind in TYPES and (sizes or number == ""):
        return _tensor(sizes, strides, TYPES[kind])
    if kind == "TensorList":
        return [_tensor(*each, LIST_TYPE) for each in zip(sizes, strides, strict=True)]
    if number == "" or number is None:
        return None
    found = ast.literal_eval(number) if isinstance(number, str) else number
    if "ScalarType" in str(getattr(argument, "real_type", "")):
        return next(each for each in map(torch.__dict__.get, TYPES.values()) if _CODES.get(str(each)) == found)
    return found


_CODES: Mapping[str, int] = {
    "torch.uint8": 0, "torch.int8": 1, "torch.int16": 2, "torch.int32": 3, "torch.int64": 4, "torch.float16": 5,
    "torch.float32": 6, "torch.float64": 7, "torch.complex64": 9, "torch.complex128": 10, "torch.bool": 11,
    "torch.bfloat16": 15,
}  # fmt: skip
"""The numbers that the dispatcher has for types."""


def _tensor(sizes: Any, strides: Any, dtype: str) -> Any:
    return torch.empty_strided(tuple(sizes), tuple(strides), dtype=getattr(torch, dtype), device="meta")
