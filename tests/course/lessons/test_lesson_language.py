"""Lesson 11: its exercises take what is right and tell the usual slips apart; its sentences are what was recorded."""

import math
import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from lesson_text import said

from brrr_course import check
from brrr_course.experiments import experiment
from brrr_course.experiments.decode.theory import LARGE
from brrr_course.experiments.limits import LIMITS
from brrr_course.sources import source


def by_index(logits: torch.Tensor, text: torch.Tensor, place: torch.Tensor) -> None:
    text[:, place] = logits.argmax(-1, keepdim=True)
    place += 1


def by_copy(logits: torch.Tensor, text: torch.Tensor, place: torch.Tensor) -> None:
    text.index_copy_(1, place, logits.argmax(-1, keepdim=True))
    place.add_(1)


def asking(logits: torch.Tensor, text: torch.Tensor, place: torch.Tensor) -> None:
    text[:, int(place.item())] = logits.argmax(-1)
    place += 1


def still(logits: torch.Tensor, text: torch.Tensor, place: torch.Tensor) -> None:
    text[:, place] = logits.argmax(-1, keepdim=True)


def silent(logits: torch.Tensor, text: torch.Tensor, place: torch.Tensor) -> None:
    place += 1


@pytest.mark.parametrize("step", [by_index, by_copy])
def test_a_step_that_asks_for_nothing_is_right(step: Any) -> None:
    assert check("11-capture", step=step).right


@pytest.mark.parametrize(
    ("step", "said"), [(asking, "asks the GPU"), (still, "`place` is [2]"), (silent, "text is not")]
)
def test_a_step_that_waits_or_stands_still_is_not(step: Any, said: str) -> None:
    assert not (mark := check("11-capture", step=step)).right and said in str(mark)


@pytest.mark.parametrize(
    ("token_bytes", "readers", "said"),
    [(131072, 59, "Right"), (65536, 59, "half of it"), (4096, 59, "one layer's"), (131072, 60, "does not fit"),
     (131072, 74, "no room for the weights"), (131072, 488281, "those are tokens"), (..., 59, "Not answered")],
)  # fmt: skip
def test_the_cache_is_counted(token_bytes: Any, readers: int, said: str) -> None:
    assert said in str(check("11-cache", token_bytes=token_bytes, readers=readers))


RECORDED = source("recorded:h100")


def seconds(way: str, name: str = "decode", field: str = "period_s", **point: int) -> float:
    found = RECORDED.measure(experiment(name), way, dict(point)).get(field)  # type: ignore[arg-type]
    assert found is not None
    return found.median


def part(way: str, batch: int, context: int) -> float:
    return seconds(way, field="busy_s", batch=batch, context=context)


def memory_is_most(batch: int, context: int) -> bool:
    """Of what limits a step, by the lines that add up."""
    ends = [
        0.0,
        *(part(f"to-{each}", batch, context) for each in LIMITS),
        seconds("eager", batch=batch, context=context),
    ]
    parts = [after - before for before, after in pairwise(ends)]
    return parts[LIMITS.index("memory")] == max(parts)


def doubled(tokens: int) -> float:
    return seconds("graph", "prefill", tokens=2 * tokens) / seconds("graph", "prefill", tokens=tokens)


WEIGHTS, TOKEN = LARGE.itemsize * LARGE.weights, LARGE.kv_bytes
SENTENCES = [
    ("launches more than 40 kernels in each of 16 layers",
     lambda: 40 < RECORDED.measure(experiment("decode"), "eager", {"batch": 1, "context": 2048}).kernels / 16 < 45),
    ("This host's times scatter by a factor of two",
     lambda: 9e-3 < seconds("eager", batch=2, context=32768) < 11e-3
     and 18e-3 < seconds("eager", batch=1, context=8192) < 21e-3),
    ("half of the time is what reading the weights would take at the full bandwidth",
     lambda: 0.45 < WEIGHTS / 3.35e12 / seconds("compile-graph", batch=1, context=2048) < 0.55),
    ("Only with 256 readers of 2048 tokens each.",
     lambda: memory_is_most(256, 2048)
     and not any(memory_is_most(*each) for each in ((1, 128), (1, 2048), (256, 128)))),
    ("seven times the bytes of the weights", lambda: 6.5 < 256 * 2048 * TOKEN / WEIGHTS < 7.5),
    ("some 75 000 tokens weigh as much as all the weights", lambda: 74e3 < WEIGHTS / TOKEN < 76e3),
    ("With 2048 tokens each, from 37 readers on; with 32768 tokens, from 3 on.",
     lambda: [math.ceil(WEIGHTS / TOKEN / each) for each in (2048, 32768)] == [37, 3]),
    ("twice the readers no longer get twice the tokens",
     lambda: all(seconds("graph", batch=2 * each, context=32768) > 1.25 * seconds("graph", batch=each, context=32768)
                 for each in (2, 4, 8, 16))),
    ("need 275 GB for keys and values alone", lambda: round(256 * 32768 * TOKEN / 1e9) == 275),
    ("256 tokens take a third longer than one",
     lambda: 1.3 < seconds("graph", "prefill", tokens=256) / seconds("graph", "prefill", tokens=1) < 1.4),
    ("from 1024 on, twice as many take nearly twice as long",
     lambda: doubled(512) < 1.6 < 1.75 < min(doubled(each) for each in (1024, 2048, 4096, 8192))),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "holds"), SENTENCES, ids=[each[:30] for each, _ in SENTENCES])
def test_what_the_lesson_says_is_what_was_recorded(sentence: str, holds: Any) -> None:
    assert sentence in re.sub(r"\[\[([^|\]]*\|)?([^\]]*)\]\]", r"\2", said("11")) and holds()
