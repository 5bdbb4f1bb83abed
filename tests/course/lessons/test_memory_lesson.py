"""What lessons 04 and 04b call: two rates of one experiment, growth along an axis, roofline points, generations."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from formulas import Kept, time_of

from brrr.core.errors import ArgumentError
from brrr.core.measurement import FIELDS, Measurement, Value
from brrr.gpu.datasheet import datasheets, hardware
from brrr_course.experiments import experiment
from brrr_course.experiments import repeat as theory
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.drawings.generations import GROUPS, SERIES, ridge, ridge_by_generation
from brrr_course.lessons.guessing import Guess, guess
from brrr_course.lessons.roofline_points import roofline_of
from brrr_course.lessons.waiting import Comparison
from brrr_course.view.explorer import Explorer, explore

REPEAT = experiment("repeat")
LARGE: dict[str, Value] = {"elements": 2**26, "dtype": "float32"}
MEMORY, PEAK = 4e12, 60e12


def seconds(variant: str, point: Mapping[str, Value]) -> float:
    """A made-up GPU: the larger of the memory's time and the arithmetic's; without fusion, each step's bytes."""
    cost = REPEAT.cost_at(variant, point)
    assert cost is not None
    fma = REPEAT.variant(variant).operation == theory.FMA
    return max(cost.eager_bytes / MEMORY, cost.flop / (PEAK if fma else PEAK / 2))


def measured(variant: str) -> dict[tuple[Value, ...], Measurement]:
    """At every number of steps that the variant has."""
    points = [REPEAT.point(repeat=repeat, **LARGE) for repeat in REPEAT.axis("repeat").values]
    there = {tuple(at.values()): time_of(seconds(variant, at), 0.0025) for at in points if REPEAT.has(variant, at)}
    return {at: Measurement(**dict.fromkeys(FIELDS, time)) for at, time in there.items()}  # type: ignore[arg-type]


SOURCE: Any = Kept({each.name: measured(each.name) for each in REPEAT.variants if each.on_gpu}, "recorded:h200")


# ---- two rates ----


def shown(show: object) -> Explorer:
    return explore("repeat", at={"repeat": 8, **LARGE}, lines=["cuda mul"], show=show, source=SOURCE)  # type: ignore[arg-type]


def test_one_time_as_two_rates() -> None:
    flop, moved = shown("rate"), shown({"rate": "bytes"})
    assert flop.data == shown({"rate": "flop"}).data
    assert flop.scene.quantity.unit == "FLOP/s" and moved.scene.quantity.unit == "B/s"
    for (repeat, flops, *_), (same, bandwidth, *_) in zip(flop.data["cuda mul"], moved.data["cuda mul"], strict=True):
        assert repeat == same and flops / bandwidth == pytest.approx(float(repeat) / 8)


def test_each_rate_has_its_own_guides() -> None:
    assert set(shown("rate").guides) == {"DATASHEET float32 peak (FMA)", "DATASHEET half of it (no FMA)"}
    assert set(shown({"rate": "bytes"}).guides) == {"DATASHEET the memory's bandwidth"}
    assert not shown("time").guides


# ---- growth ----


def factor(answer: str | None = "32") -> Guess:
    return guess("How many times as long?", unit="x", answer=answer)


def test_the_growth_of_a_time() -> None:
    found = compare(factor(), "repeat", ["cuda mul", "eager mul"], source=SOURCE, repeat=(1, 32), **LARGE)
    grown = "From 1 step to 32 steps, at 2²⁶ elements, float32"
    assert found.text == f"{grown}: you said 32x, measured 1x (no difference): 32x too large."
    assert [row[0] for row in found.rows] == ["multiplications, CUDA C++", "multiplications, one operator each"]
    assert [row[3].split()[0] for row in found.rows] == ["1x", "32x"]
    assert [row[4] for row in found.rows] == ["1x", "32x"], "predicted from the datasheet, for want of measured peaks"
    assert "RECORDED" in found.badge


def test_what_is_missing_is_said() -> None:
    same = compare(factor(), "repeat", ["cuda mul"], source=SOURCE, repeat=(1, 1), **LARGE)
    assert "has only one of the two points: 1 step" in same.text
    absent = compare(factor(), "repeat", ["queue cuda mul"], source=SOURCE, repeat=(1, 8), **LARGE)
    assert "has none of these lines" in absent.text
    open_guess = guess("A question that nobody has answered", unit="x")
    assert "Not answered yet" in compare(open_guess, "repeat", ["cuda mul"], repeat=(1, 8), **LARGE).text


def test_wrong_arguments_of_growth() -> None:
    with pytest.raises(ArgumentError, match='unit="x"'):
        compare(guess("How long?", unit="s"), "repeat", ["cuda mul"], repeat=(1, 8), **LARGE)
    with pytest.raises(ArgumentError, match="one axis at most"):
        compare(factor(), "repeat", ["cuda mul"], repeat=(1, 8), elements=(1, 2), dtype="float32")
    with pytest.raises(ArgumentError, match="line"):
        compare(factor(), "repeat", ["no such line"], repeat=(1, 8), **LARGE)


