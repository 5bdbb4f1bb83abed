"""An explorer's figure as data: each experiment's own, held against its recording and its words, and views of one."""

import json
import sys
from functools import partial
from itertools import product
from math import prod
from typing import Any

import pytest
import views

from brrr.core.cards import COLOURS
from brrr.core.recordings import device_folders, recorded_devices
from brrr_course.experiments import NAMES
from brrr_course.experiments import experiment as experiment_named
from brrr_course.sources.recorded import Recorded
from brrr_course.view import explorer, words
from brrr_course.view.explorer import Explorer, explore
from brrr_course.view.figure import HUES, figure_of, short

SAID = 12  # places of each figure at which its words are held against the scene's
FEWER = {"gemm": {"values": {"columns": (1, 64, 4096)}}}  # it was recorded at 1108 numbers of columns


def shown_by_default(name: str) -> Explorer:
    """An experiment's explorer over its newest device, with the axes beyond the third where it was recorded."""
    found = experiment_named(name)
    there = [d for d in recorded_devices() if any((at / f"{name}.csv").is_file() for at in device_folders(d))]
    source = Recorded(there[-1])
    first = next(key for variant in source.variants(found) for key in source.known(found, variant))
    at = {axis.name: value for axis, value in list(zip(found.axes, first, strict=True))[3:]}
    return explore(name, at=at, source=source, **FEWER.get(name, {}))  # type: ignore[arg-type]


@pytest.fixture(params=NAMES)
def shown(request: pytest.FixtureRequest) -> Explorer:
    return shown_by_default(request.param)


def test_every_experiment_s_figure_is_its_recording_and_its_words(shown: Explorer) -> None:
    scene, names = shown.scene, list(shown.slider_names)
    before = dict(scene.point)
    figure = figure_of(scene, names)
    assert scene.point == before, "its sliders stand as they stood"
    json.dumps(figure, allow_nan=False)
    counts = [len(slider["texts"]) for slider in figure["sliders"]]
    assert counts == [len(scene.values[name]) for name in names]
    assert {len(figure[told]["at"]) for told in ("say", "more")} == {prod(counts)}
    drawn = figure.get("lines") or figure["bars"]
    assert {each["hue"] for each in drawn} <= {*HUES, "faint"}
    _has_the_medians(scene, figure)
    _has_the_words(scene, names, figure)


def _has_the_medians(scene: Any, figure: Any) -> None:
    """Each line at each place is what was recorded there, and nothing is left out."""
    names = [axis.name for axis in scene.experiment.axes]
    for line in scene.lines:
        known = scene.source.known(scene.experiment, line.variant)
        recorded = {key: known[key].get(line.field) for key in product(*map(scene.values.get, names)) if key in known}
        wanted = {key: (short(e.median), e.n) for key, e in recorded.items() if e is not None}
        positive = {key: each for key, each in wanted.items() if each[0] > 0}  # what a log axis has a place for
        drawn = next((each for each in figure.get("lines", ()) if each["name"] == line.name), None)
        if drawn is not None:
            assert _of_cuts(scene, names, drawn["cuts"]) == positive
        elif "bars" in figure and line.name in scene.on:
            assert _of_bar(scene, names, figure["bars"][scene.on.index(line.name)]["at"]) == wanted


def _of_cuts(scene: Any, names: list[str], cuts: Any) -> dict[Any, tuple[float, int]]:
    """A line's medians with their counts by point, as its cuts have them."""
    along = names.index(scene.view.x)
    others = list(product(*(scene.values[name] for name in names if name != scene.view.x)))
    return {(*cut[:along], scene.values[scene.view.x][at], *cut[along:]): (median, n)
            for cut, points in zip(others, cuts, strict=True) for at, _, median, _, _, n in points}  # fmt: skip


def _of_bar(scene: Any, names: list[str], places: Any) -> dict[Any, tuple[float, int]]:
    """A bar's medians with their counts by point."""
    keys = product(*(scene.values[name] for name in names))
    return {key: (row[0], row[3]) for key, row in zip(keys, places, strict=True) if row is not None}


