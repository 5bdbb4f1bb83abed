"""A figure as data: what its script draws at every place of its sliders.

A place is where all sliders stand, as one number: their positions as digits, the last slider moving fastest. Lists
named `at` have an entry for each place. A cut is a place without the slider that lies along x. Words are made here, and
hues are names; `drawn/scene.js` draws and writes numbers, as `brrr.core.units` does; its style sheet has the colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

from brrr.core.measurement import Estimate, Value
from brrr_course.nouns.experiment import Line
from brrr_course.view import words
from brrr_course.view.quantities import Rates, ratio
from brrr_course.view.stack import is_full, stacked

if TYPE_CHECKING:
    from brrr_course.view.scene import Scene

Data = dict[str, Any]
HUES = ("ink", "sky", "rose", "compute", "overhead", "under-filled")
"""Of lines that are no regime, in turn: the first three are no regime's, so that a figure of few lines borrows none."""
REGIMES = ("overhead", "memory", "compute", "under-filled")
"""Parts of a stack by these names have their hues."""
MOST_ON = 3
"""Lines that are drawn at first, where more are shown."""
BUTTONS = 4
"""A slider over at most so many categories is a row of buttons."""
DECADE = 10.0
"""Axes whose ends are no further apart are linear."""
DOUBTFUL = 20.0
"""A point so many times as high as both its neighbours tells of what disturbed it."""


def figure_of(scene: Scene, sliders: Sequence[str]) -> Data:
    """What `drawn/scene.js` draws of a scene, whose sliders stand afterwards as they stood.

    >>> from brrr_course import explore
    >>> shown = explore("matmul", lines=["unsynchronized", "synchronized"], source="recorded:h200")
    >>> drawn = figure_of(shown.scene, ["size"])
    >>> [line["name"] for line in drawn["lines"]], drawn["sliders"][0]["texts"][:3]
    (['unsynchronized', 'synchronized'], ['1', '2', '4'])

    What each line should take is in it where the scene shows predictions: to find that out takes seconds.
    """
    names = list(sliders)
    if scene.view.form == "lines" and scene.view.x not in names:
        names.append(scene.view.x)  # a figure that stands still: here it need not
    form = _stack if scene.view.form == "stack" else _lines if _over_x(scene) else _bars
    start, message = dict(scene.point), scene.message
    drawn = {"v": 1, "kind": scene.view.form, "name": scene.experiment.name,
             "title": scene.view.title or scene.experiment.title,
             "sliders": [_slider(scene, name) for name in names], "badge": scene.source_said, "alt": words.alt(scene),
             "predictable": scene.predictions.possible, "predictions": scene.predictions.on,
             "message": message}  # fmt: skip
    scene.message = ""
    drawn |= form(scene, names) | _sentences(scene, names) | _foretold(scene, names) | _yours(scene, names)
    _say_doubts(drawn)
    for name, value in start.items():
        scene.move(name, value)
    scene.message = message
    return drawn | _guess(scene, names)


def _over_x(scene: Scene) -> bool:
    """Whether it is drawn as lines over x; over words, which have no order, a slider picks the bars of one."""
    return scene.view.form == "lines" and scene.x_axis.scale != "category"


def short(value: float) -> float:
    """Five digits: finer than any interval here, and half of the bytes.

    >>> short(1 / 3)
    0.33333
    """
    return float(f"{value:.5g}")


def _slider(scene: Scene, name: str) -> Data:
    from brrr.drawing.style import readable

    axis, values = scene.experiment.axis(name), scene.values[name]
    few = len(values) == 2 or (axis.scale == "category" and len(values) <= BUTTONS)
    along = name == scene.view.x and _over_x(scene)
    form = "choice" if few and not along else "range"
    return slider_of(name, axis.title, form, map(readable, values), list(values).index(scene.point[name]))


def slider_of(name: str, title: str, form: str, texts: Iterable[str], at: int = 0) -> Data:
    """A slider, as a "range" or as buttons to choose from ("choice"), and where it stands.

    >>> slider_of("size", "size (numbers)", "range", ["1", "2"])["title"]
    'size'
    """
    return {"name": name, "title": title.partition(" (")[0], "form": form, "texts": [*texts], "at": at}


def _places(scene: Scene, names: Sequence[str]) -> Iterator[dict[str, Value]]:
    """Move a scene to every place of these sliders, the last of which moves fastest."""
    for values in product(*(scene.values[name] for name in names)):
        for name, value in zip(names, values, strict=True):
            if scene.point[name] != value:
                scene.move(name, value)
        yield dict(scene.point)


