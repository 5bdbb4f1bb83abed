"""Each public result is a dict, and JSON that any reader takes; an estimate compares as its median does."""

import json
import math
from functools import partial
from typing import Any

import pytest
import torch

import brrr
from brrr.core.cards import Exported, plain
from brrr.core.measurement import Estimate, Measurement
from brrr.timing.comparing import judged

TIME = Estimate(2e-6, 1e-6, 3e-6, 9)
MEASURED = Measurement(period_s=TIME, host_s=Estimate(1.0, -math.inf, math.inf, 1), samples={"period_s": (2e-6,) * 9})
LINEAR = torch.nn.Linear(64, 64)


@pytest.mark.parametrize(("found", "holds"), [
    (TIME, {"median": 2e-6, "low": 1e-6, "high": 3e-6, "n": 9, "power": 1}),
    (MEASURED, {"period_s": TIME.as_dict(), "kernel_s": None, "cache": "hot"}),
    (judged({"f": MEASURED, "g": MEASURED}, "period_s"), {"against": "f", "field": "period_s"}),
    (brrr.cost(torch.relu, brrr.array(8)), {"flop": 8.0, "bytes": 64.0, "arithmetic_intensity": 0.125}),
    (brrr.predict(torch.relu, brrr.array(8), device="h200"), {"how": "eager", "calls": 100}),
    (partial(brrr.trace, torch.relu, torch.ones(8), calls=2, device="cpu"), {"calls": 2, "busy_s": None}),
    (partial(brrr.diagnose, LINEAR, torch.ones(8, 64), device="cpu", budget_s=0.02), {"source": "live"}),
    (brrr.Peaks("a CPU", "cpu", "2026-01-01"), {"device": "a CPU", "measured": {}}),
])  # fmt: skip
def test_a_result_is_a_dict_and_json(found: Exported | partial[Exported], holds: dict[str, Any]) -> None:
    found = found() if isinstance(found, partial) else found

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    read = json.loads(found.to_json(), parse_constant=refuse)
    assert read == found.as_dict() and holds.items() <= read.items()
    assert not {"samples", "rounds", "spans", "sweeps", "peaks"} & {*read}


def test_what_json_has_no_type_for_is_told() -> None:
    assert plain({1: (math.nan, {2}, torch.float32)}) == {"1": [None, [2], "torch.float32"]}


def test_an_estimate_compares_with_numbers_and_others_by_its_median() -> None:
    assert TIME < 2.5e-6 and TIME >= 2e-6 and TIME <= 2e-6 and not TIME > 2e-6 and float(TIME) == 2e-6
    assert (
        sorted([3e-6, TIME, Estimate(1e-6, 0.0, 9e-6, 5)], key=float)[1] is TIME is max(TIME, Estimate(1.9e-6, 0, 9, 5))
    )
    with pytest.raises(TypeError):
        assert TIME < "1"  # type: ignore[operator]
