"""Whole programs: what is changed beneath them is what is said, their regimes by ratios, and what the judge counts."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.tools.test_diagnosis_truth import Moved
from tools.diagnosis import programs_judge
from tools.diagnosis.interventions import Changed, kernels_s, ratios, sleeping
from tools.diagnosis.programs import DATA, MODELS, PROGRAMS
from tools.diagnosis.truth import regime

ROOT = Path(__file__).resolve().parents[2]
OWN = [each for each in PROGRAMS if each.given["model"] in MODELS]


def counted(call: Any, mode: Changed) -> tuple[int, int]:
    """FLOP of products and bytes of a call that was made before; the counters stand below what changes it."""
    with FlopCounterMode(display=False) as flop, Moved() as moved, mode:
        call()
    return flop.get_total_flops(), moved.nbytes


def test_there_are_enough_and_each_is_one() -> None:
    assert len({each.name for each in PROGRAMS}) == len(PROGRAMS) >= 24
    tasks = {each.given.get("task", "") for each in PROGRAMS}
    assert {"", "decode", "static", "generate", "SGD", "AdamW"} == tasks
    assert set(DATA["model"]) <= {each.given["model"] for each in PROGRAMS}


@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_a_program_of_torchs_own_layers_runs_in_each_form(each: Any) -> None:
    for fix in ("", "graph", *each.fixes):
        call = each.call("cpu", small=True, fix=fix)
        call()
        call()
    each.call("cpu", small=True, scale=2)()


def test_without_products_a_program_yields_the_same_and_does_none() -> None:
    model, x = nn.Sequential(nn.Linear(8, 6), nn.ReLU(inplace=True), nn.Linear(6, 7)), torch.ones(4, 8)
    for fewer in (False, True):
        mode = Changed(fewer)

        def step() -> torch.Tensor:
            return model(x).sum()  # type: ignore[no-any-return]

        with mode:
            found = step()
        with mode:
            step().backward()
            again = step()
        assert torch.equal(found, again) and torch.equal(again, step())
    skipped = Changed(False)
    with skipped:
        step()
    assert counted(step, skipped)[0] == 0


@pytest.mark.parametrize(
    ("module", "size", "backward"),
    [(nn.Linear(4096, 4096), (4, 4096), False), (nn.Linear(64, 64), (4096, 64), True),
     (nn.Conv2d(16, 16, 3, padding=1), (8, 16, 32, 32), True),
     (nn.Conv2d(16, 16, 3, padding=1), (1, 16, 64, 64), False)],
)  # fmt: skip
def test_products_run_with_fewer_bytes_at_as_many_flop(
    module: nn.Module, size: tuple[int, ...], backward: bool
) -> None:
    x = torch.ones(size)

    def step() -> object:
        found = module(x)
        return torch.autograd.grad(found.sum(), list(module.parameters())) if backward else found

    mode = Changed(True)
    with mode:
        step()
    with FlopCounterMode(display=False) as flop, Moved() as moved:
        step()
    flop_fewer, bytes_fewer = counted(step, mode)
    assert flop_fewer == pytest.approx(flop.get_total_flops(), rel=0.05)
    assert bytes_fewer < 0.8 * moved.nbytes  # of all work, also beside the products


@pytest.mark.parametrize(
    ("module", "size"),
    [(nn.Conv2d(16, 16, 3, padding=1, groups=4), (4, 16, 8, 8)), (nn.Conv2d(16, 16, 1), (2, 16, 1, 1)),
     (nn.Conv1d(16, 16, 3), (2, 16, 64)), (nn.Linear(64, 64), (64, 64))],
)  # fmt: skip
def test_what_has_no_form_with_fewer_bytes_runs_as_it_is(module: nn.Module, size: tuple[int, ...]) -> None:
    mode, x = Changed(True), torch.ones(size)
    with mode:
        module(x)
    with FlopCounterMode(display=False) as flop, Moved() as moved:
        module(x)
    assert counted(lambda: module(x), mode) == (flop.get_total_flops(), moved.nbytes)


def test_the_device_sleeps_as_long_in_all() -> None:
    slept: list[int] = []
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(40)))
    step = sleeping(lambda: model(torch.ones(2)), 41_000, 16, slept.append)
    for _ in range(2):
        slept.clear()
        step()
        assert 8 <= len(slept) <= 16 and sum(slept) == pytest.approx(41_000, rel=0.01)
    slept.clear()
    sleeping(lambda: torch.ones(2) * 2, 41_000, 16, slept.append)()
    assert slept == [41_000]
    assert kernels_s(lambda: torch.ones(512, 512) @ torch.ones(512, 512)) > 1e-5


@pytest.mark.parametrize(
    ("times", "found"),
    [((2.0, 1.0, 0.0, 1.0, 0.1, 1.0, 2.0), "overhead"), ((2.0, None, 0.9, 1.0, 0.1, 1.0, 2.0), "overhead"),
     ((2.0, 1.9, 0.9, 1.0, 0.1, 1.0, 2.0), "compute"),  # where there is a graph, it tells
     ((1.0, None, 0.1, 1.0, 0.8, 1.0, 2.0), "memory"), ((1.0, 0.9, 0.1, 1.0, 0.2, 0.6, 2.0), "memory"),
     ((1.0, 0.9, 0.1, 1.0, 0.48, 0.99, 2.0), "compute"),  # half of the FLOP would gain a little more
     ((1.0, 0.9, 0.1, 1.0, 0.2, 1.0, 2.0), "compute"), ((1.0, 0.9, 0.1, 1.0, 0.2, 1.0, 1.1), "latency")],
)  # fmt: skip
def test_the_ratios_tell_the_regime(times: Any, found: str) -> None:
    assert regime(*ratios(*times)) == found


def said(program: str, place: int, remedy: str, *cells: object) -> dict[str, str]:
    names = ("predicted", "gain", "how", "said", "at_pace")
    rest = dict(zip(names, map(str, (*cells, "", "", "", "", "")[:5]), strict=True))
    return {"program": program, "place": str(place), "remedy": remedy, **rest}


def test_the_judge_counts_what_was_wanted() -> None:
    truths = [{"program": name, "eager_s": "0.001", "regime": "overhead", "gains": ""} for name in "abcd"]
    rows = [
        said("a", 0, "overhead"), said("a", 1, "cuda graph", 2.0, 1.9, "tried", "", 2.1),
        said("a", 2, "larger batch", 1.5, "", "", programs_judge.NOT_SAFE),
        said("b", 0, "memory"), said("b", 1, "fusion", 1.5, 1.01, "changed", "", 1.1),
        said("b", 2, "padding", 1.5, 1.0, "refuted", "", 1.4),
        said("c", 0, "overhead"), said("c", 1, "fusion", 1.2, "", "", "refused: it differs"),
        said("d", 0, "failed", "", "", "", "no memory"),
    ]  # fmt: skip
    lines, counts = programs_judge.table(truths, rows)
    assert len(lines) == 6 and "| b | 1 ms | overhead | memory (wrong) | fusion, 1.50x: 1.01x (changed) |" in lines
    assert counts["regime right"] == "2 of 4" and counts["tried"].startswith("2, ")
    assert counts["predicted gain off"].startswith("2 of 3\n  - b: fusion")
    assert counts["off at the trial's pace"].startswith("1 of 3\n  - b: padding")
    assert counts["refuted by the trial"] == "1 of 3\n  - b: padding, 1.50x: 1.00x (refuted)"
    assert counts["first remedy gains too little"] == "1 of 2\n  - b: fusion, 1.50x: 1.01x (changed)"
    assert counts["refused"].endswith("c: fusion, 1.20x: refused: it differs")
    assert counts["failed"].endswith("d: failed: no memory")


@pytest.mark.usefixtures("one_thread")
def test_a_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [each for each in OWN if each.name in ("8 wide layers, 1 sample, bfloat16", "graph of 100,000 nodes")]
    monkeypatch.setattr(programs_judge, "PROGRAMS", few)
    (tmp_path / "begun.txt").write_text(f"{few[0].name}\n", encoding="utf-8")
    programs_judge.run(tmp_path, 60.0, "cpu", small=True, try_s=0.1)
    programs_judge.run(tmp_path, 60.0, "cpu", small=True, try_s=0.1)
    assert (tmp_path / "truth.csv").read_text(encoding="utf-8").count(few[1].name) == 1
    capsys.readouterr()
    assert programs_judge.main(["table", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"| {few[1].name} | " in shown and few[0].name not in shown and "failed: 0 of 1" in shown
    assert programs_judge.main(["run"]) == 2


def test_the_page_has_each_program_and_counts_as_they_were_recorded() -> None:
    page, folder = (ROOT / "docs/diagnosis.md").read_text(encoding="utf-8"), ROOT / "data/recordings/h100/diagnosis"
    truths, rows = (list(csv.DictReader((folder / name).open(encoding="utf-8"))) for name in ("truth.csv", "said.csv"))
    lines, counts = programs_judge.table(truths, rows)
    assert "\n".join(lines) in page and f"{len(truths)} of the {len(PROGRAMS)} were measured" in page
    firsts = {name: count.partition("\n")[0] for name, count in counts.items()}
    assert f"| regime right | 90 % | {firsts['regime right']} |" in page
    off, printed, of = (
        int(firsts[name].split()[0].strip(",")) for name in ("off at the trial's pace", "predicted gain off", "tried")
    )
    every = int(firsts["predicted gain off"].split()[-1])
    assert f"over the step's time beside the trial | 70 % | {every - off} of {every} |" in page
    assert f"at the diagnosis | | {every - printed} of {every} |" in page
    assert f"| none | {firsts['first remedy gains too little']} |" in page
    assert f"dropped by it | | {firsts['refuted by the trial']} |" in page
    assert f"| 15 tried | {of} tried, {every - of} more changed |" in page
    by = {(each["program"], each["remedy"]): each for each in rows}
    vit, cache = (
        by["ViT-B/16 inference, 64 images, bfloat16", "fusion"],
        by["Llama decode, 64 sequences of 4096", "fusion"],
    )
    assert f"ViT's attention: {float(vit['gain']):.2f}x" in page and f"badly ({float(cache['gain']):.2f}x)" in page
    assert by["ResNet-50 training, 64 images, float32", "channels last"]["how"] == "refuted"
    left = by["BERT training, 16 x 128, AdamW tensor by tensor", "fused optimiser"]
    said = f"was predicted to gain {float(left['predicted']):.2f}x and gains {float(left['gain']):.2f}x"
    assert said in page and counts["first remedy gains too little"].count("\n") == 1
    paces = [float(each["at_pace"]) / float(each["predicted"]) for each in rows if each["how"] in ("tried", "refuted")]
    assert 1.8 < max(paces) < 2.2 and "took up to twice as long beside its trial" in page
    (bags,) = [each for each in truths if each["program"] == "embedding bags, 65,536 samples"]
    assert (
        0.45 < float(bags["beside_s"]) / float(bags["kernels_s"]) < 0.55 and "are half memory and half compute" in page
    )
    (llama,) = [each for each in truths if each["program"] == "Llama decode, 1 sequence"]
    assert f"only {float(llama['hidden']):.0%}".replace("%", " %") in page
    assert float(llama["kernels_s"]) < float(llama["eager_s"]) / 6 and not llama["graph_s"]
