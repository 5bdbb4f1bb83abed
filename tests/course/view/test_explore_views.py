"""The explorer's other views: rates, speed-ups, ladders, stacks, and theoretical lines."""

from dataclasses import replace
from typing import Any

import pytest
import views
from formulas import time_of
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Synthetic

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Point
from brrr.gpu.datasheet import Hardware
from brrr_course.lessons.guessing import guess
from brrr_course.nouns.experiment import Guide, Variant, stand_in
from brrr_course.view import explorer, words
from brrr_course.view.explorer import Explorer, explore
from brrr_course.view.figure import figure_of
from brrr_course.view.quantities import ABOVE, hardware_of, ratio
from brrr_course.view.stack import parts_of

SPEEDUP = {"speedup": {"prepared": "module", "graph": "module"}}
AT = {"width": 1024, "batch": 1024}


@pytest.fixture(autouse=True)
def _experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "experiment_named", lambda name: views.EXPERIMENT)


def shown(source: Any = None, **options: Any) -> Explorer:
    """An explorer over the made-up experiment."""
    return explore("views", source=source or views.Recorded(), **{"at": AT, **options})


def changed(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Let `explore` find the made-up experiment with other fields."""
    other = replace(views.EXPERIMENT, **fields)
    monkeypatch.setattr(explorer, "experiment_named", lambda name: other)


# ---- rates ----


def test_a_rate_is_the_cost_over_the_time_and_its_interval_is_turned_round() -> None:
    rates, times = shown(show="rate"), shown()
    for (x, rate, low, high), (at, time, shortest, longest) in zip(
        rates.data["module"], times.data["module"], strict=True
    ):
        amount = 4.0 * float(x) * 1024
        assert x == at
        assert (rate, low, high) == pytest.approx((amount / time, amount / longest, amount / shortest))
    assert "nn.ReLU()(x), the module's own call: 145 GB/s" in rates.text
    assert ", ran as fast as the next, " in words.verdict(rates.scene)
    assert rates.scene.quantity.unit == "B/s"
    assert "Line chart of bandwidth against width" in words.alt(rates.scene)


def test_a_time_down_to_zero_gives_a_rate_without_upper_end() -> None:
    e = shown(views.Recorded(spread=1.0), show="rate", lines=["module"])
    assert e.data["module"][0][3] == float("inf")
    assert e.picture().png.startswith(b"\x89PNG")
    e.sweep()


def test_a_variant_without_cost_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, cost=lambda variant, point: None)
    e = shown(show="rate")
    assert e.data["module"] == []
    assert "Not recorded here: PyCUDA prepared call" in e.text
    e.sweep()


# ---- theoretical lines ----


def test_a_datasheet_s_line_is_said_drawn_and_in_the_table() -> None:
    e = shown(show="rate")
    assert "DATASHEET link limit: 63 GB/s" in e.text
    assert e.guides == {"DATASHEET link limit": [(width, 63.02e9) for width in views.WIDTHS]}
    low, high = e.scene.limits
    assert low < 63e9 < high


def test_a_rate_over_the_datasheet_is_never_printed_bare() -> None:
    e = shown(show="rate", lines=["prepared", "module"])
    assert f"the module's own call: 145 GB/s ({ABOVE})" in e.text
    assert "PyCUDA prepared call: 39.3 GB/s;" in e.text


def test_a_limit_bounds_only_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    (link, *_) = views.EXPERIMENT.guides
    changed(monkeypatch, guides=(replace(link, lines=("prepared",)),))
    assert ABOVE not in shown(show="rate", lines=["prepared", "module"]).text
    assert shown(show="rate", lines=["module"]).guides == {}


def test_without_a_datasheet_there_is_no_line_and_the_text_says_so() -> None:
    e = shown(views.Recorded(device="a GPU of my own"), show="rate")
    assert e.guides == {}
    assert "No datasheet of this device is known, so there is no line for: link limit." in e.text
    assert hardware_of(views.Recorded(), views.EXPERIMENT) is not None


def test_a_prediction_belongs_to_its_view_only() -> None:
    assert list(shown().guides) == ["PREDICTED launch floor"]
    assert list(shown(show=SPEEDUP).guides) == ["PREDICTED by FLOP"]
    assert dict(shown(show=SPEEDUP).guides["PREDICTED by FLOP"])[1024] == 1024.0
    assert "PREDICTED by FLOP: 1020×" in shown(show=SPEEDUP).text
    assert "Dashed: PREDICTED by FLOP." in words.alt(shown(show=SPEEDUP).scene)


def test_heights_that_are_none_leave_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_: Hardware | None, point: Point) -> float:
        return 1e-6 if int(point["width"]) > 500 else float("nan")

    changed(monkeypatch, guides=(Guide("half", "half", "PREDICTED", "time", half),))
    e = shown()
    assert [x for x, _ in e.guides["PREDICTED half"]] == [512, 1024, 2048, 4096, 8192, 16384, 24576]
    assert "PREDICTED half" not in e.set(width=64).text
    e.sweep()


def test_theoretical_lines_over_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr_course.nouns.experiment import Axis

    axes = (Axis("width", ("64", "128"), scale="category"), Axis("batch", (64, 1024)))
    changed(monkeypatch, axes=axes, guides=(Guide("floor", "floor", "PREDICTED", "time", views.floor),), cost=None)
    e = shown(at={"batch": 64})
    assert "PREDICTED floor: 1 µs" in e.text
    assert e.picture().png.startswith(b"\x89PNG")
    e.sweep()


def test_the_axis_holds_what_is_on_and_widens_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tuple(replace(line, shown=line.name == "module") for line in views.EXPERIMENT.lines)
    changed(monkeypatch, lines=lines, guides=())
    e = shown(views.Recorded(fixed={"module": 1e-3, "graph": 1e-6}, grows=0.0))
    low, high = e.scene.limits
    assert 1e-4 < low < 1e-3 < high
    e.scene.switch("graph", on=True)
    wide = e.scene.limits
    assert wide[0] < 1e-6
    e.scene.switch("graph", on=False)
    assert e.scene.limits == wide


# ---- speed-ups ----


def test_a_speed_up_is_the_base_s_time_over_the_line_s() -> None:
    e, times = shown(show=SPEEDUP), shown()
    assert list(e.data) == ["prepared", "graph"]
    base = {x: Estimate(*rest, 31) for x, *rest in times.data["module"]}
    mine = {x: Estimate(*rest, 31) for x, *rest in times.data["prepared"]}
    for x, middle, low, high in e.data["prepared"]:
        wanted = base[x] / mine[x]
        assert (middle, low, high) == pytest.approx((wanted.median, wanted.low, wanted.high))
    assert "PyCUDA prepared call: 0.271× as fast as nn.ReLU()(x), the module's own call" in e.text
    assert e.scene.quantity.unit == "x"
    assert e.scene.y_label == "speed-up over nn.ReLU()(x), the module's own call"


@pytest.mark.parametrize(
    ("graph_s", "said"), [(7e-6, "2× as fast as"), (14e-6, "not told apart from"), (28e-6, "0.5× as fast as")]
)
def test_a_speed_up_says_faster_slower_or_neither(graph_s: float, said: str) -> None:
    source = views.Recorded(fixed={"graph": graph_s}, grows=0.0)
    assert said in shown(source, show={"speedup": {"graph": "module"}}).text


def test_seconds_of_each_second_are_shown_in_percent_from_nothing_to_all() -> None:
    source = views.Recorded(fixed={"graph": 0.98, "module": 0.012}, grows=0.0)
    e = shown(source, show={"y": "share"}, lines=["graph", "module"])
    assert ": 98 %" in e.text and ": 1.2 %" in e.text and "over" not in e.text
    assert e.scene.quantity.unit == "%" and e.picture().png.startswith(b"\x89PNG")


def test_each_line_may_have_its_own_base() -> None:
    e = shown(show={"speedup": {"graph": "module", "prepared": "aten"}})
    assert e.scene.y_label == "speed-up, each over its own base"
    assert "as fast as torch.ops.aten.relu" in e.text
    assert "as fast as nn.ReLU()(x), the module's own call" in e.text


def test_the_base_is_measured_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Synthetic(live=True, name="toy")
    e = shown(source, show={"speedup": {"graph": "module"}})
    e.panel.measure.click()
    assert {variant for variant, _ in source.measured} == {"graph", "module"}
    assert len(e.data["graph"]) == 1


def test_the_queue_stands_in_for_line_and_base(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = tuple(Variant(f"q-{n}", n, "cpu-queue") for n in ("graph", "module"))
    lines = tuple(stand_in(n, f"q-{n}", "period_s", f"queue {n}") for n in ("graph", "module"))
    gpu = views.EXPERIMENT
    changed(monkeypatch, variants=gpu.variants + queues, lines=gpu.lines + lines)
    source = Synthetic(missing=tuple(v.name for v in gpu.variants))
    e = shown(source, show={"speedup": {"graph": "module"}}, at={"width": 64, "batch": 64})
    assert list(e.data) == ["queue graph"]
    assert e.data["queue graph"]
    assert "as fast as queue module" in e.text


def test_a_source_with_none_of_the_lines_says_so_and_lives() -> None:
    e = shown(views.Recorded(missing=("graph",)), show={"speedup": {"graph": "module"}})
    assert e.data == {}
    assert "recorded:made-up has none of the lines of this figure: CUDA Graph, one replay of one node." in e.text
    assert e.picture().png.startswith(b"\x89PNG")
    e.sweep()


# ---- the ladder ----


def test_a_ladder_of_rates() -> None:
    e = shown(show={"ladder": "rate"})
    assert e.data["module"][0][1] == pytest.approx({r[0]: r[1] for r in shown(show="rate").data["module"]}[1024])
    assert "DATASHEET link limit: 63 GB/s" in e.text
    assert ABOVE in e.text
    assert words.details(e.scene).count("GB/s") >= 11


def test_a_live_ladder_is_measured_where_the_sliders_stand() -> None:
    source = Synthetic(live=True, name="toy")
    e = shown(source, show="ladder", lines=["module", "graph"])
    assert e.data == {}
    assert "Not measured yet" in e.text
    e.panel.measure.click()
    assert set(e.data) == {"module", "graph"}
    e.panel.measure_all.click()
    assert len(source.measured) == 2 * len(views.WIDTHS)
    e.sweep()


# ---- anchors that drifted ----

DRIFTED = {("module", "period_s"): 0.341, ("graph", "period_s"): 0.052, ("prepared", "host_s"): 0.9}
THREE = ["prepared", "module", "graph"]
AGAIN = "Measured again later, times differ by up to "


@pytest.mark.parametrize(
    "show", ["time", "rate", {"ratio": "prepared"}, SPEEDUP, "ladder", {"ladder": "rate"}, "stack"]
)
def test_the_line_shown_that_drifted_most_is_told_and_not_drawn(show: Any) -> None:
    lines = {} if show == SPEEDUP else {"lines": THREE}
    plain, told = shown(show=show, **lines), shown(views.Recorded(drifted=DRIFTED), show=show, **lines)
    most = f"5.2 % ({views.RUNGS['graph']})" if show == SPEEDUP else f"34 % ({views.RUNGS['module']})"
    assert told.text == f"{plain.text} {AGAIN}{most}."
    assert AGAIN in told.picture().alt and AGAIN not in words.verdict(told.scene)
    assert AGAIN in words.details(told.scene)
    assert told.picture().png == plain.picture().png


def test_a_line_switched_off_has_not_drifted() -> None:
    e = shown(views.Recorded(drifted=DRIFTED), lines=THREE)
    e.scene.switch("module", on=False)
    assert f"{AGAIN}5.2 % ({views.RUNGS['graph']})." in e.text
    e.scene.switch("graph", on=False)
    assert AGAIN not in e.text, "what is left drifted in a time that it does not draw"
    e.scene.switch("module", on=True)
    assert f"{AGAIN}34 % (nn.ReLU()(x), " in e.text


@pytest.mark.parametrize("show", ["time", "ladder"])
def test_a_line_without_a_value_here_has_not_drifted(show: str) -> None:
    gap = views.Recorded(drifted=DRIFTED, lacks=lambda variant, point: variant != "graph" and point[1] == 1024)
    e = shown(gap, show=show, lines=["module", "graph"])
    assert f"{AGAIN}5.2 % " in e.text
    assert f"{AGAIN}34 % " in e.set(batch=64).text


# ---- the stack ----


def test_a_stack_s_parts_are_successive_differences() -> None:
    e = shown(views.Recorded(grows=0.0), show={"stack": views.PARTS})
    assert [part.line for part in e.parts] == list(views.PARTS)
    assert [part.label for part in e.parts] == list(views.PARTS.values())
    times = [e.data[name][0][1] for name in views.PARTS]
    assert [part.end for part in e.parts] == pytest.approx(times)
    assert sum(part.share for part in e.parts) == pytest.approx(1)
    assert "the launch itself: 2 µs, 14 %; the dispatcher: 2 µs, 14 %" in e.text
    assert words.verdict(e.scene) == "Autograd's bookkeeping: 29 % of 14 µs."


def test_a_negative_difference_is_zero_and_said() -> None:
    within = parts_of([("a", "A", time_of(2.0)), ("b", "B", time_of(1.99)), ("c", "C", time_of(3.0))])
    assert [part.value for part in within] == [2.0, 0.0, 1.0]
    assert within[1].note == "B is shown as zero: its difference is negative, within the noise."
    beyond = parts_of([("a", "A", time_of(2.0)), ("b", "B", time_of(1.5)), ("c", "C", time_of(3.0))])
    assert [part.value for part in beyond] == [2.0, 0.0, 1.0]
    assert "by more than the noise" in beyond[1].note
    e = shown(views.Recorded(grows=0.0, fixed={"aten": 3.99e-6}), show={"stack": views.PARTS})
    assert "allocating the result: 0 s, 0 %" in e.text
    assert "allocating the result is shown as zero: its difference is negative, within the noise." in e.text


def test_a_rung_that_is_missing_is_inside_the_next_part_and_said() -> None:
    e = shown(views.Recorded(grows=0.0, missing=("aten",)), show={"stack": views.PARTS})
    assert "torch.nn.functional's Python: 4 µs, 29 %" in e.text
    assert "torch.nn.functional's Python contains what was not measured: allocating the result." in e.text


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=8), st.floats(0, 0.5))
def test_parts_never_shrink_and_make_the_largest(medians: list[float], spread: float) -> None:
    parts = parts_of([(str(n), str(n), time_of(median, spread)) for n, median in enumerate(medians)])
    assert len(parts) == len(medians)
    assert parts[-1].end == max(medians)
    assert all(part.value >= 0 and 0 <= part.low <= part.high for part in parts)
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_a_stack_in_the_order_and_the_names_of_the_lines() -> None:
    e = shown(show="stack", lines=["prepared", "aten", "module"])
    assert [part.label for part in e.parts] == [views.RUNGS[n] for n in ("prepared", "aten", "module")]


def test_other_views_have_no_parts() -> None:
    assert shown().parts == []


# ---- arguments, static mode, sweeping ----


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"show": "bars"}, 'show is \'bars\'; expected "time", "rate", "ladder", "stack"'),
        ({"show": {"speedup": {}}}, r'expected "time", "rate"'),
        ({"show": {"speedup": {"grph": "module"}}}, "line is 'grph'; expected one of prepared"),
        ({"show": {"speedup": {"graph": "modul"}}}, "line is 'modul'; expected one of prepared"),
        ({"show": {"stack": {"grph": "x"}}}, "line is 'grph'"),
        ({"show": {"ladder": "time", "x": "width"}}, "Bars stand at the sliders' point and have no x"),
        ({"show": {"y": "rate", "ratio": "module"}}, r'expected "time", "rate"'),
        ({"show": {"y": "rate", "x": "height"}}, "expected an x that has a slider: width, batch"),
        ({"show": SPEEDUP, "lines": ["aten"]}, "expected lines that `show` names: prepared, graph"),
    ],
)  # fmt: skip
def test_wrong_views_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        shown(**options)


@pytest.mark.parametrize("show", ["rate", {"ladder": "rate"}])
def test_an_experiment_without_a_rate_refuses_one(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, rate=None)
    with pytest.raises(ArgumentError, match="an experiment that names a rate and a cost"):
        shown(show=show)


def test_rate_and_speed_up_along_another_axis() -> None:
    assert [row[0] for row in shown(show={"y": "rate", "x": "batch"}).data["module"]] == [64, 1024, 16384]
    assert [row[0] for row in shown(show={**SPEEDUP, "x": "batch"}).data["graph"]] == [64, 1024, 16384]


# ---- the verdict and the guess ----


def asked(answer: str, unit: str) -> Any:
    return guess(f"How much, in {unit}?", unit=unit, answer=answer)


def asked_of(e: Explorer) -> tuple[Any, ...]:
    """What the star of a guess is drawn from: whether it has a line, and the value that a factor is of."""
    found = figure_of(e.scene, ["width"])["guess"]
    return bool(found["line"]), found["base"], found["inverse"]


def test_lines_that_hardly_differ_are_said_to() -> None:
    e = shown(views.Recorded(fixed={"graph": 14e-6, "module": 14.2e-6}, grows=0.0), lines=["module", "graph"])
    line = e.scene.experiment.line
    said = f"as long as {line('module').label} (within 5 %)."
    assert words.verdict(e.scene) == f"At width 1024, {line('graph').label}, took {said}"


@pytest.mark.parametrize(("show", "relation", "small", "large"), [
    ("time", "as long as", "prepared", "module"), ("rate", "as fast as", "module", "prepared"),
])  # fmt: skip
def test_the_verdict_compares_the_lines_it_is_told_to(show: str, relation: str, small: str, large: str) -> None:
    source = views.Recorded(fixed={"graph": 1e-6, "prepared": 10e-6, "module": 20e-6}, grows=0.0)
    lines = ["graph", "prepared", "module"]
    e = shown(source, show=show, lines=lines, versus={"module": "prepared"})
    most, least = e.scene.experiment.line(large).label, e.scene.experiment.line(small).label
    assert (
        words.verdict(e.scene) == f"At width 1024, {words.did(most, relation)} 2× {relation} {words.rest(least, most)}."
    )
    both = shown(source, show=show, lines=lines, versus={"module": "prepared", "graph": "prepared"})
    assert words.verdict(both.scene) == words.verdict(e.scene), "the first alone"
    assert f" 10× {relation} " in words.details(both.scene), "and the other in the details"
    e.scene.switch("prepared", on=False)
    assert f" 20× {relation} " in words.verdict(e.scene), "of what is left"


@pytest.mark.parametrize(("show", "said"), [
    ("time", "At width 1024, the next, prepared, took 10× as long as the shortest, graph."),
    ("rate", "At width 1024, the fastest, graph, ran 10× as fast as the next, prepared."),
    ("ladder", "The longest, module, took 20× as long as the shortest, graph."),
    ({"ratio": "graph"}, "At width 1024, prepared took 10× as long as graph."),
    ({"speedup": {"graph": "module", "prepared": "module"}}, "At width 1024, graph ran 20× as fast as module."),
])  # fmt: skip
def test_the_strongest_rival_is_named_and_of_a_ladder_both_ends(show: Any, said: str) -> None:
    source = views.Recorded(fixed={"graph": 1e-6, "prepared": 10e-6, "module": 20e-6}, grows=0.0)
    lines = ["graph", "prepared", "module"] if show is not None and "speedup" not in show else None
    for name in ("graph", "prepared", "module"):
        rung = views.RUNGS[name]
        for verb in ("took", "ran"):
            said = said.replace(f"{name} {verb}", words.did(rung, "as long as" if verb == "took" else "as fast as"))
        said = said.replace(f"{name}.", f"{rung}.").replace(f"{name},", f"{rung},")
    assert words.verdict(shown(source, show=show, lines=lines).scene) == said


def test_a_figure_without_sliders_compares_along_its_x() -> None:
    """Not at another place of what is not drawn, nor along the x of bars, which stand at one place."""
    e = shown(lines=["module", "graph"], sliders=[], versus={"width": 64})
    assert words.verdict(e.scene).endswith(" as long as at width 64.")
    for versus, show in (({"batch": 64}, "time"), ({"width": 64}, "ladder")):
        with pytest.raises(ArgumentError):
            shown(lines=["module", "graph"], sliders=[], versus=versus, show=show)


@pytest.mark.parametrize("versus", [{"nothing": "graph"}, {"graph": "nothing"}, {"width": -1}])
def test_a_comparison_of_what_is_not_there_is_refused(versus: Any) -> None:
    with pytest.raises(ArgumentError):
        shown(lines=["module", "graph"], versus=versus)


def test_a_guess_in_the_figure_s_unit_is_a_star_where_it_was_asked_and_far_off_in_words() -> None:
    source = views.Recorded(fixed={"graph": 10e-6, "module": 20e-6}, grows=0.0)
    e = shown(source, lines=["graph", "module"], unlock=asked("25 µs", "s"))
    assert asked_of(e) == (True, None, False)
    assert words.verdict(e.scene) == f"You said 25 µs. {views.RUNGS['graph']}: 10 µs."
    e.set(width=64)
    assert "You said" not in words.verdict(e.scene), "it was asked at another place"
    e.sweep()


@pytest.mark.parametrize(("question", "said"), [
    ("It takes ... times as long", "It takes 2 times as long."),
    ("It is faster by a factor of ...", "It is faster by a factor of 0.5."),
])  # fmt: skip
@pytest.mark.parametrize("show", ["time", "rate", "ladder"])
def test_a_factor_is_told_as_its_question_asks_and_has_a_star_on_an_axis_of_times(
    show: str, question: str, said: str
) -> None:
    source = views.Recorded(fixed={"prepared": 10e-6, "module": 20e-6}, grows=0.0)
    options = {"lines": ["prepared", "module"], "versus": {"module": "prepared"}}
    e = shown(source, show=show, unlock=guess(question, unit="x", answer="3"), **options)
    slower = "long" in question
    assert asked_of(e) == (show == "time", pytest.approx(10e-6), not slower)
    assert words.verdict(e.scene) == f"You said 3×. {said}"
    e.set(width=64)
    factor = "took 2× as long as" if slower else "ran 0.5× as fast as"
    told = f"{views.RUNGS['module']}, {factor} {views.RUNGS['prepared']}."
    at = "" if show == "ladder" else "At width {}, "
    assert words.verdict(e.scene) == at.format(64) + told
    near = shown(source, show=show, at={**AT, "width": 1000}, unlock=guess(question, unit="x"), **options)
    assert words.verdict(near.scene) == f"You said 3×. {at.format(1024)}{told}", "the question was of another width"


def test_a_factor_along_an_axis_stands_over_the_line_s_own_value_there() -> None:
    e = shown(lines=["module"], unlock=asked("4", "x"), versus={"width": 64})
    times = {x: y for x, y, *_ in e.data["module"]}
    assert asked_of(e) == (True, pytest.approx(times[64]), False)
    assert f", at width 1024, took {ratio(times[1024] / times[64])} as long as at width 64." in words.verdict(e.scene)
    e.set(width=64)
    assert words.verdict(e.scene) == f"{views.RUNGS['module']}, at width 64: {e.scene.quantity.short(times[64])}."


def test_elsewhere_a_further_comparison_stands_in_for_that_along_an_axis_and_the_same_is_no_multiple() -> None:
    source = views.Recorded(fixed={"prepared": 10e-6, "module": 20e-6}, grows=0.0)
    question = guess("It takes ... times as long as at 64", unit="x", answer="3")
    versus = {"width": 64, "module": "prepared"}
    e = shown(source, lines=["prepared", "module"], unlock=question, versus=versus)
    assert words.verdict(e.scene) == "You said 3×. It takes as long as at 64."
    e.set(width=64)
    module, prepared = views.RUNGS["module"], views.RUNGS["prepared"]
    assert words.verdict(e.scene) == f"At width 64, {module}, took 2× as long as {prepared}."


def test_a_choice_has_no_star() -> None:
    assert not asked_of(shown(lines=["module"], unlock=guess("Which?", options=["a", "b"], answer="a")))[0]
