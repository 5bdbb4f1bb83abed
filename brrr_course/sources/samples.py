"""The raw samples of a recording, beside its CSV: `repeat.samples.npz`, so that an interval can be computed again.

Each writing adds two members to the file, named by run and number: the rows, as JSON, with how many samples each of
their times has; and all samples one after the other as float32, which tells a nanosecond in sixteen milliseconds. NumPy
is loaded only here: who reads a recording needs none of it.
"""

import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from brrr.core.errors import RecordingError
from brrr.core.files import MOST_BYTES, open_regular, write_atomically
from brrr.core.measurement import FIELDS, Estimate, Field
from brrr_course.sources.rows import Row

ENDING = ".samples.npz"
MEMBER = re.compile(r"[\w-][\w.-]*\.\d{5,}\.(json|npy)")
HOST_TICK_S, DEVICE_TICK_S = 1e-9, 32e-9
"""The steps of the two clocks: no interval is narrower."""
ON_DEVICE: tuple[Field, ...] = ("kernel_s", "busy_s", "span_s")

Series = Mapping[Field, Sequence[float]]


def append(path: Path, rows: Sequence[Row]) -> None:
    """Add the samples that some rows still have; the file is replaced whole or not at all."""
    import numpy as np

    kept = [(row, series) for row in rows if (series := _of_times(row))]
    if not kept:
        return
    index = [[row.key, {name: len(each) for name, each in series.items()}] for row, series in kept]
    values = [value for _, series in kept for each in series.values() for value in each]
    file, array = _there(path), io.BytesIO()
    np.save(array, np.array(values, np.float32))
    with ZipFile(file, "a", ZIP_DEFLATED) as archive:
        name = f"{kept[0][0].run}.{len(archive.namelist()) // 2:05}"
        archive.writestr(f"{name}.json", json.dumps(index, separators=(",", ":")))
        archive.writestr(f"{name}.npy", array.getvalue())
    write_atomically(path, file.getvalue())


def join(into: Path, other: Path) -> None:
    """Add the members of another such file, one that `read` takes, that this one lacks."""
    file = _there(into)
    with ZipFile(other) as theirs, ZipFile(file, "a", ZIP_DEFLATED) as mine:
        for name in sorted(set(theirs.namelist()) - set(mine.namelist())):
            mine.writestr(name, theirs.read(name))
    write_atomically(into, file.getvalue())


def _there(path: Path) -> io.BytesIO:
    return io.BytesIO(path.read_bytes() if path.exists() else b"")


def _of_times(row: Row) -> Series:
    """The samples of the row's times; the span's are those of the event pair, before the calibration."""
    samples = row.measurement.samples
    found = {name: samples.get("pair_s" if name == "span_s" and "pair_s" in samples else name, ()) for name in FIELDS}
    return {name: each for name, each in found.items() if each and row.measurement.get(name) is not None}


def read(path: Path) -> dict[tuple[Any, ...], Series]:
    """From `Row.key` to the samples of its times; empty without a file. RecordingError for a damaged one."""
    import numpy as np

    found: dict[tuple[Any, ...], Series] = {}
    if not path.exists():
        return found
    try:
        with open_regular(path) as file, ZipFile(file) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"unpacked it has more than {MOST_BYTES >> 20} MB")
            if odd := [name for name in archive.namelist() if not MEMBER.fullmatch(name)]:
                raise ValueError(f"it holds {odd[0]!r}; expected RUN.NUMBER.json and RUN.NUMBER.npy")
            for name in (each.removesuffix(".json") for each in archive.namelist() if each.endswith(".json")):
                values = iter(np.load(io.BytesIO(archive.read(f"{name}.npy"))).tolist())
                for (point, *rest), counts in json.loads(archive.read(f"{name}.json")):
                    found[tuple(point), *rest] = {each: list(islice(values, n)) for each, n in counts.items()}
    except (BadZipFile, OSError, ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise RecordingError(f"{path}: cannot be read ({error}): it is damaged. Restore it, or remove it") from None
    return found


def recomputed(row: Row, series: Series) -> dict[Field, Estimate]:
    """The row's times computed again from their samples.

    What the calibration took off a span's median it takes off the ends. Where a span was raised to the busy time, which
    is seldom, the interval in the file holds both, and this one does not.
    """
    found: dict[Field, Estimate] = {}
    for name, values in series.items():
        on_device = name in ON_DEVICE and row.measurement.sm_clock_hz is not None
        again = Estimate.of(values, DEVICE_TICK_S if on_device else HOST_TICK_S)
        kept = row.measurement.get(name)
        off_s = kept.median - again.median if kept is not None and name == "span_s" else 0.0
        shifted = again.shifted(off_s)
        found[name] = Estimate(shifted.median, max(0.0, shifted.low), shifted.high, shifted.n)
    return found
