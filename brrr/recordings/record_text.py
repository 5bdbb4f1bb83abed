"""What `brrr record` prints: the plan before, the summary after."""

from __future__ import annotations

from collections.abc import Sequence

from brrr.recordings.machine import FILE
from brrr.recordings.plan import PHASES, Pace, Step
from brrr.recordings.recorder import Outcome


def plan_text(found: Sequence[Step], pace: Pace, limit_s: float) -> str:
    """The predicted device minutes: a line for each experiment and phase, and the points too long for one run."""
    parts = [pace.split(step, limit_s) for step in found]
    fitting = [(step, pace.seconds(step)) for step, _ in parts if step is not None]
    lines = []
    for name in dict.fromkeys(step.experiment.name for step, _ in fitting):
        for phase in PHASES:
            these = [s for step, s in fitting if step.experiment.name == name and step.phase == phase]
            if these:
                lines.append(f"{name:<12} {phase:<8} {len(these):>5} points {sum(these) / 60:>7.1f} min")
    total_s = sum(s for _, s in fitting)
    runs = -int(-total_s // limit_s)
    lines.append(f"{'together':<21} {len(fitting):>5} points {total_s / 60:>7.1f} min predicted, in about {runs} runs")
    lines += [too_long(step, pace.seconds(step), limit_s) for _, step in parts if step is not None]
    return "\n".join(lines)


def too_long(step: Step, seconds: float, limit_s: float) -> str:
    """That a point takes longer than one run may, and what to do.

    `seconds` is what it is predicted to take, `limit_s` what a run may.
    """
    return (
        f"{step} is predicted to take {seconds / 60:.1f} min with {', '.join(step.variants)}, "
        f"more than --minutes {limit_s / 60:g} holds: left out. Give it --minutes {seconds / 60 + 1:.0f}"
    )


def summary(outcome: Outcome, limit_s: float) -> str:
    """What a run did, as lines."""
    lines = [f"{len(outcome.measured)} points measured."]
    lines += [
        f"DRIFT {d.drift:+.1%}: anchor {d.experiment} {dict(d.point)}, {d.variant}, {d.field} (flagged in {FILE})"
        for d in outcome.drifts
        if d.flagged
    ]
    lines += [too_long(step, seconds, limit_s) for step, seconds in outcome.too_long]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for f in outcome.failed:
        where = ", ".join(map(str, f.point.values()))
        reasons.setdefault((f.experiment, f.variant, f"{f.error}: {f.reason}"), []).append(where)
    lines += [f"NOT MEASURED {e} {v} at {'; '.join(at)}: {reason}" for (e, v, reason), at in reasons.items()]
    if outcome.interrupted:
        lines.append("Interrupted: all finished points are kept.")
    if outcome.left:
        lines.append(f"{len(outcome.left)} points are left; the same command goes on with them.")
    return "\n".join(lines)
