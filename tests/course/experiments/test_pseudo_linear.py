"""The pseudo-linear experiments: costs, theory, what is run and checked, claims, exercises, compared speed-ups."""

import itertools
from pathlib import Path
from typing import Any

import made_up
import pytest
import torch
from formulas import Made

from brrr.core.errors import BrrrError, WrongResultError
from brrr.core.measurement import Measurement, Value
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import hardware
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.passes.sums import product
from brrr_course.experiments import experiment, pseudo_linear_flaws
from brrr_course.experiments import pseudo_linear as work
from brrr_course.lessons.claims_table import claims
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.guessing import forget, guess
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.places import published
from brrr_course.nouns.source import Evidence
from brrr_course.sources.plan import Step
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Machine
from brrr_course.sources.rows import Timed

PSEUDO = experiment("pseudo_linear")
FLAWS = experiment("pseudo_linear_flaws")
H200 = Machine("h200", "NVIDIA H200", "cuda")

# ---- theory ----


def test_the_roofline_predicts_about_a_fiftieth_of_the_width_on_an_h200() -> None:
    for width in (8192, 16384, 24576):
        point = {"width": width, "batch": 32768, "direction": "forward"}
        predicted = work.speedup_by_roofline(hardware("h200"), point)
        assert predicted is not None
        assert 45 < width / predicted < 65
    assert work.speedup_by_roofline(None, {"width": 64, "batch": 1}) is None
    assert work.speedup_by_flop(None, {"width": 64, "batch": 1}) == 64


# ---- what is run, on the CPU queue ----


@pytest.mark.parametrize("name", ["queue-linear-eager", "queue-pseudo-eager"])
def test_a_check_keeps_no_node_of_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf's node remembers the stream that it was made on, on which a captured backward pass would then fail."""
    inputs, variant = work.PseudoInputs.of(64, 128, True, "cpu"), PSEUDO.variant(name)
    monkeypatch.setattr(work.PseudoInputs, "of", lambda *_: inputs)
    made = work.workload(variant, {"width": 64, "batch": 128, "direction": work.BOTH})
    for leaf in (inputs.x, *inputs.parameters(variant.operation)):
        leaf.view_as(leaf).grad_fn.next_functions[0][0].metadata["kept"] = True  # type: ignore[union-attr]
        assert not leaf.view_as(leaf).grad_fn.next_functions[0][0].metadata  # type: ignore[union-attr]
    made.close()


# ---- the checks can fail ----


@pytest.mark.parametrize("spoilt", range(4))
@pytest.mark.parametrize("wrong", ["TF32", "NaN", "one row"])
def test_a_wrong_linear_layer_is_found_out(spoilt: int, wrong: str) -> None:
    x, g, w, b = torch.randn(300, 64), torch.randn(300, 64), torch.randn(64, 64), torch.randn(64)
    right = [x @ w.t() + b, g @ w, g.t() @ x, g.sum(0)]
    error = work.linear_error(x, w, b, g)
    assert error(tuple(right)) < 1e-5
    result = right[spoilt].clone()
    if wrong == "TF32":
        result = (result.view(torch.int32) & ~0x1FFF).view(torch.float32)  # ten bits of the fraction are left
    elif wrong == "NaN":
        result.view(-1)[-1] = float("nan")
    else:
        result[0] = 0
    assert not error((*right[:spoilt], result, *right[spoilt + 1 :])) <= work.TOLERANCE


@pytest.mark.parametrize(("rows", "width"), [(64, 64), (128, 256)])
def test_whole_numbers_tell_fewer_multiplications_from_all_of_them(rows: int, width: int) -> None:
    x, w = (work.whole_numbers(count, width, width, "cpu") for count in (rows, width))
    assert float(x.max()) ** 2 * width < 2**24
    assert work.inexact_share(lambda a, b: a @ b.t(), x, w) == 0.0
    assert work.inexact_share(lambda a, b: a.flip(1) @ b.flip(1).t(), x, w) == 0.0  # another order of summation
    for form, turned in itertools.product(FORMS, (False, True)):

        def clever_product(a: torch.Tensor, b: torch.Tensor, form: str = form, turned: bool = turned) -> torch.Tensor:
            return product(b, a.t(), form, 1).t() if turned else product(a, b.t(), form, 1)

        assert torch.equal(clever_product(x.double(), w.double()), x.double() @ w.double().t())
        assert work.inexact_share(clever_product, x, w) > 0.2, form
    assert work.inexact_share(lambda a, b: a @ b.t() + 1, x, w) == 1.0


# ---- the flaws ----


def posted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, flaws: frozenset[str], linear: bool) -> Any:
    x, weight, bias = x.double(), weight.double(), bias.double()
    y = x @ weight.t() + bias if linear else x * weight + bias
    y = y + x if "x" in flaws else y
    return torch.relu(y) if "relu" in flaws else y


@pytest.mark.parametrize("variant", [v.name for v in FLAWS.variants if v.device == "cpu-queue"])
def test_each_stage_computes_what_it_says(variant: str) -> None:
    made = FLAWS.workload(variant, {"width": 16, "batch": 32})
    assert made.check() < 1e-5
    made.close()
    flaws = pseudo_linear_flaws.flaws_of(FLAWS.variant(variant))
    bench = pseudo_linear_flaws.Bench(16, 32, "linear" in variant, flaws, "cpu")
    before, result = bench.x.clone(), bench.run()
    expected = posted(bench.x, bench.weight, bench.bias, flaws, "linear" in variant)
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(before, bench.x) is ("data" not in flaws)
    assert not bench.error(result + 0.01) <= pseudo_linear_flaws.TOLERANCE
    assert not bench.error(result * float("nan")) <= pseudo_linear_flaws.TOLERANCE


