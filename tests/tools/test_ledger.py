"""The outside check's reader of the claims' notation, on an invented recording."""

import math
from pathlib import Path
from typing import Any

import pytest

import tools.ledger as ledger
from tools.notation import Missing, Unreadable

HEAD = "elements,dtype,variant,busy_s,busy_s_low,busy_s_high,busy_s_n,kernels,cache,run,flags"
ROWS = """
4,fp32,slow,2,1.8,2.2,9,3,hot,b
4,fp32,slow,7,7,7,9,3,hot,a
4,fp32,slow,9,9,9,9,3,cold,c
8,fp32,slow,4,3.8,4.2,9,3,hot,b,host-bound;nan
16,fp32,slow,8,8,8,1,3,hot,b
4,fp32,fast,1,1,1,9,1,hot,b
8,fp32,fast,1,1,1,9,1,hot,b
8,bf16,fast,0.5,0.5,0.5,9,1,hot,b
4,fp32,rare,0.5,0.5,0.5,9,1,hot,b"""


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ledger.Recording:
    monkeypatch.setattr(ledger, "DATA", tmp_path)
    monkeypatch.setitem(ledger.FUNCTIONS, "invented", {"twice": lambda r, t: 2 * t})
    folder = tmp_path / "recordings" / "h200"
    folder.mkdir(parents=True)
    (folder / "invented.csv").write_text(f"# of no device\n{HEAD}{ROWS}\n", encoding="utf-8")
    return ledger.Recording("h200", "invented")


def claim(value: str | list[str], **more: Any) -> dict[str, Any]:
    return {"id": "invented.claim", "value": value, "at": {"dtype": "fp32"}, "within": [0, math.inf]} | more


@pytest.mark.parametrize(
    ("value", "mid", "low", "high"),
    [
        ("busy('slow', elements=4) / busy('fast', elements=4)", 2, 1.8, 2.2),  # the newest row of the hot cache
        ("last(busy('slow'))", 8, 7.2, 8.8),  # one sample is a tenth wide
        ("last(busy('slow') - busy('fast'))", 3, 2.8, 3.2),  # at the largest size that both have
        ("total(busy('slow', elements=[4, 8, 32])) ** 2", 36, 5.6**2, 6.4**2),
        ("1 / (busy('slow', elements=4) - 2)", math.inf, -math.inf, math.inf),
        ("doubled(busy('slow'))[8]", 2, 7.2 / 4.2, 8.8 / 3.8),
        ("first(fastest(busy('slow'), busy('fast'), busy('rare'), busy('gone'), needed=2))", 0.5, 0.5, 0.5),
        ("best([busy(f'{w}st', elements=n) for w in ('fa', 'gone') for n in (4, 8) if has(f'{w}st')])", 1, 1, 1),
        ("count(where(busy('slow'), keys(busy('slow')) > 4 and kernels('slow') == 3))", 2, 2, 2),
        ("from_on(busy('slow') > 3 * busy('fast'))", 8, 8, 8),
        ("share(busy('slow', elements=most(8)) < 4)", 0.5, 0.5, 0.5),
        ("twice(max(min(busy('slow'), busy('fast'))))", 2, 2, 2),
        ("abs(half - 3)", 1, 0.9, 1.1),
        ("last(keys(where(busy('slow'), 'nan' in flags('slow')))) + count('nan' not in flags('slow'))", 10, 10, 10),
        (
            "closed(busy('slow', elements=8), busy('slow', elements=4), busy('fast', elements=4))",
            2 / 3,
            0.4 / 0.7,
            2.4 / 3.2,
        ),
    ],
)
def test_notation(recording: ledger.Recording, value: str, mid: float, low: float, high: float) -> None:
    status, found = ledger.judged(claim(value, let={"half": "busy('slow', elements=8) / 2"}), recording)
    assert status == "undecided" if low < 0 else "holds"
    assert ledger.exact(found).ends == pytest.approx((mid, low, high))


@pytest.mark.parametrize(
    ("value", "bounds", "status"),
    [
        ("busy('slow') / 2", {"within": [0.8, 4.4]}, "holds"),
        ("busy('slow') / 2", {"within": ["1 / 1", 5]}, "undecided"),
        (["busy('slow', elements=4)", "busy('fast', elements=4)"], {"within": [[1, 3], [2, 3]]}, "fails"),
        ("busy('fast', elements=4)", {"about": 1.2}, "holds"),
        ("busy('fast', elements=4)", {"about_gain": 1.2}, "fails"),
        ("busy('slow') > busy('fast')", {}, "holds"),
    ],
)
def test_bounds(recording: ledger.Recording, value: Any, bounds: dict[str, Any], status: str) -> None:
    stated = {key: told for key, told in claim(value).items() if key != "within"}
    assert ledger.judged(stated | bounds, recording)[0] == status


@pytest.mark.parametrize("value", ["busy('gone')", "busy('slow')[32]", "busy('rare') / busy('slow', elements=[8, 16])"])
def test_missing_points(recording: ledger.Recording, value: str) -> None:
    with pytest.raises(Missing):
        ledger.judged(claim(value), recording)


def test_errors_name_claim_and_place(recording: ledger.Recording) -> None:
    cases = (
        (
            "1 + open('x')",
            r"invented.claim: value 2, column 5: expected a function of the notation .*, in `open\('x'\)`",
        ),
        ("busy('slow', size=4)", r"value 2, column 1: expected an axis of \['elements', 'dtype'\], not \['size'\]"),
        ("busy('slow').mid", "value 2, column 1: expected what the notation has"),
        ("1 +", "value 2: expected an expression, not `1 \\+`"),
    )
    for value, message in cases:
        with pytest.raises(Unreadable, match=message):
            ledger.judged(claim(["1", value]), recording)
