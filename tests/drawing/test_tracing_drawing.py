"""The drawn timeline: what stands in the figure is what happened."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import timelines

from brrr.drawing import style
from brrr.drawing.timeline_figure import MOST_ARROWS, arrows_shown, calls_shown, draw, idle_gaps, window_ns
from brrr.tracing.spans import LAUNCH, PYTHON, Span
from brrr.tracing.timeline import Timeline


def parts(figure: Any, gid: str) -> list[tuple[float, float]]:
    """Start and end along x of every bar, box or arrow in the collection of that name."""
    found = [c for c in figure.axes[0].collections if c.get_gid() == gid]
    return [(p.get_extents().x0, p.get_extents().x1) for c in found for p in c.get_paths()]


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in [*figure.axes[0].texts, *figure.texts]]


def test_bars_stand_where_the_spans_are_and_a_call_on_host_and_device_alike() -> None:
    found = timelines.host_bound(4)
    figure = draw(found)
    kernels = [span.interval for span in found.spans if span.kind == "kernel"]
    assert [(round(a), round(b)) for a, b in parts(figure, "stream 1 kernel")] == kernels
    calls = [span.interval for span in found.spans if span.kind == "call"]
    assert [(round(a), round(b)) for a, b in parts(figure, "python call")] == calls
    assert {"call 1", "call 4"} < {*words(figure)}
    text = words(draw(timelines.device_bound(4)))
    assert [text.count(number) for number in "12345"] == [2, 2, 2, 2, 0], "once in each lane"


def test_the_device_s_idle_time_is_shaded_and_said() -> None:
    found = timelines.host_bound(4)
    figure = draw(found)
    shaded = [(round(a), round(b)) for a, b in parts(figure, "idle")]
    assert shaded == idle_gaps(found, found.end_ns) == [(0, 6000), (7000, 16000), (17000, 26000), (27000, 36000),
                                                        (37000, 44000)]  # fmt: skip
    assert sum(text.startswith("idle") for text in words(figure)) == 5 and "idle 9 µs" in words(figure)
    assert idle_gaps(timelines.pipeline(), 40_000) == [(30_000, 40_000)], "where no stream works"
    assert idle_gaps(replace(timelines.pipeline(), kind="cpu"), 40_000) == []


def test_each_of_several_devices_has_idle_time_of_its_own() -> None:
    spans = (
        Span("GPU 0 compute", "kernel", "k", 0, 10_000, 0),
        Span("GPU 0 exchange", "kernel", "k", 10_000, 40_000, 0),
        Span("GPU 1 compute", "kernel", "k", 25_000, 40_000, 0),
    )
    found = timelines.timeline(spans, 1, 40e-6, 50e-6)
    assert [idle_gaps(found, 40_000, f"GPU {n}") for n in (0, 1)] == [[], [(0, 25_000)]]
    figure = draw(found)
    assert [text for text in words(figure) if text.startswith("idle")][-1] == "idle 25 µs"
    boxes = [each for on in figure.axes for each in on.collections if each.get_gid() == "idle"]
    (shaded,) = [each for each in boxes if each.get_paths()]
    assert shaded.get_paths()[0].get_extents().intervaly.tolist() == [1.5, 2.5], "the third lane, GPU 1's only one"


def test_arrows_go_from_launch_to_kernel() -> None:
    found = timelines.host_bound(4)
    heads = [span.start_ns for span in found.spans if span.kind == "kernel"]
    launches = [span.interval for span in found.spans if span.kind == "launch"]
    drawn = parts(draw(found), "arrows")
    assert [round(head) for _, head in drawn] == heads
    assert all(start <= tail <= end for (start, end), (tail, _) in zip(launches, drawn, strict=True))


def test_arrows_are_thinned_out_where_they_would_touch() -> None:
    crowded = timelines.host_bound(200)
    pixel = crowded.end_ns / (style.WIDTH - 180)
    shown = arrows_shown(crowded, crowded.end_ns, pixel)
    assert 0 < len(shown) <= MOST_ARROWS and len(crowded.arrows) == 200
    heads = [work.start_ns for _, work in shown]
    assert min(b - a for a, b in pairwise(heads)) > 10 * pixel


def test_a_launch_of_many_kernels_has_one_arrow() -> None:
    spans = [Span(LAUNCH, "launch", "cudaGraphLaunch", 0, 1000, 0)]
    spans += [Span("stream 1", "kernel", "k", 2000 * n, 2000 * n + 1500, 0, 0) for n in range(1, 9)]
    found = timelines.timeline(spans, 1, 2e-5, 2e-5)
    assert len(found.arrows) == 8 and len(arrows_shown(found, found.end_ns, 1.0)) == 1


def test_a_few_calls_are_shown_and_the_heading_says_so() -> None:
    found = timelines.host_bound(20)
    assert calls_shown(found, None) == 8 and calls_shown(found, 3) == 3 and calls_shown(found, 99) == 20
    assert window_ns(found, 3) == 29_800 and window_ns(found, 20) == found.end_ns
    assert "until call 3 of 20 ends" in words(draw(found, 3))
    assert "until call 1 of 20 ends" in words(draw(found, 1))
    assert "eager: 20 calls" in words(draw(found, 20, title="eager"))
    assert calls_shown(replace(found, calls=1), None) == 1


def test_timelines_beside_each_other_show_as_many_calls_on_one_scale() -> None:
    """Four calls that wait for the host take longer than four that do not: the others end before the axis does."""
    slow, fast = timelines.host_bound(4), timelines.host_bound(20, kernel_ns=10)
    fast = replace(fast, spans=tuple(replace(s, start_ns=s.start_ns // 9, end_ns=s.end_ns // 9) for s in fast.spans))
    figures = draw(slow, beside=[fast]), draw(fast, beside=[slow])
    assert figures[0].axes[0].get_xlim() == figures[1].axes[0].get_xlim() == draw(slow).axes[0].get_xlim()
    assert "4 calls" in words(figures[0]) and "until call 4 of 20 ends" in words(figures[1])
    ends = [end for lane in ("python call", "stream 1 kernel") for _, end in parts(figures[1], lane)]
    assert max(ends) <= window_ns(fast, 4) < window_ns(slow, 4) / 2
    assert "5 µs a call without the profiler: the GPU is idle 80 % of the time" in words(figures[0])


def test_time_begins_at_zero_in_readable_units() -> None:
    axes = draw(timelines.device_bound(4)).axes[0]
    assert axes.get_xlim()[0] == 0
    axes.figure.draw_without_rendering()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels[0] == "0" and "100 µs" in labels
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "Python: calls", "launches (CUDA API)", "GPU stream 1",
    ]  # fmt: skip


def test_lanes_stay_in_place_between_timelines() -> None:
    lanes = ("python", "operator", "launch", "stream 1", "stream 2")
    figures = [draw(found, lanes=lanes) for found in (timelines.host_bound(), timelines.device_bound())]
    one, two = ([label.get_text() for label in figure.axes[0].get_yticklabels()] for figure in figures)
    assert one == two and len(one) == 5
    assert len({figure.axes[0].get_position().bounds for figure in figures}) == 1


@pytest.mark.parametrize("make", [timelines.host_bound, timelines.device_bound, timelines.pipeline])
def test_badge_and_legend_hide_nothing(make: Any) -> None:
    found: Timeline = make()
    figure = draw(found)
    assert "RECORDED · synthetic device · 2000-01-01 · torch 2.11.0" in words(figure)
    axes = figure.axes[0]
    legend = axes.get_legend()
    said = [text.get_text() for text in legend.get_texts()]
    assert said[-1] == "idle" and len(set(said)) == len(said)
    figure.draw_without_rendering()
    box, lanes = legend.get_window_extent(), axes.get_window_extent()
    heading, verdict = (text.get_window_extent() for text in figure.texts if "call" in text.get_text())
    assert box.y0 >= lanes.y1 and box.y1 <= verdict.y0 and verdict.y1 <= heading.y0
    assert max(box.x1, verdict.x1, heading.x1) <= figure.bbox.x1
    for label in axes.get_yticklabels():
        assert label.get_window_extent().x0 >= 0, f"{label.get_text()} runs out of the figure"


def test_what_is_very_short_can_be_seen() -> None:
    spans = [Span(PYTHON, "call", "call", 0, 10**9, 0), Span("stream 1", "kernel", "k", 5, 6, 0)]
    ((start, end),) = parts(draw(timelines.timeline(spans, 1, 1.0, 1.0)), "stream 1 kernel")
    assert (end - start) / 10**9 * (style.WIDTH - 180) > 1


SHOWN = """
import sys, timelines
found = timelines.host_bound()
assert not {"matplotlib", "brrr.drawing"} & {*sys.modules}
print(sorted(found._repr_mimebundle_()[0]))
sys.modules["matplotlib"] = sys.modules["brrr.drawing.timeline_figure"] = None
print(sorted(found._repr_mimebundle_()[0]))
"""


def test_it_shows_itself_whatever_was_imported_before() -> None:
    """In a process of its own, with matplotlib and as if that were not installed."""
    done = subprocess.run([sys.executable, "-c", SHOWN], cwd=Path(timelines.__file__).parent, capture_output=True)
    assert done.stdout.decode().splitlines() == ["['image/png', 'text/html', 'text/plain']", "['text/plain']"], (
        done.stderr.decode()
    )
