"""`python -m tools.counters`: the bytes that operators move by the GPU's own counters, beside those that are counted.

Nsight Compute (`ncu`) watches the worker; what it saw is printed, and kept as `counters.json` beside the device's
recordings (`--no-write`: only printed).
"""

import argparse
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from brrr.core import __version__, units
from brrr.core.errors import BrrrError, RecordingError, UnavailableError
from brrr.core.files import write_atomically
from brrr.core.recordings import own_root
from brrr.gpu.device import this_device
from tools.counters.worker import CALLS, Moved

FILE = "counters.json"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
MARKER = "brrr_marker"
UNITS = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
ADVICE = "Counters need a driver that permits them (as root, or NVreg_RestrictProfilingToAdminUsers=0)"
TIMEOUT_S = 240.0
_HEAD = ("operator", "written", "dtype", "counted: read", "written", "measured: read", "written", "measured / counted")


@dataclass(frozen=True)
class Movements:
    """All operators measured on one device, in one run: `set_bytes` is each one's working set, `l2_bytes` the L2."""

    device: str
    driver: str
    cuda: str
    torch: str
    date: str
    brrr: str
    ncu: str
    replay: str
    l2_bytes: float
    set_bytes: float
    rows: tuple[Moved, ...]

    @property
    def beyond(self) -> tuple[str, ...]:
        """The operators whose count is not right within 5 %."""
        return tuple(row.name for row in self.rows if not row.within)

    def __repr__(self) -> str:
        size, l2 = units.nbytes(self.set_bytes), units.nbytes(self.l2_bytes)
        head = f"{self.device}, torch {self.torch}, ncu {self.ncu}, {self.date}; sets of {size}, an L2 of {l2}"
        right = f"{len(self.rows) - len(self.beyond)} of {len(self.rows)} counts right within 5 %"
        found = f"{right}; not: {', '.join(self.beyond)}" if self.beyond else right
        return "\n".join([head, "", *units.table([_HEAD, *map(_cells, self.rows)]), "", found])


def _cells(row: Moved) -> tuple[str, ...]:
    moved = (row.counted_read, row.counted_written, row.measured_read, row.measured_written)
    return (row.name, row.written, row.dtype, *map(units.nbytes, moved), f"{row.ratio:.3f}")


def write_counters(path: Path, found: Movements) -> None:
    """Write the file, whole or not at all: a line for each operator."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in asdict(found).items() if key != "rows"]
    rows = ",\n  ".join(json.dumps(asdict(row), ensure_ascii=False) for row in found.rows)
    write_atomically(path, "\n".join(["{", *head, f' "rows": [\n  {rows}\n ]', "}", ""]))


def moved(row: dict[str, Any]) -> Moved:
    """A row of the plan, or of such a file."""
    return Moved(**{**row, "shapes": tuple(row["shapes"]), "operators": tuple(row["operators"])})


# ---------------------------------------------------------------------------------------------------------------------
# Nsight Compute: two counters of every kernel that the worker runs.


class Profiled(NamedTuple):
    """One kernel: its name, and the bytes that went from and to memory meanwhile."""

    name: str
    read: float
    written: float


def count_on_hardware() -> Movements:
    """Run all operators under Nsight Compute, in a process of its own, on the GPU here.

    UnavailableError without a GPU, without `ncu`, or where it may not read the counters; RecordingError where what it
    printed does not fit what ran.
    """
    device = this_device()
    plan, seen = profiled()
    _, said = _run([_ncu(), "--version"], 30.0)
    return Movements(
        device=device.name,
        driver=device.driver_version or "",
        cuda=device.cuda_version or "",
        torch=device.torch_version or "",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        brrr=__version__,
        ncu=next((line.split()[1] for line in said.splitlines() if line.startswith("Version")), ""),
        replay="application",
        l2_bytes=plan["l2_bytes"],
        set_bytes=plan["set_bytes"],
        rows=measured(plan, seen),
    )


def profiled(timeout_s: float = TIMEOUT_S) -> tuple[dict[str, Any], list[Profiled]]:
    """The worker's plan, and what `ncu` saw; caches and clocks are left alone."""
    with tempfile.TemporaryDirectory() as folder:
        log, plan = Path(folder) / "ncu.csv", Path(folder) / "plan.json"
        told = ["--csv", "--print-units", "base", "--log-file", str(log), "--metrics", f"{READ},{WRITTEN}"]
        alone = ["--cache-control", "none", "--clock-control", "none", "--replay-mode", "application"]
        worker = ["--profile-from-start", "off", sys.executable, "-m", "tools.counters.worker", str(plan)]
        code, said = _run([_ncu(), *told, *alone, *worker], timeout_s)
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if code or not plan.exists() or '"Metric Name"' not in printed:
            raise UnavailableError(f"counters: {complaint(printed, said)} (ncu ended with {code}). {ADVICE}")
        return json.loads(plan.read_text(encoding="utf-8")), parse(printed)


