"""The experiments of lesson 03: what they run, that a wrong result is refused, and their claims on made-up times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError, NotRecordedError, UnavailableError, WrongResultError
from brrr.core.measurement import Badge, Estimate, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr_course.experiments import experiment
from brrr_course.experiments.adds import additions
from brrr_course.experiments.host_cost import RUNGS, SMALL
from brrr_course.experiments.run_ahead import OPERATORS, hidden_from, idle_share
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point

ADDS, HOST, AHEAD, SCALING = (experiment(name) for name in ("adds", "host_cost", "run_ahead", "scaling"))
POINTS: list[tuple[Experiment, dict[str, Value]]] = [
    (ADDS, {"elements": 1}), (ADDS, {"elements": 4096}), (HOST, {"elements": SMALL, "operators": 1}),
    (HOST, {"elements": 4096, "operators": 16}), (AHEAD, {"elements": 1024}), (SCALING, {"batch": 1}),
    (SCALING, {"batch": 64}),
]  # fmt: skip


def on_cpu(found: Experiment, point: Point) -> list[str]:
    """The variants that run without a GPU, but for the compiler, which takes seconds."""
    names = [v.name for v in found.variants if v.device != "cuda" and not v.name.endswith("compile")]
    return [name for name in names if found.has(name, point)]


# ---------------------------------------------------------------- what runs


@pytest.mark.parametrize(("found", "point"), POINTS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_cpu_variant_is_checked_and_timed(found: Experiment, point: dict[str, Value]) -> None:
    runs = measure_point(found, on_cpu(found, point), point, budget_s=0.01)
    for name, run in runs.items():
        assert isinstance(run, Timed), f"{name}: {run}"
        assert run.measurement.period_s is not None and run.measurement.period_s.median > 0
        assert run.cost == found.cost_at(name, point)


@pytest.mark.parametrize("found", [ADDS, HOST, AHEAD, SCALING], ids=lambda e: e.name)
def test_a_result_that_is_a_little_wrong_is_refused(found: Experiment) -> None:
    point = {axis.name: axis.quick[0] for axis in found.axes}
    for name in on_cpu(found, point):
        workload = found.workload(name, point)
        try:
            right = workload.run()
            if workload.synchronize is not None:
                workload.synchronize()
            assert workload.verified(right) <= workload.tolerance
            for wrong in (right * 1.0005 + 0.02, right * float("nan")):
                with pytest.raises(WrongResultError):
                    workload.verified(wrong)
        finally:
            workload.close()


def test_a_chain_that_is_one_operator_short_is_found_out() -> None:
    from brrr_course.experiments.run_ahead import MULTIPLIER

    workload = AHEAD.workload("cpu", {"elements": 1000})
    with pytest.raises(WrongResultError):
        workload.verified(workload.run() / MULTIPLIER)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.zeros(SMALL)])
def test_a_relu_of_another_size_or_of_nothing_is_refused(wrong: torch.Tensor) -> None:
    workload = HOST.workload("cpu-relu", {"elements": SMALL, "operators": 1})
    with pytest.raises(WrongResultError):
        workload.verified(wrong)


def test_the_script_leaves_torch_as_it_was() -> None:
    before = torch._C._jit_texpr_fuser_enabled()
    workload = HOST.workload("cpu-script", {"elements": SMALL, "operators": 16})
    workload.check()
    workload.close()
    assert torch._C._jit_texpr_fuser_enabled() == before


def test_autograd_is_recorded_on_the_upper_rungs_only() -> None:
    recorded = {}
    for rung in RUNGS:
        if rung.on_cpu:
            workload = HOST.workload(f"cpu-{rung.name}", {"elements": 8, "operators": 2})
            recorded[rung.name] = bool(workload.run().requires_grad)
            workload.close()
    assert [name for name, grad in recorded.items() if grad] == ["module-grad"]


def test_the_additions_are_made_one_by_one() -> None:
    from brrr_course.experiments.adds.work import repeated

    class Counted:
        made = 0

        def __add__(self, other: object) -> str:
            Counted.made += 1
            return "sum"

    assert repeated(Counted(), Counted(), additions(1))() == "sum"
    assert Counted.made == additions(1) == ADDS.cost_at("python", {"elements": 1}).flop  # type: ignore[union-attr]


# ---------------------------------------------------------------- the plan of a recording


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_the_four_fit_into_a_few_minutes(kind: Any) -> None:
    found = steps([ADDS, HOST, AHEAD, SCALING], kind)
    predicted = sum(DurationEstimator(16).seconds(step) for step in found)
    print(
        f"{kind}: {len(found)} points, {sum(len(s.variants) for s in found)} measurements, {predicted:.0f} s predicted"
    )
    assert {step.experiment.name for step in found} == {"adds", "host_cost", "run_ahead", "scaling"}
    assert predicted < 480


def test_traces_are_listed_at_points_that_exist() -> None:
    sizes: dict[str, list[Value]] = {}
    for variant, point in AHEAD.traces:
        assert AHEAD.has(variant, AHEAD.point(**point)) and point["elements"] in AHEAD.axis("elements").values
        sizes.setdefault(variant, []).append(point["elements"])
    assert {name: len(found) for name, found in sizes.items()} == {"eager": 6, "graph": 6, "queue": 6}


def test_every_line_of_the_gpu_has_a_stand_in_where_a_cpu_can_do_it() -> None:
    for found, missing in ((HOST, {"graph", "pycuda"}), (SCALING, set())):
        names = {line.name for line in found.lines}
        gpu = {n for n in names if not n.startswith("queue ") and not n.endswith(("busy", "in a loop"))}
        assert {n for n in gpu if f"queue {n}" not in names} == missing


# ---------------------------------------------------------------- claims, on made-up times


class Made:
    """A source whose times a function gives, in seconds: `times(variant, point)` maps a field to its time."""

    name, live = "made up", False

    def __init__(self, times: Callable[[str, dict[str, Value]], Mapping[str, float]]) -> None:
        self.times = times

    def badge(self, found: Experiment, shown: object = None) -> Badge:
        return Badge("RECORDED", "a made-up device", "2000-01-01", "")

    def variants(self, found: Experiment) -> tuple[str, ...]:
        return tuple(v.name for v in found.variants if any(self.known(found, v.name)))

    def values(self, found: Experiment, axis: str) -> tuple[Value, ...]:
        return found.axis(axis).values

    def known(self, found: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        made = {}
        for point in found.points():
            if found.has(variant, point) and (times := self.times(variant, point)):
                fields: dict[str, Any] = {name: Estimate(s, 0.99 * s, 1.01 * s, 40) for name, s in times.items()}
                made[tuple(point.values())] = Measurement(**fields)
        return made

    def measure(self, found: Experiment, variant: str, point: Point) -> Measurement:
        known = self.known(found, variant)
        if tuple(point.values()) not in known:
            raise NotRecordedError(f"{variant} was not made up at {dict(point)}")
        return known[tuple(point.values())]

    def measure_together(self, found: Experiment, variants: Sequence[str], point: Point) -> None:
        """All is there."""

    def traced(self, found: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        return ()

    def timeline(self, found: Experiment, variant: str, point: Point) -> Any:
        raise NotRecordedError("none")


def verdict(found: Experiment, name: str, times: Callable[[str, dict[str, Value]], Mapping[str, float]]) -> Verdict:
    claim = next(each for each in found.claims if each.name == name)
    return claim.verdict(Evidence(found, Made(times)))


def periods(**seconds: float) -> Callable[[str, dict[str, Value]], Mapping[str, float]]:
    """One time for each variant, whatever the point, as host and period."""
    named = {name.replace("_", "-"): s for name, s in seconds.items()}
    return lambda variant, point: {"host_s": named[variant], "period_s": named[variant]} if variant in named else {}


@pytest.mark.parametrize(
    ("torch_s", "slower", "hundredfold"),
    [(114e-6, "holds", "holds"), (30e-6, "holds", "fails"), (5e-6, "fails", "fails"), (500e-6, "holds", "fails"),
     (10e-6, "undecided", "fails"), (91e-6, "holds", "undecided")],
)  # fmt: skip
def test_python_against_torch(torch_s: float, slower: str, hundredfold: str) -> None:
    times = periods(python=1e-6, torch_cpu=torch_s)
    assert verdict(ADDS, "torch-slower", times).status == slower
    assert verdict(ADDS, "hundredfold", times).status == hundredfold


@pytest.mark.parametrize(
    ("python_s", "status"), [(0.975e-6, "holds"), (0.78e-6, "undecided"), (3.1e-6, "fails"), (1e-8, "fails")]
)
def test_what_a_gpu_does_in_the_time_of_one_addition(python_s: float, status: str) -> None:
    flop = ADDS.cost_at("peak-bf16", {"elements": 1}).flop  # type: ignore[union-attr]
    found = verdict(
        ADDS, "gpu-millions",
        periods(python=python_s, peak_bf16=flop / 1e15, peak_fp32=flop / 5e13, torch_cuda=1e-3),
    )  # fmt: skip
    assert found.status == status
    if python_s == 3.1e-6:  # 31 ns an addition at 1 PFLOP/s
        assert "31 ns" in found.measured and "31 MFLOP in a bf16" in found.measured


def test_without_a_gpu_its_claims_are_not_measured() -> None:
    assert verdict(ADDS, "gpu-millions", periods(python=1e-6)).status == "not measured"
    assert verdict(HOST, "pycuda-wins", periods(cpu_module=1e-6)).status == "not measured"


@pytest.mark.parametrize(("bare", "status"), [(0.8e-6, "holds"), (1.9e-6, "fails"), (1e-6, "undecided")])
def test_the_share_of_the_module(bare: float, status: str) -> None:
    assert verdict(HOST, "module-to-blame", periods(module=2e-6, relu=bare)).status == status
    assert verdict(HOST, "module-to-blame", periods(cpu_module=2e-6, cpu_relu=bare)).status == status


@pytest.mark.parametrize(("script", "status"), [(5e-6, "holds"), (9e-6, "fails"), (7.5e-6, "undecided")])
def test_how_far_torchscript_goes(script: float, status: str) -> None:
    found = verdict(HOST, "torchscript-closes", periods(module=10e-6, script=script, pycuda=5e-6))
    assert found.status == status
    assert verdict(HOST, "torchscript-closes", periods(module=4e-6, script=script, pycuda=5e-6)).status == "fails"


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("buffers-reused", {"out": 5e-6, "relu": 6e-6, "pycuda": 5e-6}, {"out": 7e-6, "relu": 6e-6, "pycuda": 5e-6}),
        ("out-saves", {"out": 5e-6, "relu": 6e-6}, {"out": 6e-6, "relu": 5.5e-6}),
        ("pycuda-wins", {"module": 9e-6, "pycuda": 5e-6}, {"module": 6e-6, "pycuda": 5e-6}),
        ("more-than-a-launch", {"relu": 9e-6, "pycuda": 5e-6}, {"relu": 5e-6, "pycuda": 5e-6}),
        ("hidden", {"module-grad": 5e-6, "graph": 5e-6}, {"module-grad": 8e-6, "graph": 5e-6}),
    ],
)
def test_claims_about_rungs_can_hold_and_fail(name: str, right: dict[str, float], wrong: dict[str, float]) -> None:
    assert verdict(HOST, name, lambda variant, _: _both(right.get(variant))).status == "holds"
    assert verdict(HOST, name, lambda variant, _: _both(wrong.get(variant))).status == "fails"


def _both(seconds: float | None) -> Mapping[str, float]:
    return {"host_s": seconds, "period_s": seconds} if seconds else {}


def test_a_graph_of_one_operator_and_of_a_chain() -> None:
    def good(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        times = int(point["operators"])
        return _both({"module": 6e-6 * times, "graph": 5e-6 + 1e-6 * times}.get(variant))

    assert verdict(HOST, "graph-likes-a-chain", good).status == "holds"
    assert verdict(HOST, "graph-likes-a-chain", periods(module=6e-6, graph=6e-6)).status == "fails"


def gpu(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
    """20 orders of 5 us each, and work at 4 TB/s, at least 1 us a kernel; a graph is issued in 10 us."""
    busy = OPERATORS * max(1e-6, 8 * int(point["elements"]) / 4e12)
    host = {"eager": OPERATORS * 5e-6, "graph": 10e-6}.get(variant)
    return {"host_s": host, "busy_s": busy, "period_s": max(host, 1.02 * busy)} if host else {}


def test_who_waits_for_whom() -> None:
    for name in ("paperweight", "runs-ahead", "overhead-flat", "graph-removes"):
        assert verdict(AHEAD, name, gpu).status == "holds", name
    ahead = verdict(AHEAD, "runs-ahead", gpu).measured
    assert "from 4194304 on" in ahead  # 8 B x 2^22 / 4 TB/s = 8.4 us a kernel, more than 5 us an order

    def slow(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        return {name: s if name == "busy_s" else 100 * s for name, s in gpu(variant, point).items()}

    def synchronous(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        times = gpu(variant, point)
        return {**times, "host_s": times["period_s"], "busy_s": times["period_s"]} if times else {}

    assert verdict(AHEAD, "runs-ahead", slow).status == "fails"
    assert "never below" in verdict(AHEAD, "runs-ahead", slow).measured
    assert verdict(AHEAD, "paperweight", synchronous).status == "fails"
    assert verdict(AHEAD, "overhead-flat", synchronous).status == "fails"
    assert verdict(AHEAD, "graph-removes", lambda v, p: gpu("eager", p) if v in ("eager", "graph") else {}).status == (
        "fails"
    )


def test_the_toy_accelerator_stands_in() -> None:
    def queue(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        times = gpu("eager", point)
        return {"host_s": times["host_s"], "kernel_s": times["busy_s"], "period_s": times["period_s"]}

    found = verdict(AHEAD, "paperweight", lambda v, p: queue(v, p) if v == "queue" else {})
    assert found.status == "holds" and "80 %" in found.measured


def test_the_idle_share_and_where_it_ends() -> None:
    def e(seconds: float) -> Estimate:
        return Estimate(seconds, seconds, seconds, 9)

    assert idle_share(e(30.0), e(20.0)) == Estimate(0.0, 0.0, 0.0, 9)
    busy = {1: e(1.0), 2: e(9.9), 4: e(5.0), 8: e(9.5), 16: e(9.9)}
    period = dict.fromkeys(busy, e(10.0))
    assert hidden_from(busy, period) == 8, "4 waits again, so 2 does not count"
    assert hidden_from({1: e(1.0)}, {1: e(10.0)}) is None


def batch(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
    """8 orders of 5 us and work at 4 TB/s; the product reads its weights."""
    found = SCALING.cost_at(variant, point)
    assert found is not None
    if variant.startswith("cpu"):
        return {}
    orders, kernels = (1, 1) if "gemm" in variant else (8, 8)
    busy = kernels * 1e-6 + max(found.bytes / 4e12, found.flop / 50e12)
    return {"host_s": orders * 5e-6, "busy_s": busy, "period_s": max(orders * 5e-6, busy)}


def test_doubling_the_batch() -> None:
    for name in ("doubling-tells", "overhead-then-work", "skinny-exception"):
        assert verdict(SCALING, name, batch).status == "holds", name

    def always_busy(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        times = batch(variant, point)
        return {**times, "busy_s": times["period_s"]} if times else {}

    def flat(variant: str, point: dict[str, Value]) -> Mapping[str, float]:
        return {"period_s": 1e-3, "busy_s": 1e-6} if batch(variant, point) else {}

    assert verdict(SCALING, "doubling-tells", always_busy).status == "fails"
    assert verdict(SCALING, "doubling-tells", flat).status == "not measured"
    assert verdict(SCALING, "overhead-then-work", flat).status == "fails"
    assert verdict(SCALING, "skinny-exception", flat).status == "fails"


# ---------------------------------------------------------------- without a GPU or a library


def test_the_kernel_refuses_tensors_that_it_cannot_take() -> None:
    from brrr.kernels import relu

    x = torch.zeros(8)
    for launch in (relu.by_bindings, relu.by_pycuda, relu.prepared_launch, relu.bindings_launch):
        with pytest.raises(ArgumentError, match=r"relu: x is 'cpu'; expected a tensor on a GPU"):
            launch(x, x)
    assert [relu.blocks(n) for n in (1, 1023, 1024, 1025, 2**26)] == [1, 1, 1, 2, 2**16]


def test_without_pycuda_only_its_line_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from brrr.gpu.launching import pycuda_driver

    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.autoprimaryctx", None)
    with pytest.raises(UnavailableError, match="only its line is missing"):
        pycuda_driver(0)


def test_cost_counts_each_operator() -> None:
    assert HOST.cost_at("module", {"elements": 1000, "operators": 16}) == Cost(16000.0, 128000.0)
    assert SCALING.cost_at("chain-double", {"batch": 4}).bytes == 2 * SCALING.cost_at("chain", {"batch": 4}).bytes  # type: ignore[union-attr]
