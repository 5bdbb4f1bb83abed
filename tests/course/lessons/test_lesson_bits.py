"""Lesson 13: its exercises take what is right and tell the usual slips apart; its drawing computes what it shows."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from lesson_text import said

from brrr.gpu.datasheet import hardware
from brrr_course import Recorded, check, drawing
from brrr_course.experiments import experiment
from brrr_course.experiments.bits import TOKENS
from brrr_course.lessons.drawings.bits_roofline import SHOWN, limits, of, rate
from brrr_course.lessons.exercises.lesson_13 import LARGEST

TEXT = said("13")
LESSON = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "13_fewer_bits.py"


def largest(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return a.abs().amax(1, keepdim=True) / LARGEST, b.abs().amax(0, keepdim=True) / LARGEST


def of_each(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Without a dimension that is kept, and with powers of two: as right."""
    return tuple(2 ** each.flatten().log2().ceil() for each in largest(a, b))  # type: ignore[return-value]


@pytest.mark.parametrize("scales", [largest, of_each])
def test_scales_of_rows_and_columns_are_right(scales: Any) -> None:
    assert [str(mark) for mark in (check("13-scales", scales=scales) for _ in range(20)) if not mark.right] == []


@pytest.mark.parametrize(
    ("scales", "said"),
    [
        (lambda a, b: (a.abs().max() / 448, b.abs().max() / 448), "own scale"),
        (lambda a, b: (largest(a, b)[0], b.abs().max() / 448), "give each column its own scale"),
        (lambda a, b: (a.abs().max() / 448, largest(a, b)[1]), "give each row its own scale"),
        (lambda a, b: (a.abs().amax(0) / 448, b.abs().amax(1) / 448), "the scales have the shapes (256,) and (256,)"),
        (lambda a, b: (1 / largest(a, b)[0], largest(a, b)[1]), "larger than 448"),
        (lambda a, b: largest(a, b)[0], "must return two scales"),
        (..., "not answered"),
    ],
)
def test_the_usual_slips_are_told(scales: Any, said: str) -> None:
    mark = check("13-scales", scales=scales)
    assert not mark.right and said in str(mark).lower()


AGAIN = 8192 / 8 * 8192 * 2


@pytest.mark.parametrize(
    ("activation_bytes", "loses_from", "said"),
    [(AGAIN, 6, "Right"), (16.8e6, 6, "Right"), (16384, 6, "one block's"), (2 * 8192**2, 6, "a block for each result"),
     (AGAIN / 2, 6, "those are numbers"), (16 * AGAIN, 6, "for 16 tokens"), (AGAIN, 5, "Round up"),
     (AGAIN, 8, "its own weights too"), (AGAIN, 9, "You wrote 9"), (..., 6, "Not answered")],
)  # fmt: skip
def test_the_crossover_is_calculated(activation_bytes: Any, loses_from: Any, said: str) -> None:
    assert said in str(check("13-crossover", activation_bytes=activation_bytes, loses_from=loses_from))


def test_a_point_moves_right_with_tokens_and_with_fewer_bits_up_to_the_roof_of_what_is_multiplied() -> None:
    h100 = hardware("h100")
    along = [of("bf16", 2**power).arithmetic_intensity for power in range(15)]
    assert along == sorted(along) and along[0] == pytest.approx(1, rel=1e-3)
    bits = [of(way, 64).arithmetic_intensity for way in ("float32", "bf16", "fp8", "int4")]
    assert bits == sorted(bits)
    assert rate("int4", 1) / rate("bf16", 1) == pytest.approx(2 / (0.5 + 4 / 128), rel=0.01)
    assert rate("int4", 16384) == pytest.approx(rate("bf16", 16384)) == pytest.approx(h100.peak("bf16"))
    assert rate("fp8", 16384) == pytest.approx(2 * rate("bf16", 16384), rel=1e-3)
    assert rate("tf32", 1) == rate("float32", 1) == pytest.approx(rate("bf16", 1) / 2, rel=1e-3)


def test_the_drawing_says_what_sets_the_pace() -> None:
    shown = {(way, n): drawing("bits-roofline", tokens=n, type=way) for way in SHOWN for n in (1, 16384)}
    for (way, tokens), each in shown.items():
        moving, computing = limits(way, tokens)
        text = str(each)
        assert ("memory-bound" in text) == (moving > computing) != ("compute-bound" in text)
    assert "3.76x of bf16's speed" in str(shown["int4", 1]) and "1x of bf16's speed" in str(shown["int4", 16384])


def test_the_text_has_the_numbers_of_the_datasheet() -> None:
    h100 = hardware("h100")
    assert h100.ridge_point("bf16") == pytest.approx(300, rel=0.03) and "near 300 in bf16" in TEXT
    assert h100.peak("tf32") / h100.peak("fp32") == pytest.approx(7, rel=0.1) and "seven times as high" in TEXT
    assert h100.peak("fp8") == pytest.approx(2 * h100.peak("bf16"), rel=1e-3) and "twice the FLOP/s of bf16" in TEXT
    e4m3 = torch.finfo(torch.float8_e4m3fn)
    assert e4m3.max == 448 and re.search(r"from about 0\.002 to 448", TEXT)
    assert e4m3.smallest_normal / 8 == pytest.approx(0.002, rel=0.03)


