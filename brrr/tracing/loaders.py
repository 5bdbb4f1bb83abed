"""What the program's `DataLoader`s are set to, as spans in torch's profiler around what each of them does."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from brrr.tracing.lines import marker

SETTINGS = "num_workers", "prefetch_factor", "persistent_workers", "pin_memory"
SENT = "bytes"
"""Beside the settings: what its largest batch so far holds."""
NAME = "enumerate(DataLoader)."
"""How the spans begin, as those of torch's own do."""


def settings_in(name: str) -> dict[str, int]:
    """The settings that a span's name tells, none for another span.

    >>> settings_in("enumerate(DataLoader).__next__ num_workers=2 pin_memory=0")
    {'num_workers': 2, 'pin_memory': 0}
    """
    return {setting: int(number) for setting, number in re.findall(r"(\w+)=(\d+)", name)}


@contextmanager
def loaders_told() -> Iterator[set[int]]:
    """A span with its settings around each batch of a `DataLoader`, and around each epoch's begin.

    It gives how many batches its loaders may hold ready, which grows while they are used.
    """
    from torch import Tensor, strided
    from torch.utils._pytree import tree_leaves
    from torch.utils.data import dataloader

    mark, ahead, sent = marker(), {0}, {0}

    def told(owner: Any, name: str) -> None:
        was, prefix = vars(owner)[name], "_" * (name == "__next__")

        def spanned(self: Any) -> Any:
            found = {each: int(getattr(self, prefix + each, 0) or 0) for each in SETTINGS}
            ahead.add(found["num_workers"] * found["prefetch_factor"])
            found[SENT] = max(sent)
            with mark(f"{NAME}{name} {' '.join(f'{each}={number}' for each, number in found.items())}"):
                made = was(self)
            sent.add(sum(x.nbytes for x in tree_leaves(made) if isinstance(x, Tensor) and x.layout == strided))
            return made

        setattr(owner, name, spanned)
        stack.callback(setattr, owner, name, was)

    with ExitStack() as stack:
        told(dataloader._BaseDataLoaderIter, "__next__")
        told(dataloader.DataLoader, "__iter__")
        yield ahead