def test_the_stages_lose_one_flaw_after_the_other() -> None:
    stages = [pseudo_linear_flaws.FLAWS[stage][1] for stage in pseudo_linear_flaws.CUMULATIVE]
    assert [len(flaws) for flaws in stages] == [3, 2, 1, 0]
    assert all(more > less for more, less in itertools.pairwise(stages))
    alone = [pseudo_linear_flaws.FLAWS[stage][1] for stage in ("data out", "x out", "relu out")]
    assert {stages[0] - flaws for flaws in alone} == {frozenset({flaw}) for flaw in stages[0]}
    for stage in pseudo_linear_flaws.FLAWS:  # both layers of a stage differ in nothing but the layer and its `+ x`
        linear, pseudo = (FLAWS.variant(FLAWS.line(f"{layer} {stage}").variant) for layer in ("linear", "pseudo"))
        assert pseudo_linear_flaws.flaws_of(linear) == pseudo_linear_flaws.flaws_of(pseudo) - {"x"}


# ---- claims, on made-up machines ----


def gpu(step: Step, peak: float = 50e12, bandwidth: float = 4.2e12, exact: bool = True) -> dict[str, Timed | BrrrError]:
    """A GPU with a peak and a bandwidth."""
    runs: dict[str, Timed | BrrrError] = {}
    for name in step.variants:
        cost = step.experiment.cost_at(name, step.point) or Cost(1, 1)
        time = made_up.estimate(max(cost.flop / peak, cost.bytes / bandwidth))
        measured = Measurement(**dict.fromkeys(("busy_s", "span_s", "kernel_s", "period_s", "host_s"), time))
        right = exact or name != "linear-integers"
        runs[name] = Timed(measured, cost, made_up.ERROR) if right else WrongResultError("an entry is not exact")
    return runs


def clever(root: Path, **machine: Any) -> Verdict:
    made_up.record(root, H200, names=["pseudo_linear"], measure=lambda step: gpu(step, **machine))
    rows = claims("pseudo_linear", Recorded("h200", root)).rows
    return next(verdict for claim, verdict in rows if claim.name == "clever-multiplication")


def test_the_threads_tables_are_read_by_the_width() -> None:
    found = work.thread(Evidence(PSEUDO, Made({}, ())), "gpu_b_eager")  # type: ignore[arg-type]
    assert found.axes == ("width",)
    rows = [row for row in published("pseudo_linear") if row["table"] == "gpu_b_eager"]
    assert found.values == {(int(row["width"]),): float(row["speedup"]) for row in rows}


@pytest.mark.parametrize(("machine", "status", "said"), [
    ({}, "fails", "exact at width 4096 and 16384"), ({"peak": 100e12}, "holds", "150 % of the fp32 peak"),
    ({"exact": False}, "not measured", "did not come out exact"), ({"bandwidth": 1e12}, "undecided", ""),
])  # fmt: skip
def test_a_rate_beyond_the_peak_alone_speaks_for_fewer_multiplications(
    machine: dict[str, Any], status: str, said: str, tmp_path: Path
) -> None:
    found = clever(tmp_path, **machine)
    assert found.status == status and said in found.measured


def test_a_recording_of_a_cpu_is_judged_by_the_toy_accelerator(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.CPU, names=["pseudo_linear", "pseudo_linear_flaws"])
    for name in ("pseudo_linear", "pseudo_linear_flaws"):
        rows = claims(name, Recorded("cpu", tmp_path)).rows
        assert sum(verdict.status != "not measured" for _, verdict in rows) >= 5
    rows = claims("pseudo_linear", Recorded("cpu", tmp_path)).rows
    assert {c.name: v.measured for c, v in rows}[
        "clever-multiplication"
    ] == "there is no datasheet of Synthetic CPU here"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recordings of the made-up GPU, as the lesson's source."""
    made_up.record(tmp_path, H200, names=["pseudo_linear", "pseudo_linear_flaws"], measure=gpu)
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    forget()
    return tmp_path


# ---- compared speed-ups ----


def test_a_guessed_factor_stands_beside_the_measured_one(root: Path) -> None:
    g = guess("How much faster?", unit="x")
    at: dict[str, Value] = {"width": 8000, "batch": 30000, "direction": "forward"}
    pairs = {"pseudo eager": "linear eager", "pseudo triton": "linear eager"}
    assert "Not answered yet" in repr(compare(g, "pseudo_linear", pairs, of="speed-up", **at))
    g.answer("10 x")
    found = compare(g, "pseudo_linear", pairs, of="speed-up", **at)
    assert found.text.startswith("At width 8192, batch 32768, forward, you said 10x, measured ")
    assert [row[::2] for row in found.rows] == [("pseudo", "Linear"), ("pseudo, fused (Triton)", "Linear")]
    assert "NVIDIA H200" in found.badge
    graphs = compare(g, "pseudo_linear", {"pseudo graph": "linear graph"}, of="speed-up", **{**at, "width": 24576})
    assert "At width 8192" in graphs.text  # the widest at which both were recorded


def test_the_toy_accelerator_stands_in_for_a_gpu(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.CPU, names=["pseudo_linear"])
    g = guess("How much faster, really?", unit="x").answer("2x")
    pairs = {"pseudo eager": "linear eager", "pseudo compile": "linear eager"}
    found = compare(g, "pseudo_linear", pairs, of="speed-up", source=Recorded("cpu", tmp_path), width=8192, batch=32768,
                            direction="forward")  # fmt: skip
    assert len(found.rows) == 1
    assert "width 512, batch 32768" in found.text
