"""Calling Nsight Compute (`ncu`) on the worker, and reading what it prints."""

from __future__ import annotations

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import brrr
from brrr.core.errors import RecordingError, UnavailableError
from tools.counters.movements import Moved

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
MARKER = "brrr_marker"
REPLAYS = ("application", "app-range", "kernel")
UNITS = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
ADVICE = "Counters need a driver that permits them (as root, or NVreg_RestrictProfilingToAdminUsers=0)"


@dataclass(frozen=True)
class Profiled:
    """One kernel, or one range of calls: its name, and the bytes that went from and to memory meanwhile."""

    name: str
    read: float
    written: float


def command(ncu: str, log: Path, plan: Path, replay: str) -> list[str]:
    """The call of `ncu`: only the two counters, caches and clocks left alone, base units, what it prints in a file."""
    options = ["--csv", "--print-units", "base", "--log-file", str(log), "--metrics", f"{READ},{WRITTEN}"]
    alone = ["--cache-control", "none", "--clock-control", "none", "--replay-mode", replay]
    if replay != "app-range":  # a range begins at the profiler's start anyway, and ncu may refuse to be told so
        alone += ["--profile-from-start", "off"]
    return [ncu, *options, *alone, sys.executable, "-m", "tools.counters.worker", str(plan), replay]


def profiled(replay: str, ncu: str | None = None, timeout_s: float = 240.0) -> tuple[dict[str, Any], list[Profiled]]:
    """The worker's plan, and what `ncu` saw; UnavailableError where it is absent or may not read the counters."""
    program = ncu or shutil.which("ncu")
    if program is None:
        raise UnavailableError("counters: ncu was not found: install Nsight Compute, which comes with the CUDA toolkit")
    with tempfile.TemporaryDirectory() as folder:
        log, plan = Path(folder) / "ncu.csv", Path(folder) / "plan.json"
        code, said = _run(command(program, log, plan, replay), timeout_s)
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if code or not plan.exists() or '"Metric Name"' not in printed:
            raise UnavailableError(f"counters: {complaint(printed, said)} (ncu ended with {code}). {ADVICE}")
        return json.loads(plan.read_text(encoding="utf-8")), parse(printed)


def version(ncu: str | None = None) -> str:
    """The version of `ncu`; empty where it does not tell."""
    _, said = _run([ncu or "ncu", "--version"], 30.0)
    return next((line.split()[1] for line in said.splitlines() if line.startswith("Version")), "")


def _run(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Exit code and output; after the time limit, `ncu` and what it started are ended."""
    beside = os.pathsep.join([str(Path(brrr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    surroundings = {**os.environ, "PYTHONPATH": beside, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=surroundings,
            start_new_session=True,
        )
    except OSError as error:
        raise UnavailableError(f"counters: {words[0]} does not start: {error}") from error
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        said, _ = process.communicate()
        raise UnavailableError(f"counters: ncu took longer than {timeout_s:g} s: {complaint('', said)}") from None
    return process.returncode, said


def _end(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def complaint(printed: str, said: str) -> str:
    """What went wrong: the lines that `ncu` marks as errors, else the last that anybody printed.

    >>> complaint("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "")
    'Failed to initialize the profiler: LibraryNotLoaded'
    """
    lines = [line.strip() for line in (*printed.splitlines(), *said.splitlines()) if line.strip()]
    marked = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    return " | ".join(marked[:3] or lines[-3:]) or "ncu said nothing"


def parse(printed: str) -> list[Profiled]:
    """Kernels or ranges in the order in which they ran, from `ncu --csv`: one line for each of them and counter."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    found: dict[int, dict[str, Any]] = {}
    for row in csv.DictReader(lines):
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


def by_operator(seen: Iterable[Profiled], operators: int, calls: int, replay: str) -> list[tuple[float, float]]:
    """Bytes read and written by one call of each operator: a range's over its calls, else the median of the calls."""
    if replay == "app-range":
        ranges = list(seen)
        _require(len(ranges), operators, "ranges")
        return [(each.read / calls, each.written / calls) for each in ranges]
    of_calls: list[list[Profiled]] = []
    for each in seen:
        if MARKER in each.name:
            of_calls.append([])
        elif of_calls:
            of_calls[-1].append(each)
    _require(len([kernels for kernels in of_calls if kernels]), operators * calls, "calls with kernels")
    sums = [(sum(k.read for k in kernels), sum(k.written for k in kernels)) for kernels in of_calls]
    return [_median(sums[first : first + calls]) for first in range(0, len(sums), calls)]


def _median(sums: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(read for read, _ in sums), statistics.median(written for _, written in sums)


def _require(found: int, expected: int, what: str) -> None:
    if found != expected:
        raise RecordingError(f"counters: ncu saw {found} {what}; expected {expected}")


def measured(plan: dict[str, Any], seen: Iterable[Profiled], calls: int, replay: str) -> tuple[Moved, ...]:
    """The plan's operators, with what was measured of each."""
    rows = [_row(each) for each in plan["rows"]]
    sums = by_operator(seen, len(rows), calls, replay)
    return tuple(
        replace(row, measured_read=read, measured_written=written)
        for row, (read, written) in zip(rows, sums, strict=True)
    )


def _row(each: dict[str, Any]) -> Moved:
    return Moved(**{**each, "shapes": tuple(each["shapes"]), "operators": tuple(each["operators"])})
