"""A step fed by torch's DataLoader: which of the two sets the pace, how much workers help, and where they run out.

A residual network of 18 layers is trained on pictures that the course makes and keeps in memory as they are, or as JPEG
or PNG; a small language model reads rows of tokens. A sample crosses to the device as bytes (or tokens) and is made
numbers there. The step's time is that of one batch which is there already; the loading's that of a loop with no step.
A step on a CPU computes on one core, so that others are left for workers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core import units
from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, median
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu, is_cuda, is_gpu, waiting
from brrr.gpu.probe import cpu_count
from brrr_course.experiments.checked import no_garbage, one_thread, quietly
from brrr_course.experiments.lazily import f, nn, np, torch
from brrr_course.experiments.llama_sizes import Shape
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import bare_main
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

JPEG, PNG, CROP, ROW, TOKENS = SAMPLES = ("JPEG", "PNG", "crop", "row", "tokens")
"""What a sample costs: decoding and cropping, cropping alone (a copy), or indexing a tensor of pictures or tokens."""
BATCHES, WORKERS = (32, 128), (1, 2, 4, 8, 16, 32)


class Sizes(NamedTuple):
    """Pixels of a picture before and after cropping, the network's width, the language model, and tokens of a row."""

    whole: int
    side: int
    width: int
    model: Shape
    tokens: int

    def nbytes(self, sample: str) -> int:
        """Bytes of a sample on its way to the device."""
        return 8 * self.tokens if sample == TOKENS else 3 * self.side**2


LARGE = Sizes(256, 224, 64, Shape(8192, 768, 12, 12, 4, 2048, "bfloat16"), 256)
SMALL = Sizes(256, 32, 8, Shape(1024, 128, 2, 4, 2, 256, "float32"), 32)
"""On a GPU in bfloat16, and on a CPU in float32."""


def expected_s(step_s: float, load_s: float, workers: int, cores: int) -> float:
    """Seconds of an iteration: the longest of the step, a batch's loading over the workers, and what the cores must do.

    These load, and one of them launches the step, or computes it.

    >>> [expected_s(0.01, 0.12, workers, cores=8) for workers in (1, 4, 16)]
    [0.12, 0.03, 0.01625]
    """
    return max(step_s, load_s / workers, (load_s + step_s) / cores)


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes of a batch on its way to the device."""
    sizes = LARGE if variant.on_gpu else SMALL
    return Cost(0.0, float(int(point["batch"]) * sizes.nbytes(str(point["sample"]))))


LABELS = {
    "fed": "loaded by workers", "main": "loaded by the main process", "step": "the step alone",
    "load": "loading alone, by workers", "alone": "loading alone, main process",
    "arithmetic": "by the arithmetic", "pageable": "by workers, pageable",
    "first": "first batch, new workers", "again": "first batch, persistent",
}  # fmt: skip
SHOWN, ON_GPU_ALONE = ("fed", "main", "step", "arithmetic"), ("pageable",)


def own_variants() -> Iterator[Variant]:
    """All from one measurement at a point: the first variant's preparation is its seconds."""
    for name, label in LABELS.items():
        told: dict[str, Any] = {"timer": "own", "shown": name in SHOWN, "prepare_s": 2.0 * (name == "fed")}
        told["field"] = "latency_s" if name in ("first", "again") else "period_s"
        yield Variant(name, label, **told)
        if name not in ON_GPU_ALONE:
            yield Variant.twin(name, "cpu", f"CPU, {label}", **told)


