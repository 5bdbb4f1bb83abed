"""The `operators` experiment on a GPU: every variant of some cases, right and measured."""

import pytest
from today import drawn

from brrr.core.errors import BrrrError
from brrr_course.sources.timers import measure_point
from tools.prediction.operators.cases import cases
from tools.prediction.operators.experiment import EXPERIMENT as OPERATORS

FIRST = {each.kind: each.name for each in reversed(cases())}
GRADIENTS = [each.name for each in drawn([each for each in cases() if each.direction == "backward"], 12)]


@pytest.mark.parametrize("name", [*FIRST.values(), *GRADIENTS])
def test_every_variant_of_a_case_is_right_and_measured(name: str) -> None:
    point = {"case": name}
    wanted = [variant.name for variant in OPERATORS.variants if OPERATORS.has(variant.name, point)]
    found = measure_point(OPERATORS, wanted, point, budget_s=0.03)
    assert {variant: str(ran) for variant, ran in found.items() if isinstance(ran, BrrrError)} == {}
    for ran in found.values():
        assert not isinstance(ran, BrrrError) and ran.measurement.period_s is not None
