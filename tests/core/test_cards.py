"""Cards: their HTML, and on planted cases that a headline agrees with the bar and the tables below it."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from brrr.core import units
from brrr.core.cards import Card, Carded, shown
from brrr.core.measurement import Estimate, Measurement
from brrr.counting.cost import Cost
from brrr.diagnosis.assess import Line, Regime, Shares
from brrr.diagnosis.evidence import Remedy
from brrr.diagnosis.report import Diagnosis, Tried
from brrr.roofline.predicting import predict
from brrr.roofline.shapes import suggest_shape
from brrr_course.sources.scaling import Scaling

FULL = Card(
    "Overhead-bound: 2.5x", ["one", "", "three"], {"memory": 0.25, "overhead": 0.75}, "LIVE", ["a", [["h"], ["1"]]]
)


class Checked:
    """HTML in which every tag is closed; `words` are what stands outside of the fold, `folded` within."""

    def __init__(self, text: str) -> None:
        tree = ElementTree.fromstring(f"<div>{text.replace('<details open>', '<details>')}</div>")
        tags = {each.tag for each in tree.iter()}
        assert not {"script", "style", "svg"} & tags, "what JupyterLab takes out of a notebook that it does not trust"
        folds = [(parent, each) for parent in tree.iter() for each in parent if each.tag == "details"]
        self.folded = "".join(f"{text} " for _, fold in folds for text in fold.itertext())
        for parent, fold in folds:
            parent.remove(fold)
        self.words = "".join(f"{text} " for text in tree.itertext())


def test_a_card_is_whole_html_and_folds_what_is_more() -> None:
    found = Checked(FULL.html())
    assert " ".join(found.words.split()) == "Overhead-bound: 2.5× ■ memory 25 % ■ overhead 75 % one three LIVE"
    assert found.folded.split() == ["Details", "a", "h", "1"]
    assert re.findall(r"width:([\d.]+)%", FULL.html()) == ["25.00", "75.00"]
    assert "<details open>" in FULL.html(is_open=True) and "<details" not in Card("Alone").html()
    assert Checked(Card("a < b", ["`x < 1`"], caption="<i>").html()).words == "a < b x < 1 <i> "


def test_its_text_is_the_headline_first_and_all_of_it_in_the_details() -> None:
    class Shown(Carded):
        def _card(self) -> Card:
            return FULL

    assert repr(Shown()).splitlines() == ["Overhead-bound: 2.5x", "memory 25 %, overhead 75 %", "one", "three", "LIVE"]
    assert Shown().details() == f"{Shown()!r}\na\n\nh\n1" and Shown()._repr_html_() == FULL.html()


@pytest.mark.parametrize(
    ("text", "html"),
    [("1.5x (1x to 2x)", "1.5× (1× to 2×)"), ("64x1024", "64x1024"), ("2048 x 1025 x 64", "2048 × 1025 × 64"),
     ("3 x (4,)", "3 × (4,)"), ("ampere_32x32_sliced1x4", "ampere_32x32_sliced1x4")],
)  # fmt: skip
def test_only_a_letter_that_multiplies_becomes_a_sign(text: str, html: str) -> None:
    assert shown(text) == html


# ---- headlines and tables --------------------------------------------------------------------------------------------


def diagnosed(regime: Regime, overhead: float, **work: float) -> Diagnosis:
    """Ten steps of 1 ms, of which so much is overhead, and the device's work so limited."""
    lines = [Line(f"aten::{limit}", 10, 1e-2 * share, 1e9, 1e9, None, "compute") for limit, share in work.items()]
    found = Shares(1e-2, {"launch": 1e-2 * overhead}, {limit: 1e-2 * x for limit, x in work.items()}, 10)  # type: ignore[misc]
    module = replace(lines[0], name="Linear", time_s=lines[0].time_s / 2)
    return Diagnosis("a made-up GPU", "live", 10, 1e-3, regime, found, tuple(lines), (module,), date="2026-11-26")


def test_overhead_that_is_not_the_largest_part_is_explained() -> None:
    """What a beginner met: overhead-bound above a table that begins with compute 48.6 %."""
    _, shares, why, *_ = repr(diagnosed("overhead", 0.334, compute=0.486, memory=0.18)).splitlines()
    assert "overhead 33.4 %" in shares and "compute 48.6 %" in shares and "not the largest part" in why


