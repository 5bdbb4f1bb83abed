"""Where the time of a trace went, against counting it nanosecond by nanosecond; and which call the device's work is."""

from random import Random
from typing import Any

import pytest
import torch

from brrr.core.intervals import common, without
from brrr.diagnosis.calls import DISPATCHED_NS, LAYOUT, calls_of
from brrr.diagnosis.operator_cost import _CODES, cost_of, kind_of
from brrr.diagnosis.split import CAUSES, exchanged, split, window
from brrr.tracing.events import Event, Inputs
from brrr.tracing.trace_file import Trace, left_over

NAMES: dict[str, tuple[str, ...]] = {
    "annotation": ("enumerate(DataLoader)#1", "DataLoader.next", "ProfilerStep#3", "mine"),
    "runtime": ("cudaStreamSynchronize", "cudaMalloc", "cudaFreeAsync", "cudaLaunchKernel", "cudaMemGetInfo"),
    "operator": ("aten::mm", "aten::relu"), "kernel": ("gemm", "ncclDevKernel_AllReduce"), "copy in": ("HtoD",),
    "copy out": ("DtoH",), "peer copy": ("PtoP",), "copy": ("DtoD",), "memset": ("Memset",), "other": ("x",),
}  # fmt: skip


def drawn(draw: Random, count: int, *, gpu: bool = True) -> list[Event]:
    sorts = [sort for sort in NAMES if gpu or sort in ("annotation", "runtime", "operator", "other")]
    events = []
    for _ in range(count):
        sort: Any = draw.choice(sorts)
        start = draw.randrange(-20, 100)
        events.append(Event(draw.choice(NAMES[sort]), sort, start, start + draw.randrange(0, 40)))
    return events


def cause(event: Event) -> str:
    """Of what the host does."""
    if event.sort == "annotation" and "DataLoader" in event.name:
        return "waiting for data"
    if event.sort == "runtime" and "Synchronize" in event.name:
        return "synchronisation"
    if event.sort == "runtime" and ("Malloc" in event.name or "Free" in event.name or "MemGet" in event.name):
        return "allocation"
    return {"runtime": "launch", "operator": "dispatcher"}.get(event.sort, "Python")


def counted(events: list[Event], start: int, end: int) -> tuple[int, int, int, dict[str, int]]:
    """Nanoseconds with work, with copies alone, with what is left over from before, idle ones by their first cause."""
    gpu = any(each.on_device and each.end_ns > start and each.start_ns < end for each in events)
    old = {id(each) for each in left_over(events, start)} if gpu else set[int]()
    busy, alone, waited, idle = 0, 0, 0, dict.fromkeys(CAUSES, 0)
    for now in range(start, end):
        here = [each for each in events if each.start_ns <= now < each.end_ns]
        causes = sorted({cause(each) for each in here if not each.on_device}, key=CAUSES.index)
        work = [each for each in here if each.on_device and id(each) not in old]
        kernels = any(each.sort in ("kernel", "copy", "memset") for each in work)
        working = kernels if gpu else causes[:1] == ["dispatcher"]
        if working:
            busy += 1
        elif gpu and work:
            alone += 1
        elif gpu and any(each.on_device for each in here):
            waited += 1
        else:
            idle[next(iter(causes), "Python")] += 1
    return busy, alone, waited, {name: ns for name, ns in idle.items() if ns}


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_a_split_is_what_counting_nanoseconds_gives(seed: int, gpu: bool) -> None:
    draw = Random(seed)
    events = drawn(draw, draw.randrange(1, 14), gpu=gpu)
    found = split(Trace(tuple(events), {}), 0, 100)
    busy, alone, waited, idle = counted(events, 0, 100)
    in_ns = lambda seconds: round(seconds * 1e9)  # noqa: E731
    assert (in_ns(found.wall_s), in_ns(found.busy_s), in_ns(found.transfer_s)) == (100, busy, alone)
    assert in_ns(found.waited_s) == waited
    assert {name: in_ns(each) for name, each in found.idle_s.items()} == idle
    assert busy + alone + waited + sum(idle.values()) == 100


@pytest.mark.parametrize("seed", range(10))
def test_the_host_s_time_goes_until_it_has_issued_everything(seed: int) -> None:
    events = drawn(Random(seed), 8, gpu=seed % 2 == 0)
    found = split(Trace(tuple(events), {}), 0, 100)
    seen = [each for each in events if each.end_ns > 0 and each.start_ns < 100]
    host = [each for each in seen if not each.on_device]
    expected = dict.fromkeys(CAUSES, 0)
    for now in range(min(100, max((each.end_ns for each in host), default=100))):
        here = {cause(each) for each in host if each.start_ns <= now < each.end_ns}
        expected[min(here, key=CAUSES.index, default="Python")] += 1
    if host == seen:  # a CPU's operators are its work
        expected["Python"] += expected.pop("dispatcher")
    told = {name: round(each * 1e9) for name, each in found.host_s.items()}
    assert told == {name: ns for name, ns in expected.items() if ns}
    assert found.issuing_s == pytest.approx(sum(v for k, v in found.host_s.items() if k != "synchronisation"))


