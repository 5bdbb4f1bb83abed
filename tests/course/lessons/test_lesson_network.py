"""The table of the textbook network's speed-ups."""

from typing import Any

from formulas import Kept, time_of

from brrr.core.measurement import FIELDS, Measurement
from brrr_course.experiments.mlp import BATCHES, HIDDEN
from brrr_course.lessons.speedup_table import speedup_table

VARIANTS = ("module", "graph", "pycuda", "pycuda-fused", "pycuda-graph", "megakernel", "best")
GAIN = {"pycuda": 1.5, "pycuda-fused": 2.0, "pycuda-graph": 1.25}
POINTS = [(layers, batch, hidden) for layers in (1, 8) for batch in (2, 16, 128) for hidden in HIDDEN]


def measured(variant: str, hidden: int) -> Measurement:
    """The rewrite gains up to hidden 1024; beyond, nothing does."""
    time: Any = time_of(1e-4 / (GAIN.get(variant, 1.0) if hidden <= 1024 else 1.0))
    return Measurement(**dict.fromkeys(FIELDS, time), kernels=1)


KEPT = {name: {point: measured(name, point[-1]) for point in POINTS} for name in VARIANTS}
SOURCE: Any = Kept(KEPT, "recorded:h200", "Synthetic H200")


def test_the_table_keeps_to_the_sources_batches() -> None:
    table = speedup_table("mlp", layers=8, source=SOURCE)
    assert all({int(row[1]) for row in each.rows} <= set(BATCHES) for each in (table, *table.beside))
    assert len(table.beside) == 2