@pytest.mark.parametrize("overhead", [0.24, 0.3, 0.5, 0.9, 0.995])
def test_the_gain_without_overhead_is_that_of_the_table(overhead: float) -> None:
    helps, tried = Remedy("cuda graph", 2.0, "Why."), Tried("cuda graph", 1.7, 1.6, 1.8, 0.0)
    found = replace(diagnosed("overhead", overhead, compute=1 - overhead), remedies=(helps,), tried=(tried,))
    gain = units.ratio(1 / (1 - overhead)) if overhead < 0.99 else "many times"
    assert repr(found).startswith(f"Overhead-bound: without its overhead a step would be {gain} as fast.\n")
    assert "What would help: cuda graph (1.7x measured)." in repr(found)
    assert len(replace(found, problems=("it has no end", "nor a start"))._card().lines) == 4


@pytest.mark.parametrize("regime", ["memory", "compute", "under-filled"])
def test_a_limit_is_told_with_its_share_of_a_step(regime: Regime) -> None:
    others = {"memory", "compute", "under-filled"} - {regime}
    found = diagnosed(regime, 0.1, **{regime: 0.6}, **dict.fromkeys(others, 0.15))
    first, shares, *rest = repr(found).splitlines()
    assert first.startswith(f"{regime.capitalize()}-bound: 60 % of a step".replace("filled-bound", "filled"))
    assert f"{regime} 60 %" in shares and not any("largest" in line for line in rest)
    doubtful = repr(diagnosed(regime, 0.4, **{regime: 0.35}, **dict.fromkeys(others, 0.125)))
    assert "Overhead is the largest part, but counts as the limit from a gain of 1.3x on." in doubtful
    assert repr(diagnosed("unknown", 0.1, unknown=0.9)).startswith("What limits it is not known.\n")


def test_each_table_adds_up_to_a_step() -> None:
    found = diagnosed("memory", 0.25, memory=0.75)
    tables = re.split(r"\n\n", found.details())
    shares = [[float(each) for each in re.findall(r"([\d.]+) %", table)] for table in tables[1:]]
    (overhead, _, memory), operators, modules = shares
    assert overhead + memory == sum(operators) == sum(modules) == 100
    assert "(other operators, overhead)" in tables[2]
    assert "(no module's forward pass)" in tables[3]


@pytest.mark.parametrize("case", ["memory", "compute", "overhead"])
def test_a_prediction_agrees_with_its_bar(case: str) -> None:
    flop, nbytes = {"memory": (1e6, 1e9), "compute": (1e13, 1e6), "overhead": (1e3, 1e3)}[case]
    found = predict(Cost(flop, nbytes), device="datasheet:h200")
    card = found._card()
    assert f"{case}-bound: " in card.title and max(card.shares, key=card.shares.__getitem__) == case
    assert sum(card.shares.values()) == pytest.approx(1) and units.ratio(found.margin) in card.title
    assert str(found).startswith("PREDICTED: about ") and card.caption.startswith("PREDICTED · NVIDIA H200")
    words = Checked(card.html())
    assert "_s" not in words.words + words.folded.partition("rests on")[0], "an identifier where a word will do"


def test_a_suggestion_leads_with_the_largest_gain_of_the_same_result() -> None:
    found = suggest_shape(2048, 1025, 2048, "bfloat16", device="h200")
    best = max((x for x in found.better if x.what != "smaller"), key=lambda x: x.gain)
    words = Checked(found._repr_html_())
    gain = units.ratio(best.gain)
    assert repr(found).startswith(f"Predicted {gain} as fast: {best.what}, {best.cells[1]}, ")
    assert f"padded {units.ratio(next(x.gain for x in found.better if x.what == 'padded'))}" in repr(found)
    assert "2048 × 1025 × 2048" in words.words and all(
        each.cells[1].replace("x", "×") in words.folded for each in found.better
    )
    assert repr(replace(found, better=())).startswith("Nothing nearby is predicted to be faster.")


def same(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, 9)


@pytest.mark.parametrize(("grown", "idle", "regime"), [(1.05, 0.8, "the host pays"),
                                                       (1.9, 0.1, "grows with size")])  # fmt: skip
def test_a_scaling_test_says_by_how_much_the_time_grew(grown: float, idle: float, regime: str) -> None:
    small, large = (Measurement(busy_s=same((1 - idle) * t), period_s=same(t)) for t in (1e-4, grown * 1e-4))
    found = Scaling(8, 2, small, large, 2.0, "LIVE")
    words = Checked(found._repr_html_()).words
    assert words.startswith(f"{regime.capitalize()}: 2× the batch takes {grown}× the time.")
    assert f"GPU idle {units.percent(idle)}" in words and words.endswith("LIVE ")
