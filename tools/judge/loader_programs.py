"""The programs that loaders are judged by: eight that starve the device, and eight healthy ones."""

import io
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

MANY = 10**6
"""Samples, so that no epoch ends meanwhile."""
Batches = Iterator[Any]
Step = Callable[[], Any]
NOISE = np.random.default_rng(0)
WORDS = ["a", "few", "words", "of", "unequal", "length", "and", "meaning"]
PAGE = " ".join(WORDS[at * at % 8] for at in range(400))


def encoded(kind: str, size: int) -> bytes:
    """A picture of soft shapes with some noise, as a file."""
    x, y = np.mgrid[:size, :size] / size
    shades = np.stack([np.sin(9 * x) * np.cos(7 * y), x * y, np.cos(20 * x * y)], -1) * 90 + 128
    file = io.BytesIO()
    Image.fromarray((shades + NOISE.normal(0, 9, shades.shape)).clip(0, 255).astype(np.uint8)).save(file, kind)
    return file.getvalue()


FILES = [encoded(kind, 160) for kind in ("PNG", "JPEG")]


def decoded(file: bytes) -> np.ndarray[Any, Any]:
    """The picture's numbers, the channels first."""
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"), np.float32).transpose(2, 0, 1) / 255


def augmented(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cropped, turned around and made noisy."""
    left, top = NOISE.integers(0, 16, 2)
    cut = picture[:, top : top + 144, left : left + 144][:, :, ::-1]
    return ((cut - cut.mean()) / cut.std() + NOISE.normal(0, 0.1, cut.shape)).astype(np.float32)


def counted(page: str) -> list[float]:
    """How often each letter stands in each word, by Python alone."""
    return [float(sum(letter == each for each in word)) for word in page.split() for letter in "aeou"]


class Samples(Dataset[torch.Tensor]):
    """A sample at a time, by a function."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self.sample = sample

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


class Stream(IterableDataset[torch.Tensor]):
    """What each worker makes for itself, one behind the other."""

    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        self.make = make

    def __iter__(self) -> Batches:
        while True:
            yield self.make()


def picture(index: int) -> torch.Tensor:
    """Decoded, by turns of both kinds."""
    return torch.from_numpy(decoded(FILES[index % 2]))


KEPT = decoded(FILES[0])
TABLE = TensorDataset(torch.rand(20_000, 512), torch.rand(20_000, 1))


def noisy(_: int) -> torch.Tensor:
    """From memory, augmented."""
    return torch.from_numpy(augmented(KEPT))


def fetched(_: int) -> torch.Tensor:
    """As from a network, or a disk: hardly anything is computed."""
    time.sleep(0.003)
    return torch.ones(3, 64, 64)


def soon(_: int) -> torch.Tensor:
    """As from a disk that is fast enough."""
    time.sleep(0.0005)
    return torch.ones(3, 64, 64)


def read(index: int) -> torch.Tensor:
    """Waited for, and decoded."""
    time.sleep(0.006)
    return picture(index)


def padded(pages: Sequence[str]) -> torch.Tensor:
    """A collate_fn that counts each page's letters, and makes them equally long."""
    rows = [counted(page) for page in pages]
    longest = max(map(len, rows))
    return torch.tensor([row + [0.0] * (longest - len(row)) for row in rows])


def page(_: int) -> str:
    """One of the pages."""
    return PAGE


def pages() -> torch.Tensor:
    """A batch by Python alone."""
    return padded([PAGE] * 8)


def by_turns() -> Batches:
    """A generator of batches."""
    while True:
        yield pages()


def by_hand() -> torch.Tensor:
    """A batch of pictures, without a loader."""
    batch = np.stack([augmented(decoded(FILES[at % 2])) for at in range(8)])
    return torch.from_numpy(batch)


def by_thread(make: Callable[[], torch.Tensor]) -> Batches:
    """A thread works ahead by two batches."""
    ready: queue.Queue[torch.Tensor] = queue.Queue(2)

    def fill() -> None:
        while True:
            ready.put(make())

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield ready.get()


def loader(sample: Callable[[int], Any], batch: int, workers: int, collate: Any = None) -> Batches:
    """Batches without end of a `DataLoader`."""
    return iter(DataLoader(Samples(sample), batch, num_workers=workers, collate_fn=collate))


def table(workers: int, whole: bool = False) -> Batches:
    """Of tensors that lie in memory, row by row or a batch at once."""
    sampler = RandomSampler(TABLE, num_samples=MANY, replacement=True)
    if whole:
        rows = DataLoader(TABLE, None, sampler=BatchSampler(sampler, 256, drop_last=False), num_workers=workers)
    else:
        rows = DataLoader(TABLE, 256, sampler=sampler, num_workers=workers)
    return (x for x, _ in rows)


class Trained:
    """A small network and its training step, beside a device that works for some milliseconds."""

    def __init__(self, device: str, ms: float) -> None:
        torch.manual_seed(0)
        self.device, self.ms = device, ms
        self.model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
        self.optimizer = torch.optim.SGD(self.model.to(device).parameters(), lr=1e-6, foreach=True)
        self.wide, self.times, self.kept = torch.rand(2048, 2048, device=device), 0, torch.empty(0)
        if device != "cpu":
            for times in (8, 256):
                torch.cuda.synchronize()
                began = time.perf_counter()
                self.works(times)
                torch.cuda.synchronize()
                self.times = max(1, round(ms / 1e3 * times / (time.perf_counter() - began)))

    def works(self, times: int) -> None:
        """The device is busy, and the host is not."""
        if self.device == "cpu":
            time.sleep(self.ms / 1e3)
        for _ in range(times):
            torch.mm(self.wide, self.wide)

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        self.kept, x = batch, batch.to(self.device).flatten(1)[:, :512]
        loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.works(self.times)
        self.optimizer.step()
        return loss.detach()


def fed(batches: Batches, train: Trained) -> Step:
    """A step that asks for its batch."""

    def step() -> torch.Tensor:
        x = next(batches)
        return train(x)

    return step


def plain(_: int, train: Trained) -> Step:
    """A step that reads and prepares its batch by itself; with workers it is a `DataLoader`'s."""

    def step() -> torch.Tensor:
        pictures = by_hand()
        return train(pictures)

    return step


def of(make: Callable[[int], Batches]) -> Callable[[int, Trained], Step]:
    """A program by its batches with so many workers."""
    return lambda workers, train: fed(make(workers), train)


def streamed(make: Callable[[], torch.Tensor], workers: int) -> Batches:
    """Whole batches of a stream."""
    return iter(DataLoader(Stream(make), None, num_workers=workers))


STARVED: dict[str, tuple[int, float, Callable[[int, Trained], Step]]] = {
    "pictures": (0, 8, of(lambda workers: loader(picture, 8, workers))),
    "augmentation": (0, 8, of(lambda workers: loader(noisy, 8, workers))),
    "collate": (0, 8, of(lambda workers: loader(page, 8, workers, padded))),
    "sleep": (0, 6, of(lambda workers: loader(fetched, 8, workers))),
    "rows": (0, 2, of(table)),
    "generator": (0, 6, of(lambda workers: streamed(pages, workers) if workers else by_turns())),
    "few workers": (1, 8, of(lambda workers: loader(read, 4, workers))),
    "plain": (0, 8, lambda workers, train: (of(partial(streamed, by_hand)) if workers else plain)(workers, train)),
}
"""Each with the workers it has, the milliseconds of the device, and what builds its step with other workers."""


def sliced(train: Trained) -> Step:
    data = torch.rand(4096, 512, device=train.device)
    starts = iter(range(0, MANY, 64))

    def step() -> torch.Tensor:
        at = next(starts) % 4096
        return train(data[at : at + 64])

    return step


def between(train: Trained) -> Step:
    x = torch.rand(64, 512, device=train.device)

    def step() -> torch.Tensor:
        h = train.model[0](x)
        factor = sum(1.0 / (1 + at) for at in range(60_000))
        return train(x * factor + h.mean())

    return step


def noted(train: Trained, note: Callable[[torch.Tensor], Any]) -> Step:
    step = fed(table(0, True), train)
    return lambda: note(step())


def evaluated(train: Trained) -> Step:
    wide = nn.Linear(512, 2048).to(train.device)
    batches = table(0, True)

    @torch.no_grad()
    def step() -> torch.Tensor:
        x = next(batches).to(train.device)
        train.works(train.times)
        return wide(x).relu().mean()

    return step


HEALTHY: dict[str, tuple[float, Callable[[Trained], Step]]] = {
    "enough workers": (12, lambda train: fed(loader(soon, 8, 2), train)),
    "cheap loader": (8, lambda train: fed(table(0, True), train)),
    "in memory": (4, sliced),
    "thread": (16, lambda train: fed(by_thread(lambda: torch.stack([soon(0) for _ in range(8)])), train)),
    "Python between": (4, between),
    "item": (8, lambda train: noted(train, torch.Tensor.item)),
    "evaluation": (10, evaluated),
    "logging": (4, lambda train: noted(train, lambda _: time.sleep(0.006))),
}
"""Each with the milliseconds of the device, and what builds its step."""
