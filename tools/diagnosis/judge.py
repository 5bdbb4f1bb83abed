"""`brrr.diagnose` on each workload and fault, held against the truth that `truth.py` measures right after it.

python -m tools.diagnosis.judge workloads > judged.csv    # on a GPU; also: unseen, underfilled
python -m tools.diagnosis.judge faults > faults.csv       # remedies and their gains; also: added
"""

import csv
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from brrr.core.errors import BrrrError
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.report import Diagnosis
from tools.diagnosis import truth
from tools.diagnosis.faults import ADDED, FAULTS, HEALTHY
from tools.diagnosis.workloads import UNDERFILLED, UNSEEN, WORKLOADS, Call, Workload

Row = dict[str, object]
NEAR = 0.15
"""A predicted gain is right within so much of the true one."""
NO_FAULT = "fewer bits"
"""Came later, and is no fault's remedy: a product of 16 bits is healthy, and rounds less than one in fp8."""


def of_workloads(workloads: Sequence[Workload], device: str) -> Iterator[Row]:
    """Each workload's regime by the diagnosis and by the truth, and how long the diagnosis took."""
    for each in workloads:
        found, took_s = _diagnosed(each.call("sizes", device), device)
        regime = found.regime if isinstance(found, Diagnosis) else str(found)
        true = truth.of_workload(each)
        right = regime == true["regime"]
        yield {"workload": each.name, "said": regime, "right": right, "took_s": took_s, **true}


def of_faults(device: str) -> Iterator[Row]:
    """Each fault's first remedy, whether it is one of those wanted, and its gain beside the true one."""
    for each in FAULTS:
        found = _diagnosed(each.call("faulty", device), device)
        yield _judged(each.name, each.remedies, *found, truth.of_fault(each))
    for name, build in HEALTHY.items():
        torch.manual_seed(0)
        found, took_s = _diagnosed(build(device), device)
        if isinstance(found, Diagnosis):
            found = replace(found, remedies=tuple(one for one in found.remedies if one.name != NO_FAULT))
        yield _judged(name, (), found, took_s, {"faulty_s": "", "mended_s": "", "gain": 1.0})


def of_added(device: str) -> Iterator[Row]:
    """Each fault of the remedies that came later: whether it is named at all, and its gain beside the true one."""
    for each in ADDED:
        found, took_s = _diagnosed(each.call("faulty", device), device)
        if isinstance(found, Diagnosis):
            found = replace(found, remedies=tuple(one for one in found.remedies if one.name in each.remedies))
        yield _judged(each.name, each.remedies, found, took_s, truth.of_fault(each))


def _judged(name: str, wanted: Sequence[str], found: Diagnosis | str, took_s: float, true: Mapping[str, object]) -> Row:
    first = found.remedies[0] if isinstance(found, Diagnosis) and found.remedies else None
    named = first.name if first is not None else "none" if isinstance(found, Diagnosis) else str(found)
    right = named in wanted if wanted else first is None
    predicted, gain = first.gain if first is not None else 1.0, float(str(true["gain"]))
    near = abs(predicted / gain - 1) <= NEAR if wanted else right
    return {"step": name, "wanted": "|".join(wanted), "first": named, "right": right, "predicted": predicted,
            "true": gain, "near": near, "faulty_s": true["faulty_s"], "mended_s": true["mended_s"],
            "took_s": took_s}  # fmt: skip


def _diagnosed(call: Call, device: str) -> tuple[Diagnosis | str, float]:
    began = time.perf_counter()
    try:
        found: Diagnosis | str = diagnose(call, device=device)
    except (BrrrError, RuntimeError) as error:  # counted as wrong
        found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found, time.perf_counter() - began


JUDGES: Mapping[str, Callable[[str], Iterator[Row]]] = {
    "workloads": partial(of_workloads, WORKLOADS), "unseen": partial(of_workloads, UNSEEN),
    "underfilled": partial(of_workloads, UNDERFILLED), "faults": of_faults,
    "added": of_added,
}  # fmt: skip


def main(argv: Sequence[str], device: str = "cuda") -> int:
    """Print the table and the shares; 2 for anything that is not understood."""
    if len(argv) != 1 or argv[0] not in JUDGES:
        print(__doc__, file=sys.stderr)
        return 2
    made: list[Row] = []
    for row in JUDGES[argv[0]](device):
        writer = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
        if not made:
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()  # what was judged is kept where the run ends early
        made.append(row)
    for what in ("right", "near"):
        if what in made[0]:
            print(f"{what}: {sum(bool(row[what]) for row in made)} of {len(made)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
