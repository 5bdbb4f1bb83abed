"""What matmul is given: checked, and a right operand as the ways take it.

>>> w = torch.ones(5, 3)
>>> Right.of(w.t()).transposed, Right.of(torch.ones(3, 5)).transposed  # w.t() is read as it lies
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from brrr.core.errors import ArgumentError, DeviceMemoryError, is_out_of_memory
from brrr.strassen.cost import rounded
from brrr.strassen.implementations import Implementation

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class Right:
    """A right operand: `source` is (k, n), or (n, k) where `transposed`, as the weights of Linear lie.

    `factors` are its sums for `way`, made before; none where they are made in each product. They lie as (n, k) where
    `made_transposed`, whatever the operand does. `core`: the n and k that they were made of, where what is left over
    was split off (`odd_sizes.py`).
    """

    source: torch.Tensor
    transposed: bool = False
    implementation: Implementation | None = None
    factors: tuple[torch.Tensor, ...] = field(default=(), repr=False)
    made_transposed: bool = False
    core: tuple[int, int] | None = None

    @classmethod
    def of(cls, b: torch.Tensor) -> Right:
        """As it lies in memory: the transpose of a row-major matrix is one that is transposed."""
        turned = b.dim() == 2 and b.stride(0) == 1 and b.stride(1) != 1
        return cls(b.t(), True) if turned else cls(b)

    @property
    def k(self) -> int:
        """Its depth."""
        return int(self.source.shape[1 if self.transposed else 0])

    @property
    def n(self) -> int:
        """The columns of the result."""
        return int(self.source.shape[0 if self.transposed else 1])

    @property
    def matrix(self) -> torch.Tensor:
        """It as (k, n)."""
        return self.source.t() if self.transposed else self.source

    def cut(self, n: int, k: int) -> Right:
        """Its first n columns and k rows, with the sums that were made of those.

        >>> Right.of(torch.ones(3, 5)).cut(4, 2).matrix.shape
        torch.Size([2, 4])
        """
        if (n, k) == (self.n, self.k):
            return self
        return replace(self, source=self.source[:n, :k] if self.transposed else self.source[:k, :n], core=None)


def operand_name(x: torch.Tensor) -> str:
    """The type of an operand, by torch's name.

    >>> operand_name(torch.ones(1))
    'float32'
    """
    return str(x.dtype).removeprefix("torch.")


def check_operands(call: str, a: object, b: object) -> None:
    """ArgumentError for what cannot be multiplied: two matrices of one type on one device, as deep as each other."""
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, torch.Tensor):
            raise ArgumentError(call, name, type(x).__name__, "a tensor")
        if x.dim() != 2:
            raise ArgumentError(call, name, f"shape {tuple(x.shape)}", "a matrix: a tensor of two dimensions")
        if x.dtype not in DTYPES:
            raise ArgumentError(call, name, str(x.dtype), "float64, float32, float16 or bfloat16")
    assert isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if (a.dtype, a.device) != (b.dtype, b.device):
        raise ArgumentError(call, "b", f"{b.dtype} on {b.device}", f"{a.dtype} on {a.device}, as a")
    if a.shape[1] != b.shape[0]:
        raise ArgumentError(call, "b", f"shape {tuple(b.shape)}", f"{a.shape[1]} rows, as many as a has columns")


def check_out(call: str, out: object, a: torch.Tensor, n: int, *others: torch.Tensor) -> None:
    """ArgumentError for an `out` that is no (m, n) tensor like a, or that shares its memory with an operand."""
    shape = (a.shape[0], n)
    if not isinstance(out, torch.Tensor):
        raise ArgumentError(call, "out", type(out).__name__, "a tensor")
    if (tuple(out.shape), out.dtype, out.device) != (shape, a.dtype, a.device):
        found, wanted = f"{out.dtype} {tuple(out.shape)} on {out.device}", f"{a.dtype} {shape} on {a.device}"
        raise ArgumentError(call, "out", found, wanted)
    if any(step == 0 and size > 1 for step, size in zip(out.stride(), out.shape, strict=True)):
        raise ArgumentError(call, "out", f"strides {out.stride()}", "a tensor whose elements lie apart")
    if not in_memory(out):
        return
    memory = out.untyped_storage().data_ptr()
    if out.numel() and any(each.untyped_storage().data_ptr() == memory for each in (a, *others) if each.numel()):
        raise ArgumentError(call, "out", "the memory of an operand", "a tensor of its own")


def in_memory(x: torch.Tensor) -> bool:
    """Whether a tensor has numbers of its own to be read by their address; what stands for one while tracing has not.

    >>> in_memory(torch.ones(2)), in_memory(torch.ones(2, device="meta"))
    (True, False)
    """
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or torch.compiler.is_compiling():
        return False
    try:
        return bool(x.data_ptr()) or not x.numel()
    except RuntimeError:  # inside torch.vmap, torch.func.grad and the like
        return False


# ---------------------------------------------------------------------------------------------------------------------
# One piece of memory for all buffers of a product, so that what it takes is what was stated.


def allocated(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str, what: str) -> torch.Tensor:
    """An empty tensor; DeviceMemoryError, which says how many bytes `what` needs, where there are less."""
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except RuntimeError as error:  # torch's own error for a GPU is one of these too
        if not is_out_of_memory(error):
            raise
        nbytes, hint = math.prod(shape) * dtype.itemsize, "Take fewer levels, or level=0"
        found = f"matmul: {what} needs {nbytes} bytes on {device}, and there are less. {hint}"
        raise DeviceMemoryError(found) from error


class Arena:
    """`nbytes` bytes on a device, given out as tensors from the front; `mark` gives back what was taken inside it."""

    def __init__(self, nbytes: int, device: torch.device | str) -> None:
        self.nbytes, self._taken = nbytes, 0
        self.memory = allocated((nbytes,), torch.uint8, device, "a workspace")

    @classmethod
    def over(cls, memory: torch.Tensor) -> Arena:
        """Over memory that is there, in bytes."""
        made = cls.__new__(cls)
        made.nbytes, made._taken, made.memory = memory.numel(), 0, memory
        return made

    @property
    def left_bytes(self) -> int:
        """What can still be taken."""
        return self.nbytes - self._taken

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A contiguous tensor; its numbers are whatever lay there."""
        size = math.prod(shape) * dtype.itemsize
        if size > self.left_bytes:
            raise DeviceMemoryError(f"Arena.take: {size} bytes asked for, {self.left_bytes} of {self.nbytes} left")
        taken = self.memory[self._taken : self._taken + size].view(dtype).view(shape)
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