def place_of(sliders: Sequence[Mapping[str, Any]], but: int = -1) -> int:
    """Where sliders stand to begin with, as one number; without one of them, as a line's cuts are counted.

    >>> place_of([{"texts": ["a", "b"], "at": 1}, {"texts": ["1", "2", "3"], "at": 2}])
    5
    """
    kept = [slider for at, slider in enumerate(sliders) if at != but]
    return reduce(lambda place, each: place * len(each["texts"]) + each["at"], kept, 0)


def _sentences(scene: Scene, names: Sequence[str]) -> Data:
    """What is said at each place: the sentence, and behind it the details; a text that comes again is kept once."""
    return told_once([(words.verdict(scene), words.details(scene)) for _ in _places(scene, names)])


def told_once(said: Sequence[tuple[str, str]]) -> Data:
    """The sentence and the details of each place; a text that comes again is kept once."""
    found = {}
    for name, texts in zip(("say", "more"), zip(*said, strict=True), strict=True):
        forms = {text: form for form, text in enumerate(dict.fromkeys(texts))}
        found[name] = {"forms": list(forms), "at": [forms[text] for text in texts]}
    return found


def _say_doubts(drawn: Data) -> None:
    """Behind the details of each place stands which of its points their neighbours contradict."""
    lines, told = [line for line in drawn.get("lines", ()) if "doubtful" in line], drawn["more"]
    if not lines:
        return
    sizes = [len(slider["texts"]) for slider in drawn["sliders"]]
    along = drawn["x"]["along"]
    for place, digits in enumerate(product(*map(range, sizes))):
        cut = 0
        for each, (digit, size) in enumerate(zip(digits, sizes, strict=True)):
            cut = cut if each == along else cut * size + digit
        labels = "; ".join(line["label"] for line in lines if digits[along] in line["doubtful"][cut])
        if labels:
            said = f"Doubtful: over {DOUBTFUL:g} times as much as at both its neighbours ({labels})."
            told["forms"].append(f"{told['forms'][told['at'][place]]} {said}")
            told["at"][place] = len(told["forms"]) - 1


def doubtful(rows: Sequence[Sequence[float]]) -> list[int]:
    """The positions of a line's points that both their neighbours contradict.

    >>> doubtful([[0, 1, 2e-6], [1, 2, 9e-4], [2, 4, 3e-6], [3, 8, 5e-3]])
    [1]
    """
    threes = zip(rows, rows[1:], rows[2:], strict=False)
    return [int(here[0]) for one, here, other in threes if here[2] > DOUBTFUL * max(one[2], other[2])]


def _foretold(scene: Scene, names: Sequence[str]) -> Data:
    """The table of what each line should take, at each place; of a line that is known from nothing a dash."""
    if not scene.predicts:
        return {}
    rows = [[words.cells(row) for row in scene.predicted_here] for _ in _places(scene, names)]
    return {"foretold": {"head": words.HEADER, "at": rows, "origin": words.origin(scene)}}


def _yours(scene: Scene, names: Sequence[str]) -> Data:
    """What a browser needs to draw its reader's own GPU beside these lines: its place, and which times to look for.

    Times stand on the axis as they are, a rate is the amount over them, a speed-up the time of its base over them.
    """
    view, rate, known = scene.view, scene.experiment.rate_of(scene.view.rate), scene.experiment.in_browser
    over = {line: base for line, name in view.bases.items() for base in known([name])}
    found = [each for each in known([line.name for line in scene.lines])
             if view.shows in ("time", "rate") or each.stands_in_for[0] in over]  # fmt: skip
    if not found or not _over_x(scene):
        return {}
    lines = []
    for each in found:
        beside = each.stands_in_for[0]
        base = over.get(beside)
        label = f"{each.label}, over {words.rest(base.label, each.label)}" if base else each.label
        lines.append([each.variant, each.field, beside, words.brief(label), label, base and base.variant])
    return {"yours": {"at": {name: value for name, value in scene.point.items() if name not in names},
                      "values": {name: list(scene.values[name]) for name in names},
                      "per": rate.of if rate is not None and view.shows == "rate" else "", "lines": lines,
                      "asked": _asked(scene, names)}}  # fmt: skip


