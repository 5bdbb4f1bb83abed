"""What limits a step, as `brrr.diagnose` tells it: lines that add up, for a stack that ends with the whole step."""

from collections.abc import Mapping, Sequence

from brrr.core.measurement import Estimate
from brrr.diagnosis.report import Diagnosis
from brrr_course.nouns.experiment import Variant

LIMITS = ("compute", "memory", "latency")
"""What limits the device's work, in the order in which the lines add up; overhead comes last."""


def limit_variants(shown: bool = True) -> tuple[Variant, ...]:
    """A line for each limit: the seconds of a step's kernels up to it.

    >>> [each.name for each in limit_variants()]
    ['to-compute', 'to-memory', 'to-latency']
    """
    return tuple(
        Variant(f"to-{name}", name, "cuda", timer="own", field="busy_s", implementation=name, line=name, shown=shown)
        for name in LIMITS
    )


def up_to(way: str) -> Sequence[str]:
    """The limits that a part's line adds up; none for what is no part.

    >>> up_to("memory"), up_to("step")
    (('compute', 'memory'), ())
    """
    return LIMITS[: LIMITS.index(way) + 1] if way in LIMITS else ()


def limits_of(found: Diagnosis) -> dict[str, float]:
    """Seconds of a step's kernels by limit; what nothing is known of counts as latency."""
    limits = {name: found.parts.get(name, 0.0) for name in LIMITS}
    limits["latency"] += found.parts.get("unknown", 0.0)
    return limits


def added_up(way: str, limits: Mapping[str, float], step_s: float) -> Estimate:
    """The seconds up to a limit, at most the step's; one diagnosis tells no interval and counts as a single call."""
    seconds = min(step_s, sum(limits[name] for name in up_to(way)))
    return Estimate(seconds, seconds, seconds, 1)
