"""What decides a claim: an expression over measured values, as docs/claims_notation.md describes it, read and computed.

Read by Python's `ast` from a list of what is allowed; nothing is run by `eval`.
"""

import ast
import functools
import math
import operator
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value

Key = tuple[Value, ...]
COLUMNS = {
    **{name: f"{name}_s" for name in ("host", "kernel", "busy", "span", "period", "latency")},
    **{name: name for name in ("flop", "bytes", "kernels", "error", "peak_bytes", "flags")},
    "power": "power_w", "clock": "sm_clock_hz",
}  # fmt: skip
"""From what an expression calls a measured value to its name in a recording."""


class ExpressionError(ValueError):
    """An expression that cannot be read or computed; says where, and what was expected."""


@dataclass(frozen=True)
class Table:
    """Values by the open axes: from a point's values on these axes to what was measured or computed there."""

    axes: tuple[str, ...]
    values: Mapping[Key, Any]
    queue: bool = False
    """Whether it was read from the CPU queue, for want of a GPU."""

    def listed(self) -> list[Any]:
        """The values; NotRecordedError where there is none."""
        if not self.values:
            raise NotRecordedError("no point of it was measured")
        return list(self.values.values())


class Measured(Protocol):
    """Where an expression's values come from: `Evidence`."""

    @property
    def experiment(self) -> Any:
        """The experiment that variants and axes belong to."""

    def table(self, variant: str, column: str, at: Mapping[str, Any], alone: bool = False) -> Table:
        """A column of a variant, `alone` without what stands in for it, by the axes that `at` leaves open."""

    def sheet(self, *names: str) -> float:
        """A figure of a datasheet: that of the measured device, where no other is named before it."""

    def traced(self, variant: str, figure: str, **at: Value) -> float:
        """A figure of a variant's timeline, at the first traced point that lies there."""


@dataclass
class Scope:
    """What an expression is computed with: the evidence, where it looks unless told otherwise, names, and functions."""

    evidence: Measured | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    let: Mapping[str, str] = field(default_factory=dict)
    """Expressions by name, each computed when it is first asked for."""
    alone: bool = False
    """Whether nothing stands in for a variant that was not measured."""
    queued: list[str] = field(default_factory=list)
    """Variants that were read from the CPU queue."""
    known: dict[str, Any] = field(default_factory=dict)
    """What was computed of `let`."""

    def column(self, name: str, variant: str, **at: Any) -> Any:
        """A table, or a single value where no axis is open."""
        found = self._measured.table(variant, COLUMNS[name], {**self.at, **at}, self.alone)
        self.queued += [variant] if found.queue else []
        if found.axes:
            return found
        if () not in found.values:
            where = ", ".join(f"{axis} {value}" for axis, value in {**self.at, **at}.items())
            raise NotRecordedError(f"{variant} at {where} was not measured")
        return found.values[()]

    @property
    def _measured(self) -> Measured:
        if self.evidence is None:
            raise ExpressionError("nothing measured is known here; expected numbers alone")
        return self.evidence

    def has(self, variant: str, **at: Any) -> bool:
        """Whether any such point was measured."""
        where = {**self.at, **at}
        return any(self._measured.table(variant, column, where, self.alone).values for column in COLUMNS.values())

    def name(self, name: str) -> Any:
        """The value of a name."""
        if name in self.names:
            return self.names[name]
        if name not in self.let:
            raise ExpressionError(f"{name} has no value; let.{name} gives it one")
        if name not in self.known:
            self.known[name] = compute(self.let[name], replace(self, names={}))
        return self.known[name]

    def function(self, name: str) -> Callable[..., Any]:
        """What a name in an expression calls."""
        if name in COLUMNS:
            return functools.partial(self.column, name)
        if name == "has":
            return self.has
        if name in ("sheet", "traced"):
            return getattr(self._measured, name)  # type: ignore[no-any-return]
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name in self.functions:
            return functools.partial(self.functions[name], self.evidence)
        known = ", ".join(sorted({*COLUMNS, *FUNCTIONS, *self.functions, "has", "sheet", "traced"}))
        raise ExpressionError(f"{name} is no function; expected one of {known}")


