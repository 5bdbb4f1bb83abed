"""Every measured figure of README and docs/ is what the claims and the recordings say now."""

import re
import tomllib
from pathlib import Path

import pytest
from figures import H200, MARK, alike, claimed, numbers, rows, shown, stands, wrong

ROOT = H200.folders[0].parents[2]
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "devices.md"})]
"""That page is the ledger's own sentences and verdicts: test_readme.py makes it anew."""
RATE = "<!-- rows: strassen rate sgemm size=8192 -->"
ODD = "<!-- claims: strassen.odd-sizes -->"
TRIED = "# Tried\n<!-- attempt: once -->\n\n"
((_, RIGHT),) = rows("strassen", "rate", "sgemm", ["size=8192"])
"""FLOP/s as recorded now, so that a new recording leaves these tests as they are."""
STEP = "<!-- rows: rnn step persistent cell=lstm dtype=float32 hidden=1024 batch=4,64 -->"
((_, FOUR), (_, LAST)) = sorted(rows("rnn", "step", "persistent", STEP.split()[5:-1]))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_figures_are_as_measured(page: Path) -> None:
    found = wrong(page.read_text(encoding="utf-8"))
    assert not found, f"{len(found)} in {page.relative_to(ROOT)}:\n" + "\n".join(found)


LEDGER = (ROOT / "data" / "claims.toml").read_text(encoding="utf-8")
BECAUSE = [(f"{claim['id']}@{device}", text, each)
           for each in re.split(r"^(?=\[\[claim\]\])", LEDGER, flags=re.MULTILINE)[1:]
           for claim in tomllib.loads(each)["claim"]
           for device, text in (*claim.get("because", {}).items(), ("h200", claim.get("not_here", "")))
           if any(unit for _, unit in numbers(text))]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "entry"), BECAUSE, ids=[name for name, *_ in BECAUSE])
def test_figures_of_a_reason_are_the_claims_or_marked(name: str, text: str, entry: str) -> None:
    """Each with a unit is in what the claim says, or in what a mark says, in a comment of its entry."""
    told = [claimed(name), *(say for kind, lines in MARK.findall(entry) for _, say in stands(kind, lines))]
    there = numbers("\n".join(told))
    figures = [each for each in numbers(text) if each[1]]
    missing = [shown(each) for each in figures if not any(alike(each, other) for other in there)]
    assert not missing, f"{name}: {missing} is not what it says: {told}"


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("It takes 3 ms.", "3 ms has no mark"),
        ("Its error is 2.4e-7.", "2.4E-7 has no mark"),
        (f"It makes {RIGHT / 1e12 + 0.1:.1f} TFLOP/s at 8192. {RATE}", "is not what its marks say:\n    rows strassen"),
        (f"It makes {RIGHT / 1e12:.1f} % of the rate. {RATE}", "% is not what its marks say"),
        (f"It makes {RIGHT / 1e12:.1f} TFLOP/s at 4096. {RATE}", "4096 is not what its marks say"),
        (f"1.11x at most at 4097. {ODD}", "1.11x is not what its marks say:\n    claims strassen.odd-sizes: "),
        (f"A step takes {LAST * 1e6 + 0.1:.2f} µs. {STEP}", "is not what its marks say:\n    rows rnn step"),
        (f"{TRIED}It took 3 ms.", "does not tell that no recording holds it"),
        (f"{TRIED}No recording holds it.\n\n## New\n\nIt took 3 ms.", "3 ms has no mark"),
    ],
)
def test_a_figure_that_is_off_is_found(page: str, told: str) -> None:
    (found,) = wrong(page)
    assert told in found


@pytest.mark.parametrize(
    "page",
    [
        f"It makes {RIGHT / 1e12:.1f} TFLOP/s at 8192. {RATE}",
        f"Steps with 4 and 64 samples take {FOUR * 1e6:.2f} and {LAST * 1e6:.2f} µs. {STEP}",
        f"An odd size, 4097, takes at most 1.1x the time of 4096. {ODD}",
        "| H200 | limit |\n| --- | --- |\n| power | 700 W |\n<!-- given: H200; 700 W, the datasheet's -->",
        f"{TRIED}No recording holds these.\n\n- It took 3 ms.\n- It took 4 ms.",
        "Sizes of 4096 need no mark, nor does `3 ms` in code.\n\n```\nprint(x)  # 3 ms\n```",
    ],
)
def test_a_figure_that_is_right_passes(page: str) -> None:
    assert wrong(page) == []
