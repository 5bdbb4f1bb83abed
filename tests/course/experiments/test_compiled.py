"""The experiments on torch.compile: programs that are right, lines that break a graph, calls that compile again."""

import shutil
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import layer_norm

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Value
from brrr_course.experiments import checked, experiment
from brrr_course.experiments.checked import quietly
from brrr_course.experiments.compiled import BLOCK, CHAIN, NORM, SMALL, ProgramInputs, norm
from brrr_course.experiments.graph_breaks import BREAKS, CPU_LARGE, ITEM, KINDS, LINES, PRINT, program, text_of
from brrr_course.experiments.recompiles import AUTO, CALLS, EAGER, KEPT, MARK, NUMBER, STATIC, batch_of, series

COMPILED, BROKEN, AGAIN = (experiment(name) for name in ("compiled", "graph_breaks", "recompiles"))
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")


def test_the_formula_is_the_librarys_normalisation() -> None:
    x, weight, bias = torch.randn(5, 64), torch.randn(64), torch.randn(64)
    torch.testing.assert_close(norm(x, weight, bias), layer_norm(x, (64,), weight, bias))


def test_the_block_is_causal() -> None:
    """A later token changes nothing before it."""
    given = ProgramInputs(BLOCK, 8, 128, torch.float32, "cpu")
    before = given.run()
    given.tensors[0][-1] += 1
    after = given.run()
    assert torch.equal(before[:-1], after[:-1]) and not torch.equal(before[-1], after[-1])


def test_without_a_compiler_a_cpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "has_cpp_compiler", lambda: False)
    small: dict[str, Value] = {"program": CHAIN, "size": SMALL}
    for found, at in ((COMPILED, small), (BROKEN, next(BROKEN.points(quick=True)))):
        with pytest.raises(UnavailableError, match=r"needs a C\+\+ compiler"):
            found.workload("cpu-compile", at)
        assert found.workload("cpu-eager", at).check() < 1e-5


@needs_compiler
def test_compiled_it_is_the_same_and_a_first_call_finds_nothing_in_the_cache() -> None:
    assert COMPILED.workload("cpu-compile", {"program": NORM, "size": SMALL}).check() < 1e-5
    assert BROKEN.workload("cpu-compile", {"breaks": 1, "kind": PRINT, "elements": CPU_LARGE}).check() < 1e-5
    given = ProgramInputs(CHAIN, 16, 64, torch.float32, "cpu")
    for _ in range(2):
        counters.clear()
        assert given.first() > 0
        found = counters["inductor"]  # the small call that loads the compiler may be on the disk
        assert found["fxgraph_cache_miss"] >= 1 >= found["fxgraph_cache_hit"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("breaks", BREAKS)
def test_each_line_breaks_the_graph_once(kind: str, breaks: int) -> None:
    assert text_of(kind, breaks).count(LINES[kind]) == breaks
    graphs: list[Any] = []

    def counted(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    x = torch.randn(64)
    with quietly():
        call = torch.compile(program(kind, breaks), backend=counted, dynamic=False)
        found = call(x)
        assert len(graphs) == breaks + 1
        call(x)
    assert len(graphs) == breaks + 1, "nothing compiles again"
    torch.testing.assert_close(found, program(PRINT, 0)(x))


def test_the_breaks_stand_apart() -> None:
    for breaks in BREAKS[1:]:
        parts = [each.count("relu") for each in text_of(ITEM, breaks).split(LINES[ITEM])]
        assert sum(parts) == 9 and max(parts) - min(parts) <= 1 + (breaks < 8)


@pytest.mark.parametrize(("way", "count"), [(EAGER, 0), (STATIC, 8), (AUTO, 2), (MARK, 1), (NUMBER, 2), (KEPT, 8)])
def test_so_many_of_forty_calls_compile(way: str, count: int) -> None:
    """By torch's own count of graphs; one more was there before them, which loaded the compiler."""
    series.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    times, errors = series(way, "cpu")
    assert counters["stats"]["unique_graphs"] == count + 1
    assert len(times) == len(CALLS) and max(errors) < 1e-5


def test_a_number_changes_with_the_batch_as_it_was() -> None:
    assert {batch_of(KEPT, call) for call in CALLS} == {64} and len({batch_of(AUTO, call) for call in CALLS}) == 40
    assert AGAIN.cost_at(STATIC, {"call": 1}) == AGAIN.cost_at(AUTO, {"call": 1})
