"""The raw samples of a recording, beside its CSV: `repeat.samples.npz`, so that an interval can be computed again.

Each writing adds two members to the file, named by run and number: the rows, as JSON, with how many samples each of
their times has; and all samples one after the other as float32, which tells a nanosecond in sixteen milliseconds. NumPy
is loaded only here: who reads a recording needs none of it.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import cast
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from brrr.core.errors import RecordingError
from brrr.core.files import MOST_JSON_BYTES, file_bytes, typed, write_atomically
from brrr.core.measurement import FIELDS, Field, Value
from brrr.core.npz import array, members
from brrr_course.sources.rows import Row

ENDING = ".samples.npz"
MEMBER = re.compile(r"[\w-][\w.-]*\.\d{5,}\.(json|npy)")

Series = Mapping[Field, Sequence[float]]
Key = tuple[tuple[Value, ...], str, str, str]
"""`Row.key`."""
Part = Mapping[Key, Series]
"""What one writing adds."""


def append(path: Path, rows: Sequence[Row]) -> None:
    """Add the samples that some rows still have; the file is replaced whole or not at all."""
    kept = {cast(Key, row.key): series for row in rows if (series := _of_times(row))}
    if kept:
        join(path, {f"{rows[0].run}.{len(names(path)) // 2:05}": kept})


def join(into: Path, theirs: Mapping[str, Part]) -> None:
    """Add what another such file holds, as `parts` tells it, and this one lacks."""
    import numpy as np

    there = names(into)
    file = io.BytesIO(into.read_bytes() if there else b"")
    with ZipFile(file, "a", ZIP_DEFLATED) as archive:
        for name, part in theirs.items():
            if f"{name}.json" in there:
                continue
            index = [[key, {field: len(each) for field, each in series.items()}] for key, series in part.items()]
            values = [value for series in part.values() for each in series.values() for value in each]
            packed = io.BytesIO()
            np.save(packed, np.array(values, np.float32))
            archive.writestr(f"{name}.json", json.dumps(index, separators=(",", ":")))
            archive.writestr(f"{name}.npy", packed.getvalue())
    write_atomically(into, file.getvalue())


def names(path: Path) -> list[str]:
    """The file's members, none without a file; RecordingError where it is another's: it is not added to."""
    try:
        with ZipFile(io.BytesIO(file_bytes(path))) as archive:
            return _known(archive.namelist())
    except FileNotFoundError:
        return []
    except (BadZipFile, OSError, ValueError) as error:
        raise _damaged(path, error) from None


def _known(found: Sequence[str]) -> list[str]:
    if odd := [name for name in found if not MEMBER.fullmatch(name)]:
        raise ValueError(f"it holds {odd[0]!r}; expected RUN.NUMBER.json and RUN.NUMBER.npy")
    return [*found]


def _damaged(path: Path, error: Exception) -> RecordingError:
    return RecordingError(f"{path}: cannot be read ({error}): it is damaged. Restore it, or remove it")


def _of_times(row: Row) -> Series:
    """The samples of the row's times; the span's are those of the event pair, before the calibration."""
    samples = row.measurement.samples
    found = {name: samples.get("pair_s" if name == "span_s" and "pair_s" in samples else name, ()) for name in FIELDS}
    return {name: each for name, each in found.items() if each and row.measurement.get(name) is not None}


def read(path: Path) -> Part:
    """From `Row.key` to the samples of its times; empty without a file. RecordingError for a damaged one."""
    return {key: series for part in parts(path).values() for key, series in part.items()}


def parts(path: Path) -> dict[str, Part]:
    """As `read`, by writing. All that the file holds is checked, and what it does not tell is not taken."""
    if not path.exists():
        return {}
    try:
        there = members(file_bytes(path, MOST_JSON_BYTES), MOST_JSON_BYTES)
        wanted = dict.fromkeys(name.rpartition(".")[0] for name in _known([*there]))
        return {name: _part(there[f"{name}.json"], there[f"{name}.npy"]) for name in wanted}
    except (LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None


def _part(index: bytes, packed: bytes) -> Part:
    samples = array(packed)
    if samples.dtype != "<f4" or not (abs(samples) < float("inf")).all():  # as no NaN is
        raise ValueError("expected finite samples of float32")
    values, found = iter(samples.tolist()), dict[Key, Series]()
    for entry in json.loads(index):
        key, counts = typed(tuple[Key, Mapping[str, int]], entry, "row")
        found[key] = {field: list(islice(values, counts[field])) for field in counts if field in FIELDS}
        if {field: len(each) for field, each in found[key].items()} != counts:
            raise ValueError(f"{key} tells of samples that are not there: {counts}")
    if next(values, None) is not None:
        raise ValueError("it has more samples than its rows tell")
    return found
