"""Speed-ups of the textbook network, coloured, beside its source's (GTX 1070): mlp_table and strassen_table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr_course.experiments import experiment
from brrr_course.experiments.mlp import BATCHES, LAYERS
from brrr_course.experiments.published import mlp_speedups
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named

Key = tuple[int, int, int]
"""Layers, batch, hidden."""
Gains = Mapping[Key, float]
THEIRS = {"overhead": "three kernels a layer", "fusion": "bias and ReLU fused"}
SAME = {"three kernels a layer": ("pycuda", "module"), "bias and ReLU fused": ("pycuda fused", "module")}
OURS = {
    "CUDA Graph": ("graph", "module"), "one kernel": ("megakernel", "module"), "best()": ("best", "module"),
}  # fmt: skip
ON_CPU = {
    "functions": ("cpu functional", "cpu module"), "TorchScript": ("cpu script", "cpu module"),
    "NumPy": ("cpu numpy", "cpu module"), "best()": ("cpu best", "cpu module"),
}  # fmt: skip
FASTER, SLOWER, FULL = "0,158,115", "213,94,0", 4.0
"""Okabe-Ito's green and vermillion, at their strongest from this factor on; the number says the same."""


@dataclass(frozen=True)
class Part:
    """Speed-ups over PyTorch's nn.Sequential from one place: each way with its points."""

    badge: str
    ways: Mapping[str, Gains]

    def rows(self) -> list[tuple[int, int]]:
        """Layers and batch of each row, the most layers first, as the source has them."""
        return sorted({key[:2] for gains in self.ways.values() for key in gains}, reverse=True)

    def hidden(self) -> list[int]:
        """The hidden sizes, a column each."""
        return sorted({key[2] for gains in self.ways.values() for key in gains})


@dataclass(frozen=True)
class MlpTable:
    """The parts of the table; a notebook shows them coloured, side by side where there is room."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(_text, self.parts))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        inside = "".join(map(_html, self.parts))
        return f"<div style='display:flex;flex-wrap:wrap;gap:1.2em 2em;overflow-x:auto'>{inside}</div>"


def mlp_table(source: Source | str | None = None, *, layers: int | None = None) -> MlpTable:
    """Speed-ups over nn.Sequential, `period_s`: as published for a GTX 1070, then as this source measured them.

    >>> print(str(mlp_table("recorded:none", layers=8)).splitlines()[0])     # doctest: +SKIP
    PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1

    `layers` keeps the rows of one number of layers. Live, it shows what was measured in this session: a ratio needs
    both times. ArgumentError for another number of layers, NotRecordedError where a recording has none of the ways.
    """
    return _table("mlp_table", source, layers, published_part(), measured_parts)


def _table(
    call: str,
    source: Source | str | None,
    layers: int | None,
    published: Part,
    measured: Callable[[Source], list[Part]],
) -> MlpTable:
    """The published part and those that a source measured, of so many layers."""
    if layers is not None and layers not in LAYERS:
        raise ArgumentError(call, "layers", layers, f"one of {', '.join(map(str, LAYERS))}, or None")
    chosen = source_named(source) if source is None or isinstance(source, str) else source
    parts = [published, *measured(chosen)]
    return MlpTable(tuple(part for each in parts if (part := of_layers(each, layers)).rows()))


def published_part() -> Part:
    """The source's own figures."""
    ways: dict[str, dict[Key, float]] = {title: {} for title in THEIRS.values()}
    for row in mlp_speedups():
        if row.variant in THEIRS:
            ways[THEIRS[row.variant]][row.layers, row.batch, row.hidden] = row.speedup
    return Part("PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1", ways)


def measured_parts(source: Source) -> list[Part]:
    """What a source has of the two published ways, and of the others; without a GPU, of the CPU's own."""
    evidence = Evidence(experiment("mlp"), source)
    badge = str(source.badge(evidence.experiment))
    found = [Part(badge, on_grid(measured_gains(evidence, ways))) for ways in (SAME, OURS)]
    there = [part for part in found if part.ways] or [Part(badge, measured_gains(evidence, ON_CPU))]
    there = [part for part in there if part.ways]
    if not there and not source.live:
        raise NotRecordedError(f"mlp_table: {source.name} has no two ways of a point; `brrr record mlp` measures them")
    return there


def measured_gains(evidence: Evidence, ways: Mapping[str, tuple[str, str]]) -> dict[str, Gains]:
    """For each title, the times of its second line over those of its first, wherever both were measured."""
    found: dict[str, Gains] = {}
    for title, (line, base) in ways.items():
        fast, slow = evidence.everywhere(line), evidence.everywhere(base)
        there = {key: slow[key].median / fast[key].median for key in fast if key in slow}
        gains = {(int(layers), int(batch), int(hidden)): gain for (layers, batch, hidden), gain in there.items()}
        if gains:
            found[title] = gains
    return found


def on_grid(ways: Mapping[str, Gains]) -> dict[str, Gains]:
    """Without the points beyond the source's own batches."""
    kept = {way: {key: gain for key, gain in gains.items() if key[1] in BATCHES} for way, gains in ways.items()}
    return {way: gains for way, gains in kept.items() if gains}