# ---- the roofline of an experiment ----


ROOFS = {"cuda mul": "fp32 MUL", "cuda fma": "fp32 FMA"}


def test_roofline_points_of_an_experiment() -> None:
    found = roofline_of("repeat", ROOFS, source=SOURCE, repeat=(1, 512), **LARGE)
    assert not isinstance(found, Comparison)
    _, *points = found.picture().alt.splitlines()
    assert [point.split(":")[0] for point in points] == [
        "multiplications, CUDA C++, 1 step", "multiplications, CUDA C++, 512 steps",
        "FMAs, CUDA C++, 1 step", "FMAs, CUDA C++, 512 steps",
    ]  # fmt: skip
    assert "64 FLOP/B, 30 TFLOP/s" in points[1] and "128 FLOP/B, 60 TFLOP/s" in points[3]


def test_the_point_climbs_the_roofs_that_it_is_held_against() -> None:
    found = roofline_of("repeat", ROOFS, source=SOURCE, repeat=(1, 8, 512), **LARGE)
    assert not isinstance(found, Comparison)
    drawn, (slope, flat) = found.figure, found.figure["roofs"]
    said = [drawn["say"]["forms"][form] for form in drawn["say"]["at"]]
    assert len(said) == 2 * 3 and "memory-bound" in said[0] and "compute-bound" in said[2]
    assert flat["rate"][0] <= flat["rate"][1] and slope["rate"][0] == slope["rate"][1]
    for cut, points in enumerate(drawn["lines"][0]["cuts"]):
        assert [x for _, x, *_ in points] == drawn["x"]["at"][cut]
        low, high = drawn["y"]["domain"]
        assert all(low < rate < high for _, _, rate, *_ in points)
    json.dumps(drawn, allow_nan=False)
    assert found.panel.figure.scene == drawn and not found.panel.failures


def test_a_sentence_where_there_is_no_roofline(tmp_path: Path) -> None:
    absent = roofline_of("repeat", ["queue cuda mul"], source=SOURCE, repeat=8, **LARGE)
    assert "has none of these lines" in repr(absent)
    eager = roofline_of("repeat", ["eager mul"], source=SOURCE, repeat=512, **LARGE)
    assert "has no such points" in repr(eager), "it stops before"
    with pytest.raises(ArgumentError, match="one axis at most"):
        roofline_of("repeat", ["cuda mul"], source=SOURCE, repeat=(1, 8), elements=(2**20, 2**26), dtype="float32")


def test_unknown_roofs_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr_course.lessons import roofline_points
    from brrr_course.view.predictions import Figures

    monkeypatch.setattr(roofline_points, "figures_of", lambda *_: Figures("cuda"))
    found = roofline_of("repeat", ["cuda mul"], source=SOURCE, repeat=8, **LARGE)
    assert "run brrr calibrate" in repr(found)


# ---- generations ----


def test_every_gpu_stands_in_one_group() -> None:
    listed = [key for group in GROUPS.values() for key in group]
    assert len({*listed}) == len(listed) and {*listed} < {*datasheets()} - {"cpu"}
    for group in GROUPS.values():
        years = [datasheets()[key].year for key in group]
        assert years == sorted(years)


def test_ridge_points_by_hand() -> None:
    assert ridge(hardware("h200"), "fp32", "cuda cores") == pytest.approx(66.9 / 4.8)
    assert ridge(hardware("v100"), "fp8", "tensor cores") is None


def test_what_the_lesson_says_of_the_generations() -> None:
    """Matrix units: far to the right, and further. Plain float32: further on graphics memory, not on stacked memory."""
    stacked, graphics = GROUPS.values()
    plain, half = SERIES["float32, no matrix units"], SERIES["float16, matrix units"]
    at = {key: (ridge(hardware(key), *plain) or 0, ridge(hardware(key), *half) or 0) for key in (*stacked, *graphics)}
    assert min(at[key][1] for key in stacked if at[key][1]) > 5 * max(at[key][0] for key in stacked)
    assert all(with_units > 1.9 * without for without, with_units in at.values() if with_units)
    assert at["b200"][1] > at["a100"][1] > at["v100"][1] and at["l40s"][1] > at["t4"][1]
    assert at["l40s"][0] > at["rtx-3090"][0] > at["gtx-1070"][0]
    assert at["b200"][0] < at["v100"][0] and at["h200"][0] < at["h100"][0] and at["a100"][0] < at["a100-40gb"][0]
    assert max(at, key=lambda key: at[key][0]) == "l40s"


def test_the_picture_says_what_it_shows() -> None:
    picture = ridge_by_generation()
    head, *lines = picture.alt.splitlines()
    assert head.startswith("Ridge points by datasheet") and len(lines) == sum(map(len, GROUPS.values()))
    assert "NVIDIA GeForce GTX 1070, 2016: float32, no matrix units 25.2 FLOP/B" in lines
    assert picture.png.startswith(b"\x89PNG")
