"""The line through torch, statement by statement: what a machine without a GPU shows in place of the kernel.

Only the functions and operators listed here are known; the results are right, the time says nothing of a kernel's.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from brrr.kernels.elementwise.parse import LineError, Node, hint, parse

Value = Any  # a tensor, or a Python number: an int is C's int, a float C's float


def _round(x: torch.Tensor) -> torch.Tensor:
    """C rounds a half away from zero, torch to the even number."""
    return torch.where(x.abs() < 2**23, x.sign() * (x.abs() + 0.5).floor(), x)


_ONE: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
        "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erf", "erfc", "floor", "ceil", "trunc",
    )},
    "fabs": torch.abs, "rint": torch.round, "round": _round,
}  # fmt: skip
_TWO: dict[str, Callable[..., torch.Tensor]] = {
    "atan2": torch.atan2, "pow": torch.pow, "fmax": torch.fmax, "fmin": torch.fmin, "fmod": torch.fmod,
    "hypot": torch.hypot, "copysign": torch.copysign,
}  # fmt: skip
_TABLE: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    **{name + end: (1, function) for name, function in _ONE.items() for end in ("f", "")},
    **{name + end: (2, function) for name, function in _TWO.items() for end in ("f", "")},
    **{f"__{name}f": (1, _ONE[name]) for name in ("sin", "cos", "tan", "exp", "log", "log2", "log10")},
    "max": (2, torch.fmax), "min": (2, torch.fmin), "abs": (1, torch.abs),
    "fmaf": (3, lambda a, b, c: a * b + c), "fma": (3, lambda a, b, c: a * b + c),
}  # fmt: skip
FUNCTIONS = tuple(_TABLE)
"""The functions that the emulation knows, and that are offered where a name is misspelt."""

_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


def emulate(line: str, output: str, inputs: Mapping[str, Value]) -> torch.Tensor:
    """The line's result, its arithmetic in float32 (float64 where an input is).

    >>> emulate("y = x > 0 ? x : 0", "y", {"x": torch.tensor([-1.0, 2.0])})
    tensor([0., 2.])
    """
    wide = any(isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in inputs.values())
    dtype = torch.float64 if wide else torch.float32
    names = {name: torch.as_tensor(value).to(dtype) for name, value in inputs.items()}
    look = _Look(line, names, dtype)
    for statement in parse(line):
        names[statement.target] = look.tensor(look.at(statement.value))
    return names[output]


class _Look:
    """Evaluates a tree; `names` holds what the statements before have made."""

    def __init__(self, line: str, names: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        self.line, self.names, self.dtype = line, names, dtype

    def at(self, node: Node) -> Value:
        """The value of a part of the expression."""
        return getattr(self, f"_{node.kind}")(node)

    def tensor(self, value: Value) -> torch.Tensor:
        """A value as a tensor of the arithmetic's type."""
        return torch.as_tensor(value).to(self.dtype)

    def _number(self, node: Node) -> Value:
        text = node.text.rstrip("fF")
        return int(text) if text.isdigit() and text == node.text else float(text)

    def _name(self, node: Node) -> Value:
        if node.text not in self.names:
            problem = f'name "{node.text}" is not known'
            raise LineError(self.line, problem, node.column, hint(problem, self.names))
        return self.names[node.text]

    def _call(self, node: Node) -> Value:
        if node.text not in _TABLE:
            problem = f'function "{node.text}" is not known to the emulation'
            raise LineError(self.line, problem, node.column, hint(problem, FUNCTIONS))
        count, function = _TABLE[node.text]
        if len(node.parts) != count:
            raise LineError(self.line, f"{node.text} takes {count} arguments, not {len(node.parts)}", node.column)
        return function(*(self.tensor(self.at(part)) for part in node.parts))

    def _unary(self, node: Node) -> Value:
        value = self.at(node.parts[0])
        if node.text == "!":
            return value == 0
        return -self._arithmetic(value) if node.text == "-" else value

    def _binary(self, node: Node) -> Value:
        left, right = (self.at(part) for part in node.parts)
        if node.text in _COMPARE:
            return _COMPARE[node.text](left, right)
        if node.text in ("&&", "||"):
            one, other = torch.as_tensor(left) != 0, torch.as_tensor(right) != 0
            return one & other if node.text == "&&" else one | other
        left, right = self._arithmetic(left), self._arithmetic(right)
        if node.text == "/":
            return self._divide(left, right, node)
        return left * right if node.text == "*" else left + right if node.text == "+" else left - right

    def _divide(self, left: Value, right: Value, node: Node) -> Value:
        if isinstance(left, int) and isinstance(right, int):
            if right == 0:
                raise LineError(self.line, "a whole number is divided by zero", node.column)
            return math.trunc(left / right)  # as in C: 1/2 is 0
        return self.tensor(left) / self.tensor(right)

    def _choice(self, node: Node) -> Value:
        condition, yes, no = (self.at(part) for part in node.parts)
        return torch.where(torch.as_tensor(condition) != 0, self.tensor(yes), self.tensor(no))

    def _arithmetic(self, value: Value) -> Value:
        """A comparison's result counts as 0 or 1, as in C."""
        if isinstance(value, bool):
            return int(value)
        return self.tensor(value) if isinstance(value, torch.Tensor) else value
