"""The raw samples of a recording, beside its CSV: `repeat.samples.npz`, so that an interval can be computed again.

Each writing adds two members to the file, named by run and number: the rows, as JSON, with how many samples each of
their times has; and all samples one after the other as float32, which tells a nanosecond in sixteen milliseconds. NumPy
is loaded only here: who reads a recording needs none of it.
"""

import io
import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from brrr.core.errors import RecordingError
from brrr.core.files import MOST_JSON_BYTES, file_bytes, write_atomically
from brrr.core.measurement import FIELDS, Estimate, Field
from brrr_course.sources.rows import Row

ENDING = ".samples.npz"
MEMBER = re.compile(r"[\w-][\w.-]*\.\d{5,}\.(json|npy)")
HEADER = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d{1,9}),\), \} *\n", re.DOTALL
)
"""What NumPy writes before the samples, and all that is read: its own reader takes shapes of any size."""
HOST_TICK_S, DEVICE_TICK_S = 1e-9, 32e-9
"""The steps of the two clocks: no interval is narrower."""
DAMAGES = (BadZipFile, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError,
           struct.error, zlib.error)  # fmt: skip
"""What reading a damaged file raises; zipfile's RuntimeError is of an encrypted one, or one zipped in another way."""
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
    found: dict[tuple[Any, ...], Series] = {}
    if not path.exists():
        return found
    try:
        with ZipFile(io.BytesIO(file_bytes(path, MOST_JSON_BYTES))) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_JSON_BYTES:
                raise ValueError(f"unpacked it has more than {MOST_JSON_BYTES >> 20} MB")
            if odd := [name for name in archive.namelist() if not MEMBER.fullmatch(name)]:
                raise ValueError(f"it holds {odd[0]!r}; expected RUN.NUMBER.json and RUN.NUMBER.npy")
            for name in (each.removesuffix(".json") for each in archive.namelist() if each.endswith(".json")):
                values = iter(_values(archive.read(f"{name}.npy")))
                for (point, *rest), counts in json.loads(archive.read(f"{name}.json")):
                    found[tuple(point), *rest] = {each: list(islice(values, n)) for each, n in counts.items()}
                if next(values, None) is not None:
                    raise ValueError(f"{name}.npy has more samples than its rows tell")
    except DAMAGES as error:
        raise RecordingError(f"{path}: cannot be read ({error}): it is damaged. Restore it, or remove it") from None
    return found


def _values(content: bytes) -> list[float]:
    """The samples of a member that `append` made."""
    import numpy as np

    header = HEADER.match(content)
    if header is None or len(content) - header.end() != 4 * int(header[1]):
        raise ValueError("expected samples of float32, in one dimension, as many as it tells")
    return np.frombuffer(content, "<f4", offset=header.end()).tolist() if int(header[1]) else []


def recomputed(row: Row, series: Series) -> dict[Field, Estimate]:
    """The row's times computed again from their samples.

    A period that is the mean of calls that take turns is left out: how many calls a sample is of is not kept. What the
    calibration took off a span's median it takes off the ends. Where a span was raised to the busy time, which is
    seldom, the interval in the file holds both, and this one does not.
    """
    found: dict[Field, Estimate] = {}
    for name, values in series.items():
        on_device = name in ON_DEVICE and row.measurement.sm_clock_hz is not None
        again = Estimate.of(values, DEVICE_TICK_S if on_device else HOST_TICK_S)
        kept = row.measurement.get(name)
        if name == "period_s" and kept is not None and kept.n != again.n:
            continue
        shifted = again.shifted(kept.median - again.median if kept is not None and name == "span_s" else 0.0)
        found[name] = Estimate(shifted.median, max(0.0, shifted.low), shifted.high, shifted.n)
    return found
