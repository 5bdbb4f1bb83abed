"""Rows of a tensor in a random order, a batch at a time: fetched one by one, as DataLoader does, or by one index.

torch's DataLoader asks a `TensorDataset` for each row alone and stacks them, in Python. The same batch is one index
of the tensor by a list of numbers (pytorch/pytorch#154318 has a loop that became 7 to 22 times as fast by it, and one
that was run again elsewhere 124 times). A sampler that gives lists of numbers makes DataLoader itself do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

FEATURES, LEAST_ROWS = 100, 2**17
BATCHES = tuple(2**power for power in range(4, 17, 2))


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes of a batch, each read and written once."""
    return Cost(0.0, 2.0 * 4 * FEATURES * int(point["batch"]))


EXPERIMENT = Experiment(
    title="A batch of a tensor's rows",
    question="Why is DataLoader slower than indexing the tensor?",
    axes=(Axis("batch", BATCHES, label="batch", quick=(16, 256)),),
    variants=(
        Variant("one-by-one", "DataLoader, row by row", "cpu"),
        Variant("lists", "DataLoader, by lists", "cpu"),
        Variant("indexed", "one index", "cpu"),
    ),
    package=__name__, predicts=unpredicted,
    anchors=({"batch": 4096},),
    rate=Rate("batch", "rows/s", "rows a second"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `indexing` experiment runs: the next batch of an endless loop over the epochs.

EXACT = 0.0


def workload(variant: Variant, point: Point) -> Workload:
    """The next batch; each row holds its own number, so that a wrong one shows."""
    batch = int(point["batch"])
    rows = max(LEAST_ROWS, 2 * batch)
    must_fit(4 * FEATURES * (rows + 2 * batch), variant.processor, f"{rows} rows of {FEATURES} numbers")
    table = torch.arange(rows, dtype=torch.float32)[:, None].repeat(1, FEATURES)
    batches = forever(MAKERS[variant.implementation](table, batch))

    def error(found: torch.Tensor) -> float:
        """0 for whole rows of the table, each at most once."""
        numbers = found[:, 0].long().clamp(0, rows - 1)
        right = found.shape == (batch, FEATURES) and found.dtype == table.dtype and torch.equal(found, table[numbers])
        return EXACT if right and len(numbers.unique()) == batch else float("nan")

    return Workload(lambda: next(batches), error, EXACT)


def forever(epoch: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The batches of one epoch after the other."""
    while True:
        yield from epoch()


Epoch = Callable[[], Iterator[Any]]


def one_by_one(table: torch.Tensor, batch: int) -> Epoch:
    """As a reader writes it: shuffled, whole batches."""
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(table), batch, shuffle=True, drop_last=True)
    return lambda: (rows for (rows,) in loader)


def lists(table: torch.Tensor, batch: int) -> Epoch:
    """The sampler gives lists, and the dataset takes one as it is."""
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    data = TensorDataset(table)
    loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True), batch_size=None)
    return lambda: (rows for (rows,) in loader)


def indexed(table: torch.Tensor, batch: int) -> Epoch:
    """Without any loader: a random order, cut into batches."""
    return lambda: (table[part] for part in torch.randperm(len(table)).split(batch))


MAKERS = {"one-by-one": one_by_one, "lists": lists, "indexed": indexed}
