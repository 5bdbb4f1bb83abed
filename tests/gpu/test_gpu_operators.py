"""The `operators` experiment on a GPU: every variant of some cases, right and measured."""

from random import Random

import pytest

from tests.gpu.measuring import timed
from tools.prediction.operators.cases import cases
from tools.prediction.operators.experiment import EXPERIMENT as OPERATORS

FIRST = {each.kind: each.name for each in reversed(cases())}
GRADIENTS = [each.name for each in Random(0).sample([each for each in cases() if each.direction == "backward"], 12)]


@pytest.mark.parametrize("name", [*FIRST.values(), *GRADIENTS])
def test_every_variant_of_a_case_is_right_and_measured(name: str) -> None:
    point = {"case": name}
    wanted = [variant.name for variant in OPERATORS.variants if OPERATORS.has(variant.name, point)]
    for ran in timed(OPERATORS, point, wanted, 0.03).values():
        assert ran.measurement.period_s is not None
