"""torch.compile on a GPU: every way is right, what a break and another batch do, and whose result is overwritten."""

import pytest
import torch

from brrr.running.graphs import capture
from brrr_course.experiments import experiment
from brrr_course.experiments.graph_breaks import BREAKS, KINDS
from brrr_course.experiments.graph_breaks import SMALL as FEW
from tests.gpu.measuring import timed

BROKEN = experiment("graph_breaks")


@pytest.mark.parametrize("kind", KINDS)
def test_a_break_is_a_kernel_more(kind: str) -> None:
    for breaks in BREAKS:
        run = timed(BROKEN, {"breaks": breaks, "kind": kind, "elements": FEW}, budget_s=0.02)["compile"]
        print(breaks, run.measurement.details())
        if kind != KINDS[1]:  # .item() launches kernels of its own
            assert run.measurement.kernels == breaks + 1


def test_the_next_call_overwrites_a_graphs_result() -> None:
    """A graph that is captured by hand says nothing of it."""
    x = torch.zeros(1024, device="cuda")
    by_hand = capture(lambda given: given + 1, x.clone())
    old = by_hand(x)
    assert float(old[0]) == 1
    by_hand(x + 1)
    assert float(old[0]) == 2


def test_reduce_overhead_tells_of_it_only_while_it_warms_up_and_records() -> None:
    """torch takes the results of a warm-up and of a recording away, and leaves a replay's where the next one writes."""
    torch._dynamo.reset()
    call, x = torch.compile(lambda given: given + 1, mode="reduce-overhead"), torch.zeros(1024, device="cuda")
    warmed_up = call(x)
    recorded = call(x)
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        warmed_up.sum()
    replayed = call(x)
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        recorded.sum()
    assert float(replayed[0]) == 1
    call(x + 1)
    assert float(replayed[0]) == 2
