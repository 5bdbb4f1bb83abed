"""`roofline_of`: the points of an experiment under the roofs of the machine that they were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Value
from brrr.counting.cost import Cost
from brrr.drawing.roofline import roofline_plot
from brrr.gpu import is_cpu
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons.comparison import lines_here, time_at
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment, Line
from brrr_course.nouns.source import Source
from brrr_course.sources import source_for
from brrr_course.view.arguments import reachable
from brrr_course.view.predictions import figures_of

if TYPE_CHECKING:
    from brrr.drawing.style import Picture

Places = dict[str, tuple[Cost, Estimate]]


def roofline_of(
    experiment: str, lines: Sequence[str], *, at: Mapping[str, Value] | None = None, source: Source | None = None,
    **axes: Value | tuple[Value, ...],
) -> Picture | Comparison:  # fmt: skip
    """Plot lines of an experiment as points below a roofline.

    >>> roofline_of("repeat", ["cuda mul"], repeat=(1, 512), elements=2**26, dtype="float32")  # doctest: +SKIP

    Parameters
    ----------
    experiment : str
        The experiment.
    lines : sequence of str
        Its lines.
    at : mapping of str, optional
        The point, as for `explore`; it snaps to what the data have.
    source : Source, optional
        Where the measurements come from, as for `explore`. A live source measures them now.
    **axes
        Values by axis; they override those in `at`. An axis with several values gives one point for each.

    Returns
    -------
    Picture or Comparison
        The roofline, or a sentence that says which data or peaks are missing.

    Raises
    ------
    ArgumentError
        If the experiment, a line or an axis does not exist.
    """
    described = experiment_named(experiment)
    origin = source_for(source, described.name)
    badge = origin.badge(described)
    here = lines_here(described, origin, lines)
    if not here:
        return Comparison(f"{badge} has none of these lines: {', '.join(lines)}.")
    kind = described.variant(here[0].variant).processor
    known = figures_of(origin, described, kind).known
    if known is None:  # before anything is measured
        hint = "run brrr calibrate --device cpu, or choose the recording" if is_cpu(kind) else "run brrr calibrate"
        return Comparison(f"{badge}: nobody knows the roofs of this machine; {hint}.")
    places: Places = {}
    for line in here:
        places |= _of_line(described, origin, line, {**(at or {}), **axes})
    if not places:
        return Comparison(f"{badge} has no such points of {', '.join(lines)}.")
    return roofline_plot(places, known, dtypes=(), badge=badge)


def _of_line(described: Experiment, origin: Source, line: Line, at: Mapping[str, Value | tuple[Value, ...]]) -> Places:
    """One line's points by name, with FLOP and bytes; work without a cost has no place."""
    found: Places = {}
    axis, values = _along(at)
    for value in values:
        wanted = {name: value if name == axis else given for name, given in at.items()}
        point = reachable(described, origin, described.point(**cast("dict[str, Value]", wanted)))
        cost, time = described.cost_at(line.variant, point), time_at(described, origin, line, point)
        if cost is not None and time is not None:
            found[f"{line.label}, {axis} {point[axis]}"] = cost, time
    return found


def _along(at: Mapping[str, Value | tuple[Value, ...]]) -> tuple[str, tuple[Value, ...]]:
    """The axis with several values; without one, the first axis with its only value."""
    several = [(name, value) for name, value in at.items() if isinstance(value, tuple)]
    if len(several) > 1 or not at:
        raise ArgumentError("roofline_of", "at", dict(at), "a point, with several values for one axis at most")
    return (
        several[0] if several else next((name, (value,)) for name, value in at.items() if not isinstance(value, tuple))
    )
