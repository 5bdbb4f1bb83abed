"""`find_transition` on curves whose crossing is known."""

import math
from collections.abc import Mapping

import pytest
from formulas import Fake
from hypothesis import given
from hypothesis import strategies as st

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in
from brrr_course.sources.transition import Answer, find_transition, pays
from tests.refusals import refused

WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096, 6144, 8192, 16384, 24576)
TOY = Experiment(
    name="toy",
    title="A known crossing",
    question="Where?",
    axes=(Axis("width", WIDTHS), Axis("batch", (1, 2)), Axis("kind", ("a", "b"), scale="category")),
    variants=(Variant("new", "new", "cuda"), Variant("old", "old", "cuda"), Variant("queue-new", "toy", "cpu-queue"),
              Variant("queue-old", "toy", "cpu-queue")),
    lines=(Line("new", "new", "period_s", "new"), Line("old", "old", "period_s", "old"),
           stand_in("new", "queue-new", "period_s", "new"), stand_in("old", "queue-old", "period_s", "old")),
)  # fmt: skip
AT: dict[str, Value] = {"batch": 1, "kind": "a"}
TWICE = pays("new", over="old", at_least=2)


class Known(Fake):
    """A source whose ratio of `old` over `new` is a known function; each interval holds the truth."""

    device = "made up"

    def __init__(self, ratio: object, noise: float = 0.01, variants: tuple[str, ...] = ("new", "old")) -> None:
        self.ratio, self.noise, self.here, self.measured = ratio, noise, variants, list[float]()

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return self.here

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        return {(width, 1, "a"): self._at(variant, width) for width in WIDTHS}

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        found = super().measure(experiment, variant, point)
        self.measured += [float(point["width"])] * variant.endswith("new")
        return found

    def _at(self, variant: str, width: float) -> Measurement:
        true_s = 1e-6 if variant.endswith("new") else 1e-6 * self.ratio(width)  # type: ignore[operator]
        return Measurement(period_s=Estimate(true_s, true_s * (1 - self.noise) ** 2, true_s * (1 + self.noise) ** 2, 9))


def crossing_at(place: float, steepness: float = 1.0) -> object:
    return lambda width: 2 * (width / place) ** steepness


# ---- the search ----


@given(st.floats(65, 24000), st.floats(0.2, 3) | st.floats(-3, -0.2), st.floats(0.0, 0.2))
def test_the_change_lies_between_two_clear_answers(place: float, steepness: float, noise: float) -> None:
    source = Known(crossing_at(place, steepness), noise)
    try:
        found = find_transition(TOY, "width", TWICE, at=AT, source=source)
    except ArgumentError:  # the noise hides an end: the ratio there is too close to the threshold
        ends = [2 * (end / place) ** steepness / 2 for end in (WIDTHS[0], WIDTHS[-1])]
        widest = 1.001 * ((1 + noise) / (1 - noise)) ** 2
        assert any(1 / widest < end < widest for end in ends)
        return
    assert float(found.low) <= place <= float(found.high)
    assert found.below is (steepness < 0) and found.monotone
    assert source.measured == [value for value, _ in found.measured] == list(WIDTHS)
    between = WIDTHS[WIDTHS.index(int(found.low)) + 1 : WIDTHS.index(int(found.high))]
    assert found.undecided == between, "what is clear is not left inside"


def test_a_second_change_is_told() -> None:
    """Above two at 256 and 512 alone, and again from 8192 on; at 1024 that cannot be told."""
    ratios = dict.fromkeys(WIDTHS, 1.0) | {256: 3.0, 512: 3.0, 1024: 2.0, 8192: 3.0, 16384: 3.0, 24576: 3.0}
    found = find_transition(TOY, "width", TWICE, at=AT, source=Known(ratios.__getitem__))
    assert (found.low, found.high, found.below, found.monotone) == (128, 256, False, False)
    assert "from 256 on; but it changes back: there is more than one transition: 11" in str(found)


# ---- the predicate ----


@pytest.mark.parametrize(
    ("old", "answer"),
    [((2.2, 2.1, 2.3), True), ((1.8, 1.7, 1.9), False), ((2.0, 1.9, 2.1), None), ((2.4, 1.9, 2.5), None)],
)
def test_pays_tells_only_what_the_intervals_tell(old: tuple[float, float, float], answer: Answer) -> None:
    readings = {"new": Estimate(1.0, 1.0, 1.0, 9), "old": Estimate(*old, 9)}
    assert TWICE(readings) is answer


@pytest.mark.parametrize("factor", [0, -1, math.nan, math.inf, "2", True, None])
def test_pays_wants_a_factor(factor: object) -> None:
    with refused("at_least"):
        pays("new", over="old", at_least=factor)  # type: ignore[arg-type]


# ---- the errors ----


def test_what_cannot_be_searched_is_refused_with_the_reason() -> None:
    source = Known(crossing_at(500))
    with refused("axis", "kind"):
        find_transition(TOY, "kind", TWICE, at={"width": 64, "batch": 1}, source=source)
    with pytest.raises(ArgumentError, match="a value for each other axis: batch, kind"):
        find_transition(TOY, "width", TWICE, source=source)
    with refused("predicate", max):
        find_transition(TOY, "width", max, at=AT, source=source)  # type: ignore[arg-type]
    with refused("line", "newest"):
        find_transition(TOY, "width", pays("newest", over="old"), at=AT, source=source)
    with pytest.raises(NotRecordedError, match="has no line new"):
        find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(500), variants=("old",)))
    with pytest.raises(NotRecordedError, match=r"has 0 values of 'width' with new, old at .*at least two"):
        find_transition(TOY, "width", TWICE, at={"batch": 2, "kind": "a"}, source=source)
    with pytest.raises(ArgumentError, match=r"yes at 64 and at 24576\. Look beyond"):
        find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(3)))
    with pytest.raises(ArgumentError, match="no at 64 and at 24576"):
        find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(1e6)))


# ---- the sentence, the limits, the stand-in ----


def test_it_prints_as_one_sentence() -> None:
    text = str(find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(700))))
    assert text.startswith('"new" is at least 2x as fast as "old" not up to width 512, and from 1024 on: ')
    assert text.endswith(" measurements · RECORDED · made up · 2000-01-01")
    falling = find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(700, -1)))
    assert '"old" up to width 512, and no longer from 1024 on' in str(falling)
    assert falling.holds(700)
    assert not falling.holds(512)
    noisy = find_transition(TOY, "width", TWICE, at=AT, source=Known(crossing_at(1024, 0.5), 0.02))
    assert noisy.undecided == (1024,)
    assert "not up to width 512, and from 2048 on (open at 1024)" in str(noisy)


def test_low_and_high_bound_the_search() -> None:
    recorded = Known(crossing_at(700))
    find_transition(TOY, "width", TWICE, at=AT, source=recorded, low=200, high=5000)
    assert min(recorded.measured) == 256
    assert max(recorded.measured) == 4096


def test_the_toy_accelerator_stands_in() -> None:
    source = Known(crossing_at(700), variants=("queue-new", "queue-old"))
    assert find_transition(TOY, "width", TWICE, at=AT, source=source).high == 1024
