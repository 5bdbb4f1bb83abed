"""The notation of docs/claims.md, "What decides a claim", read by Python's `ast` and computed by pandas.

It was written from that text alone: nothing of `brrr` is imported, and no line of it was looked at.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import pandas as pd

Names = Mapping[str, Any]


class Missing(Exception):
    """What a claim looks at is not in the recording."""


class Unreadable(Exception):
    """An expression that the notation does not have, or that makes no sense of what it names."""


# ---- values with an interval: numbers, and tables of them ----


def method(how: Callable[[Any, Any], Any], swapped: bool = False) -> Callable[[T, Any], T]:
    return lambda self, other: widest(how, other, self) if swapped else widest(how, self, other)


@dataclass(frozen=True, order=True)
class T:
    """A median with the ends of its interval; each a number, or a Series by the values of the open axes."""

    mid: Any
    low: Any
    high: Any

    __add__ = __radd__ = method(operator.add)
    __mul__ = __rmul__ = method(operator.mul)
    __sub__, __rsub__ = method(operator.sub), method(operator.sub, swapped=True)
    __truediv__, __rtruediv__ = method(operator.truediv), method(operator.truediv, swapped=True)

    ends = property(lambda self: (self.mid, self.low, self.high))
    is_table = property(lambda self: isinstance(self.mid, pd.Series))

    def at(self, index: pd.Index[Any]) -> T:
        return T(*(end.reindex(index) for end in self.ends))

    def points(self) -> dict[Any, T]:
        """Each point with its value."""
        return {key: T(*row) for key, row in zip(self.mid.index, zip(*self.ends, strict=True), strict=True)}


def exact(value: Any) -> T:
    """A number, a name, or what is true or not, as a value without an interval; a dict of values as a table."""
    if isinstance(value, dict):
        return stacked({key: exact(each) for key, each in value.items()})
    return value if isinstance(value, T) else T(value, value, value)


def together(*values: Any) -> list[T]:
    """Tables at the points that all have; numbers as they are."""
    found = [exact(value) for value in values]
    indices = [t.mid.index for t in found if t.is_table]
    if len({index.nlevels for index in indices}) > 1:
        raise Unreadable("tables of the same open axes")
    common: Any = reduce(lambda all_have, index: all_have[all_have.isin(index)], indices) if indices else ()
    if indices and not len(common):
        raise Missing("no point that all have")
    return [t.at(common) if t.is_table else t for t in found]


def widest(how: Callable[[Any, Any], Any], one: Any, other: Any) -> T:
    """What is computed, with the widest interval that both allow; a quotient by what may be zero has no end."""
    a, b = (T(*(np.float64(1) * end for end in t.ends)) for t in together(one, other))
    with np.errstate(all="ignore"):
        corners = [how(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        if how is operator.truediv:
            corners.append(np.where((b.low <= 0) & (b.high > 0), math.inf, math.nan))
            corners.append(np.where((b.low < 0) & (b.high >= 0), -math.inf, math.nan))
        return T(how(a.mid, b.mid), reduce(np.fmin, corners), reduce(np.fmax, corners))


def stacked(values: Mapping[Any, T]) -> T:
    """A table from each key, which may be a tuple, to its value, or on to the points of its table."""
    if len({t.is_table for t in values.values()}) > 1:
        raise Unreadable("all numbers or all tables in a list")
    joined = pd.concat if any(t.is_table for t in values.values()) else pd.Series
    return T(*(joined({key: t.ends[i] for key, t in values.items()}) for i in range(3)))


# ---- functions of tables ----


def gathered(values: Sequence[Any]) -> T:
    """A table as it is, several numbers as a table, several tables side by side at the points that all have."""
    found = together(*values)
    if not any(t.is_table for t in found):
        return stacked(dict(enumerate(found)))
    if len(found) == 1:
        return found[0]
    index = next(t.mid.index for t in found if t.is_table)
    return T(*(pd.DataFrame({n: t.ends[i] for n, t in enumerate(found)}, index) for i in range(3)))


def reduced(how: Callable[[Any, int], Any]) -> Callable[..., T]:
    """Of the medians and of each end on its own."""
    return lambda *values: (lambda t: T(*(how(end, end.ndim - 1) for end in t.ends)))(gathered(values))


def picked(t: T, places: Any) -> T:
    """The value at a place of a table; of tables side by side, in each row."""
    if t.is_table:
        return T(*(end.iloc[places] for end in t.ends))
    return T(*(pd.Series(end.to_numpy()[np.arange(len(end)), places], end.index) for end in t.ends))


def best(*values: Any) -> T:
    t = gathered(values)
    return picked(t, t.mid.to_numpy().argmax(axis=-1))


def fastest(*found: T | None, needed: int | None = None) -> T:
    """The value with the least median of those that are there (None is not), where the first `needed` are."""
    there, first = {n: t for n, t in enumerate(found) if t}, found[:needed]
    if None in first or not there:
        raise Missing("one of the variants to compare")
    if not any(t.is_table for t in there.values()):
        return min(there.values())
    side = T(*(pd.concat({n: t.ends[i] for n, t in there.items()}, axis=1).sort_index() for i in range(3)))
    side = T(*(end[side.mid.iloc[:, : len(first)].notna().all(axis=1)] for end in side.ends))
    if side.mid.empty:
        raise Missing("no point that the first variants have")
    return picked(side, side.mid.fillna(math.inf).to_numpy().argmin(axis=1))


def one_axis(value: Any) -> T:
    if not exact(value).is_table or value.mid.index.nlevels > 1:
        raise Unreadable("a table with one open axis")
    return exact(value)


def at_end(place: int, *values: Any, from_: float = -math.inf) -> T:
    t = one_axis(gathered(values))
    if from_ > -math.inf and t.mid.index[place] < from_:
        raise Missing(f"no point from {from_} on")
    return picked(t, place)


def doubled(t: T) -> T:
    index = one_axis(t).mid.index
    index = index[(2 * index).isin(index)]
    return T(*(end.reindex(2 * index).set_axis(index) for end in t.ends)) / t.at(index)


def where(t: T, flags: T) -> T:
    table, true = together(t, flags)
    return table.at(table.mid.index[true.mid])


def count(*values: Any) -> int:
    found = values[0].mid if len(values) == 1 and exact(values[0]).is_table else gathered(values).mid
    return int(found.sum()) if found.dtype == bool else len(found)


def from_on(flags: T, otherwise: Any = None) -> Any:
    true = one_axis(flags).mid.sort_index(ascending=False).astype(int).cumprod()
    if not true.any():
        if otherwise is not None:
            return otherwise
        raise Missing("no value from which on all are true")
    return min(true.index[true == 1])


def closed(slow: T, here: T, fast: T) -> T:
    """How much of the way from slow to fast: more with a slower start, and with a quicker end of either."""
    if not fast.high < slow.low:
        return exact(0.0)
    part = [(s - h) / (s - f) for s, h, f in zip(slow.ends, (here.mid, here.high, here.low), fast.ends, strict=True)]
    return T(part[0], min(part[:2]), max(part[0], part[2]))


def enough(t: T, fewest: Any) -> T:
    if len(t.mid) < int(exact(fewest).mid):
        raise Missing(f"{fewest} points")
    return t


def absolute(value: Any) -> T:
    t = exact(value)
    return T(np.abs(t.mid), np.fmax(0, np.fmax(t.low, -t.high)), np.fmax(t.high, -t.low))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": reduced(lambda ends, axis: ends.min(axis=axis)),
    "max": reduced(lambda ends, axis: ends.max(axis=axis)),
    "mean": reduced(lambda ends, axis: ends.mean(axis=axis)),
    "geomean": reduced(lambda ends, axis: np.exp(np.log(ends).mean(axis=axis))),
    "total": reduced(lambda ends, axis: ends.sum(axis=axis)),
    "first": lambda *values: at_end(0, *values),
    "last": lambda *values, **options: at_end(-1, *values, **options),
    "keys": lambda t: exact(pd.Series(one_axis(t).mid.index, t.mid.index)),
    "share": lambda *flags: count(*flags) / len(gathered(flags).mid),
    "exact": lambda value: exact(exact(value).mid),
    "sqrt": lambda value: T(*map(np.sqrt, exact(value).ends)),
    "log2": lambda value: T(*map(np.log2, exact(value).ends)),
    "abs": absolute, "best": best, "doubled": doubled, "where": where, "count": count, "from_on": from_on,
    "closed": closed,
    "enough": enough, "range": lambda *ends: stacked({n: exact(n) for n in range(*(int(exact(e).mid) for e in ends))}),
}  # fmt: skip


# ---- the reader ----

ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow, ast.Mod: operator.mod}  # fmt: skip
COMPARED: dict[type[ast.cmpop], Callable[[T, T], Any]] = {
    ast.Gt: lambda a, b: a.low > b.high, ast.GtE: lambda a, b: a.low >= b.high, ast.Lt: lambda a, b: a.high < b.low,
    ast.LtE: lambda a, b: a.high <= b.low, ast.Eq: lambda a, b: a.mid == b.mid, ast.NotEq: lambda a, b: a.mid != b.mid,
    ast.In: lambda a, b: among(a.mid, b.mid), ast.NotIn: lambda a, b: np.logical_not(among(a.mid, b.mid)),
}  # fmt: skip
FIELDS = {**{name: f"{name}_s" for name in ("host", "kernel", "busy", "span", "period", "latency")},
          **{name: name for name in ("flop", "bytes", "kernels", "error", "peak_bytes", "flags")},
          "sm_clock": "sm_clock_hz", "power": "power_w"}  # fmt: skip


def among(name: str, flags: Any) -> Any:
    """Whether a flag is one of some, which stand in a text with a semicolon between them."""
    return flags.map(lambda text: name in text.split(";")) if isinstance(flags, pd.Series) else name in flags.split(";")


def compared(sign: ast.cmpop, one: Any, other: Any) -> T:
    a, b = together(one, other)
    if type(sign) not in COMPARED:
        raise Unreadable("one of > < >= <= == != in not in")
    if isinstance(sign, ast.Eq | ast.NotEq) and not all(np.all(t.low == t.high) for t in (a, b)):
        raise Unreadable("names or exact numbers beside == and !=")
    return exact(COMPARED[type(sign)](a, b))


class Reader:
    """The expressions of one claim; the experiment's functions take the recording before their arguments.

    A recording has `table(field, variant, point)`, `has(variant, point)` and a datasheet's `figure(device, name)`.
    """

    def __init__(self, claim: Names, recording: Any, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.claim, self.recording, self.functions, self.place = claim, recording, functions, "at"
        self.names: dict[str, Any] = {"inf": math.inf}
        self.at = {axis: self.allowed(value, self.names) for axis, value in claim.get("at", {}).items()}
        for name, text in claim.get("let", {}).items():
            try:
                self.names[name] = self.read(text, f"let.{name}")
            except Missing as missing:  # raised where something uses it
                self.names[name] = missing

    def fail(self, expected: object, node: ast.expr) -> NoReturn:
        source = f"column {node.col_offset}: expected {expected}, in `{ast.unparse(node)}`"
        raise Unreadable(f"{self.claim['id']}: {self.place}, {source}")

    def read(self, text: str | float, place: str) -> Any:
        """A number, name or table; `text` may be the number itself."""
        self.place = place
        if not isinstance(text, str):
            return text
        try:
            tree = ast.parse(f"({text})", mode="eval")  # brackets: it may go on in the next line
        except SyntaxError as error:
            where = f"{self.claim['id']}: {place}"
            raise Unreadable(f"{where}: expected an expression, not `{text}`: {error.msg}") from None
        return self.value(tree.body, self.names)

    def values(self) -> list[T]:
        texts = self.claim["value"]
        texts = {"value": texts} if isinstance(texts, str) else {f"value {n}": text for n, text in enumerate(texts, 1)}
        return [exact(self.read(text, place)) for place, text in texts.items()]

    def value(self, node: ast.expr, names: Names) -> Any:
        try:
            return self.computed(node, names)
        except (Unreadable, TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, Unreadable) and str(error).startswith(f"{self.claim['id']}: "):
                raise  # from further in
            self.fail(error if isinstance(error, Unreadable) else f"what can be computed ({error!r})", node)

    def computed(self, node: ast.expr, names: Names) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as value):
                return value
            case ast.Name(id=name) if name in names:
                if isinstance(names[name], Missing):
                    raise names[name]
                return names[name]
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, names)) for part in parts)
            case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
                return self.number(inner, names)
            case ast.BinOp(op=sign) if type(sign) in ARITHMETIC:
                return widest(ARITHMETIC[type(sign)], self.value(node.left, names), self.value(node.right, names))
            case ast.UnaryOp(op=ast.USub()):
                return widest(operator.sub, 0, self.value(node.operand, names))
            case ast.UnaryOp(op=ast.Not()):
                return exact(np.logical_not(self.true(node.operand, names).mid))
            case ast.BoolOp():
                return self.decided(node, names)
            case ast.Compare(left=first, ops=signs, comparators=others):
                sides = [self.value(each, names) for each in (first, *others)]
                found = [compared(*of) for of in zip(signs, sides, sides[1:], strict=False)]
                return reduce(lambda one, other: exact(operator.and_(*(t.mid for t in together(one, other)))), found)
            case ast.ListComp():
                return self.comprehension(node, names)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return stacked({n: exact(self.value(each, names)) for n, each in enumerate(elements)})
            case ast.Subscript(value=inner, slice=point):
                return self.at_point(exact(self.value(inner, names)), self.number(point, names), node)
            case ast.Call(func=ast.Name(id=name)) if name in FIELDS or name == "has":
                return self.recorded(name, node, names)
            case ast.Call(func=ast.Name(id=name)):
                return self.called(name, node, names)
        return self.fail("what the notation has", node)

    def number(self, node: ast.expr, names: Names) -> Any:
        """A name or an exact number, whole where it can be; of a tuple, each."""
        if isinstance(node, ast.Tuple):
            return tuple(self.number(each, names) for each in node.elts)
        t = exact(self.value(node, names))
        if t.is_table or t.low != t.high:
            self.fail("a name or an exact number", node)
        return t.mid if isinstance(t.mid, str) else int(t.mid) if float(t.mid).is_integer() else float(t.mid)

    def true(self, node: ast.expr, names: Names) -> T:
        t = exact(self.value(node, names))
        return t if np.asarray(t.mid).dtype == bool else self.fail("what is true or not", node)

    def decided(self, node: ast.BoolOp, names: Names) -> T:
        """By `and` or `or`: the rest stays unread behind what decides alone."""
        both = isinstance(node.op, ast.And)
        found = self.true(node.values[0], names)
        for each in node.values[1:]:
            if found.is_table or bool(found.mid) == both:
                one, other = (t.mid for t in together(found, self.true(each, names)))
                found = exact(one & other if both else one | other)
        return found

    def at_point(self, t: T, key: Any, node: ast.expr) -> T:
        if not t.is_table or t.mid.index.nlevels != (len(key) if isinstance(key, tuple) else 1):
            self.fail("a table, and a value for each of its open axes", node)
        if key not in t.mid.index:
            raise Missing(ast.unparse(node))
        return T(*(end[key] for end in t.ends))

    def comprehension(self, node: ast.ListComp, names: Names) -> T:
        """Through lists, or the values of a table, one in the other."""
        found: list[tuple[tuple[Any, ...], Names]] = [((), names)]
        for loop in node.generators:
            targets = [ast.unparse(each) for each in getattr(loop.target, "elts", [loop.target])]
            further = []
            for key, outer in found:
                for item in self.listed(loop.iter, outer) or self.fail("a list or a table to go through", loop.iter):
                    row = item if isinstance(item, tuple) else (item,)
                    further.append(((*key, *row), {**outer, **dict(zip(targets, row, strict=True))}))
            found = [(key, inner) for key, inner in further if all(self.true(test, inner).mid for test in loop.ifs)]
        return stacked({key if len(key) > 1 else key[0]: exact(self.value(node.elt, inner)) for key, inner in found})

    def listed(self, node: ast.expr, names: Names) -> tuple[Any, ...]:
        """The names and numbers of a list, or of a table; nothing for a value."""
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(self.number(each, names) for each in node.elts)
        t = exact(self.value(node, names))
        return tuple(t.mid) if t.is_table else ()

    def allowed(self, value: Any, names: Names) -> Any:
        """What an axis may be by a keyword or `at`: one value, one of a tuple, or what passes a test."""
        if isinstance(value, str) and value.startswith(("least(", "most(")):
            value = ast.parse(value, mode="eval").body
        match value:
            case ast.Call(func=ast.Name(id="least" | "most" as name), args=[bound], keywords=[]):
                end = self.number(bound, names)
                return lambda here: here >= end if name == "least" else here <= end
            case ast.expr():
                return self.listed(value, names) or self.number(value, names)
        return tuple(value) if isinstance(value, list) else value

    def recorded(self, name: str, node: ast.Call, names: Names) -> Any:
        variant = self.number(node.args[0], names) if len(node.args) == 1 else None
        if not isinstance(variant, str):
            self.fail("a variant's name, then its point by keywords", node)
        point = {**self.at, **{str(each.arg): self.allowed(each.value, names) for each in node.keywords}}
        if name == "has":
            return self.recording.has(variant, point)
        return self.recording.table(FIELDS[name], variant, point)

    def called(self, name: str, node: ast.Call, names: Names) -> Any:
        given = {str(each.arg): each.value for each in node.keywords}
        options: dict[str, Any] = {
            key: self.listed(each, names) if isinstance(each, ast.Tuple | ast.List) else self.value(each, names)
            for key, each in given.items()
        }
        if name == "fastest":
            return fastest(*self.there(node.args, names), **options)
        args = [self.value(each, names) for each in node.args]
        if name == "sheet":
            return self.recording.figure(*args, **options)
        if name in FUNCTIONS:
            return FUNCTIONS[name](*args, **options)
        if name not in self.functions:
            self.fail("a function of the notation or of the experiment", node)
        found = self.functions[name](self.recording, *args, **options)
        return exact(found) if isinstance(found, dict) else found

    def there(self, nodes: Sequence[ast.expr], names: Names) -> list[T | None]:
        """Values to compare, None for what is not in the recording; a list's, if that is all."""
        found: list[T | None] = []
        for node in nodes:
            try:
                found.append(exact(self.value(node, names)))
            except Missing:
                found.append(None)
        if len(found) == 1 and found[0] and found[0].is_table:
            keys = found[0].mid.index.unique(0)
            return [T(*(end[key] for end in found[0].ends)) for key in keys]
        return found