def _asked(scene: Scene, names: Sequence[str]) -> Data:
    """What the guess asks for, as `Scene.answer` has it; nothing where it cannot be read off what is drawn."""
    asked = scene.view.asked
    if asked is None or not (asked.unit == scene.quantity.unit or (scene.asks_factor and scene.view.shows == "time")):
        return {}
    places = {name: list(scene.values[name]) for name in names}
    if any(value not in places[name] for name, value in asked.of.over.items()):
        return {}
    over = {list(names).index(name): places[name].index(value) for name, value in asked.of.over.items()}
    return {"line": asked.of.line, "base": asked.of.base if scene.asks_factor else "", "over": over,
            "unit": asked.unit, "inverse": scene.relation == Rates.relation}  # fmt: skip


def _guess(scene: Scene, names: Sequence[str]) -> Data:
    """Where the guess stands that the figure waits for: its line, its place, and what its height is made of."""
    found, asked = scene.guessed, scene.view.asked
    if found is None or asked is None or any(found.point[n] != v for n, v in scene.point.items() if n not in names):
        return {}
    place = 0
    for name in names:
        place = place * len(scene.values[name]) + list(scene.values[name]).index(found.point[name])
    line = scene.quantity.here(asked.of.line).name if found.drawn else ""
    part = scene.view.form == "stack" and not asked.unit
    return {"guess": {"line": line, "part": part, "place": place, "base": found.base, "inverse": found.inverse,
                      "value": None, "text": ""}}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Axes.


