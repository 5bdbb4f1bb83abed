"""`scaling_test`: what it measures, how it judges, what it refuses, and the bytes that it counts."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from formulas import Kept, time_of
from played_clock import Clock
from promises import ROOT

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Measurement
from brrr.counting.cost import Cost
from brrr_course.sources.scaling import MEANS, Scaling, scaling_test


def sleeping(seconds: Callable[[int], float]) -> Callable[[int], Callable[[], None]]:
    """A function whose time is known at every batch."""
    return lambda batch: lambda: time.sleep(seconds(batch))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's: a sleep takes as long as asked for, and a look at the clock 20 ns."""
    played = Clock(20e-9)
    for name in ("sleep", "perf_counter_ns", "perf_counter"):
        monkeypatch.setattr(time, name, getattr(played, name))


def same_bytes(batch: int) -> Cost:
    return Cost(float(batch), 1e6)


def more_bytes(batch: int) -> Cost:
    return Cost(float(batch), 1e6 * batch)


# ---------------------------------------------------------------- live


@pytest.mark.parametrize(
    ("seconds", "cost", "regime"),
    [
        (lambda batch: 4e-3, more_bytes, "the host pays"),
        (lambda batch: 4e-3, same_bytes, "inconclusive: host or weights"),
        (lambda batch: 4e-3, None, "inconclusive: bytes unknown"),
        (lambda batch: 2e-3 * batch, more_bytes, "grows with size"),
        (lambda batch: 4e-3 + 2e-3 * batch, more_bytes, "between"),
    ],
)
@pytest.mark.usefixtures("clock")
def test_functions_whose_times_are_known(seconds: Any, cost: Any, regime: str) -> None:
    found = scaling_test(sleeping(seconds), 4, device="cpu", cost=cost, budget_s=0.1)
    assert found.regime == regime, found
    assert repr(found).lower().startswith(regime.lower().replace(": ", ", ")) and MEANS[found.regime] in repr(found)
    assert "Batch 4 to 8: " in repr(found) and f"takes {units.ratio(found.growth.median)} the time." in repr(found)
    assert "GPU" not in repr(found), "a CPU has no idle time of a device to tell"


@pytest.mark.usefixtures("clock")
def test_a_factor_of_eight() -> None:
    found = scaling_test(sleeping(lambda batch: 1e-3 * batch), 2, factor=8, device="cpu", cost=more_bytes, budget_s=0.1)
    assert found.bytes_growth == 8 and found.regime == "grows with size"
    assert "Batch 2 to 16" in repr(found) and "8x the batch takes 8x the time" in repr(found)


def test_the_bytes_of_torch_functions_are_counted() -> None:
    weights = torch.zeros(64, 64)

    def skinny(batch: int) -> Callable[[], torch.Tensor]:
        x = torch.zeros(batch, 64)
        return lambda: x @ weights

    found = scaling_test(skinny, 1, device="cpu", budget_s=0.02)
    assert found.bytes_growth == pytest.approx((64 * 64 + 4 * 64) / (64 * 64 + 2 * 64))


# ---------------------------------------------------------------- the judgement


def measured(period: float, busy: float | None = None, host: float | None = None, half: float = 0.01) -> Measurement:
    found = [None if each is None else time_of(each, half) for each in (period, busy, busy, host)]
    return Measurement(**dict(zip(("period_s", "busy_s", "span_s", "host_s"), found, strict=True)))


