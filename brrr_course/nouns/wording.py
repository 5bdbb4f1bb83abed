"""A claim's expressions and their values in words."""

import ast
import math
import re
from collections.abc import Callable
from typing import Any

from brrr.core import units
from brrr_course.nouns.expression import COLUMNS, Table, estimate, middle, read

SAID = {
    "min": "the least of", "max": "the largest of", "mean": "the mean of", "geomean": "the geometric mean of",
    "total": "the sum of", "best": "the best of", "fastest": "the fastest of", "last": "at the largest size:",
    "first": "at the smallest size:", "doubled": "what a doubling makes of", "keys": "the size of",
    "count": "how many of", "share": "the share of", "from_on": "the size from which on", "exact": "the median of",
    "sqrt": "the root of", "abs": "the amount of", "log2": "the logarithm of", "least": "from", "most": "up to",
    "sheet": "the datasheet's", "closed": "the share of the gap closed of",
}  # fmt: skip
SIGNS = {ast.Add: "plus", ast.Sub: "less", ast.Mult: "times", ast.Div: "over", ast.Mod: "modulo",
         ast.Pow: "to the power of",
         ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "=", ast.NotEq: "is not", ast.In: "in",
         ast.NotIn: "not in"}  # fmt: skip


def words(text: str) -> str:
    """An expression for a reader.

    >>> words("busy('compile-mul', repeat=32) / busy('compile-mul', repeat=1)")
    'busy_s of compile-mul (repeat 32) over busy_s of compile-mul (repeat 1)'
    """
    return _words(read(text))


def _words(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_inner(left)} {SIGNS[type(op)]} {_inner(right)}"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"{_words(left)} {SIGNS[type(op)]} {_words(right)}"
        case ast.Call(func=ast.Name(id="where"), args=[table, flags]):
            return f"{_inner(table)} where {_words(flags)}"
        case ast.Call(func=ast.Name(id="enough"), args=[table, fewest]):
            return f"{_inner(table)} at {_words(fewest)} points or more"
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            given = [f"{(each.arg or '').rstrip('_')} {_words(each.value)}" for each in keywords]
            behind = f" ({', '.join(given)})" if given else ""
            said = SAID.get(name, f"{COLUMNS.get(name, name.replace('_', ' '))} of")
            return f"{said} {', '.join(map(_words, args))}{behind}" if args else f"{said[:-3]}{behind}"
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return " or ".join(map(_words, elements))
        case ast.ListComp(elt=element, generators=generators):
            each = [f"{ast.unparse(one.target)} each of {_words(one.iter)}" for one in generators]
            return f"{_words(element)}, for {', '.join(each)}"
        case ast.JoinedStr(values=parts):
            return "".join(map(_words, parts))
        case ast.FormattedValue(value=inner):
            return f"<{ast.unparse(inner)}>"
    return ast.unparse(node)


def _inner(node: ast.expr) -> str:
    return f"({_words(node)})" if isinstance(node, ast.BinOp | ast.Compare) else _words(node)


def names_in(text: str) -> set[str]:
    """The names that an expression uses, those of functions too.

    >>> sorted(names_in("gain / max(told)"))
    ['gain', 'max', 'told']
    """
    return {node.id for node in ast.walk(read(text)) if isinstance(node, ast.Name)}


def told(value: Any, unit: str) -> str:
    """A value in its unit, a table by its ends.

    >>> from brrr.core.measurement import Estimate
    >>> told(Estimate(2.0, 1.9, 2.1, 9), "x"), told(0.25, "%"), told(3.0, "")
    ('2x (1.9x to 2.1x)', '25 %', '3')

    Beyond the whole a share has a digit more, so that it is not told as 100 %, which may be the bound. One sample has
    no range, however wide a claim takes it to be.

    >>> told(Estimate(0.92, 0.83, 1.01, 9), "%"), told(Estimate(0.92, 0.83, 1.01, 1), "%")
    ('92 % (83 % to 101 %)', '92 % (n=1, no interval)')
    """
    if isinstance(value, Table | list):
        return _told_table(value, unit)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    found = estimate(value)
    three = (found.median, found.low, found.high)
    median, low, high = (_number(each, unit, 2 if unit == "%" and each < 1 else 3) for each in three)
    if not found.has_interval:
        return f"{median} ({'n=1, ' * (found.n == 1)}no interval)"
    return median if found.low == found.high else f"{median} ({low} to {high})"


def _number(value: float, unit: str, digits: int = 3) -> str:
    if unit in ("x", "%"):
        return units.ratio(value, digits) if unit == "x" else units.percent(value, digits)
    if unit:
        return units.quantity(value, unit, digits)
    return f"{value:.{digits}g}" if abs(value) < 1e3 else f"{value:.12g}"


FEW = 4
"""So many values of a table are told each; of more the ends."""


def _told_table(table: Any, unit: str) -> str:
    axes = table.axes if isinstance(table, Table) and len(table.axes) > 1 else ("",)
    keyed = table.values if isinstance(table, Table) else {(str(at),): each for at, each in enumerate(table)}
    values = {" ".join(f"{axis} {at}".strip() for axis, at in zip(axes, key, strict=True)): each
              for key, each in keyed.items()}  # fmt: skip
    if len(values) <= FEW:
        return ", ".join(f"{told(each, unit)} at {key}" for key, each in values.items())
    low, high = (pick(values.items(), key=lambda item: middle(item[1])) for pick in (min, max))
    ends = [f"{_number(middle(end), unit)} at {key}" for key, end in (low, high)]
    return f"{ends[0]} to {ends[1]}, {len(values)} points"


def bounds_told(low: float, high: float, unit: str) -> str:
    """What is allowed.

    >>> bounds_told(0.9, 1.1, "x"), bounds_told(2, math.inf, "x"), bounds_told(0, 0.1, "%")
    ('0.9x to 1.1x', 'at least 2x', 'at most 10 %')
    """
    if low == high == 1:
        return "yes"
    if low == high:
        return _number(low, unit)
    if math.isinf(high):
        return f"at least {_number(low, unit)}"
    return f"at most {_number(high, unit)}" if low <= 0 else f"{_number(low, unit)} to {_number(high, unit)}"


def filled(template: str, value_of: Callable[[str], Any], unit: str) -> str:
    """A sentence with the values of its names: `{name}` in the claim's unit, `{name:s}` in another; `{name:}` plain."""

    def one(match: re.Match[str]) -> str:
        return told(value_of(match[1]), unit if match[2] is None else match[2])

    return re.sub(r"\{(\w+)(?::([^}]*))?\}", one, template)
