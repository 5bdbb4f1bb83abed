"""Published tables as small panels of their own: another machine's figures never share axes with the live ones."""

from __future__ import annotations

from dataclasses import dataclass

from brrr.core.errors import ArgumentError

_GPUS = (
    ("unnamed GPU A", (("eager", "gpu_a_eager"),)),
    ("unnamed GPU B", (("eager", "gpu_b_eager"), ("CUDA graph", "gpu_b_cuda_graph"))),
)
KNOWN = ("pseudo_linear",)


@dataclass(frozen=True)
class PublishedCurve:
    """One published table: how it was run, its widths and its speed-ups."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class PublishedPanel:
    """The tables of one GPU, under a badge of their own; `x_label` is the axis that they were published along."""

    badge: str
    x_label: str
    y_label: str
    curves: tuple[PublishedCurve, ...]

    @property
    def said(self) -> str:
        """The panel in words: each table's least and largest speed-up."""
        from brrr.core import units

        parts = [
            f"{c.label} from {units.ratio(min(c.ys))} to {units.ratio(max(c.ys))} over {self.x_label} "
            f"{c.xs[0]:.0f} to {c.xs[-1]:.0f}"
            for c in self.curves
        ]
        return f"{self.badge}: {'; '.join(parts)}"


def published_panels(name: str) -> tuple[PublishedPanel, ...]:
    """The panels of a published data set, none for the empty name; ArgumentError for one that there is not.

    >>> [panel.badge for panel in published_panels("pseudo_linear")]
    ['PUBLISHED · unnamed GPU A', 'PUBLISHED · unnamed GPU B']
    """
    if not name:
        return ()
    if name not in KNOWN:
        raise ArgumentError("explore", "published", name, f"one of {', '.join(KNOWN)}")
    return tuple(_panel(gpu, tables) for gpu, tables in _GPUS)


def _panel(gpu: str, tables: tuple[tuple[str, str], ...]) -> PublishedPanel:
    curves = tuple(_curve(label, table) for label, table in tables)
    return PublishedPanel(f"PUBLISHED · {gpu}", "width", "speed-up over Linear", curves)


def _curve(label: str, table: str) -> PublishedCurve:
    from brrr.course.experiments.published import pseudo_linear

    rows = sorted(pseudo_linear(table), key=lambda row: row.width)
    return PublishedCurve(label, tuple(float(r.width) for r in rows), tuple(r.speedup for r in rows))
