"""The judge: what a case's name tells, its truth and its errors; and that the documents say what it prints."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brrr.core.measurement import Estimate, Measurement
from brrr.core.units import nbytes
from brrr.gpu.datasheet import hardware
from brrr.roofline.communication import Link
from brrr.roofline.peaks import Peaks, read_peaks
from brrr_course.experiments.data_parallel import DEFAULT, MLP
from tools.judge import diagnosis, memory, others, whole
from tools.judge.__main__ import RECORDINGS, cells, grouped, main, rows, verdict
from tools.judge.bounds import Amount, truth
from tools.judge.calls import cost_of, operator_of
from tools.judge.cases import data, read
from tools.judge.experiments import OF_CALLS, described
from tools.judge.rows import BELOW, BOUND, DEVICE, HOST, KNOWN, LOOP, Calls, How, Row, calls_of, swept_calls
from tools.judge.rows import predicted as predicted_of

ROOT = Path(__file__).resolve().parents[2]
H200, H100 = RECORDINGS / "h200", RECORDINGS / "h100"
RECORDED = [path for name in OF_CALLS for path in RECORDINGS.glob(f"*/{name}.csv")]

# ---- a case ----


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recorded_name_is_a_case_with_an_operator(path: Path) -> None:
    for name in described(path).axes[0].values:
        case = read(path.stem, str(name))
        assert str(case.sizes[-1]) in str(name) and case.dtype in str(name)
        assert operator_of(case).inputs(*case.sizes)


def test_the_reported_half_is_fixed_for_good() -> None:
    names = described(H200 / "operators.csv").axes[0].values
    assert len(names) == 120 and len(data()["report"]) == 60 and {*data()["report"]} < {*names}
    with pytest.raises(ValueError, match="'relu' is no case"):
        read("prediction", "relu")


# ---- what limits it, by interventions ----

BUSY = 100e-6


@pytest.mark.parametrize(
    ("kind", "gain", "moving", "computing", "true"),
    [
        ("stream", 2.0, 0.0, 0.0, {"overhead"}), ("product", 1.5, 0.9, 0.1, {"overhead"}),
        ("stream", 1.3, 0.9, 0.0, set()), ("stream", 1.0, 0.95, 0.0, {"memory"}), ("stream", 1.0, 0.5, 0.0, set()),
        ("stream", 1.0, 0.1, 0.0, {"overhead", "compute"}), ("product", 1.0, 0.95, 0.02, {"memory"}),
        ("product", 1.0, 0.02, 0.95, {"compute"}), ("product", 1.0, 0.45, 0.45, {"balanced"}),
        ("product", 1.0, 0.1, 0.1, {"overhead"}), ("product", 1.0, 0.25, 0.25, set()),
    ],
)  # fmt: skip
def test_the_truth_is_what_a_case_answers_to(
    kind: str, gain: float, moving: float, computing: float, true: set[str]
) -> None:
    """A case of which shares of the time are known by construction; its twins answer accordingly."""

    def amount(nbytes: float, flop: float) -> Amount:
        seconds = BUSY * ((1 - moving - computing) + moving * nbytes / 1e8 + computing * flop / 1e9)
        return Amount(seconds, nbytes, flop)

    twins = {"bytes": amount(2.5e8, 1e9)} | ({"flop": amount(0.7e8, 0.5e9)} if kind == "product" else {})
    assert truth(kind, BUSY, BUSY / gain, amount(1e8, 1e9), twins) == true


@pytest.mark.parametrize(("kind", "twins", "bounds"), [
    ("stream", {}, set()),
    ("product", {"flop": Amount(BUSY / 2, 0.5e8, 0.5e9)}, set()),
    ("product", {"flop": Amount(BUSY / 2, 1e8, 0.5e9)}, {"compute"}),
    ("product", {"flop": Amount(BUSY, 1e8, 2e9)}, {"memory", "overhead"}),
    *((kind, {twin: Amount(BUSY * (1 - share / 2), nbytes, 0.5e9)}, set())  # on another kernel, as the times show
      for share in (-0.3, 1.4) for kind, twin, nbytes in (("stream", "bytes", 0.5e8), ("product", "flop", 1e8))),
])  # fmt: skip
def test_without_a_clean_twin_there_is_no_truth(kind: str, twins: dict[str, Amount], bounds: set[str]) -> None:
    assert truth(kind, BUSY, BUSY, Amount(BUSY, 1e8, 1e9), twins) == bounds


# ---- the errors of calls that took what is predicted, or so many times as much ----


def exactly(seconds: float | None) -> Estimate | None:
    return None if seconds is None else Estimate(seconds, seconds, seconds, 9)


def judged(experiment: str, name: str, times: float = 1.0, host: float = 1.0, folder: Path = H200) -> dict[str, Any]:
    """What is said of one call, by what is judged of it, on a host so many times as slow as calibrated."""
    calls, case = Calls(experiment, folder), read(experiment, name)

    def took(how: How) -> Measurement:
        said = predicted_of(case, how, calls.peaks)
        fields = ("host_s", "busy_s", "span_s", "period_s")
        return Measurement(**{each: exactly(times * (getattr(said, each) or 0.0)) for each in fields})

    there: dict[str, Measurement] = {how: took(how) for how in ("eager", "graph")}  # type: ignore[arg-type]
    there["reference"] = Measurement(host_s=exactly(host * calls.peaks.get("host.relu").value))
    calls.__dict__["measured"] = {name: there}
    return {row.what: row.off for row in calls.rows()}


def test_an_error_is_the_predicted_time_over_the_measured_one_less_one() -> None:
    found = judged("operators_drawn", "softmax_rows 83x211 float32", times=0.8)
    assert (found[DEVICE], found[LOOP]) == pytest.approx((0.25, 0.25)) and found[KNOWN] is True
    stream = judged("prediction", "relu 83x217 float32", times=2.0)
    assert (stream[DEVICE], stream[LOOP]) == pytest.approx((-0.5, -0.5)) and stream[BOUND] is True
    by_sheet = "on the device, by its datasheet"
    assert by_sheet not in found and by_sheet in judged("operators", "softmax_rows 83x211 float32", folder=H100)


def test_a_reference_beside_a_call_takes_the_hosts_speed_out() -> None:
    found = judged("operators_drawn", "softmax_rows 83x211 float32", host=2.0)
    assert found[LOOP] == pytest.approx(0.0) and found[HOST] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("times", "right"), [(2.0, True), (0.5, False)])
def test_of_what_is_unknown_a_lower_bound_is_asked_for(times: float, right: bool) -> None:
    assert judged("operators_drawn", "topk 33x5003x10 float32", times) == {KNOWN: False, BELOW: right}


def test_what_calibration_has_timed_is_left_out() -> None:
    for name in ("matmul 8x16x32 float16 nt", "relu 83x217 float32"):
        case = read("prediction", name)
        (each,) = (one for one in cost_of(case).operators if one.kind != "view")
        sweeps: Any = {
            "products": [({"dtype": "bfloat16", "batch": 1, "m": 8, "n": 16, "k": 32}, 1e-6)],
            "operators": [({"operator": each.name, "dtype": each.dtype, "read": each.read_bytes,
                            "written": each.written_bytes}, 1e-6)],
        }  # fmt: skip
        assert calls_of(case) <= swept_calls(replace(read_peaks(H200), sweeps=sweeps))
    assert calls_of(read("prediction", "chain of 3 mlp 8x8 float32")) == frozenset()


def test_a_table_has_errors_or_how_many_are_right_and_what_was_wanted(tmp_path: Path, capsys: Any) -> None:
    found = grouped(iter([Row("a", "b", "one", 0.1), Row("a", "b", "two", -0.3), Row("a", "c", "one", True)]))
    assert [cells(each) for each in found.values()] == [("2", "20 %", "28 %"), ("1", "1 right", "")]
    wanted = {"median": 0.2, "ninth": 0.28, "least": 2}
    assert verdict(wanted, [0.1, -0.3]) == "20 % / 28 %: holds" and verdict(wanted, [0.1]).endswith("undecided")
    assert verdict({**wanted, "ninth": 0.27}, [0.1, -0.3]).endswith("fails")
    assert verdict({"right": 0.9, "least": 1}, [True] * 8 + [False]).endswith("fails")
    lines = [{"program": name, "measured_period_s": 1.0, "predicted_period_s": 1.0 + off}
             for name, off in (("near", 0.14), ("far", -0.2))]  # fmt: skip
    text = "".join(json.dumps(each) + "\n" for each in [*lines, {"program": "none", "error": "no GPU"}])
    (tmp_path / whole.PROGRAMS).write_text(text, encoding="utf-8")
    assert main([str(tmp_path)]) == 0 and "whole networks  within 15%  2  1 right" in capsys.readouterr().out
    assert main([str(tmp_path), "--rows"]) == 0 and "within 15%,far,False" in capsys.readouterr().out


# ---- whole steps ----

STEP: dict[str, Any] = {"network": MLP, "batch": 2, "bucket": DEFAULT}
PAIR: dict[str, Any] = {"width": 1024, "batch": 64}


def link(alpha_s: float = 0.0, bytes_per_s: float = float("inf")) -> Link:
    return Link(*(Estimate(each, each, each, 9) for each in (alpha_s, bytes_per_s)))


@pytest.fixture(scope="module")
def peaks() -> Peaks:
    return read_peaks(H200)


# ---- the documents say what it prints ----

FIRST, *BEHIND = (path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("predictor*.md")))
PREDICTOR = "".join(BEHIND)
DIAGNOSIS = (ROOT / "docs" / "diagnosis_judged.md").read_text("utf-8")


def cell(page: str, label: str, column: int) -> str:
    """A cell of the only line of a table that begins so."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {label} |")]
    return line.split("|")[column].strip()


