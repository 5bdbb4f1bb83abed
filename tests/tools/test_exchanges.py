"""The drawn steps over two GPUs: always the same, measured where they are missing, predicted when they are judged."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from brrr.core.errors import BrrrError
from brrr.core.measurement import Estimate
from brrr.roofline.communication import Link, exchange_s, fitted
from brrr.roofline.device_model import model_of
from brrr_course.experiments import experiment, ranks
from brrr_course.experiments.data_parallel import BLOCK, DEFAULT, MLP, shape_at
from brrr_course.experiments.data_parallel.work import network
from tools.prediction import exchanges
from tools.prediction.exchanges import buckets_of, drawn, judged, main, predicted_s
from tools.prediction.host_speed import at_host_speed

ROOT = Path(__file__).resolve().parents[2]
RECORDED = [json.loads(line) for line in (ROOT / "data/recordings/h200" / exchanges.FILE).read_text().splitlines()]
STEP: tuple[str, dict[str, Any]] = ("data_parallel", {"network": MLP, "batch": 2, "bucket": DEFAULT})
PAIR: tuple[str, dict[str, Any]] = ("tensor_parallel", {"width": 128, "batch": 1})
PEAKS = model_of("h200").peaks
assert PEAKS is not None


def link(alpha_s: float = 0.0, bytes_per_s: float = float("inf")) -> Link:
    return Link(Estimate(alpha_s, alpha_s, alpha_s, 9), Estimate(bytes_per_s, bytes_per_s, bytes_per_s, 9))


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / exchanges.FILE).read_text().splitlines()]


def test_forty_settings_are_drawn_and_are_those_that_were_recorded() -> None:
    found = list(islice(drawn(True), exchanges.COUNT))
    assert found == [(row["experiment"], row["at"]) for row in RECORDED if row["experiment"] != "collective"]
    assert len({str(each) for each in found}) == 40 and sum(name == "tensor_parallel" for name, _ in found) == 20
    assert {at["network"] for _, at in found if "network" in at} == {MLP, BLOCK}


@pytest.mark.parametrize("on_gpu", [True, False])
def test_the_experiments_take_each_of_them(on_gpu: bool) -> None:
    for name, at in islice(drawn(on_gpu), 400):
        way = "" if on_gpu else "cpu-"
        assert experiment(name).has(way + exchanges.WAY[name], at) and at["batch"] > 0, (name, at)


def test_two_processes_measure_them_and_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "drawn", lambda on_gpu: iter([STEP, PAIR]))
    monkeypatch.setattr(exchanges, "LINK", [2**10, 2**30])  # the second is more than a CPU takes
    assert main([str(tmp_path), "0", "cpu"]) == 0 and not (tmp_path / exchanges.FILE).exists()  # no time
    assert main([str(tmp_path), "60", "cpu"]) == 0 and ranks._here == {}
    rows = kept(tmp_path)
    assert [(row["experiment"], row["at"]) for row in rows] == [("collective", {"nbytes": 2**10}), STEP, PAIR]
    for row, ways in zip(rows, ("all-reduce send", "buckets alone one", "split alone one"), strict=True):
        assert row["device"] == "cpu" and all(row[way]["period_s"] > 0 for way in ways.split())
    assert main([str(tmp_path), "60", "cpu"]) == 0 and kept(tmp_path) == rows
    rows += [{"experiment": "collective", "at": {"nbytes": 10**size}, "device": "cpu",
              "all-reduce": {"period_s": 1e-3 + 10**size / 1e9}} for size in (6, 7)]  # fmt: skip
    assert judged(rows).count(" s predicted") == 2


def test_what_failed_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> dict[str, Any]:
        raise BrrrError("no second device")

    monkeypatch.setattr(exchanges, "drawn", lambda on_gpu: iter([STEP, PAIR]))
    monkeypatch.setattr(exchanges, "LINK", [])
    for measured, count in ((failing, 2), (lambda *_: {"relu": 1e-6}, 4), (failing, 4)):
        monkeypatch.setattr(exchanges, "measured", measured)
        assert main([str(tmp_path), "9", "cpu"]) == 0 and len(kept(tmp_path)) == count
    assert "BrrrError: no second device" in capsys.readouterr().out
    assert ["error" in row for row in kept(tmp_path)] == [True, True, False, False]
    told = judged([*made_up({}), *kept(tmp_path)[:2]])
    assert told.count("BrrrError: no second device") == 2 and "predicted" not in told


def made_up(times: dict[str, dict[str, Any]], relu_s: float | None = None) -> list[dict[str, Any]]:
    """All-reduces of 20 us and 100 GB/s, and the settings with what their ways took."""
    rows = [{"experiment": "collective", "at": {"nbytes": 10**size}, "all-reduce": {"period_s": 2e-5 + 10**size / 1e11}}
            for size in range(1, 10)]  # fmt: skip
    rows += [
        {"experiment": name, "at": dict([STEP, PAIR])[name], "relu": relu_s, **ways} for name, ways in times.items()
    ]
    return [{**row, "device": "h200"} for row in rows]


def test_the_judge_reports_errors_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step, pair = (predicted_s(*each, link(2e-5, 1e11), PEAKS, gpu=True) for each in (STEP, PAIR))
    rows = made_up({"data_parallel": {"buckets": {"period_s": step / 1.25}, "alone": {"period_s": step}},
                    "tensor_parallel": {"split": {"period_s": pair / 0.25}, "alone": {"period_s": pair}}})  # fmt: skip
    (tmp_path / exchanges.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main([str(tmp_path), "--judge"]) == 0
    *told, _, heads, one, both, two = capsys.readouterr().out.splitlines()
    assert [line.rsplit(", ", 1)[1] for line in told[1:]] == ["+25%", "-75%"]
    assert [" ".join(line.split()) for line in (heads, one, both, two)] == [
        "steps n median 90 %", "data_parallel 1 25 % 25 %", "all 2 50 % 70 %", "tensor_parallel 1 75 % 75 %",
    ]  # fmt: skip


def test_a_slower_host_is_predicted_to_take_longer() -> None:
    said = [judged(made_up({"tensor_parallel": {"split": {"period_s": 1.0}}}, relu_s)) for relu_s in (1e-5, 1e-4)]
    fast, slow = (float(each.split(" s predicted")[0].rsplit(" ", 1)[1]) for each in said)
    assert slow > 5 * fast


def test_two_layers_wait_for_one_exchange() -> None:
    name, at = "tensor_parallel", {"width": 1024, "batch": 64}
    work = predicted_s(name, at, link(), PEAKS, gpu=True)
    assert predicted_s(name, at, link(3.0), PEAKS, gpu=True) == pytest.approx(work + 3)
    in_bits = {gpu: predicted_s(name, at, link(0.0, 1.0), PEAKS, gpu=gpu) for gpu in (True, False)}
    assert in_bits == pytest.approx({True: 1024 * 64 * 2, False: 1024 * 64 * 4})


@pytest.mark.parametrize(("name", "pieces"), [(MLP, 8), (BLOCK, 3)])
def test_buckets_are_exchanged_beside_the_backward_pass(name: str, pieces: int) -> None:
    """A long latency counts once a bucket; of one that is short beside the work only the last bucket's shows."""
    said = partial(predicted_s, "data_parallel", {"network": name, "batch": 64, "bucket": DEFAULT}, on=PEAKS, gpu=True)
    work, short, long = (said(link=link(alpha_s)) for alpha_s in (0.0, 1e-6, 1e3))
    assert short - work == pytest.approx(1e-6) and pieces * 1e3 < long < pieces * 1e3 + work


