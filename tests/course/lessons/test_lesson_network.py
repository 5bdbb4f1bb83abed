"""What lessons 06 and 06b are made of beside the experiment: the drawing of the divide."""

from pathlib import Path
from typing import Any

import pytest
from made_up import ERROR, estimate, record

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Measurement
from brrr.counting.cost import Cost
from brrr_course.experiments.mlp import BATCHES, HIDDEN, LAYERS
from brrr_course.experiments.published import mlp_speedups
from brrr_course.lessons.drawings import drawing
from brrr_course.lessons.drawings.network_divide import ALONE, curves, in_words, limits
from brrr_course.lessons.speedup_table import Part, measured_parts, published_part, speedup_table
from brrr_course.sources.plan import Step
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Machine
from brrr_course.sources.rows import Timed

GPU = Machine("h200", "Synthetic H200", "cuda")
VARIANTS = ("module", "graph", "pycuda", "pycuda-fused", "pycuda-graph", "megakernel", "best")
GAIN = {"pycuda": 1.5, "pycuda-fused": 2.0, "pycuda-graph": 1.25}


def run(variant: str, batch: int, hidden: int) -> Timed:
    """The rewrite gains up to hidden 1024 and on the source's batches; beyond, nothing does."""
    gain = GAIN.get(variant, 1.0) if hidden <= 1024 and batch in BATCHES else 1.0
    time = estimate(1e-4 / gain)
    kept = Measurement(host_s=time, kernel_s=time, busy_s=time, span_s=time, period_s=time, latency_s=time, kernels=1)
    return Timed(kept, Cost(1e6, 1e6), ERROR)


def measure(step: Step) -> dict[str, Timed]:
    """A measurer for the recorder."""
    return {each: run(each, int(step.point["batch"]), int(step.point["hidden"])) for each in step.variants}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A made-up recording."""
    root = tmp_path_factory.mktemp("recordings")
    some = {"variant": VARIANTS, "layers": ["1", "8"], "batch": ["2", "16", "128"]}
    record(root, GPU, only=some, names=("mlp",), measure=measure)
    return Recorded("h200", root)


def test_the_published_panel_is_the_sources_table() -> None:
    rows = {(r.layers, r.batch, r.hidden, r.variant): r.speedup for r in mlp_speedups()}
    for layers in LAYERS:
        for batch in BATCHES:
            found = curves(published_part("mlp"), layers, batch)
            assert list(found["three kernels a layer"]) == list(HIDDEN)
            for hidden, gain in found["bias and ReLU fused"].items():
                assert gain == rows[layers, batch, hidden, "fusion"]


def test_each_panel_has_its_own_badge_and_its_own_divide(recorded: Recorded) -> None:
    made = drawing("mlp-divide", source=recorded, layers=8, batch=16)
    theirs, ours = made.text.split("RECORDED")
    assert "PUBLISHED · NVIDIA GTX 1070" in theirs and "divide at 1024" in theirs
    assert ours.startswith(" · Synthetic H200") and "1.5x to 1x, divide at 2048" in ours and "2x to 1x" in ours
    assert f"{ALONE} 1.25x to 1x" in ours and ALONE not in theirs
    assert "PUBLISHED" in made.badge and "RECORDED" in made.badge
    low, high = limits((published_part("mlp"), measured_parts("mlp", recorded)[0]))
    assert low < 1.0 and high > max(row.speedup for row in mlp_speedups() if row.variant == "fusion")


def test_what_the_drawing_lacks_is_said(recorded: Recorded, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="'width'"):
        drawing("mlp-divide", source=recorded, width=3)
    record(tmp_path, GPU, names=("matmul",))
    made = drawing("mlp-divide", source=Recorded("h200", tmp_path))
    assert made.text.endswith("recorded:h200: nothing is measured here.")


def test_a_point_that_is_missing_is_said_and_one_alone_has_no_divide() -> None:
    part = Part("LIVE · a GPU", {"three kernels a layer": {(8, 16, 256): 1.4}})
    assert in_words(part, 8, 2) == "LIVE · a GPU: nothing is measured here"
    assert in_words(part, 8, 16).endswith("three kernels a layer 1.4x, no divide")


def test_the_kernels_alone_are_drawn_beside_another_line_only() -> None:
    gains = {(8, 16, 256): 1.4}
    assert curves(Part("LIVE · a GPU", {ALONE: gains}), 8, 16) == {}
    assert list(curves(Part("LIVE · a GPU", {ALONE: gains, "bias and ReLU fused": gains}), 8, 16))[-1] == ALONE


def test_the_drawing_of_a_part_without_points_draws() -> None:
    from brrr_course.lessons.drawings.network_divide import draw

    parts = (published_part("mlp"), Part("LIVE · a GPU", {"three kernels a layer": {(8, 16, 256): 1.4}}))
    settings: dict[str, Any] = {"layers": 8, "batch": 2}
    assert "nothing is measured here" in draw(settings, parts, limits(parts)).alt


def test_the_table_keeps_to_the_sources_batches(recorded: Recorded) -> None:
    table = speedup_table("mlp", layers=8, source=recorded)
    assert all({int(row[1]) for row in each.rows} <= set(BATCHES) for each in (table, *table.beside))
    assert len(table.beside) == 2
