"""Several processes, a device each: their answers, what ends them, and what is measured over two of them on a CPU."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rank_calls

from brrr.core.errors import ArgumentError, UnavailableError, WrongResultError
from brrr.core.measurement import Point
from brrr.timing import activity
from brrr.tracing.events import Event
from brrr_course.experiments import experiment, ranks
from brrr_course.experiments.ranks import Ranks, Together, end_ranks, in_lanes, ranked, require_devices
from brrr_course.sources.live import Live
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point, trace_variant
from brrr_course.view.measuring import STOPPED, Slice, SliderJob


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    """Two processes that have not met, and so start without torch."""
    monkeypatch.setattr(ranks, "_join", rank_calls.nothing)
    made = Ranks(2, "cpu", timeout_s=60)
    yield made
    made.end()


def alive(made: Ranks) -> list[bool]:
    return [process.is_alive() for process in made._processes]


def test_each_rank_answers_for_itself(apart: Ranks) -> None:
    assert apart.call(rank_calls.number, 5) == [5, 6] and alive(apart) == [True, True]


@pytest.mark.parametrize(("call", "caught", "said"), [
    ((rank_calls.die, 1, 3), UnavailableError, "rank 1 of 2 died with exit code 3"),
    ((rank_calls.refuse, KeyError("x")), RuntimeError, "rank 1: KeyError: 'x'"),
    ((rank_calls.refuse, ArgumentError("f", "x", 1, "2")), ArgumentError, "x is 1"),
    ((rank_calls.sleep,), UnavailableError, r"no answer within 0\.3 s from rank \[0, 1\] of 2"),
])  # fmt: skip
def test_what_ends_one_rank_is_told_then_and_afterwards_and_ends_all(
    apart: Ranks, call: tuple[Any, ...], caught: type[Exception], said: str
) -> None:
    apart.timeout_s = 0.3 if call == (rank_calls.sleep,) else apart.timeout_s
    with pytest.raises(caught, match=said):
        apart.call(*call)
    assert alive(apart) == [False, False]
    with pytest.raises(UnavailableError, match=f"have ended: .*{said}"):
        apart.call(rank_calls.number, 5)


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    """Nor does it matter what has become of the caller's module."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, rank_calls\nprint('runs')\ndel sys.modules['__main__'].__spec__\n"
        "from brrr_course.experiments import ranks\nranks._join = rank_calls.nothing\n"
        "print(ranks.Ranks(2, 'cpu').call(rank_calls.number, 5), '__spec__' in vars(sys.modules['__main__']))\n"
    )
    paths = os.pathsep.join([str(Path(rank_calls.__file__).parent), *sys.path])
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (ran.stdout, ran.stderr) == ("runs\n[5, 6] False\n", "")


