"""Reads hardware.toml: every field checked, every complaint named."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brrr.machines.datasheet import DatasheetError, Hardware, HostLink, Source, normal

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