EXPERIMENT = Experiment(
    title="A step and the loader that feeds it",
    question="Why is the GPU idle although the model is fast?",
    axes=(
        Axis("sample", SAMPLES, label="a sample", scale="category", quick=(JPEG,), noun="samples:"),
        Axis("batch", BATCHES, label="batch", quick=(32,), most={"cpu": 32}),
        Axis("workers", WORKERS, label="workers", quick=(1, 2), most={"cpu": 4}),
    ),
    variants=tuple(own_variants()),
    package=__name__, predicts=unpredicted, resident=True,
    anchors=({"sample": JPEG, "batch": 128, "workers": 8},),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `loader` experiment measures: iterations of torch's DataLoader, with a step and without.

ROUNDS, TIMEOUT_S = 6, 20
KEPT, CLASSES = 64, 1000
SHARED = "/dev/shm"
"""Where workers put their batches, on Linux: into the memory that processes share."""


class Samples:
    """A dataset of `count` samples made of the few that are kept, each with its own number.

    It stands here, not in a notebook, and holds nothing of a GPU: a worker may be forked, or import it.
    """

    def __init__(self, kind: str, kept: Any, side: int, count: int) -> None:
        self.kind, self.kept, self.side, self.count = kind, kept, side, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        kept = self.kept[number % len(self.kept)]
        if self.kind in (ROW, TOKENS):
            return kept, number
        picture = kept if self.kind == CROP else decoded(kept)
        room = picture.shape[1] - self.side + 1
        top, left = number * 7 % room, number * 13 % room
        return picture[:, top : top + self.side, left : left + self.side].contiguous(), number


def decoded(encoded: bytes) -> torch.Tensor:
    """A picture's bytes, colours first, of its file's."""
    from PIL import Image

    return torch.from_numpy(np.array(Image.open(BytesIO(encoded)))).permute(2, 0, 1)


def kept_of(kind: str, sizes: Sizes) -> Any:
    """What is in memory before an epoch begins: soft shapes with a little noise, as photographs have it; or tokens."""
    from PIL import Image

    if kind == TOKENS:
        return torch.randint(sizes.model.words, (KEPT, sizes.tokens))
    side = sizes.side if kind == ROW else sizes.whole
    soft = f.interpolate(torch.rand(KEPT, 3, 8, 8), size=(side, side), mode="bicubic")
    pictures = (255 * soft + 6 * torch.randn_like(soft)).clamp(0, 255).byte()
    if kind in (ROW, CROP):
        return pictures
    files = [BytesIO() for _ in pictures]
    for file, picture in zip(files, pictures, strict=True):
        Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()).save(file, kind)
    return [file.getvalue() for file in files]