def test_of_intervals_the_common_part_and_the_rest() -> None:
    draw = Random(5)
    for _ in range(200):
        ends = [sorted(draw.sample(range(40), 2 * draw.randrange(1, 5))) for _ in range(2)]
        ones, others = ([*zip(each[::2], each[1::2], strict=True)] for each in ends)
        inside = [{n for a, b in each for n in range(a, b)} for each in (ones, others)]
        assert {n for a, b in common(ones, others) for n in range(a, b)} == inside[0] & inside[1]
        assert {n for a, b in without(ones, others) for n in range(a, b)} == inside[0] - inside[1]
    assert without([], [(0, 1)]) == common([], [(0, 1)]) == []


@pytest.mark.parametrize("seed", range(10))
def test_an_exchange_is_exposed_where_nothing_else_runs(seed: int) -> None:
    events = drawn(Random(seed), 12)
    kernels = [each for each in events if each.sort == "kernel"]
    talking, alone = 0, 0
    for now in range(100):
        here = {"nccl" in each.name for each in kernels if each.start_ns <= now < each.end_ns}
        talking, alone = talking + (True in here), alone + (here == {True})
    found = exchanged(events, 0, 100)
    assert (round(found[0] * 1e9), round(found[1] * 1e9)) == (talking, alone)


# -- which stretch is the program's -----------------------------------------------------------------------------------


def step(number: int, start: int, end: int) -> Event:
    return Event(f"ProfilerStep#{number}", "annotation", start, end)


def traced(*events: Event) -> Trace:
    return Trace(tuple(sorted(events, key=lambda each: each.start_ns)), {})


@pytest.mark.parametrize(
    ("starts", "found"),
    [((0, 100, 200), (0, 300, 3)), ((0, 110, 220), (0, 320, 3)), ((0, 111, 211), (111, 311, 2)),
     ((0, 100, 311), (0, 200, 2)), ((50,), (50, 150, 1))],
)  # fmt: skip
def test_steps_follow_each_other_with_a_tenth_between_them_at_most(starts: Any, found: Any) -> None:
    assert window(traced(*(step(n, start, start + 100) for n, start in enumerate(starts)))) == found


def test_what_the_steps_issued_belongs_to_them_and_nothing_else() -> None:
    work = [
        Event("cudaLaunchKernel", "runtime", at, at + 5, correlation=n) for n, at in enumerate((-50, 10, 199, 200), 1)
    ] + [Event("k", "kernel", 1000 * n, 1000 * n + 7, correlation=n) for n in range(1, 5)]
    assert window(traced(step(1, 0, 100), step(2, 100, 200), *work)) == (0, 3007, 2)
    assert window(traced(step(1, 0, 100), step(1, 100, 200))) == (0, 200, 1), "one step in two pieces"


def test_without_marks_it_is_from_the_first_launch_to_the_last_end() -> None:
    loading = Event("aten::load", "operator", 0, 50)
    around = Event("aten::mm", "operator", 95, 120)
    launches = [Event("cudaLaunchKernel", "runtime", at, at + 5, correlation=n) for n, at in ((1, 100), (2, 300))]
    kernels = [Event("k", "kernel", 110, 140, correlation=1), Event("k", "kernel", 310, 350, correlation=2)]
    late = Event("aten::save", "operator", 400, 900)
    assert window(traced(loading, around, *launches, *kernels, late)) == (95, 350, 1)
    assert window(traced(loading, around, late)) == (0, 900, 1), "on a CPU it is all"
    assert window(traced(Event("x", "other", -5, 5), loading)) == (0, 50, 1)


# -- calls ------------------------------------------------------------------------------------------------------------

SQUARE = Inputs(((8, 8), (8, 8)), ((8, 1), (8, 1)), ("float", "float"), ("", ""))


