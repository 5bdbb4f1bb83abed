"""Eight loaders that starve the device and eight healthy programs: what `diagnose` says of each, and what workers gain.

python -m tools.judge.loaders                 # on a CPU: a step computes on one thread, and sleeps as if a GPU worked
python -m tools.judge.loaders --device cuda   # beside a GPU, which multiplies as long
python -m tools.judge.loaders --only pictures plain --details

Right is a starved program whose first remedy is to load in the background, and a healthy one without it. The gain is
measured with as many workers as were advised, a program's paces before and after it in turn. What is true of the
waiting is the step's time on a batch that is kept. Where other programs take the cores a gain is "busy": undecided.
"""

import argparse
import io
import queue
import re
import statistics
import sys
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

from brrr.core import units
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.report import Diagnosis
from brrr.timing.sampler import cpu_seconds, crowded

NEAR, PACED_S, ROUNDS = 0.2, 0.5, 3
"""A predicted gain within so much of the measured one is right; for so long a program runs before its pace is taken,
and then again; and so often."""
ADVICE, WAITING = "load in the background", "waiting for data"
WORKERS = re.compile(r"num_workers=(\d+)")
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


def pace_s(step: Step, device: str) -> float:
    """Seconds of a step once what was made ahead is used up."""
    for _ in range(2):
        began, steps = time.perf_counter(), 0
        while steps < 3 or time.perf_counter() - began < PACED_S:
            step()
            steps += 1
        if device != "cpu":
            torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def paces_s(steps: Sequence[Step], device: str) -> list[float]:
    """The paces of some programs, by turns: others use this machine, too."""
    rounds = [[pace_s(step, device) for step in steps] for _ in range(ROUNDS)]
    return [statistics.median(each) for each in zip(*rounds, strict=True)]


def waits(found: Diagnosis) -> float:
    """The share of a step that waits for data, as it was said."""
    return found.shares.overhead_s.get(WAITING, 0.0) / found.steps / found.step_s


def others() -> bool:
    """Whether other programs take the cores now, so that no worker can show what it gains."""
    before = cpu_seconds()
    time.sleep(PACED_S)
    return crowded(before, cpu_seconds())


def starved(name: str, device: str, details: bool) -> tuple[tuple[str, ...], bool, bool | None]:
    """What is said of a starved program and what is true of it: whether it was named, and its gain was near.

    The second is None where others take the cores.
    """
    now, ms, build = STARVED[name]
    train = Trained(device, ms if device == "cpu" else ms / 3)  # beside a GPU the host loads meanwhile
    found = diagnose(build(now, train), device=device)
    print(found.details() if details else f"  {name}", file=sys.stderr)
    advised = [each for each in found.remedies if each.name == ADVICE]
    workers = int(WORKERS.findall(advised[0].why)[0]) if advised else now + 1
    before = build(now, train)
    before()
    busy = others()
    before_s, after_s, rest_s = paces_s([before, build(workers, train), partial(train, train.kept)], device)
    gain, said = before_s / after_s, advised[0].gain if advised else 1.0
    right, near = found.remedies[:1] == (*advised,), bool(advised) and abs(said / gain - 1) <= NEAR
    busy |= others()
    shares = units.percent(waits(found), 2), units.percent(1 - rest_s / before_s, 2), "yes" if right else "no"
    gains = f"{now} to {workers}", units.ratio(said), units.ratio(gain)
    return (name, *shares, *gains, "busy" if busy else "yes" if near else "no"), right, None if busy else near


def healthy(name: str, device: str, details: bool) -> tuple[tuple[str, ...], bool]:
    """What is said of a healthy program: whether nothing was."""
    ms, build = HEALTHY[name]
    found = diagnose(build(Trained(device, ms)), device=device)
    print(found.details() if details else f"  {name}", file=sys.stderr)
    silent = all(each.name != ADVICE for each in found.remedies)
    return (name, units.percent(waits(found), 2), "yes" if silent else "no"), silent


def main(argv: Sequence[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser("python -m tools.judge.loaders", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", choices=(*STARVED, *HEALTHY), default=(*STARVED, *HEALTHY))
    parser.add_argument("--details", action="store_true", help="print each diagnosis")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    made = [starved(name, asked.device, asked.details) for name in asked.only if name in STARVED]
    sound = [healthy(name, asked.device, asked.details) for name in asked.only if name in HEALTHY]
    heads = "starved", "said to wait", "waits", "named first", "workers", "predicted", "measured", "within 20 %"
    print("\n".join(units.table([heads, *(row for row, *_ in made)])))
    decided = [near for *_, near in made if near is not None]
    print(f"{sum(right for _, right, _ in made)} named, of {len(made)}; {sum(decided)} near, of {len(decided)}\n")
    print("\n".join(units.table([("healthy", "said to wait", "silent"), *(row for row, _ in sound)])))
    print(f"{sum(silent for _, silent in sound)} silent, of {len(sound)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