def errors(found: list[float | bool]) -> str:
    _, middle, ninth = cells(found)
    return f"{middle} / {ninth}"


def share(found: list[float | bool]) -> str:
    return f"{100 * sum(found) / len(found):.3g}"


def unknown(found: list[float | bool]) -> str:
    return f"{len(found) - sum(found):.0f} of {len(found)}"


Told = tuple[str, int, str, str, Callable[[list[float | bool]], str]]
"""A line's label, a column, the group and what is judged of it, and how the cell tells it."""
HALF = "operators, reported half"
TOLD: dict[tuple[Path, str], list[Told]] = {
    (H200, "prediction"): [
        *((f"{group}, {what} ({{n}})", 3, group, what, errors) for group in ("streams", "products")
          for what in (DEVICE, LOOP)),
        *((f"{group}, in a loop ({{n}})", 4, group, HOST, errors) for group in ("streams", "products", "chains")),
        ("chains, in a loop ({n})", 3, "chains", LOOP, errors),
        ("bound correct ({n} with a truth)", 3, "streams, products and chains", BOUND, share),
    ],
    (H200, "operators"): [
        ("on the device ({n})", 3, HALF, DEVICE, errors), ("bound correct ({n} with a truth)", 3, HALF, BOUND, share),
        ("in a loop, with the host's speed ({n})", 3, HALF, HOST, errors),
        ("time unknown ({n})", 3, HALF, KNOWN, unknown),
    ],
    (H200, "operators_drawn"): [
        ("on the device ({n})", 3, "operators_drawn", DEVICE, errors),
        ("in a loop, with the host's speed ({n})", 3, "operators_drawn", HOST, errors),
        ("bound correct ({n} with a truth)", 3, "operators_drawn", BOUND, share),
        ("time unknown ({n})", 3, "operators_drawn", KNOWN, unknown),
    ],
    **{(H100, name): [
        ("calibrated, on the device", column, name, DEVICE, errors), ("bound correct", column, name, BOUND, share),
        ("calibrated, in a loop, with the host's speed", column, name, HOST, errors),
        ("calibrated, in a loop, as printed", column, name, LOOP, errors),
        ("by the datasheet alone, on the device", column, name, "on the device, by its datasheet", errors),
    ] for column, name in enumerate(OF_CALLS[1:], 3)},
    (H200, "whole"): [
        (label, column, group, LOOP, told)
        for label, group in (("training steps, data-parallel", "data_parallel"),
                             ("two layers, tensor-parallel", "tensor_parallel"),
                             ("all (target: a median of 12 %)", "all steps over two devices"))
        for column, told in ((3, lambda found: cells(found)[1]), (4, lambda found: cells(found)[2]))
    ],
}  # fmt: skip


