"""Fused Strassen in its source's table (GTX 1070) beside what is measured here: over PyTorch, and over fusion.

python -m brrr.course.view.strassen_table recorded:h200                    # every row, as text
python -m brrr.course.view.strassen_table recorded:h200 --html table.html  # coloured
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.course.experiments import experiment
from brrr.course.experiments.mlp import LAYERS
from brrr.course.experiments.mlp.ratios import Key
from brrr.course.experiments.published import mlp_speedups
from brrr.course.nouns.evidence import Evidence
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as source_named
from brrr.course.view.network_table import MlpTable, Part, measured_gains, of_layers, print_table

OVER_PYTORCH, OVER_FUSION = "one level, over PyTorch", "one level, over fusion"
SAME = {OVER_PYTORCH: ("strassen one", "module"), OVER_FUSION: ("strassen one", "pycuda fused")}
OURS = {
    "StrassenMLP, no tensor cores": ("strassen", "module"),
    "StrassenMLP, with them": ("strassen accurate", "module"),
}  # fmt: skip


def strassen_table(source: Source | str | None = None, *, layers: int | None = None) -> MlpTable:
    """Speed-ups of fused Strassen, `period_s`: as published for a GTX 1070, then as this source measured them.

    >>> print(str(strassen_table("recorded:none", layers=8)).splitlines()[0])     # doctest: +SKIP
    PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1

    `layers` keeps the rows of one number of layers. Live, it shows what was measured in this session. ArgumentError for
    another number of layers, NotRecordedError where a recording has none of the ways.
    """
    if layers is not None and layers not in LAYERS:
        raise ArgumentError("strassen_table", "layers", layers, f"one of {', '.join(map(str, LAYERS))}, or None")
    chosen = source_named(source) if source is None or isinstance(source, str) else source
    parts = [published_part(), *measured_parts(chosen)]
    return MlpTable(tuple(part for each in parts if (part := of_layers(each, layers)).rows()))


def published_part() -> Part:
    """The source's own figures: over PyTorch as it has them, over fusion as they imply."""
    every = {(row.variant, (row.layers, row.batch, row.hidden)): row.speedup for row in mlp_speedups()}
    one: dict[Key, float] = {key: gain for (variant, key), gain in every.items() if variant == "strassen"}
    over_fusion: Mapping[Key, float] = {key: gain / every["fusion", key] for key, gain in one.items()}
    return Part("PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1", {OVER_PYTORCH: one, OVER_FUSION: over_fusion})


def measured_parts(source: Source) -> list[Part]:
    """What a source has of the source's own form, and of what `StrassenMLP` chooses."""
    evidence = Evidence(experiment("mlp"), source)
    try:
        badge = str(source.badge(evidence.experiment))
    except NotRecordedError:  # nothing of the experiment
        badge = source.name
    found = [Part(badge, measured_gains(evidence, ways)) for ways in (SAME, OURS)]
    there = [part for part in found if part.ways]
    if not there and not source.live:
        raise NotRecordedError(f"strassen_table: {source.name} has no fused Strassen; `brrr record mlp` measures it")
    return there


def main(argv: Sequence[str]) -> int:
    """Print the table, or write it as a coloured page; 2 where there is nothing to show."""
    return print_table(argv, strassen_table, "python -m brrr.course.view.strassen_table", "Fused Strassen", __doc__)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