@pytest.mark.parametrize(
    ("small", "large", "bytes_growth", "regime"),
    [
        (measured(40e-6, 8e-6, 40e-6), measured(40e-6, 16e-6, 40e-6), 2.0, "the host pays"),
        (measured(40e-6, 8e-6, 40e-6), measured(40e-6, 8e-6, 40e-6), 1.01, "the host pays"),
        (measured(40e-6, 8e-6, 40e-6), measured(40e-6, 8e-6, 40e-6), None, "the host pays"),
        (measured(17e-6, 16e-6, 5e-6), measured(17e-6, 16e-6, 5e-6), 1.01, "the weights set the pace"),
        (measured(17e-6, 16e-6, 5e-6), measured(17e-6, 16e-6, 5e-6), 2.0, "under-filled GPU"),
        (measured(17e-6, 16e-6, 5e-6), measured(34e-6, 33e-6, 5e-6), 2.0, "grows with size"),
        (measured(40e-6, 8e-6, 40e-6), measured(60e-6, 58e-6, 40e-6), 2.0, "between"),
        (measured(40e-6, half=0.5), measured(60e-6, half=0.5), 2.0, "inconclusive: too noisy"),
        (measured(40e-6, half=0.2), measured(39e-6, half=0.2), 2.0, "the host pays"),
        (measured(40e-6), measured(40e-6), 1.1, "inconclusive: host or weights"),
    ],
)
def test_how_it_judges(small: Measurement, large: Measurement, bytes_growth: float | None, regime: str) -> None:
    assert Scaling(8, 2, small, large, bytes_growth).regime == regime


def test_its_names_of_a_flat_time_are_those_of_the_lesson_s_table() -> None:
    lesson = (ROOT / "notebooks/source/03_overhead.py").read_text(encoding="utf-8")
    assert all(f"# | {name} | " in lesson for name in list(MEANS)[:3])


# ---------------------------------------------------------------- on an experiment


def pairs(*variants: str) -> Any:
    """A recording of `scaling` with these variants, at three batches."""
    times = {name: measured(17e-6, None if name.startswith("cpu") else 16e-6, 5e-6) for name in variants}
    kept = {name: dict.fromkeys([(1,), (64,), (4096,)], each) for name, each in times.items()}
    return Kept(kept, "recorded:made-up", "a made-up GPU")


def test_a_pair_of_variants_is_judged_from_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    source, together = pairs("gemm", "gemm-double"), list[tuple[str, ...]]()
    monkeypatch.setattr(source, "measure_together", lambda _, variants, point: together.append(tuple(variants)))
    found = scaling_test("scaling", 50, variant="gemm", source=source)
    assert (found.batch, found.regime) == (64, "the weights set the pace")
    assert found.bytes_growth == pytest.approx((4096 + 256) / (4096 + 128))
    assert together == [("gemm", "gemm-double")] and "RECORDED · a made-up GPU" in repr(found)


def test_the_cpu_stands_in_and_stops_where_it_stops() -> None:
    found = scaling_test("scaling", 4096, variant="gemm", source=pairs("cpu-gemm", "cpu-gemm-double"))
    assert (found.batch, found.regime) == (64, "inconclusive: host or weights")


def test_live_on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_QUICK", "1")
    found = scaling_test("scaling", 1, variant="chain", source="cpu")
    assert found.batch == 1 and found.bytes_growth == 2 and "LIVE" in found.badge


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, r"batch is 0; expected a whole number, at least 1"),
        ({"batch": 2.5}, r"batch is 2\.5"),
        ({"batch": True}, r"batch is True"),
        ({"factor": 1}, r"factor is 1; expected a whole number, at least 2"),
        ({"make": 3}, r"make is 3; expected a function of the batch"),
        ({"make": lambda batch: batch}, r"fn is 4; expected a function. Wrap the call"),
        ({"make": "scalin"}, r"expected one of matmul"),
        ({"make": "scaling", "variant": "chian"}, r"variant is 'chian'; expected one of chain, cpu-chain, gemm"),
        ({"make": "matmul", "variant": "cpu"}, r"variant is 'cpu'; expected one with a twin"),
        ({"make": "scaling", "variant": "gemm", "factor": 4, "source": pairs("gemm")}, r"factor is 4; expected 2"),
    ],
)
def test_arguments_that_are_none(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"make": sleeping(lambda batch: 1e-3), "batch": 4, **arguments}
    with pytest.raises(ArgumentError, match=message):
        scaling_test(**given)
