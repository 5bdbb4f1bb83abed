"""Lesson 11: its exercises take what is right and tell the usual slips apart; its sentences are what was recorded."""

from typing import Any

import pytest
import torch

from brrr_course import check


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