def residual(width: int) -> nn.Module:
    """ResNet-18, as torchvision has it where `width` is 64."""

    def normed(into: int, out: int, size: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(into, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out)]

    class Block(nn.Module):
        """Two convolutions, and their input added to what comes of them."""

        def __init__(self, into: int, out: int) -> None:
            super().__init__()
            stride = 1 if into == out else 2
            self.body = nn.Sequential(*normed(into, out, 3, stride), nn.ReLU(), *normed(out, out, 3, 1))
            self.short = nn.Identity() if stride == 1 else nn.Sequential(*normed(into, out, 1, stride))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return f.relu(self.body(x) + self.short(x))

    widths = [width * 2**stage for stage in (0, 0, 0, 1, 1, 2, 2, 3, 3)]
    return nn.Sequential(
        *normed(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *(Block(*pair) for pair in pairwise(widths)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES),
    )  # fmt: skip


Step = Callable[[Any, Any], Any]


def training(sizes: Sizes, processor: str, dtype: torch.dtype) -> Step:
    """A step on pictures and their classes: forward, backward, optimiser."""
    network = residual(sizes.width).to(processor, dtype)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9)

    def step(pictures: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = pictures.to(dtype, memory_format=torch.channels_last).div_(255)
        loss = f.cross_entropy(network(x).float(), numbers.clamp(max=CLASSES - 1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def reading(sizes: Sizes, processor: str, dtype: torch.dtype, batch: int) -> Step:
    """A step on rows of tokens: a small language model reads them."""
    from brrr_course.experiments.llama import Llama, new_cache

    model = Llama(sizes.model, dtype, processor, places=sizes.tokens)
    cache = new_cache(sizes.model, batch, sizes.tokens, model.embedding)
    return lambda tokens, numbers: model(tokens, cache)


class Feed(NamedTuple):
    """A step and the samples of its batches, at a point but for the workers."""

    sample: str
    batch: int
    processor: str
    sizes: Sizes
    kept: Any
    step: Step

    @contextmanager
    def loader(self, workers: int, pinned: bool = True) -> Iterator[DataLoader[Any]]:
        """An epoch of ROUNDS rounds, each as many batches as there are workers; three rounds more begin and end it."""
        from torch.utils.data import DataLoader

        count = self.batch * max(1, workers) * (ROUNDS + 3)
        data: Any = Samples(self.sample, self.kept, self.sizes.side, count)
        with quietly(), bare_main(), no_garbage():  # torch warns of more workers than cores
            made: DataLoader[Any] = DataLoader(
                data, self.batch, shuffle=True, num_workers=workers, pin_memory=pinned and is_cuda(self.processor),
                persistent_workers=workers > 0, timeout=TIMEOUT_S * (workers > 0),
            )  # fmt: skip
            try:
                yield made
            finally:  # also where an error's traceback would keep them alive
                if running := made._iterator:
                    running._shutdown_workers()  # type: ignore[attr-defined]

    def sent(self, batch: Sequence[torch.Tensor], pinned: bool) -> list[torch.Tensor]:
        """The batch on the device."""
        return [each.to(self.processor, non_blocking=pinned) for each in batch]

    def pace(self, loader: Any, workers: int, use: Callable[[Any], Any]) -> tuple[float, list[float]]:
        """Seconds until the first batch, and those of an iteration by rounds of an epoch.

        What workers do at its start is left out, and its end, when they load no more. The host is one step ahead of a
        GPU at most: it waits for the last step's end, so that its clock is the loop's.
        """
        each, wait, ahead = max(1, workers), waiting(self.processor) or bool, is_cuda(self.processor)
        begun, first, stamps, marks = time.perf_counter(), 0.0, list[float](), list[Any]()
        for number, batch in enumerate(loader):
            first = first or time.perf_counter() - begun
            use(batch)
            if ahead:
                marks = [*marks[-1:], torch.cuda.Event()]
                marks[-1].record()
                marks[0].synchronize()
            else:
                wait()
            if number >= each and number % each == 0:
                stamps.append(time.perf_counter())
        wait()
        return first, [(after - before) / each for before, after in pairwise(stamps[: ROUNDS + 1])]

    def looped(self, workers: int, pinned: bool = True) -> tuple[dict[str, list[float]], float]:
        """Seconds of loading alone (if pinned), of an epoch with the step, and the error of its last batch."""
        held = list[Any]()

        def use(batch: Any) -> None:
            held[:] = self.sent(batch, pinned)
            self.step(*held)

        with self.loader(workers, pinned) as loader:
            first, alone = self.pace(loader, workers, bool) if pinned else (0.0, list[float]())
            again, fed = self.pace(loader, workers, use)
            error = self.error(loader.dataset, *held)
        return {"first": [first], "load": alone, "again": [again], "fed": fed}, error

    def error(self, data: Any, found: torch.Tensor, numbers: torch.Tensor) -> float:
        """0 where the samples on the device are those of their numbers, to the last bit."""
        right = torch.stack([data[number][0] for number in numbers.tolist()])
        return 0.0 if torch.equal(found.cpu(), right) else float("nan")


@lru_cache(maxsize=len(SAMPLES) * len(BATCHES))
def unfed(sample: str, batch: int, processor: str) -> tuple[Feed, dict[str, list[float]]]:
    """What does not depend on workers: the step on a batch that is there, and the main process as the loader."""
    gpu = is_gpu(processor)
    sizes, dtype = LARGE if gpu else SMALL, torch.bfloat16 if gpu else torch.float32
    step = reading(sizes, processor, dtype, batch) if sample == TOKENS else training(sizes, processor, dtype)
    feed = Feed(sample, batch, processor, sizes, kept_of(sample, sizes), step)
    data = Samples(sample, feed.kept, feed.sizes.side, batch)
    there = feed.sent([torch.stack([data[n][0] for n in range(batch)]), torch.arange(batch)], False)
    for _ in range(3):
        feed.step(*there)
    _, times = feed.pace([there] * 20, 2, lambda batch: feed.step(*batch))
    main, _ = feed.looped(0)
    return feed, {"step": times, "main": main["fed"], "alone": main["load"]}


@lru_cache(maxsize=len(SAMPLES) * len(BATCHES) * len(WORKERS))
def found(sample: str, batch: int, workers: int, processor: str) -> tuple[dict[str, list[float]], float] | BrrrError:
    """The seconds of all variants and the worst error; what went wrong is kept, or each variant would wait for it."""
    try:
        nbytes = 2 * workers * batch * (LARGE if is_gpu(processor) else SMALL).nbytes(sample)
        with suppress(OSError):
            if (free := shutil.disk_usage(SHARED).free) < nbytes:
                raise UnavailableError(f"{SHARED} has {units.nbytes(free)}, batches take {units.nbytes(nbytes)}")
        with one_thread() if is_cpu(processor) else nullcontext():  # beside a GPU the main process has its threads
            feed, told = unfed(sample, batch, processor)
            fed, error = feed.looped(workers)
            pageable, other = feed.looped(workers, False) if is_cuda(processor) else (fed, error)
    except (OSError, RuntimeError) as failed:
        return UnavailableError(f"loader: a step on {batch} was not fed by {workers} workers: {failed}")
    step_s, alone_s = (median(told[name]) for name in ("step", "alone"))
    arithmetic = [expected_s(step_s, alone_s, workers, cpu_count())]
    return {**told, **fed, "pageable": pageable["fed"], "arithmetic": arithmetic}, error + other


def workload(variant: Variant, point: Point) -> Workload:
    """One of the times at a point; all are measured when the first is asked for."""
    told = found(str(point["sample"]), int(point["batch"]), int(point["workers"]), variant.processor)
    if isinstance(told, BrrrError):
        raise told
    times, error = told
    made = {variant.field or "period_s": Estimate.of(times[variant.implementation])}
    own = {"measured": lambda: Measurement(**made, device=variant.device)}  # type: ignore[arg-type]
    return Workload(lambda: None, lambda _: error, 0.0, others=own)
