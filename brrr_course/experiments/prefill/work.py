"""What the `prefill` experiment runs: the model of `decode` on all tokens of a prompt."""

from brrr.core.measurement import Point
from brrr_course.experiments.decode.work import workload_of
from brrr_course.experiments.prefill import call_at
from brrr_course.nouns.experiment import Variant, Workload


def workload(variant: Variant, point: Point) -> Workload:
    """The prompt from its first token on."""
    return workload_of(variant, call_at(point))
