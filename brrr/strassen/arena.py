"""One piece of memory for all buffers of a product, so that what it takes is what was stated.

>>> arena = Arena(1024, "cpu")
>>> tuple(arena.take((4, 8), torch.float32).shape), arena.left_bytes
((4, 8), 768)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from brrr.core.errors import DeviceMemoryError
from brrr.strassen.workspace import rounded


class Arena:
    """`nbytes` bytes on a device, given out as tensors from the front; `mark` gives back what was taken inside it."""

    def __init__(self, nbytes: int, device: torch.device | str) -> None:
        self.nbytes, self._taken = nbytes, 0
        try:
            self._memory = torch.empty(nbytes, dtype=torch.uint8, device=device)
        except RuntimeError as error:  # torch's own error for a GPU is one of these too
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise DeviceMemoryError(
                f"matmul: it needs a workspace of {nbytes} bytes on {device}, and there are less. Give workspace_bytes "
                "for an order that takes less, or level=0"
            ) from error

    @classmethod
    def over(cls, memory: torch.Tensor) -> Arena:
        """Over memory that is there, in bytes."""
        made = cls.__new__(cls)
        made.nbytes, made._taken, made._memory = memory.numel(), 0, memory
        return made

    @property
    def memory(self) -> torch.Tensor:
        """All of it, in bytes."""
        return self._memory

    @property
    def left_bytes(self) -> int:
        """What can still be taken."""
        return self.nbytes - self._taken

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A contiguous tensor; its numbers are whatever lay there."""
        size = math.prod(shape) * dtype.itemsize
        if size > self.left_bytes:
            raise DeviceMemoryError(f"Arena.take: {size} bytes asked for, {self.left_bytes} of {self.nbytes} left")
        taken = self._memory[self._taken : self._taken + size].view(dtype).view(shape)
        self._taken += rounded(size)
        return taken

    @contextmanager
    def mark(self) -> Iterator[None]:
        """What is taken inside is free again afterwards."""
        before = self._taken
        try:
            yield
        finally:
            self._taken = before
