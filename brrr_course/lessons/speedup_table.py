"""Speed-ups of the textbook network, coloured, beside its source's (GTX 1070): `speedup_table`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr_course.experiments import experiment
from brrr_course.experiments.mlp import BATCHES, HIDDEN, LAYERS
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.places import published
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named

Key = tuple[int, int, int]
"""Layers, batch, hidden."""
Gains = Mapping[Key, float]
Pairs = Mapping[str, tuple[str, str]]
"""Titles, each with its line and the line's base."""

PLAIN, FUSED = "three kernels a layer", "bias and ReLU fused"
OVER_PYTORCH, OVER_FUSION = "one level, over PyTorch", "one level, over fusion"
MEASURED: Mapping[str, tuple[Pairs, ...]] = {
    "mlp": (
        {PLAIN: ("pycuda", "module"), FUSED: ("pycuda fused", "module")},
        {"CUDA Graph": ("graph", "module"), "one kernel": ("megakernel", "module"), "best()": ("best", "module")},
    ),
    "strassen": (
        {OVER_PYTORCH: ("strassen one", "module"), OVER_FUSION: ("strassen one", "pycuda fused")},
        {"StrassenMLP, no tensor cores": ("strassen", "module"),
         "StrassenMLP, with them": ("strassen accurate", "module")},
    ),
}  # fmt: skip
"""By table: the published ways, then this course's own."""

ON_CPU: Pairs = {
    "functions": ("cpu functional", "cpu module"), "TorchScript": ("cpu script", "cpu module"),
    "NumPy": ("cpu numpy", "cpu module"), "best()": ("cpu best", "cpu module"),
}  # fmt: skip
"""In place of the network's own ways where there is no GPU."""

FASTER, SLOWER, FULL = "0,158,115", "213,94,0", 4.0
"""Okabe-Ito's green and vermillion, at their strongest from this factor on; the number says the same."""


@dataclass(frozen=True)
class TablePart:
    """Speed-ups over PyTorch's nn.Sequential from one place: each way with its points."""

    badge: str
    ways: Mapping[str, Gains]

    def kept(self, layers: int | None = None, *, on_grid: bool = False) -> TablePart:
        """The rows of so many layers, all of them for None; `on_grid` leaves out batches beyond the source's own."""
        kept = {
            way: {k: v for k, v in gains.items() if layers in (None, k[0]) and (not on_grid or k[1] in BATCHES)}
            for way, gains in self.ways.items()
        }
        return replace(self, ways={way: gains for way, gains in kept.items() if gains})

    def table(self) -> Comparison:
        """A row for each number of layers and batch, the most first, a column for each hidden size of each way."""
        places = sorted({key[:2] for gains in self.ways.values() for key in gains}, reverse=True)
        hidden = sorted({key[2] for gains in self.ways.values() for key in gains})
        gains = [[way.get((*place, size)) for way in self.ways.values() for size in hidden] for place in places]
        rows = [(*map(str, place), *map(_number, row)) for place, row in zip(places, gains, strict=True)]
        shades = {(y, x + 2): shade(gain) for y, row in enumerate(gains) for x, gain in enumerate(row) if gain}
        header = ("layers", "batch", *(str(size) for _ in self.ways for size in hidden))
        groups = (("", 2), *((way, len(hidden)) for way in self.ways))
        return Comparison("", header, tuple(rows), self.badge, groups, shades)