@pytest.mark.parametrize("name", [MLP, BLOCK])
@pytest.mark.parametrize("limit", [2**20, 25 * 2**20, 100 * 2**20])
def test_there_are_as_many_buckets_as_ddp_makes(name: str, limit: int) -> None:
    with torch.device("meta"):
        gradients = [*network(name, shape_at(True, {"network": name})).bfloat16().parameters()][::-1]
    buckets, _ = dist._compute_bucket_assignment_by_size(gradients, [2**20, limit])
    assert buckets_of([each.nbytes for each in gradients], limit) == len(buckets)


@pytest.mark.parametrize("argv", [[], ["out"], ["out", "soon"], ["out", "cpu"]])
def test_a_call_that_cannot_be_understood_shows_the_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2 and "python -m tools.prediction.exchanges OUT 200" in capsys.readouterr().err


def between(values: Iterable[float], say: Callable[[float], str] = "{:.0f}".format) -> str:
    """The lowest and the highest."""
    found = sorted(values)
    return f"{say(found[0])} to {say(found[-1])}"


def test_the_docs_say_what_is_recorded() -> None:
    """docs/predictor.md, "Steps over two GPUs"."""
    page = (ROOT / "docs/predictor.md").read_text(encoding="utf-8")
    section = " ".join(page.split("### Steps over two GPUs\n")[1].split("\n### ")[0].split())
    labels = {"data_parallel": "training steps, split by samples", "tensor_parallel": "two layers, split by weights",
              "all": "all (a median of 12 % was wanted)"}  # fmt: skip
    for line in judged(RECORDED).splitlines()[-3:]:
        kind, count, *errors = (each.strip() for each in line.split("  ") if each)
        assert f"| {labels.pop(kind)} | {count} | {' | '.join(errors)} |" in section
    us, ms = (lambda s: f"{s * 1e6:.0f}"), (lambda s: f"{s * 1e3:.2f}")
    reduced = [row for row in RECORDED if "all-reduce" in row]
    found = fitted({row["at"]["nbytes"]: row["all-reduce"]["period_s"] for row in reduced})
    small = [row["all-reduce"] for row in reduced if row["at"]["nbytes"] <= 2**22]

    def said(row: dict[str, Any], by: Link = found) -> float:
        return predicted_s(row["experiment"], row["at"], by, at_host_speed(PEAKS, row["relu"]), gpu=True)

    def short(rows: list[dict[str, Any]], way: str, predicted: Callable[[dict[str, Any]], float] = said) -> str:
        return between(round(100 * (1 - predicted(row) / row[way]["period_s"])) for row in rows) + " %"

    def more(row: dict[str, Any], way: str, field: str = "period_s") -> float:
        return float(row[way][field] - row["alone"][field])

    def exchange(row: dict[str, Any]) -> float:
        return exchange_s("all-reduce", 2 * row["at"]["width"] * row["at"]["batch"], found)

    pairs = [row for row in RECORDED if "split" in row]
    idle = [row for row in pairs if row["split"]["busy_s"] <= row["split"]["period_s"] * 2 / 3]
    assert len(idle) == 8
    assert f"predicted {short(idle, 'split')} too short. The all-reduce makes their loop" in section
    assert (
        f"{between((more(row, 'split') for row in idle), us)} µs longer; {between(map(exchange, idle), us)} µs"
        in section
    )
    assert f"up to 4 MiB took {between((each['period_s'] for each in small), us)} µs." in section
    assert f"returns {between((more(row, 'split', 'host_s') for row in idle), us)} µs later" in section
    assert f"alone returns after {between((each['host_s'] for each in small), us)} µs" in section
    assert f"alone are predicted {short(idle, 'alone', partial(said, by=link()))} too short" in section

    steps = [row for row in RECORDED if row["at"].get("network") == MLP and row["at"]["batch"] <= 1928]
    assert len(steps) == 8 and f"predicted {short(steps, 'buckets')} too short by two errors" in section
    assert f"step {between((more(row, 'buckets') for row in steps), ms)} ms longer" in section
    free = [said(row, link()) for row in steps]
    measured = between((row["alone"]["period_s"] for row in steps), ms)
    assert f"{between(free, ms)} ms are predicted, where {measured} ms were measured" in section
    assert {ms(said(row) - least) for row, least in zip(steps, free, strict=True)} == {"0.14"}

    large = [row for row in pairs if row["at"]["batch"] >= 2976]
    assert len(large) == 7 and f"or more are {short(large, 'split')} too short" in section
    nearer = short(large, "split", lambda row: row["alone"]["period_s"] + exchange(row))
    assert nearer == "0 to 4 %" and "they are within 4 %" in section
    blocks = [row for row in RECORDED if row["at"].get("network") == BLOCK and row["at"]["batch"] >= 42]
    assert len(blocks) == 6 and short(blocks, "buckets") == "-1 to 3 %" and "are within 3 %" in section
    (odd,) = (row for row in pairs if row["at"] == {"width": 14720, "batch": 3})
    assert short([odd], "split") == "-23 to -23 %" and "14720 with three samples, 23 % too long" in section
    assert short([odd], "alone", partial(said, by=link())) == "-17 to -17 %" and "predicted 17 % too long" in section
    few = [row for row in RECORDED if row["at"].get("network") == BLOCK and row["at"]["batch"] in (4, 9)]
    assert short(few, "buckets") == "18 to 22 %" and "of 4 and 9 samples, 18 and 22 % too short" in section
