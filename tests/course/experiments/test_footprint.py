"""`footprint`: what a step holds at its peak, part by part, and what is shown where it does not fit."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from brrr.core.measurement import Badge, Measurement
from brrr_course import explore
from brrr_course.experiments import footprint
from brrr_course.experiments.footprint import RUNGS, Footprint, at_the_peak
from brrr_course.experiments.llama_sizes import SMALL
from brrr_course.nouns.experiment import OUT_OF_MEMORY
from brrr_course.view.figure import figure_of
from brrr_course.view.still import FULL, still_of

PARAMETERS = 4 * SMALL.weights
STACK = {"stack": {name: name for name in (*RUNGS, "reserved")}, "y": "bytes"}


def test_what_is_freed_with_its_pass_is_a_temporary_and_what_lies_where_a_gradient_is_later_none_before() -> None:
    made = [(1, 1, 8), (2, 2, 16), (3, 2, -16), (6, 1, -8), (7, 1, 4)]
    assert at_the_peak(made, 5, 9, {1}) == {"gradients": 0, "activations": 8, "temporaries": 16}
    assert at_the_peak([*made, (8, 3, 32)], 5, 9, {1}) == {"gradients": 4, "activations": 0, "temporaries": 32}


@pytest.mark.parametrize(("way", "parameters", "state"), [
    ("AdamW", PARAMETERS, 2 * PARAMETERS), ("SGD", PARAMETERS, 0), ("LoRA", PARAMETERS, 0.01 * PARAMETERS),
    ("decoding", PARAMETERS / 2, 0),
])  # fmt: skip
def test_each_way_holds_what_it_must(way: str, parameters: float, state: float) -> None:
    parts = Footprint(way, 2, 64, "cpu").found.parts
    assert parts["parameters"] == pytest.approx(parameters, rel=0.01)
    assert parts["state"] == pytest.approx(state, rel=0.2)
    assert parts["cache"] == (2 * 64 * SMALL.kv_bytes / 2 if way == "decoding" else 0)
    assert (parts["activations"] + parts["gradients"] > 0) is (way != "decoding")


def test_checkpointing_keeps_fewer_activations() -> None:
    plain, again = (Footprint(way, 4, 128, "cpu").found.parts for way in ("AdamW", "checkpointing"))
    assert again["activations"] < 0.8 * plain["activations"]


def test_out_of_memory_is_what_was_held_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")

    program = footprint.Program("SGD", SMALL, torch.zeros(1, 16, dtype=torch.long))
    monkeypatch.setattr(program, "step", full)
    found = footprint.followed(program, torch.zeros(1, 16, dtype=torch.long))
    assert found.full and found.times_s == [] and found.parts["temporaries"] == 2**31


@pytest.mark.parametrize("flags", [(), (OUT_OF_MEMORY,)])
def test_a_stack_has_a_line_at_the_gpu_s_memory_and_turns_red_when_out_of_it(flags: tuple[str, ...]) -> None:
    key = "AdamW", 8, 2048
    sizes = {name: Measurement(peak_bytes=10**10 * (at + 1), flags=flags) for at, name in enumerate(STACK["stack"])}
    source = SimpleNamespace(
        name="made up", kind="cuda", live=False, badge=lambda *_: Badge("RECORDED", "NVIDIA H200", "", ""),
        variants=lambda _: tuple(sizes), known=lambda _, name: {key: sizes[name]}, drifts=lambda _: {},
        values=lambda _, axis: (dict(zip(("way", "batch", "sequence"), key, strict=True))[axis],),
    )  # fmt: skip
    shown = explore("footprint", show=STACK, source=cast(Any, source))
    drawn = figure_of(shown.scene, ["batch"])
    assert drawn["rules"][0]["at"] == [pytest.approx(151e9, rel=0.01)] and drawn["full"] == [bool(flags)]
    assert ("Out of memory: it needs at least 70 GB." in shown.text) is bool(flags)
    assert ({each.get_facecolor()[0] > 0.7 for each in still_of(shown.scene).axes[0].patches} == {True}) is bool(flags)
    assert FULL.startswith("#c")