def test_an_interrupt_ends_all(apart: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ranks, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apart.call(rank_calls.sleep)
    assert alive(apart) == [False, False]


def test_too_few_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(UnavailableError, match="takes 2 GPUs of one host, and this one has 1"):
        require_devices(2, "cuda")


# ---- measured over two ranks on this CPU ----


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    end_ranks()


AT: list[tuple[str, dict[str, Any]]] = [
    ("collective", {"nbytes": 8}), ("collective", {"nbytes": 2**16}),
    ("data_parallel", {"network": "MLP", "batch": 2, "bucket": 25}),
    ("data_parallel", {"network": "transformer block", "batch": 2, "bucket": 1}),
    ("data_parallel", {"network": "recurrent layer", "batch": 2, "bucket": 25}),
    ("tensor_parallel", {"width": 1024, "batch": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "at"), AT)
def test_every_way_is_right_and_takes_time(name: str, at: Point) -> None:
    found = experiment(name)
    here = [each.name for each in found.variants if not each.on_gpu and found.has(each.name, at)]
    for way, timed in measure_point(found, here, at).items():
        assert isinstance(timed, Timed), (way, timed)
        m = timed.measurement
        assert timed.error < 1e-5 and m.period_s and m.latency_s and min(m.period_s.low, m.latency_s.low) > 0
        assert (m.period_s.n, m.host_s, m.kernel_s, m.busy_s) == (8, None, None, None)
        assert len(m.samples["period_s"]) == 8


def test_gradients_that_were_not_exchanged_are_found_out() -> None:
    found, at = experiment("data_parallel"), {"network": "MLP", "batch": 8, "bucket": 25}
    work = found.workload("cpu-after", at)
    work.check()
    for right, alone, halved in ranks.ranks_on("cpu").call(rank_calls.unlike):
        assert right < 1e-5 and alone > 2 * work.tolerance and halved > 2 * work.tolerance


def test_a_result_that_is_wrong_on_one_rank_shows_no_time() -> None:
    found, at = experiment("collective"), {"nbytes": 8}
    made = {name: ranked(found, found.variant(f"cpu-{name}"), at, rank_calls.wrong_on_one, 0.1)
            for name in ("all-reduce", "all-gather", "send")}  # fmt: skip
    assert made["all-reduce"].check() == 0
    for name, error in (("all-gather", "0.5"), ("send", "nan")):
        with pytest.raises(WrongResultError, match=f"relative error is {error}"):
            made[name].check()


def test_a_point_is_measured_on_its_own_buffers_whatever_the_ranks_did_since() -> None:
    found = experiment("collective")
    large, small = (found.workload("cpu-all-reduce", {"nbytes": nbytes}) for nbytes in (2**20, 8))
    held = []
    for work in (large, small, large):
        work.check()
        held.append(ranks.ranks_on("cpu").call(rank_calls.sent)[0])
    assert held == [2**20, 8, 2**20]


def test_a_point_goes_on_with_new_ranks_where_its_own_have_ended() -> None:
    found, at = experiment("collective"), {"nbytes": 16}
    kept = found.workload("cpu-all-reduce", at)
    kept.check()
    ranks.ranks_on("cpu").end("somebody pressed Ctrl-C")
    with pytest.raises(UnavailableError, match="ended: somebody pressed"):
        kept.check()
    assert found.workload("cpu-all-reduce", at).check() < 1e-6, "while an error holds the first"


def test_ranks_that_died_are_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ranks.ranks_on("cpu")
    assert ranks.ranks_on("cpu") is first
    with pytest.raises(UnavailableError, match="rank 1 of 2 died with exit code 7"):
        first.call(rank_calls.die_alone)  # whatever the other, which loses it in an exchange, says
    assert ranks.ranks_on("cpu") is not first
    assert ranks.ranks_on("cpu").call(rank_calls.number, 1) == [1, 2]
    measure_point(experiment("mystery"), [], {"model": "A"})
    assert ranks._here == {}, "while another experiment is measured, none is there"


def test_a_timeline_of_ranks_has_one_time_and_the_exchange_in_lanes_of_its_own() -> None:
    def recorded(rank: int, late: int) -> list[Event]:
        host = [Event("brrr_loop", "annotation", late, late + 900), Event("brrr_call", "annotation", late, late + 400),
                Event("aten::mm", "operator", late + 10, late + 20),
                Event("cudaLaunchKernel", "runtime", late + 12, late + 15, correlation=1),
                Event("cudaLaunchKernel", "runtime", late + 30, late + 35, correlation=2)]  # fmt: skip
        return [
            *host,
            Event("gemm<1>(int)", "kernel", late + 100, late + 200, device=rank, stream=7, correlation=1),
            Event("ncclDevKernel_AllReduce", "kernel", late + 150, late + 300, device=rank, stream=9, correlation=2),
        ]

    spans = in_lanes([recorded(0, 5000), recorded(1, 5040)])
    device = [(each.lane, each.name, each.start_ns, each.end_ns) for each in spans if each.on_device]
    assert device == [
        ("GPU 0 compute", "gemm", 100, 200),
        ("GPU 1 compute", "gemm", 140, 240),
        ("GPU 0 exchange", "ncclDevKernel_AllReduce", 150, 300),
        ("GPU 1 exchange", "ncclDevKernel_AllReduce", 190, 340),
    ]
    causes = {each.lane: spans[each.cause].start_ns for each in spans if each.cause >= 0}
    assert causes == {"GPU 0 compute": 12, "GPU 0 exchange": 30}, "the second rank's host is not shown"
    assert len([each for each in spans if not each.on_device]) == 4


@pytest.mark.parametrize(("empty", "asked"), [(1, 2), (activity.ATTEMPTS, activity.ATTEMPTS)])
def test_a_timeline_in_which_a_gpu_recorded_nothing_is_taken_again_or_refused(
    empty: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made up, since it takes GPUs: of the first recordings one rank's has nothing of its device."""
    loop = [Event("brrr_loop", "annotation", 0, 900), Event("brrr_call", "annotation", 0, 400)]
    whole = [*loop, Event("gemm", "kernel", 100, 200)]
    recorded = [*[([whole, loop])] * empty, [whole, whole]]
    made = Together(SimpleNamespace(processor="cuda"), lambda *_: {}, ("one",))  # type: ignore[arg-type]
    asked_for = []

    def call(function: Any, *_: Any) -> list[Any]:
        if function.__name__ != "_traced":
            return [(1e-3, 1e-3)] * 2
        asked_for.append(function)
        return [(events, 1e-3) for events in recorded[len(asked_for) - 1]]

    monkeypatch.setattr(made, "call", call)
    monkeypatch.setattr("brrr_course.experiments.ranks.name_of", lambda _: "GPU")
    if empty < activity.ATTEMPTS:
        assert made.traced("one").streams == ("GPU 0 compute", "GPU 1 compute")
    else:
        with pytest.raises(UnavailableError, match="nothing on one of the GPUs"):
            made.traced("one")
    assert len(asked_for) == asked


def test_processes_on_a_cpu_have_no_timeline() -> None:
    with pytest.raises(UnavailableError, match="no lanes of a device"):
        trace_variant(experiment("data_parallel"), "cpu-alone", {"network": "MLP", "batch": 2, "bucket": 25})


def test_cancel_ends_the_processes() -> None:
    first, said = ranks.ranks_on("cpu"), list[str]()
    slices = [Slice("cpu-all-reduce", {"nbytes": nbytes}) for nbytes in (8, 16)]
    job = SliderJob(experiment("collective"), live := Live("cpu"), slices, lambda *_: job.cancel(), said.append)
    job.start()
    assert said == [STOPPED] and job.unexpected is None
    assert list(live.known(experiment("collective"), "cpu-all-reduce")) == [(8,)]
    assert alive(first) == [False, False] and ranks._here == {}


def test_badges_name_all_devices() -> None:
    live = Live("cpu")
    assert live.badge(experiment("collective")).device == f"2 processes on {live.device_name}"
    assert live.badge(experiment("bits")).device == live.device_name


# ---- what is counted ----


def test_flop_are_those_of_both_devices() -> None:
    steps = experiment("data_parallel")
    costs = [steps.cost_at(way, {"network": "MLP", "batch": 4, "bucket": 25}) for way in ("one", "buckets")]
    assert costs[0] == costs[1] and costs[0] and costs[0].flop == (3 * 8 - 1) * 2 * 8 * 4096**2
    assert costs[0].bytes == 2 * 8 * 4096**2
