"""The sources' figures: whole, in range, and saying what their text says of them."""

from brrr_course.lessons.speedup_table import published_gains
from brrr_course.nouns.places import published

SPEEDUP = {(*at, way): gain for way in ("overhead", "fusion", "strassen") for at, gain in published_gains(way).items()}
BATCHES = sorted({batch for _, batch, _, _ in SPEEDUP})


def test_the_grids_are_complete_and_in_range() -> None:
    assert len(SPEEDUP) == 6 * 3 * len(published("mlp_speedup_gtx1070")) == 4 * 7 * 6 * 3
    assert BATCHES == [2, 4, 8, 16, 32, 64, 128]
    every = [*SPEEDUP.values(), *(float(row["speedup"]) for row in published("pseudo_linear"))]
    assert min(every) > 0 and max(every) < 1000
