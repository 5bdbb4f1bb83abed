"""What an expression reads where there is no GPU: the line that stands in, what the claim names instead, or nothing."""

import pytest

from brrr_course.experiments import experiment
from brrr_course.nouns.expression import NotRecordedError, Scope, compute
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded

CPU = Recorded("cpu")


@pytest.mark.parametrize(
    ("name", "value", "stand_in", "read"),
    [
        ("mlp", "best(period('pycuda', layers=8))", {}, "pycuda"),
        ("mlp", "best(period('pycuda', layers=8))", {"pycuda": ""}, None),
        ("adds", "last(keys(period('torch-cuda')))", {}, "torch-cuda"),  # the CPU queue's, up to 2^20
        ("adds", "last(keys(period('torch-cuda')), from_=67108864)", {"torch-cuda": "torch-cpu"}, ""),
        ("run_ahead", "first(busy('eager') / period('eager'))", {}, "eager"),  # each field has its line
        ("scaling", "first(busy('chain') / period('chain'))", {}, None),  # none stands in for the line of this field
    ],
)
def test_what_stands_in(name: str, value: str, stand_in: dict[str, str], read: str | None) -> None:
    """`read`: the variant that was read from the CPU queue, nothing for another, None for not measured."""
    scope = Scope(Evidence(experiment(name), CPU), stand_in=stand_in)
    if read is None:
        with pytest.raises(NotRecordedError):
            compute(value, scope)
    else:
        assert compute(value, scope)
        assert set(scope.queued) == {read} - {""}
