"""What a GPU's datasheet promises, read from data/hardware.toml."""

from __future__ import annotations

import difflib
import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.paths import share


class DatasheetError(BrrrError, ValueError):
    """hardware.toml is damaged; the message names the device, the field and what was expected."""


@dataclass(frozen=True)
class HostLink:
    """The link between the CPU's memory and the device's, `bytes_per_s` in one direction after line coding."""

    pcie: int
    lanes: int
    bytes_per_s: float


@dataclass(frozen=True)
class Source:
    """The document that a figure comes from."""

    title: str
    url: str


@dataclass(frozen=True)
class Hardware:
    """The datasheet of one device; what no datasheet gives is None.

    >>> hardware("h200").name, hardware("h200").peak("bf16", "tensor cores")
    ('NVIDIA H200 SXM', 989400000000000.0)

    SI units: Hz, B, B/s, W; `peaks` maps (data type, unit) to dense FLOP/s. `derived` names the figures that are
    computed and says how.
    """

    key: str
    name: str
    generation: str
    year: int
    memory_bytes_per_s: float
    peaks: Mapping[tuple[str, str], float] = field(hash=False)
    sources: tuple[Source, ...] = field(repr=False)
    reported_as: tuple[str, ...] = ()
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    cuda_cores: int | None = None
    boost_clock_hz: float | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    host_link: HostLink | None = None
    tdp_w: float | None = None
    derived: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that this device answers to."""
        return (self.key, self.name, *self.reported_as)

    def peak(self, dtype: str, unit: str | None = None) -> float:
        """The peak in FLOP/s (int8: operations/s) of a data type on a unit; without a unit, on the fastest one.

        >>> hardware("h200").peak("fp32", "cuda cores")
        66900000000000.0
        """
        found = {u: value for (d, u), value in self.peaks.items() if d == dtype and unit in (None, u)}
        if not found:
            known = ", ".join(f"{d} on {u}" for d, u in self.peaks)
            where = f" on {unit}" if unit else ""
            raise ArgumentError("Hardware.peak", "dtype", dtype + where, f"one of what {self.name} has: {known}")
        return max(found.values())

    def ridge_point(self, dtype: str, unit: str | None = None) -> float:
        """The arithmetic intensity in FLOP/B from which on the peak, not the memory, is the limit.

        >>> round(hardware("h200").ridge_point("fp32", "cuda cores"), 1)
        13.9
        """
        return self.peak(dtype, unit) / self.memory_bytes_per_s


def hardware(name: str) -> Hardware:
    """The datasheet of a device, by its short name or by the name that torch reports.

    >>> hardware("Tesla T4").key, hardware("NVIDIA GeForce RTX 4090").key
    ('t4', 'rtx-4090')

    Only the very model is found: a laptop's or a PCIe variant has other peaks. Raises ArgumentError naming the nearest.
    """
    found = find_hardware(name)
    if found is None:
        known = {normal(alias): key for key, one in datasheets().items() for alias in (key, one.name, *one.reported_as)}
        close = difflib.get_close_matches(normal(str(name)), known, n=5, cutoff=0.4)
        nearest = list(dict.fromkeys(known[alias] for alias in close))[:3]
        hint = f"Nearest: {', '.join(nearest)}." if nearest else ""
        raise ArgumentError("hardware", "name", name, f"one of {', '.join(hardware_names())}", hint)
    return found


def find_hardware(name: str) -> Hardware | None:
    """As `hardware`, but None for a device without a datasheet here.

    >>> find_hardware("NVIDIA GeForce RTX 4090 Laptop GPU") is None
    True
    """
    wanted = normal(str(name))
    return next((one for one in datasheets().values() if wanted in map(normal, one.names)), None)


def hardware_names() -> tuple[str, ...]:
    """The short names of all devices with a datasheet, the generic CPU last.

    >>> hardware_names()[0], hardware_names()[-1]
    ('gtx-1070', 'cpu')
    """
    return tuple(datasheets())


@functools.cache
def datasheets() -> Mapping[str, Hardware]:
    """All datasheets of the course by short name."""
    # IMPORT-GONE  # here, because it needs the classes above

    return read_datasheets(share("data") / "hardware.toml")


def normal(name: str) -> str:
    """A device's name without the brand words and separators that drivers write in different ways."""
    words = name.lower().replace("-", " ").split()
    return "".join(word for word in words if word not in ("nvidia", "geforce", "tesla"))


# ---------------------------------------------------------------------------------------------------------------------
# Reads hardware.toml: every field checked, every complaint named.

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
UNITS = ("cuda cores", "tensor cores", "cpu cores")