def test_the_device_s_work_is_the_call_s_in_which_it_was_launched() -> None:
    module = Event("brrr_module: net.0", "annotation", 0, 100)
    outer, inner = Event("aten::linear", "operator", 1, 90), Event("aten::mm", "operator", 5, 60, inputs=SQUARE)
    launch = [Event("cudaLaunchKernel", "runtime", at, at + 2, correlation=at) for at in (10, 20, 70, 95)]
    kernels = [Event(f"k{at}", "kernel", at + 100, at + 110 + at, correlation=at) for at in (10, 20, 70)]
    stray = Event("stray", "kernel", 150, 160, correlation=999)
    copied = Event("HtoD", "copy in", 161, 190, correlation=20)
    turned = Event("nchwToNhwcKernel", "kernel", 195, 199, correlation=10)
    found = calls_of(traced(module, outer, inner, *launch, *kernels, stray, copied, turned), 0, 200, gpu=True)
    told = {call.name: (call.work_ns, len(call.kernels), call.module) for call in found}
    assert told == {
        "mm": (20 + 30, 2, "net.0"), "linear": (80, 1, "net.0"), "stray": (10, 1, ""), f"mm{LAYOUT}": (4, 1, "net.0"),
    }  # fmt: skip
    assert next(call for call in found if call.name == "mm").cost is not None
    early = calls_of(traced(module, outer, inner, *launch, *kernels, stray), 0, 111, gpu=True)
    assert [call.name for call in early] == ["mm"], "what starts later is another stretch's"
    assert calls_of(traced(outer), 0, 200, gpu=True) == []


@pytest.mark.parametrize(
    ("engine", "inside", "phase"),
    [(False, "aten::linear", "forward"), (True, "aten::mm", "backward"), (True, "aten::linear", "again"),
     (True, "aten::conv2d", "again")],
)  # fmt: skip
def test_what_autograd_runs_is_backward_and_a_forward_operator_in_it_runs_again(
    engine: bool, inside: str, phase: str
) -> None:
    around = [Event("autograd::engine::evaluate_function: X", "operator", 0, 99)] * engine
    called, launch = Event(inside, "operator", 1, 90), Event("cudaLaunchKernel", "runtime", 2, 3, correlation=1)
    kernel = Event("k", "kernel", 100, 110, correlation=1)
    (found,) = calls_of(traced(*around, called, launch, kernel), 0, 200, gpu=True)
    assert found.phase == phase
    before = [Event("aten::linear", "operator", 0, 99), Event("autograd::engine::x", "operator", 1, 98)]
    (found,) = calls_of(
        traced(*before, Event("aten::mm", "operator", 2, 97), Event("go", "runtime", 3, 4, correlation=1), kernel),
        0, 200, gpu=True,
    )  # fmt: skip
    assert found.phase == "backward", "the forward operator is around the engine, and not in it"


def test_on_a_cpu_a_call_s_time_is_what_it_does_not_spend_in_another() -> None:
    large = Inputs(((64, 64), (64, 64)), ((64, 1), (64, 1)), ("float", "float"), ("", ""))
    mm = Event("aten::mm", "operator", 0, 1000, inputs=large)
    mul = Event("aten::mul", "operator", 100, 300, inputs=SQUARE)
    view = Event("aten::t", "operator", 400, 450)
    other = Event("aten::mul", "operator", 2000, 2500, thread=1, inputs=SQUARE)
    found = calls_of(traced(mm, mul, view, other), 0, 3000, gpu=False)
    assert [(call.name, call.work_ns) for call in found] == [("mm", 800), ("mul", 200), ("mul", 500)]


@pytest.mark.parametrize(("ns", "works"), [(DISPATCHED_NS - 1, False), (DISPATCHED_NS, True), (20_000, True)])
def test_what_only_calls_others_and_calls_none_works_where_it_takes_long(ns: int, works: bool) -> None:
    assert bool(calls_of(traced(Event("aten::linear", "operator", 0, ns)), 0, 10**6, gpu=False)) is works
    calling = [Event("aten::linear", "operator", 0, ns), Event("aten::t", "operator", 1, 5)]
    assert calls_of(traced(*calling), 0, 10**6, gpu=False) == []


def multiplied(count: int, start: int, end: int) -> Event:
    inputs = Inputs(((count,),) * 2, ((1,),) * 2, ("float",) * 2, ("", ""))
    return Event("aten::mul", "operator", start, end, inputs=inputs)


@pytest.mark.parametrize(("inner", "took"), [(1000, [80]), (901, [80]), (900, [80]), (899, [20, 80]), (1, [20, 80])])
def test_who_has_nine_tenths_of_its_work_done_by_another_passes_it_on(inner: int, took: list[int]) -> None:
    found = calls_of(traced(multiplied(1000, 0, 100), multiplied(inner, 10, 90)), 0, 200, gpu=False)
    assert [call.work_ns for call in found] == took


