"""Numbers with SI units for people: three significant digits, a prefix instead of an exponent."""

import codecs
import math
import re
import sys
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from brrr.core.errors import ArgumentError

PREFIXES = {power: sign.strip() for power, sign in zip(range(-30, 31, 3), "qryzafpnµm kMGTPEZYRQ", strict=True)}

# Powers of ten that a unit's prefix may stand for: there is no kilosecond in use, no thousandth of a byte, and an
# intensity is easier to compare without any prefix.
RANGES = {"s": (-30, 0), "FLOP/B": (0, 0), "x": (0, 0), "%": (0, 0), "": (0, 0)}
COUNTS = ("B", "FLOP", "B/s", "FLOP/s", "IOP/s")

SIGNS = {"µ": "u", "μ": "u", "×": "x", "·": "-", "–": "-", "…": "...", "→": "->", "ᵀ": "^T",
         **{sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}}  # fmt: skip
"""What stands for a sign where an output cannot show it; anything else stands there as Python escapes it."""
STAND_INS = "brrr.signs"
"""The name by which `str.encode` and streams know them, as their `errors`."""


def _stood_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(SIGNS.get(each, ascii(each)[1:-1]) for each in error.object[error.start : error.end])
    return re.sub(r"(?<=\^\d)\^", "", text), error.end  # the digits of one exponent


codecs.register_error(STAND_INS, _stood_in)


def sayable(text: str) -> str:
    """The text as this process's output can show it: a `print` of it raises nothing, in whatever encoding."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, STAND_INS).decode(encoding)


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """A value with its unit, rounded to `digits` significant digits, with the SI prefix that fits.

    >>> quantity(4.12e12, "B/s"), quantity(999.96e-9, "s"), quantity(0.125, "FLOP/B")
    ('4.12 TB/s', '1 µs', '0.125 FLOP/B')

    `unit` is an SI unit without a prefix: seconds get prefixes below one only, bytes and FLOP above one only,
    FLOP/B none. Zeros behind the decimal point are left out.
    """
    if digits < 1:
        raise ArgumentError("quantity", "digits", digits, "at least 1 significant digit")
    if not math.isfinite(value):
        return _join(f"{float(value)}", "", unit)
    rounded = _round(Decimal(repr(float(value))), digits)  # repr: 999.5e-9 is a tie to its reader
    lowest, highest = (0, 30) if unit in COUNTS else RANGES.get(unit, (-30, 30))
    power = min(max(3 * (rounded.adjusted() // 3), lowest), highest) if rounded else 0
    return _join(_plain(rounded.scaleb(-power)), PREFIXES[power], unit)


def seconds(value_s: float, digits: int = 3) -> str:
    """A time.

    >>> seconds(1.02e-6), seconds(90.0)
    ('1.02 µs', '90 s')
    """
    return quantity(value_s, "s", digits)


def seconds_range(low_s: float, high_s: float, digits: int = 3, like_s: float = 0.0) -> str:
    """An interval of times, both ends in the unit that fits the upper one, or the value `like_s` between them.

    >>> seconds_range(0.98e-6, 1.02e-6)
    '0.98 to 1.02 µs'
    >>> seconds_range(5.24e-6, 31.6e-3, like_s=5.29e-6)
    '5.24 to 31600 µs'
    """
    if not (math.isfinite(low_s) and math.isfinite(high_s)):
        return f"{quantity(low_s, 's', digits)} to {quantity(high_s, 's', digits)}"
    unit = quantity(like_s or high_s, "s", digits).partition(" ")[2]
    power = next(power for power, prefix in PREFIXES.items() if unit == f"{prefix}s")
    low, high = (_plain(_round(Decimal(repr(float(each))), digits).scaleb(-power)) for each in (low_s, high_s))
    return f"{low} to {high} {unit}"


def nbytes(value_bytes: float, digits: int = 3) -> str:
    """A number of bytes in decimal units: 1 GB is 1e9 B.

    >>> nbytes(2**30), nbytes(512)
    ('1.07 GB', '512 B')
    """
    return quantity(value_bytes, "B", digits)


def ratio(value: float, digits: int = 3) -> str:
    """A speedup or any other ratio.

    >>> ratio(2.4), ratio(0.333333)
    ('2.4x', '0.333x')
    """
    return quantity(value, "x", digits).replace(" ", "")


def percent(fraction: float, digits: int = 3) -> str:
    """A share of one, as a percentage.

    >>> percent(0.4567)
    '45.7 %'
    """
    return quantity(100 * fraction, "%", digits)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell.

    >>> table([["a", "bb"], ["ccc", "d"]])
    ['a    bb', 'ccc  d']
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _round(value: Decimal, digits: int) -> Decimal:
    """The value to so many significant digits, halves away from zero."""
    if not value:
        return abs(value)  # -0.0 is 0 to a reader
    return value.quantize(Decimal(1).scaleb(value.adjusted() - digits + 1), rounding=ROUND_HALF_UP)


def _plain(value: Decimal) -> str:
    """The digits without an exponent and without trailing zeros behind the point."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _join(number: str, prefix: str, unit: str) -> str:
    """Number, prefix and unit, with a space between where there is a unit."""
    return f"{number} {prefix}{unit}" if unit else number