def speedup_table(name: str, *, layers: int | None = None, source: Source | str | None = None) -> Comparison:
    """Show the speed-ups of a network as published for a GTX 1070, beside those measured here.

    >>> print(str(speedup_table("mlp", layers=8)).splitlines()[0])     # doctest: +SKIP
    PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1

    Parameters
    ----------
    name : {"mlp", "strassen"}
        The textbook network over ``nn.Sequential``, or the network with fused Strassen.
    layers : int, optional
        Only the rows of this many layers. By default all.
    source : str or Source, optional
        As for `explore`. Live, the table shows what was measured in this session.

    Returns
    -------
    Comparison
        Ratios of `period_s`, the time per call in a loop, by layers, batch and hidden size.

    Raises
    ------
    ArgumentError
        For another name or number of layers.
    NotRecordedError
        If a recording has none of the implementations.

    References
    ----------
    The published figures are those of "GPU Overheads and Fused Strassen" (2021).
    """
    if name not in MEASURED:
        raise ArgumentError("speedup_table", "name", name, f"one of {', '.join(MEASURED)}")
    if layers is not None and layers not in LAYERS:
        raise ArgumentError("speedup_table", "layers", layers, f"one of {', '.join(map(str, LAYERS))}, or None")
    chosen = source_named(source) if source is None or isinstance(source, str) else source
    parts = [part.kept(layers) for part in (published_part(name), *measured_parts(name, chosen))]
    first, *others = (part.table() for part in parts if part.ways)
    return replace(first, beside=tuple(others))


def published_part(name: str) -> TablePart:
    """The source's own figures: over PyTorch as it has them, over fusion as they imply."""
    every = {way: published_gains(way) for way in ("overhead", "fusion", "strassen")}
    fused, one = every["fusion"], every["strassen"]
    ways: dict[str, dict[str, Gains]] = {
        "mlp": {PLAIN: every["overhead"], FUSED: fused},
        "strassen": {OVER_PYTORCH: one, OVER_FUSION: {key: gain / fused[key] for key, gain in one.items()}},
    }
    return TablePart("PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1", ways[name])


def published_gains(way: str) -> dict[Key, float]:
    """The source's speed-ups over PyTorch 1.7.1 on a GTX 1070; above 1 is faster.

    way: "overhead" (PyCUDA and cuBLAS, three kernels a layer), "fusion" (bias and ReLU in one kernel) or "strassen"
    (fused Strassen).

    >>> max(published_gains("overhead").values())
    1.82
    """
    return {
        (int(row["layers"]), int(row["batch"]), hidden): float(row[f"{way}_{hidden}"])
        for row in published("mlp_speedup_gtx1070") for hidden in HIDDEN
    }  # fmt: skip


def measured_parts(name: str, source: Source) -> list[TablePart]:
    """What a source has of the published ways, and of the others; without a GPU, of the CPU's own."""
    evidence = Evidence(experiment("mlp"), source)
    try:
        badge = str(source.badge(evidence.experiment))
    except NotRecordedError:  # nothing of the experiment
        badge = source.name
    found = [TablePart(badge, measured_gains(evidence, pairs)).kept(on_grid=name == "mlp") for pairs in MEASURED[name]]
    if name == "mlp" and not any(part.ways for part in found):
        found = [TablePart(badge, measured_gains(evidence, ON_CPU))]
    there = [part for part in found if part.ways]
    if not there and not source.live:
        raise NotRecordedError(
            f"speedup_table: {source.name} has no two ways of a point; `brrr record mlp` measures them"
        )
    return there


def measured_gains(evidence: Evidence, pairs: Pairs) -> dict[str, Gains]:
    """For each title, the times of its second line over those of its first, wherever both were measured."""
    found: dict[str, Gains] = {}
    for title, (line, base) in pairs.items():
        fast, slow = evidence.everywhere(line), evidence.everywhere(base)
        there = {key: slow[key].median / fast[key].median for key in fast if key in slow}
        gains = {(int(layers), int(batch), int(hidden)): gain for (layers, batch, hidden), gain in there.items()}
        if gains:
            found[title] = gains
    return found


def shade(gain: float) -> str:
    """A cell's background: nothing at 1x, green above and vermillion below, stronger with the logarithm.

    >>> shade(1.0), shade(4.0), shade(0.25)
    ('rgba(0,158,115,0.00)', 'rgba(0,158,115,0.65)', 'rgba(213,94,0,0.65)')
    """
    strength = min(1.0, abs(math.log(gain)) / math.log(FULL)) * 0.65
    return f"rgba({FASTER if gain >= 1 else SLOWER},{strength:.2f})"


def _number(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}" if gain < 10 else f"{gain:.1f}"