@pytest.mark.parametrize(
    ("inner", "took"),
    [(("float", "float"), [80]), (("c10::Half", "float"), [80]), (("c10::Half", "c10::BFloat16"), [20, 80])],
)  # fmt: skip
def test_who_has_most_of_its_bytes_moved_by_another_passes_it_on(inner: tuple[str, str], took: list[int]) -> None:
    """As much arithmetic in shorter types: of 24 bytes a number twelve, ten, and eight, which is less than 0.4."""
    calls = [
        Event("aten::mul", "operator", start, end, inputs=Inputs(((64,),) * 2, ((1,),) * 2, types, ("", "")))
        for types, start, end in ((("double", "double"), 0, 100), (inner, 10, 90))
    ]
    assert [call.work_ns for call in calls_of(traced(*calls), 0, 200, gpu=False)] == took


# -- what an operator costs -------------------------------------------------------------------------------------------


def test_arguments_are_what_the_trace_tells() -> None:
    vector = Inputs(((4096,), (4096,), ()), ((1,), (1,), ()), ("float", "float", "Scalar"), ("", "", "2"))
    added = cost_of("aten::add", vector)
    assert added is not None and (added.flop, added.bytes) == (2 * 4096.0, 3 * 4 * 4096)
    nothing: tuple[Any, ...] = ((),) * 6
    kinds, numbers = ("float", "Scalar", "", "", "Scalar", "Scalar", ""), ("", "15", "", "", "False", "False", "")
    cast = cost_of("aten::_to_copy", Inputs(((64,), *nothing), ((1,), *nothing), kinds, numbers))
    assert cast is not None and cast.bytes == 64 * 4 + 64 * 2, "15 is bfloat16"
    assert cost_of("aten::mm", SQUARE) is cost_of("aten::mm", SQUARE)
    assert cost_of("aten::mm", Inputs(((2, 3), (4, 5)), ((3, 1), (5, 1)), ("float", "float"), ("", ""))) is None
    assert cost_of("mylib::x", SQUARE) is cost_of("autograd::x", SQUARE) is cost_of("aten::no-name", SQUARE) is None


@pytest.mark.parametrize(("name", "given", "nbytes"), [
    *((f"aten::{name}", ("Scalar", "1000000000000"), 8 * 10**12) for name in ("arange", "randperm")),
    *((f"aten::{name}", ("ScalarList", "[500000, 500000]"), 4 * 500000**2) for name in ("ones", "randn")),
])  # fmt: skip
def test_what_makes_a_tensor_makes_a_description_of_it(name: str, given: tuple[str, str], nbytes: int) -> None:
    """No memory holds these terabytes; and no random number is drawn."""
    state, nothing = torch.get_rng_state(), ((),) * 5
    found = cost_of(name, Inputs(nothing, nothing, (given[0], "", "", "", ""), (given[1], "", "", "", "")))
    assert found is not None and (found.read_bytes, found.written_bytes) == (0, nbytes)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_kernel_of_torch_compile_takes_its_inputs_and_writes_its_last() -> None:
    inputs = Inputs(((64, 2), (32,), (), (64,)), ((2, 1), (1,), (), (1,)), ("float", "c10::Half", "Scalar", "float"),
                    ("", "", "3", ""))  # fmt: skip
    found = cost_of("triton_poi_fused_add_0", inputs)
    assert found is not None and (found.read_bytes, found.written_bytes) == (128 * 4 + 32 * 2, 64 * 4)
    assert (found.dtype, found.kind, found.flop) == ("float32", "fused", 0.0)
    assert found.shapes == ((64, 2), (32,), (64,))
    none = Inputs(((), ()), ((), ()), ("Scalar", "Scalar"), ("1", "2"))
    assert cost_of("triton_red_x", none) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [("aten::mm", "matmul"), ("aten::add_", "pointwise"), ("aten::view", "view"), ("aten::linear", "composed"),
     ("autograd::engine", "composed"), ("torch::jit", "composed"), ("Torch-Compiled Region: 0/0", "unknown"),
     ("CompiledFunctionBackward", "unknown"), ("MulBackward0", "composed"), ("aten::no_such", "unknown"),
     ("mylib::mm", "unknown")],
)  # fmt: skip
def test_a_name_alone_tells_the_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("dtype", list(_CODES))
def test_a_type_s_number_is_the_dispatcher_s(dtype: str) -> None:
    """Against TorchScript, to which a type is that number."""
    script = torch.jit.CompilationUnit("def code(x: Tensor) -> int:\n    return x.dtype\n")
    assert script.code(torch.zeros(1, dtype=getattr(torch, dtype.removeprefix("torch.")))) == _CODES[dtype]
