"""The sources' figures: whole, in range, and saying what their text says of them."""

from statistics import mean

import pytest

from brrr_course.lessons.speedup_table import published_gains
from brrr_course.nouns.places import published

SPEEDUP = {(*at, way): gain for way in ("overhead", "fusion", "strassen") for at, gain in published_gains(way).items()}
BATCHES = sorted({batch for _, batch, _, _ in SPEEDUP})


def gain(variant: str, over: str) -> dict[tuple[int, int, int], float]:
    """What one variant adds to another, by layers, batch and hidden size."""
    return {(n, b, h): value / SPEEDUP[n, b, h, over] for (n, b, h, v), value in SPEEDUP.items() if v == variant}


def test_the_grids_are_complete_and_in_range() -> None:
    assert len(SPEEDUP) == 6 * 3 * len(published("mlp_speedup_gtx1070")) == 4 * 7 * 6 * 3
    assert BATCHES == [2, 4, 8, 16, 32, 64, 128]
    every = [*SPEEDUP.values(), *(float(row["speedup"]) for row in published("pseudo_linear"))]
    assert min(every) > 0 and max(every) < 1000


def test_overhead_claims() -> None:
    small = [SPEEDUP[8, batch, hidden, "overhead"] for batch in BATCHES for hidden in (128, 256, 512)]
    large = [SPEEDUP[8, batch, hidden, "overhead"] for batch in BATCHES for hidden in (2048, 4096)]
    assert mean(small) == pytest.approx(1.73, abs=0.005)
    assert mean(large) == pytest.approx(1.05, abs=0.0051)
    assert min(value for (*_, variant), value in SPEEDUP.items() if variant == "overhead") > 1


def test_fusion_claims() -> None:
    added = gain("fusion", "overhead")
    assert max(value for (layers, *_), value in added.items() if layers == 1) == pytest.approx(1.14, abs=0.005)
    assert max(value for (layers, *_), value in added.items() if layers == 8) == pytest.approx(1.24, abs=0.01)


def test_strassen_claims() -> None:
    added = gain("strassen", "fusion")
    large = {point for point in added if point[1] >= 64 and point[2] >= 1024}
    assert {point for point, value in added.items() if value > 1} == large
    assert mean(added[point] for point in large if point[0] == 8) == pytest.approx(1.3, abs=0.01)
    assert max(added.values()) == pytest.approx(1.53, abs=0.005)


def pseudo_linear(table: str) -> dict[int, float]:
    return {int(row["width"]): float(row["speedup"]) for row in published("pseudo_linear") if row["table"] == table}


def test_pseudo_linear_gains_with_width() -> None:
    for table in ("gpu_a_eager", "gpu_b_eager", "gpu_b_cuda_graph"):
        rows = pseudo_linear(table)
        assert rows and [*rows] == sorted(rows)
        assert rows[max(rows)] == max(rows.values())


def test_a_cuda_graph_helps_at_every_width() -> None:
    eager = pseudo_linear("gpu_b_eager")
    assert all(gain > eager[width] for width, gain in pseudo_linear("gpu_b_cuda_graph").items())
