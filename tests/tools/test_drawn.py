"""What chance drew: each case stands once, is built and counted; and what is judged of it."""

import json
from pathlib import Path
from shutil import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import TraceError
from brrr.counting.cost import Cost
from brrr.counting.tracing import cost
from brrr.roofline.peaks import read_peaks
from brrr.roofline.predicting import predict
from tools.judge import drawn
from tools.judge.__main__ import RECORDINGS, lines, verdict
from tools.judge.cases import data
from tools.judge.rows import DEVICE

EACH = [drawn.cases(of) for of in drawn.SETS]
CASES = {name: case for cases in EACH for name, case in cases.items()}
OPERATORS = [name for name, case in CASES.items() if case["kind"] == "operator"]
NEED_VALUES = {"argwhere", "lobpcg", "masked_select", "nn.AdaptiveLogSoftmaxWithLoss"}
"""`cost` refuses them with a reason: their sizes, or how often they go round, depend on values."""
LSTM = "word-lstm-training"


def test_forty_operators_and_twelve_programs_were_drawn_twice_none_of_them_again() -> None:
    for cases in EACH:
        assert [case["kind"] for case in cases.values()] == ["operator"] * 40 + ["program"] * 12
    assert len(CASES) == 104
    for case in CASES.values():
        for key in ("call", "args"):
            compile(" ".join(case[key].split()), case["name"], "eval")


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_is_counted_from_its_description(name: str) -> None:
    call, args, backward = drawn.make(CASES[name], "meta")
    if name in NEED_VALUES:
        with pytest.raises(TraceError, match="needs a value"):
            cost(call, *args, backward=backward)
    else:
        assert cost(call, *args, backward=backward).bytes > 0


def test_what_needs_values_is_run_to_be_counted() -> None:
    small = CASES["argwhere"] | {"args": "[randn(64).relu()]"}
    found = drawn.counted(small)
    assert found is not None and found.bytes > 0


def smaller(name: str, *changes: tuple[str, str]) -> dict[str, Any]:
    """A case with other numbers in its expressions."""
    case = dict(CASES[name])
    for old, new in changes:
        case |= {key: case[key].replace(old, new) for key in ("call", "args")}
    return case


def test_a_training_step_moves_the_model_also_under_autocast() -> None:
    step, args, _ = drawn.make(smaller(LSTM, ("33278", "50"), ("512, 32", "5, 3"), ("200", "8")), "cpu")
    model = torch.nn.Linear(4, 2)
    seen: list[torch.dtype] = []

    def loss(found: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = found(x)
        seen.append(y.dtype)
        return y.sum()

    before = model.weight.detach().clone()
    drawn.training(model, loss, autocast=True)(torch.ones(3, 4))
    assert seen == [torch.bfloat16] and not torch.equal(model.weight, before)
    step(*args)


class Reader(torch.nn.Module):
    """Stands for a model of transformers: it keeps what it has read."""

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = True) -> Any:
        held = past_key_values or SimpleNamespace(read=[])
        held.read += input_ids[0].tolist()
        held.crop = lambda count: held.read.__delitem__(slice(count, None))
        return SimpleNamespace(logits=list(held.read), past_key_values=held)


def test_decoding_reads_one_token_after_the_same_ones_each_time() -> None:
    step = drawn.decoding(Reader(), torch.tensor([[3, 4, 5]]))
    assert step(torch.tensor([[6]])) == [3, 4, 5, 6] and step(torch.tensor([[7]])) == [3, 4, 5, 7]


# ---- what is judged ----

PEAKS = read_peaks(RECORDINGS / "h200")
PLAIN = cost(torch.relu, torch.empty(512, 512, device="meta"))
UNKNOWN = cost(torch.linalg.eigvalsh, torch.empty(64, 64, device="meta"))


def judged(work: Cost | None, times: float, kind: str = "program") -> dict[str, Any]:
    """What is said of a case that took so many times what is predicted of it."""
    said = predict(work or PLAIN, device=PEAKS)
    line = {"name": "x", "kind": kind, "busy_s": times * (said.busy_s or 0.0), "period_s": times * said.period_s}
    return {row.what: row.off for row in drawn.of_line(line, work, PEAKS)}


NEAR, LOW, ALSO = "in a loop, within 20%", "half or more, or at least", f"{DEVICE}, also at least"


def test_an_operator_has_its_time_on_the_device_alone_and_one_that_is_known_in_part_says_so() -> None:
    found = judged(PLAIN, 0.8, "operator")
    assert found == {"predicted": True, DEVICE: pytest.approx(0.25), ALSO: pytest.approx(0.25), LOW: True}
    assert judged(PLAIN, 2.1, "operator")[LOW] is False
    unknown = judged(UNKNOWN, 9.0, "operator")
    assert DEVICE not in unknown and unknown[ALSO] < -0.8 and unknown[LOW] is True


@pytest.mark.parametrize(("work", "times", "near"), [(PLAIN, 1.2, True), (PLAIN, 1.3, False), (None, 1.0, False)])
def test_a_program_is_near_only_with_a_prediction(work: Cost | None, times: float, near: bool) -> None:
    found = judged(work, times)
    assert found[NEAR] is near and found["predicted"] is (work is not None)


@pytest.mark.parametrize(("of", "name"), [("unlisted", "tril"), ("unlisted_second", "triu")])
def test_the_table_holds_them_beside_what_was_wanted(tmp_path: Path, of: str, name: str) -> None:
    for path in (RECORDINGS / "h200").glob("peaks*"):
        copy(path, tmp_path)
    for path in (RECORDINGS / "h200").glob("sweep*"):
        copy(path, tmp_path)
    measured = [{"name": name, "kind": "operator", "busy_s": 1.0, "period_s": 1.0}, {"name": "sub", "error": "late"}]
    (tmp_path / f"{of}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in measured), encoding="utf-8")
    found = {line[2]: line[3:] for line in lines(tmp_path, ["unlisted"]) if line[1] == f"{of} operators"}
    assert found[DEVICE] == ("1", "100 %", "100 %", "8 % / 25 %: undecided") and found[LOW][1] == "0 right"


def test_what_was_wanted_stands_for_each_kind() -> None:
    wanted = {(group, each["what"]) for each in data()["wanted"] for group in each["groups"]}
    for of in drawn.SETS:
        assert wanted >= {(f"{of} operators", DEVICE), (f"{of} programs", DEVICE), (f"{of} programs", NEAR)}
    assert verdict({"median": 0.12, "least": 1}, [0.1]) == "12 %: holds"
