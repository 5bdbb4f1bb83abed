"""What a lesson's sentences compare is what was recorded, as the conditions behind them say."""

from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY, build_script

build = build_script()
WHY = REPOSITORY / "data" / "pages" / "why.py"


@pytest.mark.parametrize("source", [*build.lessons(), WHY], ids=lambda source: source.stem)
def test_what_a_lesson_says_is_so(source: Path) -> None:
    assert build.not_so(source) == []


@pytest.mark.parametrize("source", build.lessons(), ids=lambda source: source.stem)
def test_each_condition_is_read_and_its_reader_does_not_see_it(source: Path) -> None:
    cells = [cell.source for cell in build.jupytext.read(source, fmt="py:percent").cells]
    assert sum(text.count("<!-- so") for text in cells) == sum(len(build.SO.findall(text)) for text in cells)
    assert not any("<!-- so" in cell.source for cell in build.read(source).cells)


@pytest.mark.parametrize("source", build.lessons(), ids=lambda source: source.stem)
def test_what_is_said_of_all_has_its_reason(source: Path) -> None:
    assert [said for said, reason in build.absolute(source) if not reason] == []


@pytest.mark.parametrize(("text", "found"), [
    ("All wait.\n<!-- so matmul: 1 -->", [("All wait.", "`1`")]),
    ("It never waits, and\n<!-- by definition -->\nso on.", [("It never waits, and so on.", "by definition")]),
    ("At most two. Others\n<!-- so matmul: 1 -->\nwait.", [("At most two.", "`1`")]),
    ("Some wait.\n<!-- so matmul: 1 -->\n\nNothing waits.", [("Nothing waits.", "")]),
    ("Do all wait? `all` is an all-reduce.", []),
])  # fmt: skip
def test_a_reason_stands_behind_the_line_in_which_its_sentence_ends(text: str, found: Any, tmp_path: Path) -> None:
    source = tmp_path / "99_said.py"
    source.write_text("# %% [markdown]\n# " + text.replace("\n", "\n# ") + "\n")
    assert build.absolute(source) == found
    if "" in [reason for _, reason in found]:
        with pytest.raises(SystemExit, match="nothing makes it so"):
            build.build(source, tmp_path)


def test_lessons_compare() -> None:
    assert (
        sum(len(build.SO.findall(source.read_text("utf-8").replace("\n# ", "\n"))) for source in build.lessons()) > 100
    )


@pytest.mark.parametrize(("condition", "told"), [
    ("matmul: latency('gpu', size=8192) < latency('cpu', size=8192)", ""),
    ("matmul: latency('gpu', size=8192) > latency('cpu', size=8192)", "it is [False]"),
    ("matmul: at(size=8192); ahead = latency('cpu') / latency('gpu'); ahead is 1 to 2; ahead > 1", "ahead is 1 to 2: "),
    ("matmul: latency('gpu') < latency('cpu')", "True, True"),
    ("matmul@cpu: latency('gpu', size=8192) > 0", "was not measured"),
    ("matmul: latency('gpu', size=7) > 0", "was not measured"),
    ("matmul: latency('gpu', size=[7]) > 0", "it is []"),
    ("matmul: latency('warp drive', size=64) > 0", "warp drive"),
    ("matmul: latency('gpu', size=64) >", "expected an expression"),
    ("overlap: balanced('sines') is 40 to 40", ""),
    ("overlap: balanced('sines') is 41 to 41", "it is [40]"),
    ("repeat: predicted('cuda mul', repeat=1, elements=67108864, dtype='float32') is 1e-4 to 2e-4", ""),
])  # fmt: skip
def test_a_condition_that_does_not_hold_ends_the_build(condition: str, told: str, tmp_path: Path) -> None:
    source = tmp_path / "99_said.py"
    source.write_text(f"# %% [markdown]\n# It is so.\n# <!-- so {condition} -->\n")
    found = build.not_so(source)
    assert len(found) == bool(told) and all(told in each for each in found), found
    if told:
        with pytest.raises(SystemExit, match="does not say so"):
            build.build(source, tmp_path)
