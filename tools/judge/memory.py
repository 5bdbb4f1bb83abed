"""The memory of twelve programs and three largest batches, predicted before they ran in fresh processes.

A program's peak is the most that torch's allocator had allocated over three steps. A batch is the largest of which two
steps ran where the allocator may take a sixteenth of the device's memory, beside the one that was predicted.
"""

from collections.abc import Iterator
from pathlib import Path

from tools.judge.diagnosis import table
from tools.judge.rows import Row

WITHIN = 0.1
"""So near it was wanted."""
READ = (("memory", "programs", "GPU", "predicted_cuda_bytes", "max_memory_allocated"),
        ("memory", "programs", "CPU", "predicted_cpu_bytes", "max_memory_allocated"),
        ("batches", "batches", "CPU", "predicted", "measured"))  # fmt: skip
"""A group, its file, whose operators were followed, and the columns of what was predicted and measured."""


def rows(folder: Path) -> Iterator[Row]:
    """Those of both files, where they are."""
    for group, stem, by, said, was in READ if (folder / "memory").is_dir() else ():
        for line in table(folder / "memory" / f"{stem}.csv"):
            off = float(line[said]) / float(line[was]) - 1
            yield Row(group, f"by the {by}'s operators", line["program"], off)
            yield Row(group, f"within {WITHIN:.0%}, by the {by}'s operators", line["program"], abs(off) <= WITHIN)