def _has_the_words(scene: Any, names: list[str], figure: Any) -> None:
    places = list(product(*(scene.values[name] for name in names)))
    for place in range(0, len(places), -(-len(places) // SAID)):
        for name, value in zip(names, places[place], strict=True):
            scene.move(name, value)
        for told, made in (("say", words.verdict), ("more", words.details)):
            form = figure[told]["forms"][figure[told]["at"][place]]
            said, doubted, _ = form.partition(" Doubtful: over 20 times")
            assert said == made(scene) and (not doubted or any("doubtful" in line for line in figure["lines"]))


def test_the_figure_of_all_places_takes_few_calls() -> None:
    """Those of Python's functions, the recording read anew."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for profile in (None, count):  # the first time loads modules
        before = sys.getprofile()
        sys.setprofile(profile or before)
        at = {"repeat": 32, "elements": 2**26, "dtype": "float32"}
        shown = explore("repeat", at=at, source=Recorded("h200"))
        figure_of(shown.scene, shown.slider_names)
        sys.setprofile(before)
    assert 1000 < calls < 60_000


# ---- other views ----


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Figures of the made-up experiment."""
    monkeypatch.setattr(explorer, "experiment_named", lambda name: views.EXPERIMENT)

    def figure(show: Any, source: Any = None, **options: Any) -> tuple[Any, Explorer]:
        e = explore("views", at={"width": 1024, "batch": 64}, show=show, source=source or views.Recorded(), **options)
        return figure_of(e.scene, e.slider_names), e

    return figure


PLACES = len(views.WIDTHS) * 3
STEADY = partial(views.Recorded, grows=0.0)


def test_bars_stand_where_the_sliders_do(made: Any) -> None:
    figure, e = made("ladder")
    assert figure["y"]["scale"] == "log" and [bar["name"] for bar in figure["bars"]] == e.scene.on
    assert {len(bar["at"]) for bar in figure["bars"]} == {PLACES} == {len(rule["at"]) for rule in figure["rules"]}
    here = len(e.scene.values["batch"]) * views.WIDTHS.index(1024)
    for bar in figure["bars"]:
        estimate = e.scene.here()[bar["name"]]
        assert bar["at"][here][:4] == [*map(short, (estimate.median, estimate.low, estimate.high)), estimate.n]
    assert made("ladder", STEADY())[0]["y"]["scale"] == "linear"
    absent, _ = made("ladder", views.Recorded(lacks=lambda variant, point: variant == "graph"))
    assert {tuple(bar["at"]) for bar in absent["bars"] if bar["name"] == "graph"} == {(None,) * PLACES}


def test_a_stack_s_parts_make_its_total(made: Any) -> None:
    figure, _ = made({"stack": views.PARTS})
    assert [part["label"] for part in figure["parts"]] == list(views.PARTS.values())
    assert {part["hue"] for part in figure["parts"]} <= {*HUES, *COLOURS}
    for place, (total, _) in enumerate(figure["totals"]):
        assert sum(part["at"][place][1] for part in figure["parts"]) == pytest.approx(total, rel=1e-3)
    assert (len(figure["totals"]), len(figure["n"])) == (PLACES, PLACES)


def test_predictions_are_lines_and_a_table_once_they_are_asked_for(made: Any) -> None:
    without, _ = made("time", lines=["module", "graph"])
    figure, _ = made("time", lines=["module", "graph"], predict=True)
    assert "foretold" not in without and {line.get("kind") for line in without["lines"]} == {None, "guide"}
    assert [line["of"] for line in figure["lines"] if line.get("kind") == "predicted"] == ["module", "graph"]
    assert [len(figure["foretold"]["at"]), *map(len, figure["foretold"]["at"])] == [PLACES, *[2] * PLACES]
    assert figure["foretold"]["origin"].startswith("PREDICTED · NVIDIA H200 SXM")


def test_the_place_along_x_that_a_line_is_compared_with_is_marked(made: Any) -> None:
    along, across = (
        made("time", lines=["module"], versus=each)[0].get("base") for each in ({"width": 64}, {"batch": 1024})
    )
    assert (along, across) == ({"line": "module", "at": views.WIDTHS.index(64)}, None)


def test_two_lines_that_are_compared_have_a_bracket(made: Any) -> None:
    options = {"lines": ["prepared", "module"], "versus": {"module": "prepared"}}
    source = views.Recorded(fixed={"prepared": 10e-6, "module": 20e-6}, grows=0.0)
    ((bracket,), e) = made("time", source, **options)[0]["marks"], made("time", source, **options)[1]
    assert (bracket["lines"], set(bracket["texts"])) == (["module", "prepared"], {"2×"})
    assert bracket["label"] == e.scene.quantity.relation.removesuffix(" as")
    assert made("time", source, lines=["prepared", "module"])[0]["marks"] == []
