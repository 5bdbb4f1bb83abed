"""The parts of a first call: each in a process of its own, with what must come before it outside the clock."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Estimate
from brrr_course.experiments import experiment
from brrr_course.experiments.first_call import CONVOLUTION, COPY, KERNEL, MATMUL, MEMORY, ON_CPU, ON_CUDA, PARTS
from brrr_course.sources import first_call as module
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point

FIRST = experiment("first_call")


@cache
def fresh(part: str, variant: str = "cpu-first") -> dict[str, Any]:
    """What a fresh process says of a part; asked once."""
    command = [sys.executable, "-m", "brrr_course.sources.first_call", "first_call", variant, f"part={part}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_which_part_exists_where() -> None:
    assert set(ON_CPU) < set(PARTS)
    for part in PARTS:
        at = {"part": part}
        assert FIRST.has("cuda-first", at) == FIRST.has("cuda-again", at) == (part in ON_CUDA)
        assert FIRST.has("cpu-first", at) == FIRST.has("cpu-again", at) == (part in ON_CPU)
    assert FIRST.has("cuda-no-compiler", {"part": KERNEL})
    assert not FIRST.has("cuda-no-compiler", {"part": COPY})
    assert set(FIRST.axes[0].quick) <= set(ON_CPU)


@pytest.mark.parametrize("part", [MEMORY, KERNEL, MATMUL, CONVOLUTION])
def test_a_part_on_the_cpu_is_right_and_timed_twice(part: str) -> None:
    answer = fresh(part)
    assert 0 < answer["seconds"] < 60
    assert 0 < answer["again"] < 60
    assert answer["error"] <= 1e-4


def test_a_wrong_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from brrr.core.errors import WrongResultError

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)  # a part sets it, to stay
    for part in (KERNEL, MATMUL, CONVOLUTION, MEMORY):
        workload = FIRST.workload("cpu-first", {"part": part})
        workload.others["prepare"]()
        result = workload.run()
        workload.verified(result)
        with pytest.raises(WrongResultError):
            workload.verified(result[:-1] if part == MEMORY else result + 0.01)


def test_both_calls_of_a_point_come_from_the_same_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answers(command: list[str], what: str, timeout_s: float) -> str:
        asked.append(command)
        return json.dumps({"seconds": 2.0 + len(asked), "again": 0.001, "flop": 0.0, "bytes": 0.0, "error": 0.0})

    monkeypatch.setattr(module, "last_line", answers)
    found = measure_point(FIRST, ["cpu-first", "cpu-again"], {"part": KERNEL})
    assert len(asked) == module.PROCESSES
    first, again = (_latency(found[name]) for name in ("cpu-first", "cpu-again"))
    assert (first.median, first.n) == (5.0, 5)
    assert again.median == 0.001
    measure_point(FIRST, ["cpu-first"], {"part": KERNEL})
    assert len(asked) == 2 * module.PROCESSES, "measured again means measured anew"
    measure_point(FIRST, ["cpu-first"], {"part": KERNEL}, budget_s=0.03)
    assert len(asked) == 2 * module.PROCESSES + module.FEW_PROCESSES


def _latency(found: Timed | BrrrError) -> Estimate:
    assert isinstance(found, Timed)
    assert found.measurement.latency_s is not None
    return found.measurement.latency_s


def test_a_process_that_fails_costs_only_its_own_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], what: str, timeout_s: float) -> str:
        return last_line([sys.executable, "-c", "raise SystemExit('no kernel image')"], what, timeout_s)

    last_line = module.last_line
    monkeypatch.setattr(module, "last_line", fails)
    found = measure_point(FIRST, ["cpu-first"], {"part": KERNEL})["cpu-first"]
    assert isinstance(found, UnavailableError)
    assert "first_call cpu-first: the fresh process failed (1): no kernel image" in str(found)


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"did not end within 0\.2 s"):
        module.last_line([sys.executable, "-c", "import time; time.sleep(60)"], "it", 0.2)