def test_the_first_page_repeats_errors_of_the_pages_behind_it() -> None:
    found = re.findall(r"[\d.]+ % / [\d.]+ %", FIRST)
    assert len(found) > 10 and [each for each in found if each not in PREDICTOR] == []


@pytest.mark.parametrize(("folder", "part"), TOLD, ids=lambda each: getattr(each, "name", each))
def test_docs_have_the_errors_that_the_judge_finds(folder: Path, part: str) -> None:
    found = grouped(rows(folder, [part]))
    for label, column, group, what, told in TOLD[folder, part]:
        off = found[group, what]
        written = cell(PREDICTOR, label.format(n=len(off)).replace("products", "matmuls"), column)
        assert written.removesuffix(" %") == told(off).removesuffix(" %"), (label, group, what)


def test_the_page_has_each_network_as_it_was_measured() -> None:
    lines = whole.lines(H100, whole.PROGRAMS)
    assert len(lines) == 10
    for line in lines:
        off = line["predicted_period_s"] / line["measured_period_s"] - 1
        told = f"{off:+.0%}".replace("%", " %")
        assert f"| {line['program']} | {line['measured_period_s'] * 1e3:.3g} ms | {told} |\n" in PREDICTOR
    assert sum(grouped(whole.of_programs(lines))["whole networks", "within 15%"]) == 7
    assert "**Seven of ten are within 15 %, where eight were wanted.**" in PREDICTOR


