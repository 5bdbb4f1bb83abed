"""What was said of programs beside what interventions showed of them, from the recorded tables of both.

What limits a step was found out by changing it: as a CUDA Graph, with half the bytes at as many FLOP, with twice the
batch; the gain of a remedy by building the program with it. docs/diagnosis_judged.md has the rule, and the commit of
the programs that measured these tables.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from brrr_course.nouns.table import read
from tools.judge.rows import Row

Line = Mapping[str, str]
NEAR, LEAST, PART = 0.2, 1.03, 0.5
"""A predicted gain within so much of the measured one is right; a first remedy has to gain so much, and such a part."""
RIGHT, GAIN = "regime or first remedy", "gain within 15 %"
NEAR_BESIDE, NEAR_PRINTED = "gain within 20 %, beside the trial", "gain within 20 %, as printed"
FIRST, KEPT = "first remedy gains enough", "not refuted by its trial"


def rows(folder: Path) -> Iterator[Row]:
    """Those of a device's folder: of each table of small workloads or faults, and of whole programs."""
    for path in sorted((folder / "diagnosis").glob("*.csv")):
        group = f"diagnosis, {path.stem.replace('_', ' ')}"
        for line in table(path):
            name = line.get("workload") or line.get("step") or ""
            if "right" in line:
                yield Row(group, RIGHT, name, line["right"] == "True")
            if line.get("near") and line["wanted"]:  # of a healthy program there is no gain
                yield Row(group, GAIN, name, line["near"] == "True")
    if (folder / "diagnosis" / "said.csv").is_file():
        yield from of_programs(folder / "diagnosis")


def table(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file; "latency" was the name of a regime when they were recorded."""
    return [{k: "under-filled" if v == "latency" else v for k, v in line.items()} for line in read(path)]


def of_programs(folder: Path) -> Iterator[Row]:
    """Whole programs: the regime, and of each remedy with a measured gain how near the predicted one was."""
    group, said = "diagnosis, programs", table(folder / "said.csv")
    regimes = {line["program"]: line["remedy"] for line in said if line["place"] == "0"}
    for line in table(folder / "truth.csv"):
        yield Row(group, "regime", line["program"], regimes.get(line["program"]) == line["regime"])
    for line in said:
        if not line["gain"]:
            continue
        name, gain = f"{line['program']}: {line['remedy']}", float(line["gain"])
        for what, predicted in ((NEAR_BESIDE, line["at_pace"]), (NEAR_PRINTED, line["predicted"])):
            yield Row(group, what, name, abs(float(predicted) / gain - 1) <= NEAR)
        yield Row(group, KEPT, name, line["how"] != "refuted")
        if line["place"] == "1" and line["how"] != "refuted":
            yield Row(group, FIRST, name, not wrong(float(line["predicted"]), gain))


def wrong(predicted: float, gain: float) -> bool:
    """Whether a remedy should not have stood first: it gains next to nothing, or less than half of what was predicted.

    >>> wrong(1.5, 1.02), wrong(1.5, 1.2), wrong(1.5, 1.3), wrong(3.0, 2.1)
    (True, True, False, False)
    """
    return gain < LEAST or gain - 1 < PART * (predicted - 1)