def read(text: str) -> ast.expr:
    """The expression of a text; ExpressionError where it is none, or has what is not allowed."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"column {error.offset}: {error.msg}; expected an expression") from error


def compute(text: str, scope: Scope) -> Any:
    """The value of an expression.

    >>> compute("1 / 2 + max([1, 3])", Scope()).median
    3.5
    """
    return _value(read(text), scope)


OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub, ast.Mod: operator.mod, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Add: lambda a, b: a - (0 - b),
    ast.Pow: lambda a, b: _ends(lambda end: end**b, a) if isinstance(a, Estimate) else a**b,
    ast.Gt: lambda a, b: _low(a) > _high(b), ast.GtE: lambda a, b: _low(a) >= _high(b),
    ast.Lt: lambda a, b: _high(a) < _low(b), ast.LtE: lambda a, b: _high(a) <= _low(b),
    ast.Eq: lambda a, b: middle(a) == middle(b), ast.NotEq: lambda a, b: middle(a) != middle(b),
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.And: lambda a, b: bool(a) and bool(b), ast.Or: lambda a, b: bool(a) or bool(b),
}  # fmt: skip


def _value(node: ast.expr, scope: Scope) -> Any:
    value = functools.partial(_value, scope=scope)
    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name):
            return scope.name(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return pointwise(OPERATORS[type(op)], value(left), value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return pointwise(operator.sub, 0, value(operand))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return pointwise(operator.not_, value(operand))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            return pointwise(OPERATORS[type(op)], value(left), value(right))
        case ast.BoolOp(op=op, values=values):
            return functools.reduce(functools.partial(pointwise, OPERATORS[type(op)]), map(value, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = {each.arg: value(each.value) for each in keywords if each.arg}
            if name == "fastest":
                return fastest(*(_there(each, scope) for each in args), **named)
            return scope.function(name)(*map(value, args), **named)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [value(each) for each in elements]
        case ast.ListComp(elt=element, generators=generators):
            names = [each.id for one in generators for each in ast.walk(one.target) if isinstance(each, ast.Name)]
            return Table(tuple(names), dict(_listed(element, generators, (), scope)))
        case ast.JoinedStr(values=parts):
            return "".join(str(value(each)) for each in parts)
        case ast.FormattedValue(value=inner):
            return value(inner)
        case ast.Subscript(value=table, slice=index):
            return _at(value(table), value(index))
    raise ExpressionError(f"column {node.col_offset + 1}: {ast.unparse(node)} is not allowed in a claim")


def _there(node: ast.expr, scope: Scope) -> Any:
    """A value; a table without points where it was not measured."""
    try:
        return _value(node, scope)
    except NotRecordedError:
        return Table((), {})


def _listed(
    element: ast.expr, generators: Sequence[ast.comprehension], key: Key, scope: Scope
) -> Iterable[tuple[Key, Any]]:
    """A list comprehension: from each item, or each combination of items, to the value."""
    if not generators:
        yield key, _value(element, scope)
        return
    first, *rest = generators
    names = [each.id for each in ast.walk(first.target) if isinstance(each, ast.Name)]
    over = _value(first.iter, scope)
    for item in over.listed() if isinstance(over, Table) else over:
        items = tuple(item) if isinstance(item, list) else (item,)
        inner = replace(scope, names={**scope.names, **dict(zip(names, items, strict=True))})
        if all(_value(each, inner) for each in first.ifs):
            yield from _listed(element, rest, (*key, *items), inner)


def flat(value: Any) -> list[Any]:
    """A value, or all of a table's or a list's, of those within them too."""
    if isinstance(value, Table | list):
        return [one for each in (value.values.values() if isinstance(value, Table) else value) for one in flat(each)]
    return [value]


def _items(value: Any) -> list[Any]:
    """All values of a table or a list; NotRecordedError where there is none."""
    found = flat(value)
    if not found:
        raise NotRecordedError("no point of it was measured")
    return found


def _at(table: Any, index: Any) -> Any:
    key = tuple(index) if isinstance(index, list) else (index,)
    if not isinstance(table, Table):
        raise ExpressionError(f"[{index}] stands behind a value without open axes; expected a table")
    if key not in table.values:
        raise NotRecordedError(f"{', '.join(map(str, key))} was not measured")
    return table.values[key]


def pointwise(call: Callable[..., Any], *args: Any) -> Any:
    """A function of several values; of tables it is taken at the points that all have."""
    tables = [each for each in args if isinstance(each, Table)]
    if not tables:
        return call(*args)
    first, *others = tables
    if unlike := next((each for each in others if each.axes != first.axes), None):
        mine, theirs = ("nothing" if not each.axes else ", ".join(each.axes) for each in (first, unlike))
        raise ExpressionError(f"a table over {mine} meets one over {theirs}; expected the same open axes")
    keys = [key for key in first.values if all(key in each.values for each in others)]
    at = [[each.values[key] if isinstance(each, Table) else each for each in args] for key in keys]
    return Table(first.axes, {key: pointwise(call, *given) for key, given in zip(keys, at, strict=True)})


# ---- functions ----


def estimate(value: Any) -> Estimate:
    """A number as an estimate without an interval; what is true counts 1."""
    return value if isinstance(value, Estimate) else Estimate(*(float(value),) * 3, n=sys.maxsize)


def middle(value: Any) -> Any:
    """The median of an estimate, any other value as it is."""
    return value.median if isinstance(value, Estimate) else value


def _low(value: Any) -> float:
    return estimate(value).low


def _high(value: Any) -> float:
    return estimate(value).high


def _ends(call: Callable[..., float], *values: Any) -> Estimate:
    """A function of the medians and of each end on its own."""
    given = [estimate(each) for each in values]
    median, *ends = (call(*(getattr(e, end) for e in given)) for end in ("median", "low", "high"))
    return Estimate(median, min(ends), max(ends), min(e.n for e in given))


def _over(call: Callable[[Sequence[float]], float]) -> Callable[..., Any]:
    """A statistic of one table or list, or of several values point by point."""

    def reduced(*args: Any) -> Any:
        if len(args) > 1:
            return pointwise(reduced_values, *args)
        return reduced_values(*_items(args[0]))

    def reduced_values(*values: Any) -> Estimate:
        return _ends(lambda *ends: call(ends), *values)

    return reduced


def fastest(*tables: Any, needed: int | None = None) -> Any:
    """Point by point the value with the least median; of the first `needed` tables each must have the point."""
    if len(tables) == 1:  # a list of tables
        tables = tuple(tables[0].values.values() if isinstance(tables[0], Table) else tables[0])
    tables = tuple(each if isinstance(each, Table) else Table((), {(): each}) for each in tables)
    must = tables if needed is None else tables[:needed]
    found: dict[Key, Estimate] = {}
    for key in dict.fromkeys(key for table in tables for key in table.values):
        if all(key in table.values for table in must):
            found[key] = min(estimate(table.values[key]) for table in tables if key in table.values)
    if not found:
        raise NotRecordedError("not all of what is compared was measured")
    axes = next(table.axes for table in tables if table.values)
    return Table(axes, found) if axes else found[()]


def _ordered(table: Any) -> list[tuple[Any, Any]]:
    """A table's or list's values from small to large on its one open axis; a list keeps its order."""
    if isinstance(table, list):
        return list(enumerate(table))
    if len(table.axes) != 1:
        raise ExpressionError(f"a table over {', '.join(table.axes) or 'nothing'}; expected one open axis")
    if not table.values:
        raise NotRecordedError("no point of it was measured")
    items = [(key[0], value) for key, value in table.values.items()]
    return items if any(isinstance(key, str) for key, _ in items) else sorted(items, key=lambda item: item[0])


def last(table: Any, from_: float = -math.inf) -> Any:
    """The value at the largest point, which must be `from_` or more."""
    size, value = _ordered(table)[-1]
    if from_ != -math.inf and size < from_:
        raise NotRecordedError(f"nothing was measured at {from_:g} or more; the largest is {size}")
    return value


def from_on(flags: Table, otherwise: Value | None = None) -> Value:
    """The smallest value of the axis from which on all are true; for none `otherwise`, or NotRecordedError."""
    found = otherwise
    for size, flag in reversed(_ordered(flags)):
        if not flag:
            break
        found = size
    if found is None:
        raise NotRecordedError("it holds from no size on")
    return found


def doubled(table: Table) -> Table:
    """The value at twice the size over that at the size."""
    times = dict(_ordered(table))
    return Table(table.axes, {(n,): times[2 * n] / time for n, time in times.items() if 2 * n in times})


def closed(slow: Any, here: Any, fast: Any) -> Estimate:
    """The share of the gap from `slow` to `fast` that `here` closes, with the extremes that their intervals allow.

    >>> closed(10.0, 7.0, 4.0).median, closed(4.0, 7.0, 10.0).median
    (0.5, 0.0)
    """
    slow, here, fast = map(estimate, (slow, here, fast))
    if fast.high >= slow.low:
        return estimate(0)
    share = _ends(lambda s, f, h: (s - h) / (s - f), slow, fast, Estimate(here.median, here.high, here.low, here.n))
    return Estimate(share.median, min(share.low, share.median), max(share.high, share.median), share.n)


def _enough(table: Any, fewest: int) -> Any:
    """The table, if it has so many points; else NotRecordedError."""
    if len(flat(table)) < fewest:
        raise NotRecordedError(f"{len(flat(table))} points were measured; {fewest} are needed")
    return table


def _share(flags: Any) -> float:
    listed = _items(flags)
    return sum(map(bool, listed)) / len(listed)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": _over(min), "max": _over(max), "mean": _over(statistics.mean), "total": _over(sum),
    "geomean": _over(statistics.geometric_mean),
    "best": lambda table: max(map(estimate, _items(table))),
    "fastest": fastest,
    "first": lambda table: _ordered(table)[0][1],
    "last": last,
    "doubled": doubled,
    "closed": closed,
    "keys": lambda table: Table(table.axes, {(key,): key for key, _ in _ordered(table)}),
    "where": lambda table, flags: Table(table.axes, {k: v for k, v in table.values.items() if flags.values.get(k)}),
    "count": lambda flags: sum(1 for each in flat(flags) if not isinstance(each, bool) or each),
    "enough": _enough,
    "range": lambda *ends: list(range(*ends)),
    "share": _share,
    "from_on": from_on,
    "exact": lambda value: pointwise(middle, value),
    "sqrt": lambda value: pointwise(functools.partial(_ends, math.sqrt), value),
    "log2": lambda value: pointwise(functools.partial(_ends, math.log2), value),
    "abs": lambda value: _over(max)(value, pointwise(operator.sub, 0, value), 0),
    "least": lambda bound: lambda value: value >= bound,
    "most": lambda bound: lambda value: value <= bound,
}  # fmt: skip
