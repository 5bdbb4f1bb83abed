"""What lessons 02b, 04b, 04c and 05b say in words about the H200's recording is what the recording says."""

import pytest
from figures import rows
from lesson_text import SOURCES, said, value

from brrr.core.measurement import Value
from brrr.gpu.datasheet import hardware
from brrr_course.experiments import experiment
from brrr_course.experiments.strides import sectors
from brrr_course.sources.recorded import Recorded
from brrr_course.view.predictions import Predictions

H200 = hardware("h200")
LARGE = 2**28


def test_the_table_of_strides() -> None:
    """Which share of the array moves follows from the sizes; how long a read takes was measured."""
    shares = {1.0: "all", 0.5: "half", 0.25: "a quarter"}
    alone = value("strides", "busy_s", "read", stride=1, offset=0, numbers=LARGE)
    text = said("04b")
    for stride in (2, 8, 16, 32):
        point = {"stride": stride, "offset": 0, "numbers": LARGE}
        moved = [shares[sectors(point, nbytes) * nbytes / (4 * LARGE)] for nbytes in (32, 64, 128)]
        ratio = value("strides", "busy_s", "read", **point) / alone
        words = "six tenths" if ratio == pytest.approx(0.6, abs=0.02) else "as long"
        assert words == "six tenths" or ratio == pytest.approx(1, abs=0.03)
        assert f"| {stride} | {4 * stride} B | {' | '.join(moved)} | {words}" in text


def test_strided_and_crooked_writes() -> None:
    alone = value("strides", "busy_s", "write", stride=1, offset=0, numbers=LARGE)
    assert "one number in two, four or eight takes over twice as long" in said("04b")
    assert all(value("strides", "busy_s", "write", stride=n, offset=0, numbers=LARGE) > 2 * alone for n in (2, 4, 8))
    far = [value("strides", "busy_s", "write", stride=n, offset=0, numbers=LARGE) for n in (16, 32)]
    assert "Stride 32 costs as much as 16" in said("04b") and far[1] == pytest.approx(far[0], rel=0.02)
    assert "Writes take twice as long" in said("04b")
    assert value("strides", "busy_s", "write", stride=1, offset=1, numbers=LARGE) == pytest.approx(2 * alone, rel=0.05)


def test_a_round_of_eight_loads() -> None:
    one, eight = (value("occupancy", "busy_s", f"loads-{n}", blocks=1) * n / 256 for n in (1, 8))
    assert "a round of eight takes about two fifths longer than a round of one" in said("04b")
    assert 1.35 < eight / one < 1.45


def test_both_layers_miss_their_limits() -> None:
    at: dict[str, Value] = {"width": 8192, "batch": 32768, "direction": "forward"}
    cost, sheet = experiment("pseudo_linear").cost_at, H200
    linear, fused = cost("linear-eager", at), cost("pseudo-triton", at)
    assert linear and fused
    peak = sheet.peak("fp32", "cuda cores")
    assert "six sevenths of the datasheet's bandwidth, `Linear` only about three quarters of its peak" in said("04c")
    assert linear.flop / value("pseudo_linear", "period_s", "linear-eager", **at) / peak == pytest.approx(
        0.75, abs=0.03
    )
    moved = fused.bytes / sheet.memory_bytes_per_s
    assert moved / value("pseudo_linear", "period_s", "pseudo-triton", **at) == pytest.approx(6 / 7, abs=0.02)
    assert "The measured one is nearly three" in said("04c")
    slow, fast = (value("pseudo_linear", "period_s", way, **at) for way in ("pseudo-eager", "pseudo-triton"))
    assert 2.8 < slow / fast < 3
    assert "Eager never gets a third of it" in said("04c")
    for way in ("pseudo-eager", "pseudo-graph"):
        for point, period in rows("pseudo_linear", "period_s", way, ["batch=32768", "direction=forward"]):
            width = point[0]
            assert 8 * width * 32768 / period < sheet.memory_bytes_per_s / 3


def test_where_the_pipeline_pays() -> None:
    def gain(variant: str, sines: int, elements: int = 2**26) -> float:
        base = "serial-pageable" if variant.endswith("pageable") else "serial"
        ways = (base, variant)
        slow, fast = (value("overlap", "period_s", way, elements=elements, sines=sines) for way in ways)
        return slow / fast

    text, every = said("02b"), (1, 4, 8, 16, 32, 40, 64, 128)
    assert "The peak is at 40 sines" in text and max(every, key=lambda sines: gain("pipeline", sines)) == 40
    assert "and the gain stays below two" in text and all(gain("pipeline-two", sines) < 2 for sines in every)
    assert "(The bump at 8 sines is an outlier" in text
    assert all(gain("pipeline-pageable", sines) < 1 for sines in every if sines != 8)
    losses = [gain("pipeline", sines, elements) < 1 for sines in every for elements in (2**18, 2**20)]
    assert "Up to 2^20 numbers the pipeline nearly always loses" in text and losses.count(False) == 1


def test_when_computing_again_stops_paying() -> None:
    def gain(activation: str, depth: int) -> float:
        ways = ("compile-saved", "compile")
        at = {"activation": activation, "depth": depth, "elements": 2**26}
        saved, again = (value("remat", "period_s", way, **at) for way in ways)
        return saved / again

    assert "With eight hardswishes the gain is a sixth below the prediction, with 16 nearly half" in said("05b")
    described = experiment("remat")
    predictions = Predictions(described, Recorded("h200", SOURCES.parents[1] / "data" / "recordings"), on=True)
    for depth, low, high in ((4, 0.95, 1), (8, 0.8, 0.86), (16, 0.5, 0.58)):
        point = described.point(activation="hardswish", depth=depth, elements=2**26)
        slow, fast = (predictions.time_s(described.line(name), point) for name in ("compile saved", "compile"))
        assert slow and fast and low < gain("hardswish", depth) * fast / slow < high
    assert "with four, computing again already takes longer than saving" in said("05b")
    assert gain("cos", 2) > 1 > gain("cos", 4)
    one, two, four = (value("sines", "busy_s", "cuda", sines=n, elements=2**26) for n in (1, 2, 4))
    assert "two sines take as long as one; four take more than one and a half times as long" in said("05b")
    assert two == pytest.approx(one, rel=0.03) and 1.5 < four / one < 2
