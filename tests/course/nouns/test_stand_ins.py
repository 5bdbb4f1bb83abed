"""What an expression reads where there is no GPU: the line that stands in, or nothing."""

import pytest

from brrr_course.experiments import experiment
from brrr_course.nouns.expression import NotRecordedError, Scope, compute
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded

CPU = Recorded("cpu")


@pytest.mark.parametrize(
    ("name", "value", "alone", "read"),
    [
        ("mlp", "best(period('pycuda', layers=8))", False, "pycuda"),
        ("mlp", "best(period('pycuda', layers=8))", True, None),
        ("adds", "last(keys(period('torch-cuda')))", False, "torch-cuda"),  # the CPU queue's, up to 2^20
        ("sines", "last(busy('eager', sines=4) / busy('cuda', sines=4))", False, ""),  # the CPU's, in a loop
        ("sines", "last(busy('eager', sines=4) / busy('cuda', sines=4))", True, None),
        ("run_ahead", "first(busy('eager') / period('eager'))", False, "eager"),  # each field has its line
        ("scaling", "first(busy('chain') / period('chain'))", False, None),  # none stands in for the line of this field
    ],
)
def test_what_stands_in(name: str, value: str, alone: bool, read: str | None) -> None:
    """`read`: the variant that was read from the CPU queue, nothing for another, None for not measured."""
    scope = Scope(Evidence(experiment(name), CPU), alone=alone)
    if read is None:
        with pytest.raises(NotRecordedError):
            compute(value, scope)
    else:
        assert compute(value, scope)
        assert set(scope.queued) == {read} - {""}
