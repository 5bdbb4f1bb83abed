"""The line through torch, statement by statement: what a machine without a GPU shows in place of the kernel.

line       = statement { ";" statement }
statement  = [ "const" ] [ "float" | "double" | "auto" ] NAME "=" expression
expression = condition [ "?" expression ":" expression ]        with C's operators and their precedence

Only the functions and operators listed here are known, and nothing of the line is ever run as Python. The results are
right; the time says nothing of a kernel's.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from brrr.kernels.elementwise.parse import LineError

Value = Any  # a tensor, or a Python number: an int is C's int, a float C's float

_OF_TORCH = {
    1: ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
        "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erf", "erfc", "floor", "ceil", "trunc"),
    2: ("atan2", "pow", "fmax", "fmin", "fmod", "hypot", "copysign"),
}  # fmt: skip
_TABLE: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    **{name + end: (count, getattr(torch, name))
       for count, names in _OF_TORCH.items() for name in names for end in ("f", "")},
    **dict.fromkeys(("fabsf", "fabs"), (1, torch.abs)),
    **dict.fromkeys(("fmaf", "fma"), (3, lambda a, b, c: a * b + c)),
}  # fmt: skip
FUNCTIONS = tuple(_TABLE)
"""The functions that the emulation knows, and that are offered where a name is misspelt."""

_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_LEVELS = (("?",), ("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/"))
_LEVEL = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[A-Za-z_]\w*|<=|>=|==|!=|&&|\|\||[-+*/()<>!?:=,;]")


def emulate(line: str, output: str, inputs: Mapping[str, Value]) -> torch.Tensor:
    """The line's result, its arithmetic in float32 (float64 where an input is).

    >>> emulate("y = x > 0 ? x : 0", "y", {"x": torch.tensor([-1.0, 2.0])})
    tensor([0., 2.])
    """
    wide = any(isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in inputs.values())
    dtype = torch.float64 if wide else torch.float32
    names = {name: torch.as_tensor(value).to(dtype) for name, value in inputs.items()}
    try:
        _Reader(line, names, dtype).statements()
    except RecursionError:
        raise LineError(line, "more parts inside each other than the emulation takes") from None
    return names[output]


class _Reader:
    """Reads the line and computes as it goes; `names` holds what the statements before have made."""

    def __init__(self, line: str, names: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        self.line, self.names, self.dtype = line, names, dtype
        if other := _TOKEN.sub("", line).strip():
            raise LineError(line, f"{other[0]!r} cannot stand here")
        self.rest = [*_TOKEN.findall(line), ""]

    def statements(self) -> None:
        while self.rest[0]:
            while self.rest[0] in ("const", "float", "double", "auto"):
                self._take()
            if not self.rest[0].isidentifier() or self.rest[1] != "=":
                raise LineError(self.line, "the emulation understands only statements such as y = cosf(x)")
            target, _ = self._take(), self._take()
            self.names[target] = self._tensor(self._value())
            if self.rest[0]:
                self._expect(";")

    def _value(self, least: int = 0) -> Value:
        """What stands next, as far as its operators bind at least so closely."""
        left = self._operand()
        while (level := _LEVEL.get(self.rest[0], -1)) >= least:
            sign = self._take()
            if sign == "?":
                yes = self._tensor(self._value())
                self._expect(":")
                left = torch.where(_truth(left), yes, self._tensor(self._value()))
            else:
                left = self._binary(sign, left, self._value(level + 1))
        return left

    def _operand(self) -> Value:
        token = self._take()
        if token == "!":
            return self._operand() == 0
        if token in ("-", "+"):
            value = self._arithmetic(self._operand())
            return -value if token == "-" else value
        if token == "(":
            value = self._value()
            self._expect(")")
            return value
        if _NUMBER.fullmatch(token):
            return int(token) if token.isdigit() else float(token.rstrip("fF"))
        if not token.isidentifier():
            raise LineError(self.line, "a number, a name or a parenthesis was expected")
        if self.rest[0] == "(":
            return self._called(token)
        if token not in self.names:
            raise LineError(self.line, f'name "{token}" is not known', self.names)
        return self.names[token]

    def _called(self, name: str) -> torch.Tensor:
        if name not in _TABLE:
            raise LineError(self.line, f'function "{name}" is not known to the emulation', FUNCTIONS)
        arguments: list[torch.Tensor] = []
        while self._take() in ("(", ","):
            arguments.append(self._tensor(self._value()))
            if self.rest[0] not in (",", ")"):
                raise LineError(self.line, "')' was expected")
        count, function = _TABLE[name]
        if len(arguments) != count:
            raise LineError(self.line, f'"{name}" takes {count} arguments, not {len(arguments)}')
        return function(*arguments)

    def _binary(self, sign: str, left: Value, right: Value) -> Value:
        if sign in _COMPARE:
            return _COMPARE[sign](left, right)
        if sign in ("&&", "||"):
            return _truth(left) & _truth(right) if sign == "&&" else _truth(left) | _truth(right)
        left, right = self._arithmetic(left), self._arithmetic(right)
        if sign == "/":
            return self._divided(left, right)
        return left * right if sign == "*" else left + right if sign == "+" else left - right

    def _divided(self, left: Value, right: Value) -> Value:
        if isinstance(left, int) and isinstance(right, int):
            if right == 0:
                raise LineError(self.line, "a whole number is divided by zero")
            return math.trunc(left / right)  # as in C: 1/2 is 0
        return self._tensor(left) / self._tensor(right)

    def _arithmetic(self, value: Value) -> Value:
        """A comparison's result counts as 0 or 1, as in C."""
        return self._tensor(value) if isinstance(value, torch.Tensor) else +value

    def _tensor(self, value: Value) -> torch.Tensor:
        return torch.as_tensor(value).to(self.dtype)

    def _take(self) -> str:
        return self.rest.pop(0) if self.rest[0] else ""

    def _expect(self, text: str) -> None:
        if self.rest[0] != text:
            raise LineError(self.line, f"{text!r} was expected")
        self._take()


def _truth(value: Value) -> torch.Tensor:
    return torch.as_tensor(value) != 0
