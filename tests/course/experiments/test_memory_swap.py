"""The `memory_swap` experiment: its calls are those that the H200 was recorded with; what a ratio tells."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from swap_made_up import SWAP, h100

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments import memory_swap as claims
from brrr_course.experiments.memory_swap import (
    CALLS,
    NAMES,
    SwapCall,
    cost_of,
    error_of,
    made,
    memory_share,
    prepared,
    read,
    regime,
    runs,
)
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded
from tools.judge import calls
from tools.judge.cases import read as read_case
from tools.judge.experiments import described

SMALL = {
    "embedding": "13x5x7", "index_select": "13x5x7", "index_add": "13x5x7", "attention": "2x3x9x8", "adam": "2x5",
    "attention_causal": "2x3x9x8", "conv3x3_channels_last": "2x3x7x6x4", "mm": "5x7x9", "matmul nn": "3 of 5x7x9",
    "matmul nt": "5x7x9",
}  # fmt: skip
"""Sizes of an operator, for a CPU; of the others a matrix."""


def small(operator: str) -> SwapCall:
    first, _, layout = operator.partition(" ")
    return read(f"{first} {SMALL.get(operator, '11x6')} float32 {layout}".strip())


def reference() -> Mapping[str, Estimate]:
    return claims.reference(Recorded("h200").folders[0] / claims.FILE)


H200 = Recorded("h200")
THERE = {str(row.point[0]): (name, row)
         for name in ("operators_drawn", "operators", "prediction")
         for row in H200.recording(described(H200.folders[0] / f"{name}.csv")).rows
         if row.variant == "eager"}  # fmt: skip
"""The recorded calls that the experiment's are some of, each with its experiment's name."""


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_the_one_that_the_h200_was_recorded_with(name: str) -> None:
    mine, theirs = cost_of(name), calls.cost_of(read_case(THERE[name][0], name))
    told = [[(each.name, each.dtype, each.bytes, each.flop) for each in one.operators] for one in (mine, theirs)]
    assert told[0] == told[1] and mine.bytes > 0


def test_the_h200_s_rows_are_those_that_its_own_recordings_hold() -> None:
    rows = H200.recording(SWAP).rows[: len(NAMES)]  # behind them, what was recorded again
    assert [row.point[0] for row in rows] == list(NAMES)
    assert [row for row in rows if THERE[str(row.point[0])][1] != row] == []


def test_the_groups_are_what_the_experiment_says_of_them() -> None:
    nbytes = {name: cost_of(name).bytes for name in NAMES}
    rate = {name: nbytes[name] / time.median for name, time in reference().items()}
    assert {name for name in NAMES if rate[name] >= 4e12 and nbytes[name] >= 150e6} == {*CALLS["streams"]}
    assert {name for name in NAMES if nbytes[name] <= 25e6} == {*CALLS["cached"]}
    product = {name for name in NAMES if name.split()[0].startswith(("m", "attention", "conv"))} - {*CALLS["cached"]}
    assert {name for name in product if rate[name] <= 6e11} == {*CALLS["compute"]}
    assert all(45e6 <= nbytes[name] <= 60e6 for name in CALLS["between"])
    assert len(NAMES) == len(set(NAMES))


# ---- what runs ----


@pytest.mark.parametrize("operator", [*runs(), "adam"])
def test_a_result_is_held_against_float64(operator: str) -> None:
    call = small(operator)
    assert error_of(call, "cpu", prepared(call, made(call, "cpu"))()) < (1e-2 if operator == "cast" else 1e-5)


@pytest.mark.parametrize("wrong", [lambda y: y * 1.01, lambda y: y[:-1], lambda y: y * math.nan])
def test_a_wrong_result_is_found_out(wrong: Callable[[torch.Tensor], torch.Tensor]) -> None:
    call = small("gelu")
    assert not error_of(call, "cpu", wrong(prepared(call, made(call, "cpu"))())) <= 1e-3


def test_every_operator_is_called_and_every_call_has_one() -> None:
    assert {read(name).operator for name in NAMES} == {*runs(), "adam"}


def test_a_workload_checks_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "must_fit", lambda *_: None)
    variant = replace(SWAP.variant("eager"), device="cpu")
    one = claims.workload(variant, {"call": "sort 17x1021 float32"})
    assert one.check() == 0.0 and one.cost.bytes == cost_of("sort 17x1021 float32").bytes
    with pytest.raises(Exception, match=r"expected at most 0\.0001"):
        one.verified((torch.zeros(17, 1021), torch.zeros(17, 1021)))


# ---- what the ratio says ----


def test_the_memory_s_share_is_what_two_parts_of_a_time_give() -> None:
    memory_s, other_s, gain = 3.0, 2.0, 1.5
    ratio = (memory_s + other_s) / (memory_s / gain + other_s)
    assert memory_share(ratio, gain) == pytest.approx(memory_s / (memory_s + other_s))
    assert [regime(each, 1.43) for each in (1.26, 1.24, 1.12, 1.1)] == ["memory", "a mix", "a mix", "something else"]


def by_regime(name: str) -> float:
    return 1.43 if claims.predicted(name) == "memory" and name not in CALLS["cached"] else 1.0


def verdicts(evidence: Evidence) -> dict[str, str]:
    return {claim.name: claim.verdict(evidence).status for claim in SWAP.claims}


def test_each_claim_holds_where_the_ratios_are_those_of_the_regimes_and_fails_where_not(tmp_path: Path) -> None:
    held = verdicts(h100(tmp_path, by_regime))
    assert set(held.values()) <= {"holds", "undecided"} and held["prediction-agrees"] == "holds"
    (tmp_path / "other").mkdir()
    turned = verdicts(h100(tmp_path / "other", lambda name: 1.0 if by_regime(name) > 1 else 1.43))
    assert set(turned.values()) == {"fails"}


def test_mixes_and_what_caches_hold_are_no_test_of_a_prediction(tmp_path: Path) -> None:
    found = claims.agrees(h100(tmp_path, lambda name: 1.2 if name in CALLS["compute"] else 1.43)).values
    assert {key[0] for key in found} == {*CALLS["streams"], *CALLS["others"]}


def test_a_ratio_has_the_intervals_of_both(tmp_path: Path) -> None:
    name = CALLS["streams"][0]
    found = claims.swapped(h100(tmp_path, lambda _: 1.4), "streams").values[name,]
    there = reference()[name]
    assert isinstance(found, Estimate) and len(NAMES) == 44
    assert found.median == pytest.approx(1.4) and found.low == pytest.approx(1.4 * there.low / there.high)


@pytest.mark.parametrize("device", ["h200", "cpu"])
def test_no_claim_is_judged_where_nothing_was_swapped(device: str) -> None:
    assert set(verdicts(Evidence(SWAP, Recorded(device))).values()) == {"not measured"}


def test_another_chip_is_no_h200_with_another_memory(tmp_path: Path) -> None:
    with pytest.raises(NotRecordedError, match=r"is not the chip"):
        claims.swapped(h100(tmp_path, by_regime, "NVIDIA A100-SXM4-80GB"))


def test_the_newest_row_of_a_call_is_read(tmp_path: Path) -> None:
    lines = (Recorded("h200").folders[0] / "memory_swap.csv").read_text(encoding="utf-8").splitlines()
    newest = [line for line in lines if line.startswith(NAMES[0])][-1]
    older = newest.replace(newest.split(",")[-1], "20200101-000000-000000").replace("7.9", "9.9")
    path = tmp_path / "memory_swap.csv"
    path.write_text("\n".join([lines[0], newest, older, lines[-1], ""]), encoding="utf-8")
    assert claims.reference(path)[NAMES[0]] == reference()[NAMES[0]]
