"""Measuring now, on the CPU and its queue."""

import pytest

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr_course.experiments import experiment
from brrr_course.sources import timers
from brrr_course.sources.live import Live

MATMUL = experiment("matmul")


@pytest.fixture
def source() -> Live:
    return Live("cpu", budget_s=0.02)


def test_a_cpu_offers_itself_and_the_queue(source: Live) -> None:
    assert source.live and source.name == "cpu"
    assert source.variants(MATMUL) == ("cpu", "queue")
    assert source.badge(MATMUL).kind == "LIVE, CPU QUEUE"


def test_a_point_is_measured_once(source: Live) -> None:
    assert source.known(MATMUL, "cpu") == {}
    first = source.measure(MATMUL, "cpu", {"size": 16})
    assert source.measure(MATMUL, "cpu", {"size": 16}) is first
    assert source.known(MATMUL, "cpu") == {(16,): first}
    assert source.drifts(MATMUL) == {}


def test_what_needs_a_gpu_is_refused(source: Live) -> None:
    with pytest.raises(UnavailableError, match="'gpu' of 'matmul' needs another device"):
        source.measure(MATMUL, "gpu", {"size": 16})


def test_together_measures_in_one_run_what_is_not_known(source: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    real = timers.measure_point

    def noted(*args: object, **kw: object) -> object:
        runs.append(list(args[1]))  # type: ignore[call-overload]
        return real(*args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(timers, "measure_point", noted)
    source.measure_together(MATMUL, ["gpu", "queue", "cpu"], {"size": 16})
    assert runs == [["cpu", "queue"]]
    source.measure(MATMUL, "queue", {"size": 16})
    source.measure_together(MATMUL, ["queue", "cpu"], {"size": 16})
    assert runs == [["cpu", "queue"]], "all of it was known"


def test_together_keeps_what_succeeds_and_leaves_the_error_to_measure(source: Live) -> None:
    source.measure_together(MATMUL, ["cpu", "queue"], {"size": 10**7})
    assert source.known(MATMUL, "cpu") == {}
    with pytest.raises(DeviceMemoryError, match="needs"):
        source.measure(MATMUL, "cpu", {"size": 10**7})


def test_quick_grids_are_smaller(source: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_QUICK", "1")
    assert source.values(MATMUL, "size") == MATMUL.axis("size").quick
    monkeypatch.setenv("BRRR_QUICK", "0")
    assert source.values(MATMUL, "size") == MATMUL.axis("size").values
