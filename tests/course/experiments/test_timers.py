"""Running a variant at a point, and the teaching timers' mistakes."""

from collections.abc import Iterator

import pytest

from brrr.core.errors import BrrrError, DeviceMemoryError, UnavailableError, WrongResultError
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments import experiment
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import as_brrr_error, measure_point, measure_variant

WORK_S, EXTRA_S = 0.01, 0.2


@pytest.fixture
def queue() -> Iterator[CpuQueue]:
    with CpuQueue() as made:
        yield made


def test_a_wrong_result_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(
        "brrr.roofline.calibrate.part.product_error", lambda a, b: lambda c: float(torch.tensor(float("nan")))
    )
    with pytest.raises(WrongResultError, match="nan"):
        measure_variant(experiment("matmul"), "cpu", {"size": 8}, budget_s=0.01)


def test_one_variant_s_error_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr_course.experiments import matmul as work

    def failing(*_: object) -> object:
        raise RuntimeError("no queue today")

    monkeypatch.setattr(work, "queued_product", failing)
    found = measure_point(experiment("matmul"), ["cpu", "queue"], {"size": 16}, budget_s=0.01)
    assert isinstance(found["cpu"], Timed)
    failed = found["queue"]
    assert isinstance(failed, BrrrError) and "no queue today" in str(failed)


def test_errors_become_brrr_errors() -> None:
    assert isinstance(as_brrr_error(MemoryError("x"), "here"), DeviceMemoryError)
    assert isinstance(as_brrr_error(ImportError("no triton"), "here"), UnavailableError)
    own = WrongResultError("x")
    assert as_brrr_error(own, "here") is own
    other = as_brrr_error(ValueError("odd"), "here")
    assert type(other) is BrrrError and "here" in str(other) and "odd" in str(other)


def test_the_queue_s_timers_of_the_timers_experiment() -> None:
    timers = experiment("timers")
    point = {"function": "product-128", "cache": "hot"}
    names = [v.name for v in timers.variants if timers.has(v.name, point)]
    assert names and all(name.startswith("queue-") for name in names)
    found = measure_point(timers, names, point, budget_s=0.05)
    for name in names:
        run = found[name]
        assert isinstance(run, Timed), run
        field = next(line.field for line in timers.lines if line.variant == name)
        assert run.measurement.get(field) is not None


def test_every_line_shows_a_time_that_its_timer_gives() -> None:
    timers = experiment("timers")
    gives = {"no-sync": "host_s", "sync-each-call": "latency_s",
             "event-pair": "span_s", "transfers-included": "latency_s", "do-bench": "span_s",
             "no-warm-up": "latency_s"}  # fmt: skip
    for line in timers.lines:
        timer = timers.variant(line.variant).timer
        assert gives.get(timer, line.field) == line.field, line.name
