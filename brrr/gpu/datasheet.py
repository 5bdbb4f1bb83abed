"""What a GPU's datasheet promises, read from data/hardware.toml."""

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.files import share, typed

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
BRANDS = re.compile("^(?:nvidia|geforce|tesla|amd|instinct|radeon|intel|apple|rtx|gtx|arc)+")
UNITS = ("cuda cores", "tensor cores", "shader cores", "matrix cores", "cpu cores")


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

    SI units: Hz, B, B/s, W; `dense` maps a unit's data types to FLOP/s without sparsity, `sm_register_bytes` and
    `sm_shared_bytes` are those of a multiprocessor. `derived` names the figures that are computed and says how. Raises
    ArgumentError for an empty text, and for a figure that is not above zero.
    """

    key: str
    name: str
    generation: str
    year: int
    memory_bytes_per_s: float
    dense: Mapping[str, Mapping[str, float]] = field(hash=False)
    sources: tuple[Source, ...] = field(repr=False)
    reported_as: tuple[str, ...] = ()
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    cuda_cores: int | None = None
    boost_clock_hz: float | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    sm_register_bytes: int | None = None
    sm_shared_bytes: int | None = None
    host_link: HostLink | None = None
    tdp_w: float | None = None
    process_nm: int | None = None
    inline_ecc: bool | None = None
    derived: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        sources = [(f"sources[{at}]", vars(source)) for at, source in enumerate(self.sources)]
        dense = [(f"dense.{unit}", peaks) for unit, peaks in self.dense.items()]
        link = [("host_link", vars(self.host_link))] if self.host_link else []
        for place, figures in [("", vars(self)), ("derived", self.derived), *sources, *dense, *link]:
            for name, value in figures.items():
                if value == "" or (isinstance(value, int | float) and value <= 0):
                    expected = "a text" if value == "" else "a positive number"
                    raise ArgumentError("Hardware", f"{place}.{name}".lstrip("."), value, expected)
        for dtype, unit in self.peaks:
            if unit not in UNITS or dtype not in DTYPES:
                expected = f"a unit of {', '.join(UNITS)} and a data type of {', '.join(DTYPES)}"
                raise ArgumentError("Hardware", "dense", f"{unit}.{dtype}", expected)
        for name, some, what in (("sources", self.sources, "{title, url}"), ("dense", self.peaks, "peak")):
            if not some:
                raise ArgumentError("Hardware", name, some, f"at least one {what}")

    @property
    def peaks(self) -> Mapping[tuple[str, str], float]:
        """The peaks in FLOP/s without sparsity, by data type and unit."""
        return {(dtype, unit): peak for unit, peaks in self.dense.items() for dtype, peak in peaks.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which `hardware` finds this device."""
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
    """Look up a device's datasheet, by a short name or by the name that torch reports.

    >>> hardware("Tesla T4").key, hardware("NVIDIA GeForce RTX 4090").key
    ('t4', 'rtx-4090')
    >>> round(hardware("h200").ridge_point("fp32", "cuda cores"), 1)  # FLOP/B
    13.9

    Parameters
    ----------
    name : str
        Such as "h200" or "NVIDIA H200". The model must match exactly: laptop and PCIe variants have other peaks.

    Returns
    -------
    Hardware
        Its figures in SI units (Hz, B, B/s, FLOP/s without sparsity, W), with their sources.

    Raises
    ------
    ArgumentError
        If no datasheet has that name; the message names the nearest.
    """
    found = find_hardware(name)
    if found is None:
        known = {normal(alias): key for key, one in datasheets().items() for alias in (key, one.name, *one.reported_as)}
        close = difflib.get_close_matches(normal(str(name)), known, n=5, cutoff=0.4)
        nearest = list(dict.fromkeys(known[alias] for alias in close))[:3]
        hint = f"Nearest: {', '.join(nearest)}." if nearest else ""
        raise ArgumentError("hardware", "name", name, f"one of {', '.join(hardware_names())}", hint)
    return found


@functools.cache
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
    """All datasheets by short name: those of your own file, which BRRR_HARDWARE names, before those that come along."""
    own = os.environ.get("BRRR_HARDWARE")
    mine, theirs = read_datasheets(Path(own)) if own else {}, read_datasheets(share("data") / "hardware.toml")
    return {**mine, **{key: each for key, each in theirs.items() if key not in mine}}


def normal(name: str) -> str:
    """A device's name without the makers' words before it, and the separators that drivers write in different ways.

    >>> normal("NVIDIA GeForce RTX 4090"), normal("apple-m2")
    ('4090', 'm2')
    """
    return BRANDS.sub("", "".join(name.lower().replace("-", " ").split()))


# ---------------------------------------------------------------------------------------------------------------------
# hardware.toml: a table a device, its keys the fields of `Hardware`.


def read_datasheets(path: Path) -> Mapping[str, Hardware]:
    """Read and check a file of datasheets; DatasheetError names what is wrong."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DatasheetError(f"{path}: cannot be read: {error}. Restore the file from the repository.") from error
    sheets = {key: _hardware(key, table) for key, table in tables.items()}
    owner: dict[str, str] = {}
    for key, one in sheets.items():  # two devices that answer to one name would make the lookup arbitrary
        for alias in one.names:
            if owner.setdefault(normal(alias), key) != key:
                raise DatasheetError(f"hardware.toml: [{key}] name {alias!r} also belongs to [{owner[normal(alias)]}]")
    return sheets


def _hardware(key: str, table: Any) -> Hardware:
    """One device's table, every field checked."""
    absent = {each.name: each.default for each in fields(Hardware) if each.default is not MISSING}
    try:
        if not isinstance(table, dict):
            raise ValueError(f"is {table!r}; expected a table")
        given = {"derived": {}, **absent, **table, "key": key}
        if (capability := typed(str | None, given["compute_capability"], "compute_capability")) is not None:
            if not re.fullmatch(r"\d+\.\d+", capability):
                raise ValueError(f'compute_capability is {capability!r}; expected a text such as "9.0"')
            given["compute_capability"] = tuple(map(int, capability.split(".")))
        found: Hardware = typed(Hardware, given)
    except ValueError as error:
        raise DatasheetError(f"hardware.toml: [{key}] {error}") from None
    return found
