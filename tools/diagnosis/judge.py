"""`brrr.diagnose` on each workload and fault, held against the truth that `truth.py` measured.

python -m tools.diagnosis.judge workloads truth.csv     # on a GPU: regime by regime
python -m tools.diagnosis.judge unseen unseen.csv
python -m tools.diagnosis.judge faults faults.csv       # remedies and their gains
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from brrr.core.errors import BrrrError
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.report import Diagnosis
from tools.diagnosis.faults import FAULTS, HEALTHY
from tools.diagnosis.workloads import UNSEEN, WORKLOADS, Call, Workload

Rows = Sequence[Mapping[str, str]]
Row = dict[str, object]
NEAR = 0.15
"""A predicted gain is right within so much of the true one."""


def of_workloads(rows: Rows, device: str, workloads: Sequence[Workload] = WORKLOADS) -> Iterator[Row]:
    """Each workload's regime by the diagnosis and by the truth, and how long the diagnosis took."""
    true = {row["workload"]: row["regime"] for row in rows}
    for each in workloads:
        if each.name in true:
            found, took_s = _diagnosed(each.call("sizes", device), device)
            regime = found.regime if isinstance(found, Diagnosis) else str(found)
            yield {"workload": each.name, "true": true[each.name], "regime": regime,
                   "right": regime == true[each.name], "took_s": took_s}  # fmt: skip


def of_faults(rows: Rows, device: str) -> Iterator[Row]:
    """Each fault's first remedy, whether it is one of those wanted, and its gain beside the true one."""
    true = {row["step"]: row for row in rows}
    for each in FAULTS:
        if each.name in true:
            yield _judged(each.name, each.remedies, float(true[each.name]["gain"]), each.call("faulty", device), device)
    for name, build in HEALTHY.items():
        torch.manual_seed(0)
        yield _judged(name, (), 1.0, build(device), device)


def _judged(name: str, wanted: Sequence[str], gain: float, call: Call, device: str) -> Row:
    found, took_s = _diagnosed(call, device)
    first = found.remedies[0] if isinstance(found, Diagnosis) and found.remedies else None
    named = first.name if first is not None else "none" if isinstance(found, Diagnosis) else str(found)
    right = named in wanted if wanted else first is None
    predicted = first.gain if first is not None else 1.0
    near = abs(predicted / gain - 1) <= NEAR if wanted else right
    return {"step": name, "wanted": "|".join(wanted), "first": named, "right": right, "predicted": predicted,
            "true": gain, "near": near, "took_s": took_s}  # fmt: skip


def _diagnosed(call: Call, device: str) -> tuple[Diagnosis | str, float]:
    began = time.perf_counter()
    try:
        found: Diagnosis | str = diagnose(call, device=device)
    except (BrrrError, RuntimeError) as error:  # counted as wrong
        found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found, time.perf_counter() - began


def main(argv: Sequence[str], device: str = "cuda") -> int:
    """Print the table and the shares; 2 for anything that is not understood."""
    judges: Mapping[str, Callable[[Rows, str], Iterator[Row]]] = {
        "workloads": of_workloads, "unseen": partial(of_workloads, workloads=UNSEEN), "faults": of_faults
    }  # fmt: skip
    if len(argv) != 2 or argv[0] not in judges:
        print(__doc__, file=sys.stderr)
        return 2
    with Path(argv[1]).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    made: list[Row] = []
    for row in judges[argv[0]](rows, device):
        writer = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
        if not made:
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()  # what was judged is kept where the run ends early
        made.append(row)
    if not made:
        print(f"{argv[1]}: none of its rows is one of the {argv[0]}", file=sys.stderr)
        return 2
    for what in ("right", "near"):
        if what in made[0]:
            print(f"{what}: {sum(bool(row[what]) for row in made)} of {len(made)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