def test_the_lesson_says_which_time_its_claims_compare() -> None:
    """One token's by the kernels' own times, all others, as the figures, by a loop's."""
    ledger = tomllib.loads((LESSON.parents[2] / "data" / "claims.toml").read_text("utf-8"))["claim"]
    ours = {each["id"]: f"{each['value']} {each.get('let', '')}" for each in ledger if each["id"].startswith("bits.")}
    timed = {name: said for name, said in ours.items() if re.search(r"busy|period|kernel|span|latency", said)}
    of_one = {name for name, said in timed.items() if "busy" in said}
    sentences = {each["id"]: each["sentence"] for each in ledger}
    assert of_one == {name for name in timed if "With one token" in sentences[name] and "energy" not in name}
    assert all("period" in timed[name] for name in timed.keys() - of_one) and experiment("bits").field == "period_s"
    assert "The layer's figures show the time of a call in a loop" in TEXT
    assert "the normalisations' figure and claims about one token, kernels' own times" in TEXT
    assert experiment("norms").field == "busy_s"


def test_the_sentences_are_those_of_the_recording() -> None:
    source, bits = Recorded("h100"), experiment("bits")

    def known(way: str, tokens: int, width: int = 8192) -> Any:
        return source.known(bits, way)[tokens, width, "ordinary"]

    def faster(way: str, than: str, tokens: int, field: str = "period_s", width: int = 8192) -> float:
        slow, fast = (getattr(known(each, tokens, width), field).median for each in (than, way))
        return float(slow / fast)

    assert faster("fp8", "bf16", 16384) > 1.8 and "fp8 comes near twice the speed" in TEXT
    assert 1.1 < faster("fp8-cast", "bf16", 16384) < 1.4 and "only a part of that is left" in TEXT
    assert faster("fp8-cast", "bf16", 16384, width=1024) < 0.5
    assert known("fp8-cast", 16384).kernels == 9 and "launches nine kernels" in TEXT
    assert {known("bf16", n).kernels for n in TOKENS} == {1, 2} and "where bf16 launches one or two" in TEXT
    assert faster("fp8-cast", "bf16", 512, "busy_s") > 1 > faster("fp8-cast", "bf16", 512) and "At 512 tokens" in TEXT
    assert faster("fp8-cast", "bf16", 256, "busy_s") < 1
    alone, compiled, plain = (
        known(way, 16384, 4096).period_s.median for way in ("fp8-rows", "fp8-rows-compiled", "fp8-rows-cast")
    )
    assert (compiled - alone) / (plain - alone) < 1 / 5 and "less than a fifth as long" in TEXT
    assert faster("int8-fused", "bf16", 1, "busy_s") > 1.5 and "is faster than bf16's" in TEXT
    fused = known("int8-fused", 1)
    assert fused.host_s.median > fused.busy_s.median and "the host takes longer to launch" in TEXT
    assert all(faster(way, "bf16", 1) < 1 for way in ("int8", "int8-fused", "int8-widened"))
    assert faster("int8-widened", "bf16", 4096) < 0.8 < 0.9 < faster("int8-widened", "bf16", 16384) < 1
    assert faster("int4", "bf16", 8, "busy_s") > 1 > faster("int4", "bf16", 16, "busy_s")
    times = [known("int4", 2**power).busy_s.median for power in range(1, 15)]
    assert all(after > 1.3 * before for before, after in pairwise(times)), "it grows with each token, as its claim says"


def test_the_sentences_on_normalisations_are_those_of_the_recording() -> None:
    """Of what the figure shows; and few tokens do not take half the time, so that the sentence must say how many."""
    norms = experiment("norms")
    point = {"tokens": 16384, "width": 8192}
    assert 'norms = {"tokens": 16384, "width": 8192, "dtype": "float32"}' in TEXT
    assert "computes little for each byte: with many tokens half the bits take half the time" in TEXT
    assert "in fp16 as in bf16 (below the roofline). TF32 is for matmuls only." in TEXT
    for way in ("layer norm", "rms norm"):
        known = Recorded("h100").known(norms, way)
        full, brain, half = (known[16384, 8192, dtype].busy_s.median for dtype in ("float32", "bfloat16", "float16"))
        assert brain / full == pytest.approx(0.5, abs=0.03) and half == pytest.approx(brain, rel=0.02)
        few = [known[64, 8192, dtype].busy_s.median for dtype in ("bfloat16", "float32")]
        assert few[0] / few[1] > 0.8
        cost = norms.cost_at(way, {**point, "dtype": "float32"})
        assert cost is not None and cost.arithmetic_intensity < hardware("h100").ridge_point("fp32") / 10
