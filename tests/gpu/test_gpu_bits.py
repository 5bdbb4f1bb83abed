"""Fewer bits on a GPU: every way is right or says why it is not there."""

from typing import Any

import pytest

from brrr.core.errors import UnavailableError
from brrr_course.experiments import experiment
from brrr_course.experiments.bits import ORDINARY, OUTLIERS

BITS = experiment("bits")
IMPLEMENTATIONS = [each.name for each in BITS.variants if each.on_gpu]


def point(tokens: int, width: int = 4096, inputs: str = ORDINARY) -> dict[str, Any]:
    return {"tokens": tokens, "width": width, "inputs": inputs}


POINTS = (point(1), point(16), point(256), point(256, inputs=OUTLIERS), point(64, 1024))
CASES = [(way, at) for at in POINTS for way in IMPLEMENTATIONS if BITS.has(way, at)]


@pytest.mark.parametrize(("way", "at"), CASES)
def test_every_way_is_right_or_says_why_not(way: str, at: dict[str, Any]) -> None:
    try:
        work = BITS.workload(way, at)
    except UnavailableError as error:
        pytest.skip(str(error))
    print(f"{way} {at}: {work.check():.2g}, once more {work.check():.2g}")
