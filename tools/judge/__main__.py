"""How far predictions and diagnoses are from what was measured, in one table.

python -m tools.judge [FOLDER ...]     # devices' folders, as data/recordings/h200; without any, all recorded ones
python -m tools.judge FOLDER --rows    # each row as CSV instead

What a folder holds is judged: calls (prediction.csv, operators*.csv) by its own peaks.json, which `brrr calibrate`
writes; whole steps (programs.jsonl, steps.jsonl, exchanges.jsonl); what chance drew (unlisted*.jsonl), best on the
machine that measured it; diagnoses (diagnosis/); memory (memory/). An error is
|predicted / measured - 1|. --only takes parts of it.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brrr.core import units
from brrr.core.files import PACKAGE
from brrr.core.recordings import FILE
from brrr.roofline.peaks import find_peaks
from tools.judge import diagnosis, drawn, memory, others, whole
from tools.judge.cases import data
from tools.judge.experiments import OF_CALLS
from tools.judge.rows import Calls, Row

RECORDINGS = PACKAGE.parent / "data" / "recordings"
MODULES = {"whole": whole, "unlisted": drawn, "diagnosis": diagnosis, "others": others, "memory": memory}
PARTS = (*OF_CALLS, *MODULES)
HEADS = "device", "group", "what", "n", "median", "90 %", "wanted"
Key = tuple[str, str]


def rows(folder: Path, only: Sequence[str] = PARTS) -> Iterator[Row]:
    """All that a device's folder holds of these parts."""
    for name in OF_CALLS:
        if name in only and (folder / f"{name}.csv").is_file():
            yield from Calls(name, folder).rows()
    for part in filter(MODULES.__contains__, only):
        yield from MODULES[part].rows(folder)


def grouped(found: Iterator[Row]) -> dict[Key, list[float | bool]]:
    """The errors, or what is right, by group and by what is judged of it."""
    groups = defaultdict[Key, list[float | bool]](list)
    for row in found:
        groups[row.group, row.what].append(row.off)
    return groups


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, by linear interpolation between neighbours.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.9)
    3.7
    """
    return round(float(np.quantile(values, share)), 12)


def cells(found: Sequence[float | bool]) -> tuple[str, str, str]:
    """How many there are, and the median and the 90th percentile of the errors; or how many are right.

    >>> cells([0.1, -0.2, 0.3]), cells([True, True, False])
    (('3', '20 %', '28 %'), ('3', '2 right', ''))
    """
    if isinstance(found[0], bool):
        return str(len(found)), f"{sum(found):.0f} right", ""
    middle, ninth = (units.percent(percentile([*map(abs, found)], share), 2) for share in (0.5, 0.9))
    return str(len(found)), middle, ninth


def verdicts(key: Key, found: Sequence[float | bool], carried: bool) -> str:
    """What was wanted of a group, and whether it is so."""
    group, what = key
    wanted = [each for each in data()["wanted"] if group in each["groups"] and what == each["what"]]
    return "; ".join(verdict(each, found) for each in wanted if each.get("carried", carried) == carried)


def verdict(wanted: Mapping[str, Any], found: Sequence[float | bool]) -> str:
    """One of them.

    >>> verdict({"median": 0.1, "ninth": 0.2, "least": 2}, [0.05, -0.1]), verdict({"right": 0.9, "least": 9}, [True])
    ('10 % / 20 %: holds', '90 %: undecided')
    """
    errors = [abs(each) for each in found]
    if "right" in wanted:
        text, holds = units.percent(wanted["right"]), sum(found) >= wanted["right"] * len(found)
    else:
        limits = {share: wanted[name] for share, name in ((0.5, "median"), (0.9, "ninth")) if name in wanted}
        text = " / ".join(map(units.percent, limits.values()))
        holds = all(percentile(errors, share) <= limit for share, limit in limits.items())
    return f"{text}: {'undecided' if len(found) < wanted['least'] else 'holds' if holds else 'fails'}"


def lines(folder: Path, only: Sequence[str] = PARTS) -> list[tuple[str, ...]]:
    """The table's lines of one device."""
    peaks, groups = find_peaks(folder), grouped(rows(folder, only))
    carried = bool(peaks and peaks.reference)
    return [(folder.name, *key, *cells(found), verdicts(key, found, carried)) for key, found in groups.items()]


def main(argv: Sequence[str]) -> int:
    """Print the table; argparse ends the process with 2 for a call that cannot be understood."""
    parser = argparse.ArgumentParser(prog="python -m tools.judge", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", action="store_true")
    asked = parser.parse_args(argv)
    folders = asked.folders or sorted(path.parent for path in RECORDINGS.glob(f"*/{FILE}"))
    if asked.rows:
        found = ((folder.name, *row) for folder in folders for row in rows(folder, asked.only))
        csv.writer(sys.stdout, lineterminator="\n").writerows([("device", *Row._fields), *found])
    else:
        print("\n".join(units.table([HEADS, *(line for folder in folders for line in lines(folder, asked.only))])))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