def read_datasheets(path: Path) -> Mapping[str, Hardware]:
    """Read and check a file of datasheets; DatasheetError names what is wrong."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DatasheetError(f"{path}: cannot be read: {error}. Restore the file from the repository.") from error
    sheets = {key: _hardware(key, table) for key, table in tables.items()}
    _unique_names(sheets)
    return sheets


def _unique_names(sheets: Mapping[str, Hardware]) -> None:
    """Two devices that answer to one name would make the lookup arbitrary."""
    owner: dict[str, str] = {}
    for key, one in sheets.items():
        for alias in one.names:
            if owner.setdefault(normal(alias), key) != key:
                raise DatasheetError(f"hardware.toml: [{key}] name {alias!r} also belongs to [{owner[normal(alias)]}]")


_NUMBERS = ("year", "sm_count", "cuda_cores", "memory_bytes", "l2_bytes")  # whole ones
_RATES = ("memory_bytes_per_s", "boost_clock_hz", "tdp_w")
_TEXTS = ("name", "generation")
_REQUIRED = ("name", "generation", "year", "memory_bytes_per_s", "sources", "dense")
_OTHER = ("reported_as", "compute_capability", "host_link", "sources", "dense", "derived")


def _hardware(key: str, table: object) -> Hardware:
    """One device's table, every field checked."""
    fields = _table(key, "", table)
    for name in _REQUIRED:
        if name not in fields:
            raise DatasheetError(f"hardware.toml: [{key}] {name} is missing")
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _NUMBERS:
            values[name] = int(_number(key, name, value, whole=True))
        elif name in _RATES:
            values[name] = _number(key, name, value)
        elif name in _TEXTS:
            values[name] = _text(key, name, value)
        elif name not in _OTHER:
            raise DatasheetError(f"hardware.toml: [{key}] {name} is not a field; known: {', '.join(_known())}")
    return Hardware(
        key=key,
        peaks=_peaks(key, fields["dense"]),
        sources=_sources(key, fields["sources"]),
        reported_as=tuple(_text(key, "reported_as", one) for one in _list(key, "reported_as", fields)),
        compute_capability=_capability(key, fields.get("compute_capability")),
        host_link=_host_link(key, fields.get("host_link")),
        derived=_derived(key, fields.get("derived", {})),
        **values,
    )


def _known() -> tuple[str, ...]:
    return tuple(sorted({*_NUMBERS, *_RATES, *_TEXTS, *_OTHER}))


def _wrong(key: str, name: str, value: object, expected: str) -> DatasheetError:
    return DatasheetError(f"hardware.toml: [{key}] {name} is {value!r}; expected {expected}")


def _table(key: str, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(key, name or "entry", value, "a table")
    return value


def _list(key: str, name: str, fields: Mapping[str, Any]) -> list[Any]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise _wrong(key, name, value, "a list")
    return value


def _text(key: str, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, name, value, "a text")
    return value


def _number(key: str, name: str, value: object, whole: bool = False) -> float:
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not (math.isfinite(value) and value > 0):  # type: ignore[arg-type, operator]
        raise _wrong(key, name, value, f"a positive {'whole ' if whole else ''}number")
    return float(value)  # type: ignore[arg-type]


def _peaks(key: str, value: object) -> dict[tuple[str, str], float]:
    """(data type, unit) -> dense FLOP/s."""
    peaks = {}
    for unit, table in _table(key, "dense", value).items():
        for dtype, peak in _table(key, f"dense.{unit}", table).items():
            if unit not in UNITS or dtype not in DTYPES:
                expected = f"a unit of {', '.join(UNITS)} and a data type of {', '.join(DTYPES)}"
                raise _wrong(key, "dense", f"{unit}.{dtype}", expected)
            peaks[dtype, unit] = _number(key, f"dense.{unit}.{dtype}", peak)
    if not peaks:
        raise _wrong(key, "dense", value, "at least one peak")
    return peaks


def _derived(key: str, value: object) -> dict[str, str]:
    """Field or data type -> how its figure was computed."""
    return {name: _text(key, f"derived.{name}", text) for name, text in _table(key, "derived", value).items()}


def _sources(key: str, value: object) -> tuple[Source, ...]:
    if not isinstance(value, list) or not value:
        raise _wrong(key, "sources", value, "at least one {title, url}")
    tables = [_table(key, "sources", one) for one in value]
    return tuple(Source(*(_text(key, f"sources.{n}", t.get(n)) for n in ("title", "url"))) for t in tables)


def _capability(key: str, value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    parts = _text(key, "compute_capability", value).split(".")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise _wrong(key, "compute_capability", value, 'a text such as "9.0"')
    return int(parts[0]), int(parts[1])


def _host_link(key: str, value: object) -> HostLink | None:
    if value is None:
        return None
    table = _table(key, "host_link", value)
    pcie, lanes = (int(_number(key, f"host_link.{n}", table.get(n), whole=True)) for n in ("pcie", "lanes"))
    return HostLink(pcie, lanes, _number(key, "host_link.bytes_per_s", table.get("bytes_per_s")))