def test_the_page_has_the_memory_of_each_program_and_each_largest_batch() -> None:
    off = grouped(memory.rows(H200))
    by_gpu, by_cpu = (off["memory", f"by the {which}'s operators"] for which in ("GPU", "CPU"))
    for line, *both in zip(diagnosis.table(H200 / "memory" / "programs.csv"), by_gpu, by_cpu, strict=True):
        names = "predicted_cuda_bytes max_memory_allocated reserved_cuda_bytes max_memory_reserved"
        said, was, *beside = (nbytes(float(line[name])) for name in names.split())
        errors_told = " | ".join(f"{each:+.2%}".replace("%", " %") for each in both)
        assert f"| {line['program']} | {said} | {was} | {errors_told} | {' | '.join(beside)} |\n" in PREDICTOR
    assert max(map(abs, by_gpu)) < 0.01 and sum(abs(each) < 0.1 for each in by_cpu) == 11, "as lesson 16 says"
    for line in diagnosis.table(H200 / "memory" / "batches.csv"):
        assert f"{line['program']} {line['predicted']} for {line['measured']}" in PREDICTOR


def test_the_page_has_what_was_said_of_each_program() -> None:
    folder = H100 / "diagnosis"
    said = {(line["program"], line["place"]): line for line in diagnosis.table(folder / "said.csv")}
    for line in diagnosis.table(folder / "truth.csv"):
        name = line["program"]
        regime, first = said[name, "0"]["remedy"], said.get((name, "1"))
        wrong = f" (wrong: {line['regime']})" * (regime != line["regime"])
        told = "none"
        if first is not None:
            gain = f"{float(first['gain']):.2f}x ({first['how']})" if first["gain"] else first["said"]
            told = f"{first['remedy']}, {float(first['predicted']):.2f}x: {gain}"
        assert f"| {name} | {regime}{wrong} | {told} |" in DIAGNOSIS


COUNTS = {
    (H100, "programs", "regime"): "| regime right | 90 % | {} of {} |",
    (H100, "programs", diagnosis.NEAR_BESIDE): "against the step's time beside the trial | 70 % | {} of {} |",
    (H100, "programs", diagnosis.NEAR_PRINTED): "against the step's time at the diagnosis, as printed | | {} of {} |",
    (H200, "workloads", diagnosis.RIGHT): "| regime of 65 workloads | {} of {} | 62 |",
    (H200, "unseen", diagnosis.RIGHT): "judged once, at the end | {} of {} | 34 |",
    (H200, "underfilled", diagnosis.RIGHT): "| regime of 7 programs of a few long rows | {} of {} |",
    (H200, "faults", diagnosis.RIGHT): "none for 5 healthy programs | {} of {} | 22 |",
    (H200, "faults", diagnosis.GAIN): "| its gain within 15 % of the measured one | {} of {} | 13 |",
    (H200, "again faults", diagnosis.RIGHT): "| right remedy with a slower host | {} of {} | 22 |",
    (H200, "again faults", diagnosis.GAIN): "| its gain with a slower host | {} of {} | 13 |",
    (H200, "again workloads", diagnosis.RIGHT): "| the first 49 of the 65, once more | {} of {} |",
    (H200, "again unseen", diagnosis.RIGHT): "| the same 36, once more | {} of {} | 34 |",
    (H200, "added", diagnosis.RIGHT): "on rematerialisation and a persistent kernel | {} of {} |",
    (H200, "added", diagnosis.GAIN): "| their gain | {} of {} | |",
}


