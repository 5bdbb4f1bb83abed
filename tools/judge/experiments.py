"""What the recordings of calls are of: experiments with a case in each row, described by the rows themselves."""

from functools import cache
from pathlib import Path

from brrr_course.nouns.experiment import Axis, Experiment, Variant
from brrr_course.nouns.table import read

OF_CALLS = ("prediction", "operators", "operators_drawn", "operators_again")


@cache
def described(path: Path) -> Experiment:
    """The experiment of a recording, by the cases and variants of its rows."""
    rows = read(path)
    cases, variants = (tuple(dict.fromkeys(row[column] for row in rows)) for column in ("case", "variant"))
    return Experiment(
        name=path.stem,
        title="Predicted and measured",
        question="How far from the measured time is a time that was predicted before anything ran?",
        axes=(Axis("case", cases, scale="category"),),
        variants=tuple(Variant(name, name, "cpu" if name.startswith("cpu-") else "cuda") for name in variants),
    )
