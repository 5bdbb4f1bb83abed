"""The sources' own figures, read from data/published: facts to compare with, never measurements of this project."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from brrr_course.nouns.places import share

VARIANTS = ("overhead", "fusion", "strassen")
HIDDEN = (128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class MlpSpeedup:
    """Speedup of one rewritten network over PyTorch 1.7.1 on a GTX 1070; above 1 is faster.

    `variant`: "overhead" (PyCUDA and cuBLAS, three kernels a layer), "fusion" (bias and ReLU in one kernel) or
    "strassen" (fused Strassen).
    """

    layers: int
    batch: int
    hidden: int
    variant: str
    speedup: float


@dataclass(frozen=True)
class PseudoLinear:
    """The time of a Linear layer over that of an element-wise stand-in of the same width, on an unnamed GPU."""

    table: str
    width: int
    speedup: float


@cache
def mlp_speedups() -> tuple[MlpSpeedup, ...]:
    """The speedups of the "GPU Overheads and Fused Strassen" post, one row per network and variant.

    >>> len(mlp_speedups()), max(row.speedup for row in mlp_speedups() if row.variant == "overhead")
    (504, 1.82)
    """
    return tuple(
        MlpSpeedup(int(row["layers"]), int(row["batch"]), hidden, variant, float(row[f"{variant}_{hidden}"]))
        for row in _rows("mlp_speedup_gtx1070.csv") for variant in VARIANTS for hidden in HIDDEN
    )  # fmt: skip


@cache
def pseudo_linear(table: str | None = None) -> tuple[PseudoLinear, ...]:
    """The forum thread's speedups of a pseudo-linear layer, all or those of one table.

    >>> pseudo_linear("gpu_b_eager")[0]
    PseudoLinear(table='gpu_b_eager', width=128, speedup=0.6435953703453665)
    """
    rows = (PseudoLinear(row["table"], int(row["width"]), float(row["speedup"])) for row in _rows("pseudo_linear.csv"))
    return tuple(row for row in rows if table in (None, row.table))


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    with (share("data") / "published" / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
