"""What lessons 06 and 06b are made of beside the experiment: the drawing of the divide."""

from typing import Any

import pytest
from formulas import Kept, time_of

from brrr.core.errors import ArgumentError
from brrr.core.measurement import FIELDS, Measurement
from brrr_course.experiments.mlp import BATCHES, HIDDEN, LAYERS
from brrr_course.lessons.drawings import drawing
from brrr_course.lessons.drawings.network_divide import ALONE, curves, in_words, limits
from brrr_course.lessons.speedup_table import TablePart, measured_parts, published_gains, published_part, speedup_table

VARIANTS = ("module", "graph", "pycuda", "pycuda-fused", "pycuda-graph", "megakernel", "best")
GAIN = {"pycuda": 1.5, "pycuda-fused": 2.0, "pycuda-graph": 1.25}
POINTS = [(layers, batch, hidden) for layers in (1, 8) for batch in (2, 16, 128) for hidden in HIDDEN]


def measured(variant: str, hidden: int) -> Measurement:
    """The rewrite gains up to hidden 1024; beyond, nothing does."""
    time: Any = time_of(1e-4 / (GAIN.get(variant, 1.0) if hidden <= 1024 else 1.0))
    return Measurement(**dict.fromkeys(FIELDS, time), kernels=1)


KEPT = {name: {point: measured(name, point[-1]) for point in POINTS} for name in VARIANTS}
SOURCE: Any = Kept(KEPT, "recorded:h200", "Synthetic H200")


def test_the_published_panel_is_the_sources_table() -> None:
    rows = published_gains("fusion")
    for layers in LAYERS:
        for batch in BATCHES:
            found = curves(published_part("mlp"), layers, batch)
            assert list(found["three kernels a layer"]) == list(HIDDEN)
            for hidden, gain in found["bias and ReLU fused"].items():
                assert gain == rows[layers, batch, hidden]


def test_each_panel_has_its_own_badge_and_its_own_divide() -> None:
    made = drawing("mlp-divide", source=SOURCE, layers=8, batch=16)
    theirs, ours = made.text.split("RECORDED")
    assert "PUBLISHED · NVIDIA GTX 1070" in theirs and "divide at 1024" in theirs
    assert ours.startswith(" · Synthetic H200") and "1.5x to 1x, divide at 2048" in ours and "2x to 1x" in ours
    assert f"{ALONE} 1.25x to 1x" in ours and ALONE not in theirs
    assert "PUBLISHED" in made.badge and "RECORDED" in made.badge
    low, high = limits((published_part("mlp"), measured_parts("mlp", SOURCE)[0]))
    assert low < 1.0 and high > max(published_gains("fusion").values())


def test_what_the_drawing_lacks_is_said() -> None:
    with pytest.raises(ArgumentError, match="'width'"):
        drawing("mlp-divide", source=SOURCE, width=3)
    nothing: Any = Kept(name="recorded:h200")
    made = drawing("mlp-divide", source=nothing)
    assert made.text.endswith("recorded:h200: nothing is measured here.")


def test_a_point_that_is_missing_is_said_and_one_alone_has_no_divide() -> None:
    part = TablePart("LIVE · a GPU", {"three kernels a layer": {(8, 16, 256): 1.4}})
    assert in_words(part, 8, 2) == "LIVE · a GPU: nothing is measured here"
    assert in_words(part, 8, 16).endswith("three kernels a layer 1.4x, no divide")


def test_the_kernels_alone_are_drawn_beside_another_line_only() -> None:
    gains = {(8, 16, 256): 1.4}
    assert curves(TablePart("LIVE · a GPU", {ALONE: gains}), 8, 16) == {}
    assert list(curves(TablePart("LIVE · a GPU", {ALONE: gains, "bias and ReLU fused": gains}), 8, 16))[-1] == ALONE


def test_the_drawing_of_a_part_without_points_draws() -> None:
    from brrr_course.lessons.drawings.network_divide import draw

    parts = (published_part("mlp"), TablePart("LIVE · a GPU", {"three kernels a layer": {(8, 16, 256): 1.4}}))
    settings: dict[str, Any] = {"layers": 8, "batch": 2}
    assert "nothing is measured here" in draw(settings, parts, limits(parts)).alt


def test_the_table_keeps_to_the_sources_batches() -> None:
    table = speedup_table("mlp", layers=8, source=SOURCE)
    assert all({int(row[1]) for row in each.rows} <= set(BATCHES) for each in (table, *table.beside))
    assert len(table.beside) == 2
