"""What lesson 10b is made of: its comparisons, its drawing, and the datasheets' figures that its text states."""

import re
from pathlib import Path
from typing import Any

import pytest
from swap_made_up import h100

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr_course import compare, drawing, guess
from brrr_course.experiments import memory_swap as claims
from brrr_course.experiments.memory_swap import CALLS, NAMES, cost_of
from brrr_course.lessons.special_quantities import swap_evidence
from brrr_course.sources import source
from brrr_course.sources.recorded import Recorded

LESSON = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "10b_memory_swap.py"
OPTIONS = ["hardly at all", "by a part of that", "by all of it, or nearly"]


@pytest.fixture
def swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An H100 on which streams take 1.4, others 1.2 times as long, and all else as long as on the H200."""
    ratio = dict.fromkeys(CALLS["streams"], 1.4) | dict.fromkeys(CALLS["others"], 1.2)
    h100(tmp_path, lambda name: ratio.get(name, 1.0))
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))


@pytest.mark.parametrize(("group", "option"), [("compute", 0), ("others", 1), ("streams", 2)])
@pytest.mark.parametrize("here", ["recorded:h200", "recorded:cpu", "recorded:h100"])
@pytest.mark.usefixtures("swapped")
def test_a_guess_is_held_against_both_recordings_whatever_the_source(group: str, option: int, here: str) -> None:
    asked = guess(f"{group} on {here} gains", options=OPTIONS, answer=OPTIONS[1])
    found = compare(asked, "memory_swap", of="swap", call=CALLS[group][0], source=source(here)).text
    right = "and so it is" if option == 1 else f"but it is {OPTIONS[option]}"
    assert f"you said {OPTIONS[1]}, {right}" in found and f"{(1, 1.2, 1.4)[option]:g}x as fast" in found


@pytest.mark.usefixtures("swapped")
def test_a_guess_of_another_form_is_refused_by_what_is_missing() -> None:
    for number, form in enumerate(({"unit": "x", "answer": "2x"}, {"options": OPTIONS[:2], "answer": OPTIONS[0]})):
        asked: Any = guess(f"another form, {number}", **form)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="a guess of three options"):
            compare(asked, "memory_swap", of="swap", call=NAMES[0])


@pytest.mark.usefixtures("swapped")
def test_the_drawing_tells_both_times_and_what_both_machines_may_draw() -> None:
    found = drawing("memory-swap", call=CALLS["others"][0], source="recorded:h200")
    there = claims.reference(Recorded("h200").folders[-1] / claims.FILE)[CALLS["others"][0]].median
    assert f"{1e6 * there:.0f} µs on an NVIDIA H200 SXM" in found.text and "279 µs on an NVIDIA H100 SXM" in found.text
    assert found.text.count("up to 700") == 2 and found.text.count(" GHz") == 2
    assert "1.2x as fast. The memory takes 55 % of the longer time: a mix." in found.text
    assert "H100" in found.badge and "H200" in found.badge


@pytest.mark.usefixtures("swapped")
def test_every_call_is_drawn_where_its_bytes_and_its_ratio_are() -> None:
    from brrr.drawing.style import kept_figures

    with kept_figures():
        _, picture = next(iter(drawing("memory-swap").everywhere()))
    assert picture.figure is not None
    lines: dict[str, Any] = {str(line.get_label()): line for line in picture.figure.axes[0].lines}
    assert sorted(lines["streams"].get_ydata()) == pytest.approx([1.4] * len(CALLS["streams"]))
    drawn = sum(len(lines[label].get_xdata()) for label in ("streams", "others", "in both caches",
                "matmuls, attention, convolution", "close to the size of the caches"))  # fmt: skip
    assert drawn == len(NAMES)
    assert set(lines["DATASHEET the bandwidths' ratio"].get_ydata()) == {4.8 / 3.35}


def test_without_an_h100_it_says_what_would_measure_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        name, kind = "recorded:h100", "cuda"

        def __getattr__(self, name: str) -> object:
            raise NotRecordedError("nothing here")

    monkeypatch.setattr("brrr_course.lessons.special_quantities.source_named", lambda _: Nothing())
    with pytest.raises(NotRecordedError, match="brrr record memory_swap"):
        swap_evidence(Recorded("h200"))


def test_the_calls_are_recorded_and_move_what_the_guesses_say() -> None:
    text = LESSON.read_text(encoding="utf-8")
    ((copy, matmul),) = re.findall(r'copy, matmul = "([^"]+)", "([^"]+)"', text)
    told = [int(size) for size in re.findall(r'guess\("[^"]*?(\d+) MB', text)]
    assert [round(cost_of(name).bytes / 1e6) for name in (copy, matmul)] == told
