"""Exercise 01-crossover: from which matrix size on does the GPU beat the CPU, with transfers and without?

The mark comes from measurements: this session's, if it measured both sides of the crossing, else the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brrr.core.errors import BrrrError, NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments import experiment
from brrr.course.lessons.checking import Exercise, Mark
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Evidence, Source
from brrr.course.sources import source

RECORDING = "recorded:h200"


@dataclass(frozen=True)
class Bracket:
    """The GPU does not beat the CPU at `loses`; it does at `wins` and at every larger size measured."""

    loses: int
    wins: int

    def holds(self, size: float) -> bool:
        """Whether a size is a fair answer: nobody measured between the two."""
        return self.loses < size <= self.wins


def grade(with_transfers: Any, without_transfers: Any) -> Mark:
    """Each answer must lie above the last size where the CPU is ahead, up to the first from which the GPU always is."""
    asked = {"with_transfers": (with_transfers, "transfers"), "without_transfers": (without_transfers, "synchronized")}
    matmul = experiment("matmul")
    for name, (size, line) in asked.items():
        if isinstance(size, bool) or not isinstance(size, int | float):
            return Mark("wrong", f"`{name}` is {size!r}.", "Write a matrix size, as in 64.")
        where, bracket = measured_bracket(matmul, line)
        if not bracket.holds(size):
            return Mark("wrong", f"`{name}={size}` does not fit ({where}).", _hint(size, bracket))
    where, bracket = measured_bracket(matmul, "transfers")
    return Mark("right", f"that is where the lines cross ({where}). {_why(matmul)}")


EXERCISE = Exercise("01-crossover", grade)


def _hint(size: float, bracket: Bracket) -> str:
    if size <= bracket.loses:
        return "There is a size at or above this one where the CPU is at least as fast. Move the slider up."
    return "The GPU is faster already below this size, and stays so. Move the slider down."


def _why(matmul: Experiment) -> str:
    _, there = measured_bracket(matmul, "synchronized")
    _, sent = measured_bracket(matmul, "transfers")
    if sent.wins > there.wins:
        return "Sending the data costs time, so the work must be larger before the GPU pays."
    return "The sizes measured are too far apart to show what sending the data costs here."


def measured_bracket(matmul: Experiment, line: str) -> tuple[str, Bracket]:
    """The badge and the crossing of a GPU line with the CPU's, from the first source that shows it."""
    for found in _sources():
        try:
            bracket = crossing(Evidence(matmul, found), line)
        except BrrrError:
            continue
        return str(found.badge(matmul)), bracket
    raise NotRecordedError(
        "check('01-crossover'): no source here holds the CPU's and the GPU's times; see `brrr doctor`"
    )


def _sources() -> list[Source]:
    """This lesson's source, then the recording: a live source may not have measured enough, or have no GPU."""
    here = source()
    return [here] if here.name == RECORDING else [here, source(RECORDING)]


def crossing(evidence: Evidence, line: str) -> Bracket:
    """The crossing of a GPU line and the CPU's: from the last size where the GPU's median is behind to the first from
    which its 95 % interval is ahead, there and at all larger sizes.

    NotRecordedError where no size was measured on one of the two sides.
    """
    gpu, cpu = _sizes(evidence, line), _sizes(evidence, "cpu")
    sizes = sorted(set(gpu) & set(cpu))
    behind = [size for size in sizes if gpu[size].median >= cpu[size].median]
    unclear = [size for size in sizes if gpu[size].high >= cpu[size].low]
    if not behind or unclear[-1] == sizes[-1]:
        raise NotRecordedError(f"{line} and cpu do not cross among the sizes measured: {sizes}")
    return Bracket(behind[-1], sizes[sizes.index(unclear[-1]) + 1])


def _sizes(evidence: Evidence, line: str) -> dict[int, Estimate]:
    return {int(size): estimate for size, estimate in evidence.curve(line, "size").items()}
