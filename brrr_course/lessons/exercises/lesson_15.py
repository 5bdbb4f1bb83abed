"""Exercise 15-lists: a DataLoader that fetches each batch in one call."""

from typing import Any

import torch

from brrr_course.lessons.marks import Wrong, ask, exercise

ROWS, BATCH = 1000, 64


class Counted:
    """A dataset that counts its calls; a row holds its number."""

    def __init__(self) -> None:
        self.table, self.calls = torch.arange(ROWS)[:, None].repeat(1, 3), 0

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, numbers: Any) -> torch.Tensor:
        self.calls += 1
        return self.table[numbers]


@exercise("15-lists")
def lists(loader: Any) -> str:
    """`loader(data, batch)` gives all rows once, in another order, by one call for each batch."""
    data = Counted()
    found = ask(lambda: list(loader(data, BATCH)))
    if not all(torch.is_tensor(each) and each.dim() == 2 for each in found):
        raise Wrong(
            "its batches are no tensors of rows.", "With `batch_size=None` a batch is what `data[numbers]` gives."
        )
    numbers = torch.cat(found)[:, 0].tolist()
    if sorted(numbers) != list(range(ROWS)):
        raise Wrong(f"an epoch has {len(set(numbers))} of {ROWS} rows, {len(numbers)} in all.", "`drop_last=False`.")
    if max(map(len, found)) != BATCH or len(found) != -(-ROWS // BATCH):
        raise Wrong(f"there are {len(found)} batches, the largest of {max(map(len, found))} rows.", "Use `batch`.")
    if numbers == sorted(numbers):
        raise Wrong("it does not shuffle.", "`RandomSampler(data)` does, inside of a `BatchSampler`.")
    if data.calls != len(found):
        hint = "Give `sampler=` what gives lists, a `BatchSampler`, and let `batch_size=None` pass them on."
        raise Wrong(f"it makes {data.calls} calls for {len(found)} batches.", hint)
    return f"{data.calls} calls in place of {ROWS}."
