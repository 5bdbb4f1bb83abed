"""The course on an accelerator without CUDA, which `tests/played.py` plays; and how calls refuse what is none."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError, BrrrError, UnavailableError
from brrr.gpu import ROCM
from brrr_course import claims, compare, explore, guess, timeline
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns.experiment import HAVE
from brrr_course.sources import record, source, source_for
from brrr_course.sources.live import Live
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.timers import measure_variant
from brrr_course.view.explorer import sources_here
from tests.on_played import there

KINDS = ("cuda", ROCM, "xpu", "mps", "a vendor's")


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_has_the_variants_whose_needs_it_meets(name: str) -> None:
    found = experiment(name)
    gpu = {each.name for each in found.variants if each.on_gpu}
    here = {kind: gpu & {*found.variants_on(kind)} for kind in KINDS}
    assert here["cuda"] == gpu and here[ROCM] == here["xpu"] >= here["mps"] == here["a vendor's"]
    assert not gpu & {*found.variants_on("cpu")}
    lacks = {found.lacks(found.variant(each), "mps") for each in gpu - here["mps"]}
    assert lacks <= {*HAVE} and bool(lacks) is (gpu != here["mps"])


def test_what_compiles_needs_triton_and_a_graph_needs_cuda() -> None:
    found = experiment("compiled")
    lacks = {each.name: found.lacks(each, "mps") for each in found.variants if each.on_gpu}
    assert lacks["eager"] == "" and lacks["compile"] == lacks["first-cold"] == "Triton" and lacks["graph"] == "CUDA"
    assert [experiment(name).variants_on("mps") for name in ("collective", "occupancy")] == [
        experiment("collective").variants_on("mps"), ()]  # fmt: skip


def test_without_cuda_a_line_shows_the_time_of_a_loop_unless_it_names_another_itself() -> None:
    for name, line, kinds in (("unary", "relu", ("busy_s", "period_s")), ("timers", "measure", ("kernel_s",) * 2)):
        found = experiment(name)
        assert tuple(found.on(kind).line(line).field for kind in ("cuda", "mps")) == kinds
        assert found.on("cpu") is found and found.on("mps").on("mps").lines == found.on("mps").lines


@there
def test_the_accelerator_that_is_here_is_the_gpu() -> None:
    assert source().name == source("played").name == source_for(None, "matmul").name == "played"
    live: Any = source()
    assert "Played accelerator" in str(live.badge(experiment("matmul")))
    live.budget_s = 0.02
    for name, variant, point in (
        ("matmul", "gpu", {"size": 8}), ("nested_sine", "gpu-transfers-sync", {"elements": 16}),
        ("timers", "sync-each-call", {"function": "relu-64x1024", "cache": "hot"}),
    ):  # fmt: skip
        found = live.measure(experiment(name), variant, point)
        assert found.latency_s and "Played" in found.device, name
    assert ("live on this GPU", "played") in sources_here(live, explore("matmul", at={"size": 8}).scene)


@there
def test_what_it_lacks_is_shown_from_the_recording_and_named() -> None:
    assert source_for(None, "occupancy").name == "recorded:h200"
    assert source_for(None, "prefill", ["graph"]).name == "recorded:h200"
    assert source_for(None, "prefill", ["graph", "eager"]).name == "played"
    shown = explore("prefill", lines=["graph"])
    assert "This GPU has no CUDA, which these need: CUDA Graph." in shown.text and "RECORDED" in str(shown.scene.badge)
    both = explore("run_ahead", lines=["host", "graph"], at={"elements": 1024})
    assert both.scene.source.name == "played" and "no CUDA, which these need: the loop as a CUDA Graph" in both.text
    with pytest.raises(UnavailableError, match="variant 'triton' of 'cos_cos' needs Triton; here there are"):
        source("played").measure(experiment("cos_cos"), "triton", {"elements": 16, "dtype": "float32"})


@there
def test_it_is_recorded_under_its_own_name_and_claims_read_it() -> None:
    with TemporaryDirectory() as folder:
        only = "size=8,variant=gpu,variant=cpu"
        assert record.main(["matmul", "--device", "played", "--only", only, "--out", folder, "--budget", "0.02"]) == 0
        machine = json.loads((Path(folder) / "played" / "machine.json").read_text())
        assert machine["kind"] == machine["slug"] == "played"
        found = Recorded("played", folder)
        assert found.kind == "played" and found.measure(experiment("matmul"), "gpu", {"size": 8}).period_s
        assert "Played accelerator" in str(claims("matmul", found).badge)


@there
@pytest.mark.parametrize(("name", "variant", "point"), [
    ("unary", "gelu", {"elements": 64}), ("fusion", "softmax-eager", {"elements": 2**18, "dtype": "float32"}),
    ("mlp", "module", {"layers": 1, "batch": 1, "hidden": 64}), ("nested_sine", "gpu", {"elements": 4}),
])  # fmt: skip
def test_without_float64_results_are_checked_on_the_cpu(name: str, variant: str, point: dict[str, Any]) -> None:
    from tests import played

    described = experiment(name)
    with played.as_new(faults={"no float64"}):
        with pytest.raises(TypeError, match="no such numbers"):
            torch.ones(1, device="played").double()
        at = {axis.name: point.get(axis.name, axis.values[0]) for axis in described.axes}
        found = measure_variant(described, variant, at, budget_s=0.02)
    assert 0 < found.error < 1e-5 and "Played" in found.measurement.device


NO_DEVICE = "toaster"
GUESS = guess("How long?", unit="s")
GUESS.answer("1 ms")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: source(NO_DEVICE), "source: name is 'toaster'; expected recorded:DEVICE, an accelerator"),
        (lambda: explore("matmul", source=NO_DEVICE), "source: name is 'toaster'"),
        (lambda: timeline("run_ahead", source=NO_DEVICE), "source: name is 'toaster'"),
        (lambda: compare(GUESS, "matmul", ["gpu"], source=NO_DEVICE, size=8), "source: name is 'toaster'"),
        (lambda: claims("matmul", source=NO_DEVICE), "source: name is 'toaster'"),
        (lambda: Live(NO_DEVICE), "this_device: kind is 'toaster'; expected 'cuda', 'rocm', 'mps', 'xpu', \"cpu\""),
    ],
)  # fmt: skip
def test_a_device_that_there_is_not_is_named(call: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert said in str(raised.value)


@pytest.mark.usefixtures("own_environment")
def test_a_device_that_there_is_not_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in (NO_DEVICE, "mps"):
        assert record.main(["matmul", "--device", kind, "--out", str(tmp_path)]) == 2
        assert f"kind is {kind!r}" in capsys.readouterr().err and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_an_accelerator_that_is_not_here_says_why(kind: str) -> None:
    with pytest.raises(BrrrError, match=f"kind is '{kind}', but torch .* has"):
        source(kind)
