"""Of each program of `programs.py` the truth by intervention, then its diagnosis, its remedies tried; and a table.

python -m tools.diagnosis.programs_judge run FOLDER 540    # seconds; adds to FOLDER/truth.csv and said.csv
python -m tools.diagnosis.programs_judge table FOLDER      # for the documents, with the counts

What was begun is not begun again: a program that ended the process is left out, and another call goes on behind it.
"""

import csv
import faulthandler
import gc
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.remedies import DEVICE
from brrr.diagnosis.trying import NOT_SAFE
from tools.diagnosis.interventions import of_program
from tools.diagnosis.programs import PROGRAMS, Program

Rows = Sequence[Mapping[str, object]]
NEAR, LEAST, PART = 0.2, 1.03, 0.5
"""A predicted gain within so much of the measured one is right; a first remedy has to gain so much, and such a part."""
TRY_S, HANGS_S = 30.0, 150.0
"""What trying a program's remedies may take; after the other a program is given up, and its process with it."""


def run(folder: Path, seconds: float, device: str = "cuda", small: bool = False, try_s: float = TRY_S) -> None:
    """Each program that was not begun before, as long as there is time; an error is a row, too."""
    folder.mkdir(parents=True, exist_ok=True)
    begun, until = folder / "begun.txt", time.monotonic() + seconds
    begun.touch()
    for each in PROGRAMS:
        if time.monotonic() > until or each.name in begun.read_text(encoding="utf-8").splitlines():
            continue
        with begun.open("a", encoding="utf-8") as file:
            print(each.name, file=file)
        print(each.name, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(HANGS_S, file=sys.__stderr__, exit=True)
        try:
            true = of_program(each, device, small)
            _add(folder / "truth.csv", [true])
            _add(folder / "said.csv", diagnosed(each, device, small, try_s, true))
        except Exception as error:
            why = f"{type(error).__name__}: {(str(error) or 'no reason').splitlines()[0]}"
            _add(folder / "said.csv", [_row(each, 0, "failed", said=why)])
        faulthandler.cancel_dump_traceback_later()
        torch._dynamo.reset()
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.rand(
                1, device=device
            ).item()  # raises where the device is not usable any more: another process goes on


def diagnosed(each: Program, device: str, small: bool, try_s: float, true: Mapping[str, object]) -> Rows:
    """A row with the regime, and one for each remedy in its order, with its measured gain where there is one.

    Behind them those that their trial refuted. at_pace: the gain over the step as it was beside the trial, if what is
    predicted to be left of the step is right: a busy host changes its pace in between.
    """
    began = time.perf_counter()
    found = diagnose(each.call(device, small), device=device, try_remedies=try_s)
    said = f"{str(found).splitlines()[0]} In {time.perf_counter() - began:.1f} s."
    made = [_row(each, 0, found.regime, said=said)]
    kept, gains = [one.name for one in found.remedies], gains_of(true)
    for place, trial in enumerate(sorted(found.tried, key=lambda one: one.name not in kept), 1):
        alone = trial.name != "larger batch" or set(kept[: place - 1]) <= set(DEVICE)
        gain = trial.gain or (gains.get(trial.name, "") if alone else "")  # a larger batch is for what others leave
        before_s = trial.before_s or (float(str(true["eager_s"])) if gain else found.step_s)
        how = "refuted" if place > len(kept) else "tried" if trial.gain else "changed" if gain else ""
        said, pace = "" if gain else trial.said, before_s / found.step_s
        cells = {"predicted": trial.predicted, "at_pace": (trial.predicted or 0.0) * pace, "gain": gain, "how": how}
        made.append(_row(each, place, trial.name, **cells, said=said))
    return made


def _row(each: Program, place: int, remedy: str, **cells: object) -> Mapping[str, object]:
    rest = {"predicted": "", "at_pace": "", "gain": "", "how": "", "said": "", **cells}
    return {"program": each.name, "place": place, "remedy": remedy, **rest}


def gains_of(row: Mapping[str, object]) -> dict[str, float]:
    """What remedies gained when the truth was measured."""
    return {name: float(gain) for name, _, gain in (each.partition("=") for each in str(row["gains"]).split("|"))}


def _add(path: Path, rows: Rows) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def table(truths: Sequence[Mapping[str, str]], said: Sequence[Mapping[str, str]]) -> tuple[list[str], dict[str, str]]:
    """A table, a line for each program, and the counts by what was wanted, with what each does not hold of."""
    lines, right = ["| program | a step | truth | said | first remedy |", "| --- | --- | --- | --- | --- |"], []
    for row in truths:
        of = {one["place"]: one for one in said if one["program"] == row["program"]}
        regime = of["0"]["remedy"] if of else "nothing"
        right.append(regime == row["regime"])
        first, step = _told(of["1"], short=True) if "1" in of else "none", f"{float(row['eager_s']) * 1e3:.3g} ms"
        lines.append(
            f"| {row['program']} | {step} | {row['regime']} | {regime}{' (wrong)' * (not right[-1])} | {first} |"
        )
    helps = [row for row in said if row["place"] != "0"]
    measured = [row for row in helps if row["gain"]]
    off, off_at_pace = (
        [row for row in measured if abs(float(row[of]) / float(row["gain"]) - 1) > NEAR]
        for of in ("predicted", "at_pace")
    )
    first_measured = [row for row in measured if row["place"] == "1" and row["how"] != "refuted"]
    false = [row for row in first_measured if wrong(float(row["predicted"]), float(row["gain"]))]
    refused = [row for row in helps if row["said"] not in ("", NOT_SAFE)]
    return lines, {
        "regime right": f"{sum(right)} of {len(right)}",
        "tried": f"{sum(row['how'] in ('tried', 'refuted') for row in measured)}, by a change {len(measured)} in all",
        "refuted by the trial": _list([row for row in measured if row["how"] == "refuted"], measured),
        "predicted gain off": _list(off, measured),
        "off at the trial's pace": _list(off_at_pace, measured),
        "first remedy gains too little": _list(false, first_measured),
        "refused": _list(refused, helps),
        "failed": _list([row for row in said if row["remedy"] == "failed"], truths),
    }


def wrong(predicted: float, gain: float) -> bool:
    """Whether a remedy should not have stood first: it gains next to nothing, or less than half of what was predicted.

    >>> wrong(1.5, 1.02), wrong(1.5, 1.2), wrong(1.5, 1.3), wrong(3.0, 2.1)
    (True, True, False, False)
    """
    return gain < LEAST or gain - 1 < PART * (predicted - 1)


def _list(rows: Sequence[Mapping[str, str]], of: Sequence[object]) -> str:
    return "\n  - ".join([f"{len(rows)} of {len(of)}", *map(_told, rows)])


def _told(row: Mapping[str, str], short: bool = False) -> str:
    gain = f"{float(row['gain']):.2f}x ({row['how']})" if row["gain"] else row["said"]
    what = (
        f"{row['remedy']}, {float(row['predicted']):.2f}x: {gain}" if row["predicted"] else f"{row['remedy']}: {gain}"
    )
    return what if short else f"{row['program']}: {what}"


def main(argv: Sequence[str], device: str = "cuda", small: bool = False) -> int:
    """2 for anything that is not understood."""
    match argv:
        case ["run", folder, seconds]:
            run(Path(folder), float(seconds), device, small)
        case ["table", folder]:
            files = [(Path(folder) / name).open(newline="", encoding="utf-8") for name in ("truth.csv", "said.csv")]
            lines, counts = table(*(list(csv.DictReader(file)) for file in files))
            print("\n".join([*lines, "", *(f"- {what}: {count}" for what, count in counts.items())]))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
