"""What the recordings of calls are of: experiments with a case in each row, described by the rows themselves."""

import csv
from functools import cache
from pathlib import Path

from brrr_course.nouns.experiment import Axis, Experiment, Variant

OF_CALLS = ("prediction", "operators", "operators_drawn", "operators_again")


@cache
def described(path: Path) -> Experiment:
    """The experiment of a recording, by the cases and variants of its rows."""
    rows = list(csv.DictReader(line for line in path.read_text("utf-8").splitlines() if line[:1] != "#"))
    cases, variants = (tuple(dict.fromkeys(row[column] for row in rows)) for column in ("case", "variant"))
    return Experiment(
        name=path.stem,
        title="Predicted and measured",
        question="How far from the measured time is a time that was predicted before anything ran?",
        axes=(Axis("case", cases, scale="category"),),
        variants=tuple(Variant(name, name, "cpu" if name.startswith("cpu-") else "cuda") for name in variants),
    )