def _ncu() -> str:
    found = shutil.which("ncu")
    if found is None:
        raise UnavailableError("counters: ncu was not found: install Nsight Compute, which comes with the CUDA toolkit")
    return found


def _run(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Exit code and output; after the time limit, `ncu` and what it started are ended."""
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        raise UnavailableError(f"counters: ncu took longer than {timeout_s:g} s: {complaint('', said)}") from None
    return process.returncode, said


def complaint(printed: str, said: str) -> str:
    """What went wrong: the lines that `ncu` marks as errors, else the last that anybody printed.

    >>> complaint("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "")
    'Failed to initialize the profiler: LibraryNotLoaded'
    """
    lines = [line.strip() for line in (*printed.splitlines(), *said.splitlines()) if line.strip()]
    marked = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    return " | ".join(marked[:3] or lines[-3:]) or "ncu said nothing"


def parse(printed: str) -> list[Profiled]:
    """Kernels in the order in which they ran, from `ncu --csv`: one line for each of them and counter."""
    found: dict[int, dict[str, Any]] = {}
    for row in csv.DictReader(line for line in printed.splitlines() if line.startswith('"')):
        each = found.setdefault(int(row["ID"]), {"name": row.get("Kernel Name") or ""})
        if row["Metric Name"] in (READ, WRITTEN):
            each[row["Metric Name"]] = _bytes(row)
    missing = [str(key) for key, each in found.items() if READ not in each or WRITTEN not in each]
    if missing:
        raise RecordingError(f"counters: ncu did not give both counters of result {', '.join(missing[:5])}")
    return [Profiled(each["name"], each[READ], each[WRITTEN]) for _, each in sorted(found.items())]


def _bytes(row: dict[str, str]) -> float:
    unit, text = row["Metric Unit"], row["Metric Value"].replace(",", "")
    try:
        return float(text) * UNITS[unit]
    except (KeyError, ValueError):
        what = f"{row['Metric Name']} = {row['Metric Value']!r} {unit!r}"
        raise RecordingError(f"counters: ncu printed {what}; expected a number of bytes") from None


def measured(plan: dict[str, Any], seen: Iterable[Profiled]) -> tuple[Moved, ...]:
    """The plan's operators with the bytes that one call of each moved: the median of the watched calls.

    A marker kernel stands before each call.
    """
    calls: list[list[Profiled]] = []
    for each in seen:
        if MARKER in each.name:
            calls.append([])
        elif calls:
            calls[-1].append(each)
    full, expected = sum(map(bool, calls)), len(plan["rows"]) * CALLS
    if full != expected:
        raise RecordingError(f"counters: ncu saw {full} calls with kernels; expected {expected}")
    rows = []
    for place, row in enumerate(map(moved, plan["rows"])):
        mine = calls[place * CALLS : (place + 1) * CALLS]
        read = statistics.median(sum(each.read for each in kernels) for kernels in mine)
        written = statistics.median(sum(each.written for each in kernels) for kernels in mine)
        rows.append(replace(row, measured_read=read, measured_written=written))
    return tuple(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.counters", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--no-write", action="store_true", help="only print what was counted")
    options = parser.parse_args()
    try:
        counts = count_on_hardware()
    except BrrrError as error:
        sys.exit(str(error))
    print(counts)
    if not options.no_write:
        write_counters(own_root() / this_device().slug / FILE, counts)