def axis_of(title: str, scale: str, domain: Sequence[float], ticks: Mapping[float, str], **more: Any) -> Data:
    """An axis; on a narrow figure every other tick has to do.

    >>> axis_of("time", "log", (1e-6, 1.0), {10.0**n: f"10^{n}" for n in range(-6, 1)}, unit="s")["few"]
    [[1e-06, '10^-6'], [0.0001, '10^-4'], [0.01, '10^-2'], [1.0, '10^0']]
    """
    told = [[value, text] for value, text in ticks.items()]
    few = told[:: 1 + len(told) // 5]
    return {"title": title, "scale": scale, "domain": list(domain), "ticks": told, "few": few} | more


def _across(scene: Scene, names: Sequence[str]) -> Data:
    """The axis of the slider that lies along x."""
    from brrr.drawing import style

    axis, values = scene.x_axis, scene.values[scene.view.x]
    title = axis.title.partition(" (")[0]  # as the slider below is called
    at = style.positions(values, axis.scale)
    chosen = style.ticked(values, axis.scale)
    told, powers = ([style.readable(value, large) for value in chosen] for large in (style.LARGE, 2))
    if not (all(map(str.isascii, told)) or any(text.isascii() and text != "1" for text in powers)):
        told = powers  # where some are written as powers of two and all can be, all are
    ticks = {at[list(values).index(value)]: text for value, text in zip(chosen, told, strict=True)}
    more = {"along": list(names).index(axis.name), "at": at}
    if axis.scale == "log" and at[-1] > DECADE * at[0]:
        edge = (at[-1] / at[0]) ** 0.02
        return axis_of(title, "log", (at[0] / edge, at[-1] * edge), ticks, **more)
    room = 0.03 * (at[-1] - at[0] or 1.0)
    return axis_of(title, "linear", (at[0] - room, at[-1] + room), ticks, **more)


def _up(scene: Scene, limits: tuple[float, float], *, log: bool | None = None) -> Data:
    """The axis of values: from nothing where they differ by less than a decade."""
    from brrr.drawing.style import tick_label

    unit, (least, most) = scene.quantity.unit, scene.span
    if log if log is not None else most > DECADE * least:
        return log_axis(scene.y_label, limits, unit)
    high = 100.0 if unit == "%" and most > 50 else 1.08 * most
    return axis_of(scene.y_label, "linear", (0, high), {v: tick_label(v, unit) for v in round_steps(high)}, unit=unit)


def log_axis(title: str, limits: tuple[float, float], unit: str) -> Data:
    """A log axis with a tick at each power of ten; of few, with two between.

    >>> [text for _, text in log_axis("time", (1e-6, 2e-5), "s")["ticks"]]
    ['1 µs', '2 µs', '5 µs', '10 µs', '20 µs']
    """
    from brrr.drawing.style import tick_label

    low, high = limits
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    values = [10.0**power for power in powers]
    if len(values) < 3:
        every = (step * 10.0**power for power in range(powers.start - 1, powers.stop + 1) for step in (1.0, 2.0, 5.0))
        values = [value for value in every if low <= value <= high]
    return axis_of(title, "log", limits, {value: tick_label(value, unit).strip() for value in values}, unit=unit)


def round_steps(high: float) -> list[float]:
    """From nothing in four to eight round steps.

    >>> round_steps(2.2), round_steps(100.0)
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0])
    """
    power = 10.0 ** math.floor(math.log10(high))
    step = next(power * part for part in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if high / (power * part) <= 8)
    return [float(f"{step * count:.6g}") for count in range(int(high / step * (1 + 1e-9)) + 1)]


# ---------------------------------------------------------------------------------------------------------------------
# Lines over x.


def _lines(scene: Scene, names: Sequence[str]) -> Data:
    on = _on(scene)  # while it stands where it is looked at first
    along = scene.view.x
    cuts = [dict(point) for point in _places(scene, [name for name in names if name != along])]
    drawn: list[Data] = [
        {"name": line.name, "label": line.label, "short": words.brief(line.label), "hue": HUES[at % len(HUES)],
         "on": line.name in on, "cuts": [_cut(scene, scene.along_x(line.name, cut)) for cut in cuts]}
        for at, line in enumerate(scene.lines)
    ]  # fmt: skip
    for each in drawn:
        if any(found := [doubtful(rows) for rows in each["cuts"]]):
            each["doubtful"] = found
    hues = {each["name"]: each["hue"] for each in drawn}
    for guide in scene.guides.drawn:
        own = guide.lines[0] if len(guide.lines) == 1 and guide.lines[0] in hues else ""  # with which it comes and goes
        heights = [[(x, scene.guides.at(guide, {**cut, along: x})) for x in scene.values[along]] for cut in cuts]
        drawn.append({"name": f"guide {guide.name}", "label": guide.label, "short": guide.label, "kind": "guide",
                      "of": own, "hue": hues.get(own, "faint"),
                      "cuts": [_heights(scene, each) for each in heights]})  # fmt: skip
    drawn += [
        {"name": f"predicted {line.name}", "label": line.label, "short": words.brief(line.label), "of": line.name,
         "hue": HUES[at % len(HUES)], "kind": "predicted",
         "cuts": [_heights(scene, _predicted(scene, line, cut)) for cut in cuts]}
        for at, line in enumerate(scene.lines) if scene.predictions.on and scene.predictions.known([line])
    ]  # fmt: skip
    every = scene.limits_of([line.name for line in scene.lines])
    return {"x": _across(scene, names), "y": _up(scene, scene.limits), "all": _up(scene, every), "lines": drawn,
            "marks": _brackets(scene, names)} | _base(scene)  # fmt: skip


def _base(scene: Scene) -> Data:
    """Where along x the point stands that the sentence compares with, and on which line."""
    along, values, first = scene.view.x, list(scene.values[scene.view.x]), next(iter(scene.view.versus), None)
    if first is None or [*first.over] != [along] or first.over[along] not in values:
        return {}
    return {"base": {"line": scene.quantity.here(first.base).name, "at": values.index(first.over[along])}}


def _on(scene: Scene) -> list[str]:
    """The lines drawn at first: those that the sentence compares, where it answers no guess, then the first."""
    named = [scene.quantity.here(name).name for each in scene.view.versus[:1] for name in each[:2]]
    here = {name: e.median for name, e in scene.here().items()}
    best = sorted(here, key=here.__getitem__, reverse=scene.quantity.more_is_better)[: 0 if scene.view.asked else 2]
    return [name for name in dict.fromkeys([*(named or best), *scene.on]) if name in scene.on][:MOST_ON]


def hidden_at_first(scene: Scene) -> list[str]:
    """The lines over x that a click on their names brings."""
    on = _on(scene) if _over_x(scene) else [line.name for line in scene.lines]
    return [line.name for line in scene.lines if line.name not in on]


def _cut(scene: Scene, points: Mapping[Value, Estimate]) -> list[list[float]]:
    """A line's points along x: the slider's position, x, median, low, high, n."""
    from brrr.drawing.style import positions

    values = scene.values[scene.view.x]
    pairs = enumerate(zip(values, positions(values, scene.x_axis.scale), strict=True))
    found = [(at, x, points[value]) for at, (value, x) in pairs if value in points]
    return [[at, short(x), short(e.median), short(e.low), short(e.high), e.n]
            for at, x, e in found if 0 < e.median < math.inf]  # fmt: skip


def _heights(scene: Scene, heights: Iterable[tuple[Value, float | None]]) -> list[list[float]]:
    """A theoretical line's points, which have no interval."""
    from brrr.drawing.style import positions

    values = list(scene.values[scene.view.x])
    at = positions(values, scene.x_axis.scale)
    return [[(i := values.index(x)), short(at[i]), short(y), short(y), short(y), 0] for x, y in heights if y]


def _predicted(scene: Scene, line: Line, cut: Mapping[str, Value]) -> list[tuple[Value, float]]:
    points = [{**cut, scene.view.x: value} for value in scene.values[scene.view.x]]
    return scene.predictions.along_x(line, scene.view, points)


def _brackets(scene: Scene, names: Sequence[str]) -> list[Data]:
    """From one line to the other, where the sentence compares two: how many times as much."""
    pair = next(iter(scene.view.versus), None)
    if pair is None or pair.over or pair.line == pair.base or scene.view.shows not in ("time", "rate"):
        return []
    lines, texts = [scene.quantity.here(name).name for name in pair[:2]], []
    for _ in _places(scene, names):
        found = [scene.here().get(name) for name in lines]
        both = [each.median for each in found if each is not None]
        many = max(both) / min(both) if len(both) == 2 and min(both) > 0 else 0.0
        many = (scene.answer or 0.0) if scene.asks_factor else many
        texts.append(ratio(1.0 if words.is_same(many) else many) if many else "")
    return [{"lines": lines, "texts": texts, "label": scene.relation.removesuffix(" as")}]


# ---------------------------------------------------------------------------------------------------------------------
# Bars, and a stack of parts.


def _bars(scene: Scene, names: Sequence[str]) -> Data:
    """A bar for each line; where their values differ by more than a decade, a dot on a log axis."""
    rows: dict[str, list[list[Any] | None]] = {name: [] for name in scene.on}
    rules: dict[str, list[float | None]] = {guide.name: [] for guide in scene.guides.drawn}
    for point in _places(scene, names):
        here, base = scene.here(), words.base_of(scene)
        for name, told in rows.items():
            e, said = here.get(name), scene.quantity.short
            told.append(None if e is None else [short(e.median), short(e.low), short(e.high), e.n,
                                                said(e.median) + base.get(name, "")])  # fmt: skip
        for guide in scene.guides.drawn:
            height = scene.guides.at(guide, point)
            rules[guide.name].append(None if height is None else short(height))
    labels = {line.name: line.label for line in scene.lines}
    return {
        "y": _up(scene, scene.limits, log=scene.is_log),
        "bars": [{"name": name, "label": labels[name], "hue": HUES[1], "at": at} for name, at in rows.items()],
        "rules": [{"label": guide.label, "at": rules[guide.name]} for guide in scene.guides.drawn],
    }


def _stack(scene: Scene, names: Sequence[str]) -> Data:
    """What each part adds, from the cheapest to the whole."""
    order = list(dict.fromkeys(part.label for _ in _places(scene, names) for part in stacked(scene)))
    rows: dict[str, list[list[float]]] = {name: [] for name in order}
    totals, counts, full = [], [], []
    rules: dict[str, list[float | None]] = {guide.label: [] for guide in scene.guides.drawn}
    for point in _places(scene, names):
        here = {part.label: part for part in stacked(scene)}
        end = max((part.end for part in here.values()), default=0.0)
        for name, row in rows.items():
            part = here.get(name)
            row.append([short(v) for v in (part.start, part.value, part.low, part.high)] if part else [0.0] * 4)
        totals.append([short(end), f"{scene.quantity.short(end)}{', out of memory' * is_full(scene)}"])
        full.append(is_full(scene))
        for guide in scene.guides.drawn:
            rules[guide.label].append(scene.guides.at(guide, point))
        counts.append(min((e.n for e in scene.here().values()), default=0))
    choices = [at for at, name in enumerate(names) if _slider(scene, name)["form"] == "choice"]
    limits = {"rules": [{"label": label, "at": at} for label, at in rules.items()], "full": full} if rules else {}
    return limits | {
        "x": {"title": scene.y_label, "unit": scene.quantity.unit}, "totals": totals, "n": counts,
        "parts": [{"name": name, "label": name, "hue": name if name in REGIMES else HUES[at % 3],
                   "at": rows[name]}
                  for at, name in enumerate(order)],
        "across": choices[0] if choices else -1,
    }  # fmt: skip
