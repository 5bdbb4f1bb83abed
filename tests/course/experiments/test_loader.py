"""The experiment on loaders: what it feeds is right, its workers end, and none of them is waited for for ever."""

import time
from multiprocessing import active_children
from typing import Any

import pytest
import torch

from brrr.core.errors import UnavailableError
from brrr_course.experiments import loader
from brrr_course.experiments.loader import CROP, JPEG, PNG, ROW, SMALL, TOKENS, Feed, Samples, decoded, kept_of


@pytest.fixture(autouse=True)
def no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch sets a handler of signals with a process's first worker, and leaves it there."""
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._SIGCHLD_handler_set", True)


def tiny(step: Any) -> Feed:
    """Rows of two bytes, with which nothing has to be decoded."""
    return Feed(ROW, 2, "cpu", SMALL, torch.arange(6, dtype=torch.uint8).view(3, 2), step)


def test_a_picture_is_decoded_and_cropped_and_bears_its_number() -> None:
    torch.manual_seed(0)
    whole = kept_of(CROP, SMALL)
    for kind, most in ((PNG, 0), (JPEG, 40)):
        torch.manual_seed(0)
        kept = kept_of(kind, SMALL)
        off = decoded(kept[5]).int() - whole[5].int()
        assert off.abs().float().mean() <= most / 4 and off.shape == (3, SMALL.whole, SMALL.whole)
        picture, number = Samples(kind, kept, SMALL.side, 100)[69]
        assert picture.shape == (3, SMALL.side, SMALL.side) and picture.is_contiguous() and number == 69
    assert torch.equal(Samples(CROP, whole, SMALL.side, 9)[1][0], whole[1][:, 7 : 7 + SMALL.side, 13 : 13 + SMALL.side])


def test_the_network_is_resnet_18() -> None:
    network = loader.residual(64)
    assert sum(each.numel() for each in network.parameters()) == 11_689_512
    assert network(torch.randn(2, 3, 64, 64)).shape == (2, 1000)


def test_a_language_model_reads_rows_of_tokens() -> None:
    tokens, _ = next(iter(torch.utils.data.DataLoader(Samples(TOKENS, kept_of(TOKENS, SMALL), 0, 4), 2)))  # type: ignore[arg-type]
    assert loader.reading(SMALL, "cpu", torch.float32, 2)(tokens, None).shape == (2, SMALL.model.words)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_brings_each_sample_and_ends_its_workers(workers: int) -> None:
    seen, others = list[int](), active_children()
    times, error = tiny(lambda rows, numbers: seen.extend(numbers.tolist())).looped(workers)
    assert error == 0 and sorted(seen) == list(range(2 * max(1, workers) * (loader.ROUNDS + 3)))
    assert len(times["fed"]) == len(times["load"]) == loader.ROUNDS and active_children() == others
    assert tiny(None).error(tiny(None).kept, torch.zeros(2), torch.tensor([1, 2])) != 0


def test_a_worker_that_gives_nothing_is_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(Samples, "__getitem__", lambda *_: time.sleep(60))
    monkeypatch.setattr(loader, "unfed", lambda *_: (tiny(None), {}))
    others, told = active_children(), loader.found(ROW, 2, 1, "cpu")
    assert isinstance(told, UnavailableError) and "was not fed by 1" in str(told) and active_children() == others
