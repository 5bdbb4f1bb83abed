"""What a browser measured of its reader's GPU: a recording like any other; what is no such result is refused."""

from pathlib import Path
from typing import Any

import pytest

from brrr.core import recordings
from brrr.core.errors import ArgumentError
from brrr_course import claims, compare, explore, guess
from brrr_course.sources.browser import keep
from brrr_course.sources.recorded import Recorded

DEVICE = {"vendor": "apple", "architecture": "metal-3", "browser": "Safari 26"}


def row(experiment: str, variant: str, point: dict[str, Any], **times: list[float]) -> dict[str, Any]:
    told = {"experiment": experiment, "variant": variant, "point": point, "times": times}
    return told | {"flop": 2e6, "bytes": 1e6, "error": 1e-7}


ROWS = [row("matmul", "webgpu", {"size": 64 * 4**k}, host_s=[2e-5, 1e-5, 3e-5, 7],
            latency_s=[each * 64**k for each in (2e-4, 1e-4, 3e-4)] + [7]) for k in range(4)]  # fmt: skip
STEPS = {"repeat": 8, "elements": 2**24, "dtype": "float32"}
ROWS += [row("gemm", "webgpu", {"columns": n, "size": 2048, "dtype": "float32"}, period_s=[n * 1e-3] * 3 + [7])
         for n in (128, 129)]  # fmt: skip
ROWS += [row("repeat", "webgpu-fma", STEPS, period_s=[1e-3, 1e-3, 1e-3, 7])]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recordings, "_shipped", [*recordings._shipped])
    monkeypatch.chdir(tmp_path)


def test_it_stands_in_for_the_lines_of_a_gpu(tmp_path: Path) -> None:
    shown = explore("matmul", lines=["unsynchronized", "synchronized"], source="recorded:h200")
    shown.panel.figure.yours = {"device": DEVICE, "rows": ROWS}
    assert (tmp_path / "recordings" / "yours" / "matmul.csv").is_file()
    assert "recorded:yours" in [name for _, name in shown.panel.source.options]
    shown.panel.source.value = "recorded:yours"
    assert "your GPU, clock stopped without waiting: 20 µs" in shown.text and "apple metal-3" in shown.scene.source_said
    assert "HOLDS" in str(claims("matmul.unsynchronized-flat", "recorded:yours"))
    assert explore("repeat", lines=["cuda fma"], source="recorded:yours").text.startswith("FMAs on your GPU: 1 ms.")
    asked, at = guess("It takes ... times as long", unit="x", answer="2x"), {"size": 2048, "dtype": "float32"}
    assert "measured 1.01x" in str(compare(asked, "gemm", ["nn"], at=at, columns=(128, 129), source=Recorded("yours")))


def test_a_figure_says_which_times_belong_beside_its_lines() -> None:
    shown = explore("repeat", at={**STEPS}, lines=["cuda fma"], sliders=["repeat"], source="recorded:h200")
    yours = shown.panel.figure.scene["yours"]
    assert yours["at"] == {"elements": 2**24, "dtype": "float32"} and 512 in yours["values"]["repeat"]
    assert yours["per"] == "" and yours["lines"][0][:3] == ["webgpu-fma", "period_s", "cuda fma"]
    assert "yours" not in explore("unary", source="recorded:h200").panel.figure.scene


def test_a_figure_says_what_its_guess_asks_of_a_browser() -> None:
    """Which line, over which and where; nothing where a factor of times cannot be read off what is drawn."""
    asked = guess("It takes ... times as long", unit="x", answer="3x")
    known = {"lines": ["nn"], "values": {"columns": (1, 32)}, "versus": {"columns": 1}, "unlock": asked}
    at = {"columns": 32, "size": 2048, "dtype": "float32"}
    times, rates = (explore("gemm", at=at, show=show, source="recorded:h200", **known) for show in ("time", "rate"))
    told = {"line": "nn", "base": "nn", "over": {0: 0}, "unit": "x", "inverse": False}
    assert times.panel.figure.scene["yours"]["asked"] == told
    assert rates.panel.figure.scene["yours"]["asked"] == {} and rates.panel.figure.scene["yours"]["per"] == "flop"
    gains = {"chain compile": "chain eager", "norm compile": "norm eager"}
    (line,) = explore("fusion", show={"speedup": gains}, source="recorded:h200").panel.figure.scene["yours"]["lines"]
    assert line[0] == "webgpu-chain-fused" and line[-1] == "webgpu-chain"


@pytest.mark.parametrize("wrong", [
    {}, {"device": DEVICE, "rows": [ROWS[0] | {"experiment": "gone"}]}, {"device": {}, "rows": ROWS},
    {"device": DEVICE, "rows": [ROWS[0] | {"times": {"host_s": [-1, 0, 0, 7]}}]},
    {"device": DEVICE, "rows": [ROWS[0] | {"variant": "gpu"}]},
    {"device": DEVICE, "rows": [ROWS[0] | {"point": {"depth": 2}}]},
    {"device": DEVICE, "rows": [ROWS[0], ROWS[0]]}, {"device": DEVICE, "rows": [ROWS[0] | {"flop": "many"}]},
])  # fmt: skip
def test_what_is_none_is_refused_and_leaves_nothing(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="keep: found"):
        keep(wrong)
    assert not (tmp_path / "recordings").exists()