@pytest.mark.parametrize(("folder", "group", "what"), COUNTS)
def test_the_page_counts_as_the_judge_does(folder: Path, group: str, what: str) -> None:
    found = grouped(diagnosis.rows(folder))[f"diagnosis, {group}", what]
    assert COUNTS[folder, group, what].format(sum(found), len(found)) in DIAGNOSIS


def test_of_remedies_the_page_counts_those_that_should_not_have_stood_first() -> None:
    found = grouped(diagnosis.rows(H100))
    first, kept = (found["diagnosis, programs", what] for what in (diagnosis.FIRST, diagnosis.KEPT))
    assert f"| none | {unknown(first)} |" in DIAGNOSIS and f"refuted and dropped | | {unknown(kept)} |" in DIAGNOSIS


# ---- what others measured ----


def test_others_times_are_held_against_the_datasheet_and_a_roofline(tmp_path: Path) -> None:
    """A card's rows by their group; what was held out once more; other types and unknown cards are left out."""
    head = "source,device,software,operator,dtype,b,m,k,n,rows,cols,seconds,kernel,watts"
    rows_ = (
        "a,Tesla P4,torch,linear,float32,1,4096,1024,1024,,,0.002,,",
        "a,Tesla P4,torch,pow,float32,,,,,4096,1024,0.0004,,",
        "b,NVIDIA L40S,\"graph, six weights in turn\",linear,bfloat16,1,16,1024,1024,,,5e-6,,",
        "b,NVIDIA L40S,graph,linear,fp8,1,16,1024,1024,,,5e-6,,", "b,A card,torch,linear,float32,1,16,16,16,,,5e-6,,",
    )  # fmt: skip
    (tmp_path / "operators.csv").write_text("\n".join((head, *rows_, "")), encoding="utf-8")
    assert list(others.rows(tmp_path)) == []
    (tmp_path / "models.csv").write_text("source,device,name,seconds\n", encoding="utf-8")
    found = grouped(others.rows(tmp_path))
    assert {group for group, _ in found} == {
        "all", "Tesla P4, all", "Tesla P4, linear", "Tesla P4, pointwise", "NVIDIA L40S, all", "NVIDIA L40S, linear",
    }  # fmt: skip
    assert len(found["all", "by a roofline"]) == 3 and len(found["Tesla P4, all", "by its datasheet, held out"]) == 2
    assert all(abs(each) < 1 for each in found["all", "by its datasheet"])
    assert found["Tesla P4, linear", "by its datasheet"] != found["Tesla P4, linear", "by a roofline"]
    turned = others.cost_of("linear", "bfloat16", others.TURNS, (1, 16, 1024, 1024))
    assert [each.kind for each in turned.operators if each.kind != "view"] == ["matmul"] * others.TURNS
    assert turned.working_set_bytes == pytest.approx(others.TURNS * 2 * 1024**2, rel=0.02)


def test_others_recurrent_layers_are_held_against_their_steps(tmp_path: Path) -> None:
    """Each pass by itself, without the inputs' products; a card that no datasheet tells of is left out."""
    head = "source,device,software,operator,dtype,hidden,batch,steps,pass,seconds"
    passes = "forward", "backward inputs", "backward weights"
    lines = [f"a,{card},c,lstm,float32,512,16,20,{what},1e-3" for what in passes for card in ("Tesla P4", "A card")]
    (tmp_path / "recurrent.csv").write_text("\n".join((head, *lines, "")), encoding="utf-8")
    found = grouped(others.rows(tmp_path))
    assert {group for group, _ in found} == {
        f"Tesla P4, {what}{dtype}" for what in passes for dtype in ("", ", float32")
    }  # fmt: skip
    line = dict(zip(head.split(","), lines[0].split(","), strict=True))
    board = hardware("v100")
    made = {what: others.kernels_of({**line, "pass": what}, board)[1:] for what in passes}
    sizes = {what: [(m.m, m.n, m.k) for each in of for m in each.matmuls] for what, of in made.items()}
    assert sizes["forward"] == [(16, 2048, 512)] * 20 and sizes["backward inputs"] == [(16, 512, 2048)] * 20
    assert sizes["backward weights"] == [(2048, 512, 320)] and len(made["forward"]) == 40
