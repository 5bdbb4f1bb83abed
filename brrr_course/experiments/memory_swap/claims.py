"""What the claims on the swapped memory ask: how much faster a call is on the H200, and what is predicted of it."""

import csv
import functools
from collections.abc import Mapping
from pathlib import Path

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.core.recordings import device_folders
from brrr.gpu.datasheet import hardware
from brrr_course.experiments.judging import datasheet
from brrr_course.experiments.memory_swap import CALLS, COMPUTE, OTHERS, REFERENCE, STREAMS, regime
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

FILE = "memory_swap.csv"


@functools.cache
def reference(path: Path) -> Mapping[str, Estimate]:
    """The kernels' time of each call of a recording, the newest of each."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(line for line in file if not line.startswith("#")), key=lambda row: row["run"])
    return {row["call"]: Estimate(float(row["kernel_s"]), float(row["kernel_s_low"]), float(row["kernel_s_high"]),
                                  int(row["kernel_s_n"])) for row in rows}  # fmt: skip


def gain(evidence: Evidence) -> float:
    """How many times as many bytes a second the H200's memory moves as that of the measured device, by the datasheets.

    NotRecordedError unless the device is the H200's chip with another memory.
    """
    here, there = datasheet(evidence), hardware(REFERENCE)
    if here.key == there.key:
        raise NotRecordedError(f"{here.name} is what others are held against")
    if (here.sm_count, here.generation) != (there.sm_count, there.generation):
        raise NotRecordedError(f"{here.name} is not the chip of an {there.name} with another memory")
    return there.memory_bytes_per_s / here.memory_bytes_per_s


def swapped(evidence: Evidence, *groups: str) -> Table:
    """By the call, its kernels' time on the measured device over that on the H200; of all groups, or of those named."""
    here = evidence.table("eager", "kernel_s", {}).values  # first, so that who asks what is looked at learns it
    gain(evidence)
    there = reference(next(folder / FILE for folder in device_folders(REFERENCE) if (folder / FILE).is_file()))
    names = [name for group in groups or CALLS for name in CALLS[group]]
    return Table(("call",), {(name,): here[name,] / there[name] for name in names if (name,) in here})


@functools.cache
def predicted(call: str) -> str:
    """What sets the call's pace on the H200 as `brrr.predict` says it, the host left out."""
    from brrr.roofline.predicting import predict
    from brrr_course.experiments.memory_swap.work import cost_of

    return predict(cost_of(call), device=REFERENCE, how="graph").bound


def agrees(evidence: Evidence) -> Table:
    """By the call, whether the predicted bound is what the ratio says; without mixes, and what the caches may hold."""
    ratios, more = swapped(evidence, STREAMS, COMPUTE, OTHERS).values, gain(evidence)
    seen = {str(key[0]): regime(ratio.median, more) for key, ratio in ratios.items()}
    sure = [name for name, what in seen.items() if what != "a mix"]
    return Table(("call",), {(each,): (seen[each] == "memory") == (predicted(each) == "memory") for each in sure})
