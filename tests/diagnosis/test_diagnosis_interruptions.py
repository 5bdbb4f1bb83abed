"""What interrupts torch.compile: each kind is named with the line that causes it, and counted."""

import functools
import inspect
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_diagnosis_tried import other
from torch import nn

import brrr
from brrr.core.measurement import Estimate, Measurement
from brrr.diagnosis import interruptions, live, trials
from brrr.diagnosis.evidence import Remedy
from brrr.diagnosis.interruptions import Interruption
from brrr.diagnosis.report import Diagnosis

quick = functools.partial(brrr.diagnose, device="cpu", budget_s=0.02)
compiled = functools.partial(torch.compile, backend="eager")
X = torch.randn(8, 8)
LOG = StringIO()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Compilers that know nothing of other tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def line_of(function: Callable[..., Any], text: str) -> str:
    """A line of a function as a diagnosis names it."""
    lines, first = inspect.getsourcelines(function)
    (place,) = [place for place, line in enumerate(lines) if text in line]
    return f"{__file__}:{first + place}, `{lines[place].strip()}`"


def prints(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    print("here", file=LOG)
    return x + 1


def branches(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    if x.sum().item() > 0:
        x = x + 1
    return x.sin()


def writes(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    LOG.write("x")
    return x + 1


def unsupported(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    zlib.crc32(b"x")
    return x + 1


def inner(x: torch.Tensor) -> torch.Tensor:
    x = x.relu()
    print("inside", file=LOG)
    return x + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x = inner(x)
    return x.sin()


BREAKS = [
    (prints, prints, "print(", 1, "builtin"), (branches, branches, "item()", 1, "item()"),
    (writes, writes, "write(", 1, "method"), (unsupported, unsupported, "crc32", 1, "skipped"),
    (outer, inner, "print(", 3, "builtin"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
@pytest.mark.parametrize("warm", [0, 3], ids=["fresh", "compiled before"])
@pytest.mark.parametrize(("function", "where", "text", "often", "why"), BREAKS, ids=[each[3] for each in BREAKS])
def test_a_break_is_named_with_its_line(function: Any, where: Any, text: str, often: int, why: str, warm: int) -> None:
    call = compiled(function)
    for _ in range(warm):
        call(X)
    found = quick(call, X)
    (met,) = found.interruptions
    assert (met.kind, met.where, met.times) == ("graph break", line_of(where, text), often)
    assert why in met.why and met.seconds > 0
    assert str(met) in str(found) and f"{often} a step" in str(met)
    assert json.loads(found.to_json())["interruptions"][0]["where"] == met.where


def test_a_loop_of_breaks_counts_each_call() -> None:
    call = compiled(prints)
    (met,) = quick(lambda: [call(X) for _ in range(4)]).interruptions
    assert met.times == 4


def test_the_host_is_told_to_take_what_the_line_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the trace's own clock: two graphs, a line of 30 µs between them, in one of two steps 900 µs."""
    from brrr.diagnosis.assess import shares
    from brrr.diagnosis.evidence import Evidence
    from brrr.diagnosis.split import split
    from brrr.tracing.events import Event
    from brrr.tracing.trace_file import Trace

    torch._dynamo.utils.clear_compilation_metrics()
    compiled(prints)(X)
    first, behind = [each.compile_id for each in interruptions.compilations()]
    events = []
    for start, line_ns in ((0, 30_000), (10_000_000, 30_000), (20_000_000, 900_000)):
        events += [
            Event(f"{interruptions.REGION}{first}", "operator", start, start + line_ns + 50_000),
            Event("aten::mul", "operator", start + 5_000, start + 10_000),
            Event(f"{interruptions.REGION}{behind}", "operator", start + 10_000 + line_ns, start + line_ns + 40_000),
            Event("aten::add", "operator", start + 20_000 + line_ns, start + line_ns + 30_000),
        ]
    trace = Trace(tuple(events), {})
    whole = split(trace, 0, 30_000_000)
    evidence = Evidence(trace, 0, 30_000_000, 3, whole, whole, shares(whole, []), [], None, False)
    (met,) = interruptions.breaking(evidence)
    assert met.where == line_of(prints, "print(") and met.times == 1 and met.seconds == pytest.approx(30e-6)
    (unknown,) = interruptions.breaking(replace(evidence, trace=Trace(tuple(
        replace(each, name=each.name.replace(f": {behind}", ": 999/9")) for each in events), {})))  # fmt: skip
    assert unknown.where == f"{interruptions.REGION}999/9" and unknown.times == 1


# ---- what is compiled again ------------------------------------------------------------------------------------------


def summed(x: torch.Tensor, number: float = 1) -> torch.Tensor:
    return (x * number).sum()


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.layer = 0, nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found: torch.Tensor = self.layer(x) * self.calls
        return found


LONG = torch.randn(4096)


def program(kind: str) -> tuple[Callable[[], Any], str, str]:
    """A step that compiles again in each call, the line that is to be named, and what changes there."""
    given = count(2)
    if kind == "module":
        call = compiled(Counts())
        return lambda: call(X), line_of(Counts.forward, "self.calls += 1"), "calls =="
    call = compiled(summed, dynamic=False)
    if kind == "shape":
        return lambda: call(LONG[: next(given)]), line_of(summed, "def summed"), "size mismatch at index 0"
    return lambda: call(X, next(given)), line_of(summed, "return"), "number =="


KINDS = ["shape", "number", "module"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_that_compiles_again_is_counted(kind: str) -> None:
    step, where, what = program(kind)
    ran = StringIO()  # a list would be put back
    with torch._dynamo.config.patch(recompile_limit=4096, accumulated_recompile_limit=4096):
        found = quick(lambda: (ran.write("x"), step()))
    (met,) = found.interruptions
    again = ran.tell() - 1 - (found.steps + 1)  # the last run without compiling, to see what that gains
    assert (met.kind, met.where, met.times) == ("recompilation", where, again) and what in met.why, met
    spent_s = [each.duration_us / 1e6 for each in interruptions.compilations()[-int(met.times) :]]
    assert met.seconds == pytest.approx(sum(spent_s)) and found.remedies[0].name == "no recompilation"
    assert f"{met.times} times in this diagnosis" in str(found)


@pytest.mark.parametrize("warm", [0, 12], ids=["fresh", "compiled before"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_reached_the_limit_is_said_to_run_as_written(kind: str, warm: int) -> None:
    step, where, what = program(kind)
    for _ in range(warm):
        step()
    found = quick(step)
    met = {each.kind: each for each in found.interruptions}
    last = met["not compiled"]
    assert last.where == where and "limit exceeded" in last.why and what in last.why
    assert {*met} == ({"not compiled"} if warm else {"not compiled", "recompilation"})
    assert warm or met["recompilation"].times == torch._dynamo.config.recompile_limit - 1
    assert "its function runs as written" in str(found)
    assert not any(each.name == "no recompilation" for each in found.remedies)


def loops(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x * 2
        print("here", file=LOG)
    return x


def test_what_cannot_be_compiled_in_parts_is_said_to_run_as_written() -> None:
    call, another = compiled(loops), compiled(summed)
    for _ in range(2):
        call(X)
    (met,) = quick(call, X).interruptions
    assert (met.kind, met.where) == ("not compiled", line_of(loops, "print(")) and "builtin" in met.why
    assert not quick(another, X).interruptions, "another step does not run it"


def test_what_names_the_modules_is_nobodys_interruption() -> None:
    """Its hooks would be compiled, too, where a step compiles in its trace or falls back."""
    call = compiled(Counts())
    for _ in range(12):
        call(X)
    found = quick(call, X)
    assert [each.kind for each in found.interruptions] == ["not compiled"]
    assert "diagnosis/live.py" not in str(found)


# ---- where there is nothing to say -----------------------------------------------------------------------------------


def test_nothing_is_said_of_what_is_compiled_once_or_never() -> None:
    assert not quick(compiled(summed), X).interruptions
    assert not quick(summed, X).interruptions


def test_no_step_is_run_for_it_where_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils")
    monkeypatch.setattr(live, "compiling_again", lambda *_: pytest.fail("it was looked for"))
    assert interruptions.compilations() == [] and not quick(summed, X).interruptions


def test_another_torch_or_profiler_ends_no_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> None:
        raise ValueError("Another profiling tool is already active")

    call = compiled(prints)
    monkeypatch.setattr(interruptions, "Profile", lambda: type("", (), {"runcall": busy, "getstats": lambda _: []})())
    assert [each.kind for each in quick(call, X).interruptions] == ["graph break"]
    for name in ("set_compilation_metrics_limit", "get_compilation_metrics", "graph_break_reasons"):
        monkeypatch.delattr(torch._dynamo.utils, name)
    assert all("torch forgot" in each.why for each in quick(call, X).interruptions)


def test_a_page_shows_the_line_as_text() -> None:
    met = Interruption("graph break", "a.py:3, `print('<b>')`", "why", 1, 1e-6)
    found: Diagnosis = replace(quick(summed, X), interruptions=(met,))
    assert "print(&#x27;&lt;b&gt;&#x27;)" in found.to_html()


# ---- when it pays ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "after_s", "said"),
    [("fusion", 1e-3, "takes 4 s: it pays after 2,000."), ("fusion", 5e-3, ""), ("contiguous", 1e-3, "")],
    ids=["it gains", "it loses", "nothing is compiled"],
)
def test_a_trial_says_after_how_many_steps_compiling_pays(
    name: str, after_s: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seeded = [0.0], trials._seeded

    def slow(*given: Any) -> Any:
        clock[0] += 4.0
        return seeded(*given)

    one = replace(quick(summed, X), remedies=(Remedy(name, 2.0, "why."),))
    periods = [Measurement(period_s=Estimate.of([each] * 9), device="cpu") for each in (3e-3, after_s)]
    monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(trials, "_seeded", slow)
    monkeypatch.setattr(trials, "measure_together", lambda *_, **__: periods)
    monkeypatch.setattr(trials, "_APPLY", {"fusion": trials._compiled, "contiguous": other})
    monkeypatch.setattr(torch, "compile", lambda fn: fn)
    (made,) = trials.tried(one, summed, (X,), {}, False, "cpu", 0.02)
    assert made.gain is not None and str(made).endswith(said) and ("pays" in str(made)) == bool(said), made
