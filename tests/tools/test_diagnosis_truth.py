"""What a diagnosis is judged by: as many FLOP and fewer bytes where it is said, steps that run, regimes by ratios."""

import csv
import functools
from dataclasses import replace
from typing import Any

import pytest
import torch
from today import drawn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from brrr.core.files import PACKAGE
from brrr.diagnosis.diagnosing import diagnose
from tools.diagnosis import judge, truth
from tools.diagnosis.faults import ADDED, FAULTS, HEALTHY
from tools.diagnosis.workloads import UNDERFILLED, UNSEEN, WORKLOADS, Workload

BY_HAND = ("attention", "decode")
"""A GPU's kernels keep their scores on the chip; counted on a description, they are written and read."""


class Moved(TorchDispatchMode):
    """Bytes of what operators read and write; views move nothing."""

    nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns):
            tensors = [each for each in tree_leaves((args, kwargs, found)) if isinstance(each, torch.Tensor)]
            self.nbytes += sum(each.nelement() * each.element_size() for each in tensors)
        return found


def counted(each: Workload, which: str) -> tuple[int, int]:
    """FLOP of products, and bytes."""
    call = each.call(which, "meta")
    with FlopCounterMode(display=False) as flop, Moved() as moved:
        call()
    return flop.get_total_flops(), moved.nbytes


def test_names_are_unique_and_there_are_enough() -> None:
    every = (*WORKLOADS, *UNSEEN, *UNDERFILLED)
    assert len({each.name for each in every}) == len(every)
    assert len(WORKLOADS) >= 60
    assert len(FAULTS) == len({each.name for each in FAULTS}) >= 20 and len(HEALTHY) >= 5


EVERY = [*WORKLOADS, *UNSEEN, *UNDERFILLED]


@pytest.mark.parametrize("each", drawn(EVERY, len(EVERY) // 4), ids=lambda each: each.name)
def test_the_changes_are_what_they_say(each: Workload) -> None:
    """As many FLOP within a tenth; fewer bytes, or at least 1.6 times as many; twice the batch is more work.

    A quarter of them, drawn anew each day.
    """
    flop, nbytes = counted(each, "sizes")
    other = "fewer" if each.fewer is not None else "more"
    flop_other, bytes_other = counted(each, other)
    assert flop_other == pytest.approx(flop, rel=0.1)
    if not each.name.startswith(BY_HAND):
        assert bytes_other <= 0.97 * nbytes if other == "fewer" else bytes_other >= 1.6 * nbytes
    flop_wider, bytes_wider = counted(each, "wider")
    assert flop_wider == pytest.approx(2 * flop, rel=0.01) and bytes_wider > nbytes


SMALL = [each for each in FAULTS if each.name not in (
    "float32 where bfloat16 serves", "one column too many", "a vocabulary of 50257", "attention by hand",
    "images channel by channel", "every eighth column", "a chain of elementwise operators", "recompilation",
    "pageable copies", "the input copied in each step", "a slow loader", "the cache emptied in each step",
)]  # fmt: skip


@pytest.mark.parametrize("each", SMALL, ids=lambda each: each.name)
def test_a_step_with_and_without_its_fault_runs(each: Any) -> None:
    for which in ("faulty", "mended"):
        call = each.call(which, "cpu")
        call()
        call()


def test_faults_compute_what_the_mended_steps_do() -> None:
    for name in ("a selection of unknown size", "numbers from a list in each step", "a loop over the batch"):
        each = next(one for one in FAULTS if one.name == name)
        assert torch.allclose(*(each.call(which, "cpu")() for which in ("faulty", "mended")), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("eager_s", "graph_s", "fewer", "wider", "found"),
    [(1.31, 1.0, 2.0, 1.0, "overhead"), (1.29, 1.0, 1.31, 1.0, "memory"), (1.0, 1.0, 1.29, 1.14, "latency"),
     (1.0, 1.0, 1.0, 1.16, "compute")],
)  # fmt: skip
def test_the_first_that_holds_is_the_regime(
    eager_s: float, graph_s: float, fewer: float, wider: float, found: str
) -> None:
    assert truth.regime(eager_s, graph_s, fewer, wider) == found


@pytest.mark.usefixtures("one_thread")
def test_the_judge_compares_with_the_truth(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    one = next(each for each in WORKLOADS if each.name == "64 steps of 2048")
    fault = next(each for each in FAULTS if each.name == "anomaly detection left on")
    monkeypatch.setattr(judge, "diagnose", functools.partial(diagnose, budget_s=0.02))
    monkeypatch.setattr(truth, "of_workload", lambda each: {"regime": "none", "eager_s": 1.0})
    monkeypatch.setattr(truth, "of_fault", lambda each: {"faulty_s": 2.0, "mended_s": 1.0, "gain": 2.0})
    monkeypatch.setitem(judge.JUDGES, "workloads", functools.partial(judge.of_workloads, [one]))  # type: ignore[misc]
    assert judge.main(["workloads"], "cpu") == 0
    said = capsys.readouterr()
    assert "64 steps of 2048," in said.out and ",False," in said.out and "right: 0 of 1" in said.err
    monkeypatch.setattr(judge, "FAULTS", [fault])
    monkeypatch.setattr(judge, "HEALTHY", {})
    assert judge.main(["faults"], "cpu") == 0
    assert "anomaly detection left on,debugging off,debugging off,True" in capsys.readouterr().out
    monkeypatch.setattr(judge, "ADDED", [replace(fault, remedies=("larger batch",))])
    assert judge.main(["added"], "cpu") == 0
    assert "anomaly detection left on,larger batch," in capsys.readouterr().out
    assert judge.main(["everything"]) == 2


def judged(name: str) -> list[dict[str, str]]:
    path = PACKAGE.parent / "data" / "recordings" / "h200" / "diagnosis" / f"{name}.csv"
    return list(csv.DictReader(path.open(newline="", encoding="utf-8")))


def test_the_documents_say_what_was_judged() -> None:
    """Counted again from the judge's tables."""
    page = (PACKAGE.parent / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    again = (("again_workloads", WORKLOADS), ("again_unseen", UNSEEN))
    for name, workloads in (("workloads", WORKLOADS), ("unseen", UNSEEN), ("underfilled", UNDERFILLED), *again):
        rows = judged(name)
        asked = workloads[: len(rows)] if name == "again_workloads" else workloads
        assert [row["workload"] for row in rows] == [each.name for each in asked]
        assert all((row["said"] == row["regime"]) == (row["right"] == "True") for row in rows)
        assert f"| {sum(row['right'] == 'True' for row in rows)} of {len(rows)} |" in page
    programs = [each.name for each in FAULTS]
    for name, faulty in (("faults", programs), ("again_faults", programs), ("added", [each.name for each in ADDED])):
        rows = judged(name)
        assert [row["step"] for row in rows] == [*faulty, *(() if name == "added" else HEALTHY)]
        assert f"| {sum(row['right'] == 'True' for row in rows)} of {len(rows)} |" in page
        gains = [float(row["predicted"]) / float(row["true"]) for row in rows[: len(faulty)]]
        assert f"| {sum(abs(gain - 1) <= judge.NEAR for gain in gains)} of {len(faulty)} |" in page
