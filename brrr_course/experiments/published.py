"""The sources' own figures, read from data/published: facts to compare with, never measurements of this project."""

import csv
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from brrr.core.errors import ArgumentError, RecordingError
from brrr_course.nouns.places import share

VARIANTS = ("overhead", "fusion", "strassen")
HIDDEN = (128, 256, 512, 1024, 2048, 4096)
TABLES = ("gpu_a_eager", "gpu_b_eager", "gpu_b_cuda_graph")
_LARGEST_SPEEDUP = 1000.0  # anything above is a slip of the file, not of a GPU

_T = TypeVar("_T")


@dataclass(frozen=True)
class MlpSpeedup:
    """Speedup of one rewritten network over PyTorch 1.7.1 on a GTX 1070; above 1 is faster.

    `variant`: "overhead" (PyCUDA and cuBLAS, three kernels a layer), "fusion" (bias and ReLU in one kernel) or
    "strassen" (fused Strassen).
    """

    layers: int
    batch: int
    hidden: int
    variant: str
    speedup: float


@dataclass(frozen=True)
class PseudoLinear:
    """The time of a Linear layer over that of an element-wise stand-in of the same width, on an unnamed GPU."""

    table: str
    width: int
    speedup: float


def mlp_speedups() -> tuple[MlpSpeedup, ...]:
    """The speedups of the "GPU Overheads and Fused Strassen" post, one row per network and variant.

    >>> len(mlp_speedups()), max(row.speedup for row in mlp_speedups() if row.variant == "overhead")
    (504, 1.82)
    """
    return _cached(share("data") / "published" / "mlp_speedup_gtx1070.csv", read_mlp_speedups)


def pseudo_linear(table: str | None = None) -> tuple[PseudoLinear, ...]:
    """The forum thread's speedups of a pseudo-linear layer, all or those of one table.

    >>> pseudo_linear("gpu_b_eager")[0]
    PseudoLinear(table='gpu_b_eager', width=128, speedup=0.6435953703453665)
    """
    rows = _cached(share("data") / "published" / "pseudo_linear.csv", read_pseudo_linear)
    if table is not None and table not in TABLES:
        raise ArgumentError("pseudo_linear", "table", table, f"one of {', '.join(TABLES)}")
    return tuple(row for row in rows if table in (None, row.table))


def read_mlp_speedups(path: Path) -> tuple[MlpSpeedup, ...]:
    """Read and check a file of the first kind; RecordingError names the file and the row of what is wrong."""
    columns = [f"{variant}_{hidden}" for variant in VARIANTS for hidden in HIDDEN]
    rows = []
    for where, row in _rows(path, ["layers", "batch", *columns]):
        layers, batch = _whole(where, row, "layers"), _whole(where, row, "batch")
        for column in columns:
            variant, _, hidden = column.partition("_")
            rows.append(MlpSpeedup(layers, batch, int(hidden), variant, _speedup(where, row, column)))
    return _distinct(path, rows, lambda r: (r.layers, r.batch, r.hidden, r.variant))


def read_pseudo_linear(path: Path) -> tuple[PseudoLinear, ...]:
    """Read and check a file of the second kind; RecordingError names the file and the row of what is wrong."""
    rows = []
    for where, row in _rows(path, ["table", "width", "speedup"]):
        if row["table"] not in TABLES:
            raise RecordingError(f"{where}: table is {row['table']!r}; expected one of {', '.join(TABLES)}")
        rows.append(PseudoLinear(row["table"], _whole(where, row, "width"), _speedup(where, row, "speedup")))
    return _distinct(path, rows, lambda r: (r.table, r.width))


@functools.cache
def _cached(path: Path, read: Callable[[Path], tuple[_T, ...]]) -> tuple[_T, ...]:
    return read(path)


def _rows(path: Path, columns: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Each row with the words that name its place."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: cannot be read: {error}. Restore the file from the repository.") from error
    header, *body = list(csv.reader(lines)) or [[]]
    if header != columns:
        raise RecordingError(f"{path}, row 1: the columns are {', '.join(header)}; expected {', '.join(columns)}")
    if not body:
        raise RecordingError(f"{path}: it has no rows. Restore the file from the repository.")
    for number, values in enumerate(body, start=2):
        if len(values) != len(columns):
            raise RecordingError(f"{path}, row {number}: it has {len(values)} values; expected {len(columns)}")
        yield f"{path}, row {number}", dict(zip(columns, values, strict=True))


def _whole(where: str, row: Mapping[str, str], column: str) -> int:
    value = row[column]
    if not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise RecordingError(f"{where}: {column} is {value!r}; expected a positive whole number")
    return int(value)


def _speedup(where: str, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 < value < _LARGEST_SPEEDUP:
        raise RecordingError(f"{where}: {column} is {row[column]!r}; expected a speedup above 0 and below 1000")
    return value


def _distinct(path: Path, rows: list[_T], key: Callable[[_T], object]) -> tuple[_T, ...]:
    """The rows, if no point stands there twice."""
    seen: set[object] = set()
    for row in rows:
        if key(row) in seen:
            raise RecordingError(f"{path}: the point {key(row)} stands there twice")
        seen.add(key(row))
    return tuple(rows)
