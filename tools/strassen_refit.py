"""Refits the constants of Strassen's time and error models to a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from brrr.strassen.calibration import CONSTANTS, Constant, Table, rate_name
from brrr.strassen.ways import WAYS, Way


@dataclass(frozen=True)
class Row:
    """A measured point: a way by name, the sizes, and what was measured and predicted of it."""

    way: str
    m: int
    n: int
    k: int
    seconds: float | None = None
    predicted_s: float | None = None
    error: float | None = None
    predicted_error: float | None = None
    sums_s: float | None = None


def rows_of(
    points: Iterable[tuple[str, int, int, int, float | None, float | None]], device: object, operand: str = "float32"
) -> list[Row]:
    """Measured points (way, m, n, k, seconds, error) beside what the models now say of them; others' ways left out.

    operand: the type of the matrices that they were measured on; points of bfloat16's go in by themselves. Rows that a
    power limit slowed down belong to no fit: leave out what ran below about 1.9 GHz on an H200.
    """
    from brrr.strassen.accuracy import predicted_error
    from brrr.strassen.predicting import Predictor

    predictor = Predictor.of(device)
    rows = []
    for name, m, n, k, seconds, error in points:
        if (way := WAYS.get(name)) is None:
            continue
        made, expected = predictor.parts(way, m, n, k, operand), predicted_error(way, k, operand)
        rows.append(Row(name, m, n, k, seconds, made.total_s, error, expected, made.sums_s))
    return rows


def refitted(rows: Sequence[Row], table: Table = CONSTANTS) -> dict[str, Constant]:
    """The table with every constant that the rows can tell, by medians of what was measured over what was predicted.

    In this order, each with those before it in place: rates of inner products from classical rows; the rate of sums
    from rows with levels, by the time that is left beside their products; errors of inner products from classical
    rows; growth a level from the rest. What no row tells stays as it is.
    """
    fitted = dict(table)
    classical = [row for row in rows if not WAYS[row.way].level]
    leveled = [row for row in rows if WAYS[row.way].level]
    for inner in sorted({WAYS[row.way].inner for row in classical}):
        mine = [row for row in classical if WAYS[row.way].inner == inner]
        _scale(fitted, f"rate.{inner}", [1 / ratio for row in mine if (ratio := _product_ratio(row))])
        if f"rate.{inner}.batched" in table:  # no row tells it alone: it follows
            change = fitted[f"rate.{inner}"].value / table[f"rate.{inner}"].value
            fitted[f"rate.{inner}.batched"] = replace(
                table[f"rate.{inner}.batched"], value=float(f"{table[f'rate.{inner}.batched'].value * change:.3g}")
            )
        _scale(fitted, f"error.{inner}", [ratio for row in mine if (ratio := _ratio(row.error, row.predicted_error))])
    _scale(fitted, "rate.sums", _sums_ratios(leveled, fitted, table))
    for form in sorted({str(WAYS[row.way].form) for row in leveled}):
        ratios = [_growth_ratio(row, fitted, table) for row in leveled if WAYS[row.way].form == form]
        _scale(fitted, f"growth.{form}", [each for each in ratios if each])
    return fitted


def source(table: Table) -> str:
    """The table as Python source, to replace the entries above.

    >>> print(source({"rate.sums": Constant(0.93, "median of 12 recorded rows")}))
    "rate.sums": Constant(0.93, 'median of 12 recorded rows'),
    """
    return "\n".join(f'"{name}": {_text(each)},' for name, each in table.items())


def _text(each: Constant) -> str:
    by_size = f", {each.by_size!r}" if each.by_size else ""
    return f"Constant({each.value!r}, {each.origin!r}{by_size})"


def _sums_ratios(rows: Sequence[Row], fitted: Table, table: Table) -> list[float]:
    """Of each row, the rate of its sums: predicted time over what is left beside the products, as they are now."""
    found = []
    for row in rows:
        if row.seconds is None or row.predicted_s is None or not row.sums_s:
            continue
        name = rate_name(table, WAYS[row.way].inner, batched=True)
        products_s = (row.predicted_s - row.sums_s) * table[name].value / fitted[name].value
        left_s = row.seconds - products_s
        if left_s > 0.1 * row.sums_s:  # less than that is the products' own scatter
            found.append(row.sums_s / left_s)
    return found


def _growth_ratio(row: Row, fitted: Table, table: Table) -> float | None:
    """By how much a level's growth differs from the coefficients', the inner product's own error in place."""
    way: Way = WAYS[row.way]
    ratio = _ratio(row.error, row.predicted_error)
    if ratio is None:
        return None
    name = f"error.{way.inner}"
    return float((ratio * table[name].value / fitted[name].value) ** (1 / way.level))


def _product_ratio(row: Row) -> float | None:
    """Measured over predicted time of the product alone: splitting and copying are passes over memory."""
    if row.seconds is None or row.predicted_s is None:
        return None
    passes_s = row.sums_s or 0.0
    return _ratio(row.seconds - passes_s, row.predicted_s - passes_s)


def _ratio(measured: float | None, predicted: float | None) -> float | None:
    if measured is None or not predicted or not math.isfinite(measured) or measured <= 0:
        return None
    return measured / predicted


def _scale(fitted: dict[str, Constant], name: str, ratios: Sequence[float]) -> None:
    """Multiply a constant by the median of the ratios."""
    if not ratios:
        return
    value = fitted[name].value * median(ratios)
    origin = f"median of {len(ratios)} recorded row{'s' * (len(ratios) > 1)}"
    fitted[name] = replace(fitted[name], value=float(f"{value:.3g}"), origin=origin)