def of_layers(part: Part, layers: int | None) -> Part:
    """The rows of so many layers; all of them for None."""
    kept = {way: {k: v for k, v in gains.items() if layers in (None, k[0])} for way, gains in part.ways.items()}
    return Part(part.badge, {way: gains for way, gains in kept.items() if gains})


def shade(gain: float) -> str:
    """A cell's background: nothing at 1x, green above and vermillion below, stronger with the logarithm.

    >>> shade(1.0), shade(4.0), shade(0.25)
    ('rgba(0,158,115,0.00)', 'rgba(0,158,115,0.65)', 'rgba(213,94,0,0.65)')
    """
    strength = min(1.0, abs(math.log(gain)) / math.log(FULL)) * 0.65
    return f"rgba({FASTER if gain >= 1 else SLOWER},{strength:.2f})"


def _number(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}" if gain < 10 else f"{gain:.1f}"


def _html(part: Part) -> str:
    hidden = part.hidden()
    edge = "border-left:1px solid rgba(128,128,128,.5)"
    ways = "".join(
        f"<th scope='colgroup' colspan='{len(hidden)}' style='text-align:center;{edge}'>{escape(way)}</th>"
        for way in part.ways
    )
    sizes = "".join(_heading(h, edge if h == hidden[0] else "") for _ in part.ways for h in hidden)
    body = "".join(_html_row(part, row, hidden, edge) for row in part.rows())
    badge = f"<caption style='text-align:left;opacity:.75;font-size:90%'>{escape(part.badge)}</caption>"
    pad = "style='padding:1px 8px;text-align:left'"
    rows = "".join(f"<th scope='col' {pad}>{name}</th>" for name in ("layers", "batch"))
    head = f"<tr><th colspan='2'></th>{ways}</tr><tr>{rows}{sizes}</tr>"
    style = "border-collapse:collapse;font-size:85%;font-variant-numeric:tabular-nums;margin:4px 0"
    return f"<table style='{style}'>{badge}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _heading(hidden: int, edge: str) -> str:
    return f"<th scope='col' style='padding:1px 5px;text-align:right;{edge}'>{hidden}</th>"


def _html_row(part: Part, row: tuple[int, int], hidden: Sequence[int], edge: str) -> str:
    cells = [f"<th scope='row' style='padding:1px 8px'>{row[0]}</th><td style='padding:1px 8px'>{row[1]}</td>"]
    for gains in part.ways.values():
        for size in hidden:
            gain = gains.get((*row, size))
            look = f"background:{shade(gain)};" if gain is not None else ""
            look += edge if size == hidden[0] else ""
            cells.append(f"<td style='padding:1px 5px;text-align:right;{look}'>{_number(gain)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _text(part: Part) -> str:
    hidden = part.hidden()
    width = 6 * len(hidden)
    lines = [part.badge, " " * 12 + "  ".join(way.center(width) for way in part.ways)]
    sizes = "".join(f"{size:>6}" for size in hidden)
    lines.append("layers batch" + "  ".join(sizes for _ in part.ways))
    for row in part.rows():
        groups = ["".join(f"{_number(gains.get((*row, h))):>6}" for h in hidden) for gains in part.ways.values()]
        lines.append(f"{row[0]:>6}{row[1]:>6}" + "  ".join(groups))
    return "\n".join(line.rstrip() for line in lines)


# ---------------------------------------------------------------------------------------------------------------------
# Fused Strassen in its source's table (GTX 1070) beside what is measured here: over PyTorch, and over fusion.

OVER_PYTORCH, OVER_FUSION = "one level, over PyTorch", "one level, over fusion"
STRASSEN_SAME = {OVER_PYTORCH: ("strassen one", "module"), OVER_FUSION: ("strassen one", "pycuda fused")}
STRASSEN_OURS = {
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
    return _table("strassen_table", source, layers, published_strassen(), measured_strassen)


def published_strassen() -> Part:
    """The source's own figures: over PyTorch as it has them, over fusion as they imply."""
    every = {(row.variant, (row.layers, row.batch, row.hidden)): row.speedup for row in mlp_speedups()}
    one: dict[Key, float] = {key: gain for (variant, key), gain in every.items() if variant == "strassen"}
    over_fusion: Mapping[Key, float] = {key: gain / every["fusion", key] for key, gain in one.items()}
    return Part("PUBLISHED · NVIDIA GTX 1070 · PyTorch 1.7.1", {OVER_PYTORCH: one, OVER_FUSION: over_fusion})


def measured_strassen(source: Source) -> list[Part]:
    """What a source has of the source's own form, and of what `StrassenMLP` chooses."""
    evidence = Evidence(experiment("mlp"), source)
    try:
        badge = str(source.badge(evidence.experiment))
    except NotRecordedError:  # nothing of the experiment
        badge = source.name
    found = [Part(badge, measured_gains(evidence, ways)) for ways in (STRASSEN_SAME, STRASSEN_OURS)]
    there = [part for part in found if part.ways]
    if not there and not source.live:
        raise NotRecordedError(f"strassen_table: {source.name} has no fused Strassen; `brrr record mlp` measures it")
    return there
