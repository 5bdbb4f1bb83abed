"""Lessons 13 and 13b: the drawing computes what it shows, and their claims compare the times that they say."""

import re
import tomllib
from pathlib import Path

import pytest
import torch

from brrr.gpu.datasheet import hardware
from brrr_course import check, drawing
from brrr_course.experiments import experiment
from brrr_course.lessons.drawings.bits_roofline import SHOWN, limits, of, rate
from brrr_course.lessons.exercises.lesson_13b import LARGEST

DATA = Path(__file__).resolve().parents[3] / "data"


def test_scales_of_rows_and_columns_are_right_whatever_is_drawn() -> None:
    def scales(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a.abs().amax(1, keepdim=True) / LARGEST, b.abs().amax(0, keepdim=True) / LARGEST

    assert [str(mark) for mark in (check("13b-scales", scales=scales) for _ in range(20)) if not mark.right] == []


def test_a_point_moves_right_with_tokens_and_with_fewer_bits_up_to_the_roof_of_what_is_multiplied() -> None:
    h200 = hardware("h200")
    along = [of("bf16", 2**power).arithmetic_intensity for power in range(15)]
    assert along == sorted(along) and along[0] == pytest.approx(1, rel=1e-3)
    bits = [of(way, 64).arithmetic_intensity for way in ("float32", "bf16", "fp8", "int4")]
    assert bits == sorted(bits)
    assert rate("int4", 1) / rate("bf16", 1) == pytest.approx(2 / (0.5 + 4 / 128), rel=0.01)
    assert rate("int4", 16384) == pytest.approx(rate("bf16", 16384)) == pytest.approx(h200.peak("bf16"))
    assert rate("fp8", 16384) == pytest.approx(2 * rate("bf16", 16384), rel=1e-3)
    assert rate("tf32", 1) == rate("float32", 1) == pytest.approx(rate("bf16", 1) / 2, rel=1e-3)


def test_the_drawing_says_what_sets_the_pace() -> None:
    shown = {(way, n): drawing("bits-roofline", tokens=n, type=way) for way in SHOWN for n in (1, 16384)}
    for (way, tokens), each in shown.items():
        moving, computing = limits(way, tokens)
        text = str(each)
        assert ("memory-bound" in text) == (moving > computing) != ("compute-bound" in text)
    assert "3.76x of bf16's speed" in str(shown["int4", 1]) and "1x of bf16's speed" in str(shown["int4", 16384])


def test_the_lessons_say_which_time_their_claims_compare() -> None:
    """One token's by the kernels' own times, all others, as the figures, by a loop's."""
    ledger = tomllib.loads((DATA / "claims.toml").read_text("utf-8"))["claim"]
    ours = {each["id"]: f"{each['value']} {each.get('let', '')}" for each in ledger if each["id"].startswith("bits.")}
    timed = {name: said for name, said in ours.items() if re.search(r"busy|period|kernel|span|latency", said)}
    of_one = {name for name, said in timed.items() if "busy" in said}
    sentences = {each["id"]: each["sentence"] for each in ledger}
    assert of_one == {name for name in timed if "With one token" in sentences[name] and "energy" not in name}
    assert all("period" in timed[name] for name in timed.keys() - of_one) and experiment("bits").field == "period_s"
    assert experiment("norms").field == "busy_s"
