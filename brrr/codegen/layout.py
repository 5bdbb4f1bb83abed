"""How the kernel reads an input: by which index, and whether several neighbours at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """An input's dimensions as (size, stride), innermost first, neighbours joined where memory has no gap.

    >>> Layout(((8, 1), (100, 0))).index("i")
    'i % 8'
    """

    steps: Steps

    @property
    def contiguous(self) -> bool:
        """Whether the input's elements lie as the result's do."""
        return len(self.steps) <= 1 and all(stride == 1 for _, stride in self.steps)

    def vectors(self, width: int) -> bool:
        """Whether `width` neighbours of the result always have neighbours here, at a multiple of `width`."""
        if self.contiguous:
            return True
        (size, stride), *outer = self.steps
        return stride == 1 and size % width == 0 and all(each % width == 0 for _, each in outer)

    @property
    def reach(self) -> int:
        """The largest index that occurs."""
        return sum((size - 1) * stride for size, stride in self.steps)

    def index(self, i: str) -> str:
        """The index in C++ of the input's element that belongs to the result's element `i`."""
        if self.contiguous:
            return i
        terms, divisor = [], 1
        for place, (size, stride) in enumerate(self.steps):
            along = i if divisor == 1 else f"{i} / {divisor}"
            along = along if place == len(self.steps) - 1 else f"{along} % {size}"
            if stride:
                terms.append(along if stride == 1 else f"({along}) * {stride}")
            divisor *= size
        return " + ".join(terms) or "0"


def layout(tensor: torch.Tensor, shape: Sequence[int]) -> Layout:
    """The layout of a tensor that is broadcast to `shape`.

    >>> import torch
    >>> layout(torch.ones(8), (100, 8)).steps, layout(torch.ones(100, 8), (100, 8)).steps
    (((8, 1), (100, 0)), ((800, 1),))
    """
    spread = tensor.expand(tuple(shape))
    joined: list[tuple[int, int]] = []
    for size, stride in zip(reversed(spread.shape), reversed(spread.stride()), strict=True):
        if size == 1:
            continue
        if joined and stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, stride))
    return Layout(tuple(joined))
