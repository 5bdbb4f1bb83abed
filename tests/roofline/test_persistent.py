"""The steps of a persistent kernel: what overlaps, what does not, and all of them in one launch."""

import pytest

from brrr.roofline.persistent import Step, persistent_s


@pytest.mark.parametrize(
    ("parts", "serial_s", "limit", "total_s"),
    [
        ((2e-6, 1e-6, 1e-6), 0.0, "exchange", 2e-6),
        ((1e-6, 3e-6, 1e-6), 0.0, "state", 3e-6),
        ((1e-6, 1e-6, 4e-6), 0.0, "arithmetic", 4e-6),
        ((1e-6, 1e-6, 4e-6), 1e-6, "arithmetic", 5e-6),
        ((1e-6, 0.0, 0.0), 9e-6, "exchange", 10e-6),
    ],
)
def test_the_longest_part_counts_and_what_overlaps_nothing_is_added(
    parts: tuple[float, ...], serial_s: float, limit: str, total_s: float
) -> None:
    step = Step(dict(zip(("exchange", "state", "arithmetic"), parts, strict=True)), serial_s)
    assert step.limit == limit and step.total_s == pytest.approx(total_s)


def test_a_share_of_the_shorter_parts_may_show() -> None:
    parts = {"weights": 1e-6, "rows": 4e-6, "barrier": 2e-6}
    assert Step(parts, exposed=0.5).total_s == pytest.approx(5.5e-6)
    assert Step(parts, exposed=1.0).total_s == pytest.approx(7e-6), "one after the other"


def test_each_turn_starts_anew_and_goes_through_all_steps() -> None:
    step = Step({"exchange": 1e-6})
    assert persistent_s(step, 8) == pytest.approx(8e-6)
    assert persistent_s(step, 8, launch_s=2e-6, start_s=0.5e-6, turns=3) == pytest.approx(2e-6 + 3 * 8.5e-6)
