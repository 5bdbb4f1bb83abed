"""`sweeps.npz`: the calls of a device's sweeps in compact form, unpacked when a sweep is first looked at.

>>> sweeps = {"some": SweptCalls.of(("m", "dtype"), [(64, "tf32"), (4096, "tf32")], [2e-6, 3.5e-6])}
>>> Packed(packed(sweeps), {"some": SweptCalls({"m": (), "dtype": ()}, ())}, "sweeps.npz") == sweeps
True
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from brrr.core.errors import RecordingError
from brrr.core.files import MOST_JSON_BYTES
from brrr.core.heavy import np
from brrr.core.npz import array, members
from brrr.counting.cost import ITEMSIZE
from brrr.roofline.peak import SweptCalls

if TYPE_CHECKING:  # a file of peaks is read without numpy
    Array = np.ndarray[Any, np.dtype[Any]]

DTYPES = (*ITEMSIZE, "tf32")
COLUMNS: Mapping[str, Mapping[str, int | tuple[str, ...]]] = {
    "products": {"m": 1, "n": 1, "k": 1, "batch": 1, "layout": ("nn", "nt", "tn", "tt"), "dtype": DTYPES, "added": 0,
                 "carried": 0},
    "operators": {"operator": (), "kind": (), "form": (), "dtype": DTYPES, "lines": 1, "length": 1, "read": 0,
                  "written": 0, "over": 1, "window": 1, "flop": 0, "carried": 0},
}  # fmt: skip
"""Of each sweep's columns the least whole number, or the texts that it may hold, () for any."""
OPTIONAL, MOST = ("added", "over", "window", "flop", "carried"), 2**50

TEXTS = "/texts"
"""Behind a column's name: the texts that its numbers stand for."""


def packed(sweeps: Mapping[str, SweptCalls]) -> bytes:
    """The file's bytes: numbers in the narrowest type that holds their column, a text by its place among the texts.

    Times are whole nanoseconds where every one of a sweep is, so that each comes back to the last digit.
    """
    arrays: dict[str, Array] = {}
    for name, sweep in sweeps.items():
        seconds = np.array(sweep.seconds)
        nanoseconds = np.rint(seconds * 1e9)
        whole = np.array_equal(nanoseconds / 1e9, seconds)
        arrays[name] = _narrow([int(each) for each in nanoseconds]) if whole else seconds
        for column, values in sweep.columns.items():
            numbers = values
            if any(isinstance(value, str) for value in values):
                codes = {text: code for code, text in enumerate(dict.fromkeys(values))}
                arrays[f"{name}/{column}{TEXTS}"] = np.array(list(codes), str)
                numbers = tuple(codes[value] for value in values)
            arrays[f"{name}/{column}"] = _narrow(numbers)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _narrow(values: Sequence[Any]) -> Array:
    ends = min(values, default=0), max(values, default=0)
    return np.array(values, np.result_type(*map(np.min_scalar_type, ends)))


@dataclass
class Packed(Mapping[str, SweptCalls]):
    """Sweeps by name, each unpacked when it is first asked for.

    `content` is that of the file, `outlines` are the sweeps without their calls, `path` is what a RecordingError names.
    """

    content: bytes = field(repr=False)
    outlines: Mapping[str, SweptCalls]
    path: object
    _unpacked: dict[str, SweptCalls] = field(default_factory=dict, init=False, repr=False)

    def __getitem__(self, name: str) -> SweptCalls:
        if name not in self._unpacked:
            self._unpacked[name] = self._sweep(name, self.outlines[name])
        return self._unpacked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outlines)

    def __len__(self) -> int:
        return len(self.outlines)

    def __contains__(self, name: object) -> bool:
        return name in self.outlines

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packed):  # a cache asks this for each operator, and to unpack both takes milliseconds
            return (self.content, self.outlines) == (other.content, other.outlines)
        return Mapping.__eq__(self, other)

    def _sweep(self, name: str, outline: SweptCalls) -> SweptCalls:
        try:
            arrays = {key: array(each) for key, each in members(self.content, MOST_JSON_BYTES, name).items()}
            times = arrays[f"{name}.npy"]
            seconds = times if times.dtype.kind == "f" else times / 1e9
            columns = {column: _column(arrays, f"{name}/{column}") for column in outline.columns}
            for column, known in COLUMNS.get(name, {}).items():
                if column in columns or column not in OPTIONAL:
                    _check(column, columns[column], known)
            return replace(outline, columns=columns, seconds=tuple(seconds.tolist()))
        except (LookupError, TypeError, ValueError) as error:
            raise RecordingError(f"{self.path}: holds no sweep of {name}: {error}. Run `brrr calibrate`") from error


def _check(column: str, values: Sequence[int | str], known: int | tuple[str, ...]) -> None:
    """ValueError where a column holds what cannot be there; of a million values few differ."""
    for value in set(values):
        if isinstance(known, int):
            fits, expected = isinstance(value, int) and known <= value <= MOST, f"a whole number, {known} to {MOST}"
        else:
            fits, expected = isinstance(value, str) and value in (known or (value,)), " or ".join(known) or "a text"
        if not fits:
            raise ValueError(f"{column} is {value!r}; expected {expected}")


def _column(arrays: Mapping[str, Array], name: str) -> tuple[int | str, ...]:
    numbers: list[int] = arrays[f"{name}.npy"].tolist()
    if f"{name}{TEXTS}.npy" not in arrays:
        return tuple(numbers)
    texts: list[str] = arrays[f"{name}{TEXTS}.npy"].tolist()
    return tuple(map(texts.__getitem__, numbers))
