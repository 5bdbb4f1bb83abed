"""What a split makes, and what may be split and multiplied: see `brrr.strassen.split.splitting`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.strassen.split import operands
from brrr.strassen.split.operands import Source

SCALES, WAYS = ("row", "matrix", "none"), ("auto", "cuda", "torch")


@dataclass(frozen=True)
class Terms:
    """A matrix, or a batch of them, as two terms along k: hi and lo (batch, rows, width), exponents (batch, rows).

    `k` of each row's `width` numbers count, the rest are zeros up to a multiple of eight. `flat`: not a batch.
    """

    hi: torch.Tensor
    lo: torch.Tensor
    exponents: torch.Tensor
    k: int
    flat: bool

    def value(self) -> torch.Tensor:
        """What the terms stand for, in float64.

        >>> from brrr.strassen.split.splitting import split
        >>> x = torch.randn(3, 5)
        >>> bool(((split(x).value() - x).abs() <= 2**-23 * x.abs()).all())
        True
        """
        together = torch.ldexp(self.hi.double() + self.lo.double(), self.exponents.double().unsqueeze(-1))
        together = together[..., : self.k]
        return together[0] if self.flat else together


def scaled(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """x 2^e in two steps, since 2^e alone may be out of float32's range.

    >>> scaled(torch.tensor([2.0**-149]), torch.tensor([140])).log2().item()
    -9.0
    """
    e = e.clamp(-252, 252)
    half = e >> 1
    first, second = (((each + 127) << 23).to(torch.int32).view(torch.float32) for each in (half, e - half))
    return x * first * second


def check_split(x: torch.Tensor, terms: int, scale: str, how: str) -> None:
    """ArgumentError for what cannot be split."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or x.ndim not in (2, 3):
        given = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise ArgumentError("split", "x", given, "a float32 matrix, or a batch (batch, rows, k) of them")
    if terms != 2:
        raise ArgumentError("split", "terms", terms, "2")
    for name, value, allowed in (("scale", scale, SCALES), ("how", how, WAYS)):
        if value not in allowed:
            raise ArgumentError("split", name, value, f"one of {', '.join(allowed)}")


def check_out(made: Terms, x: torch.Tensor, flat: bool) -> None:
    """ArgumentError for terms of another shape than x (batch, rows, k) needs."""
    batch, rows, k = x.shape
    shape = (batch, rows, -(-k // 8) * 8)
    same = (made.hi.shape, made.lo.shape, made.exponents.shape, made.k, made.flat) == (shape, shape, shape[:2], k, flat)
    whole = all(each.is_contiguous() and each.device == x.device for each in (made.hi, made.lo, made.exponents))
    if not same or not whole:
        given = f"terms {tuple(made.hi.shape)} of k = {made.k} on {made.hi.device}"
        raise ArgumentError("split", "out", given, f"terms {shape} of k = {k} on {x.device}, contiguous")


def check_terms(left: Terms, right: Terms) -> None:
    """ArgumentError for two sides that cannot be multiplied."""
    for name, each in (("left", left), ("right", right)):
        if not isinstance(each, Terms):
            raise ArgumentError("split_product", name, type(each).__name__, "Terms, as `split` makes them")
    (batch, _, width), k = left.hi.shape, left.k
    if (right.hi.shape[0], right.hi.shape[2], right.k, right.flat) != (batch, width, k, left.flat):
        given = f"{right.hi.shape[0]} matrices of k = {right.k}"
        raise ArgumentError("split_product", "right", given, f"{batch} matrices of k = {k}, as left")
    if left.hi.device != right.hi.device:
        raise ArgumentError("split_product", "right", str(right.hi.device), f"terms on {left.hi.device}, as left")


def check_result(left: Terms, right: Terms, out: torch.Tensor, chunk: int | None, how: str) -> torch.Tensor:
    """out as a batch; ArgumentError where it does not fit."""
    shape: tuple[int, ...] = (left.hi.shape[0], left.hi.shape[1], right.hi.shape[1])
    expected = shape[1:] if left.flat else shape
    fits = isinstance(out, torch.Tensor) and out.dtype == torch.float32 and out.device == left.hi.device
    if not fits or tuple(out.shape) != expected or (out.numel() and out.stride(-1) != 1):
        given = (
            f"{out.dtype} {tuple(out.shape)}, strides {out.stride()}" if isinstance(out, torch.Tensor) else repr(out)
        )
        raise ArgumentError("split_product", "out", given, f"float32 {expected}, its rows contiguous, where left is")
    if how not in WAYS:
        raise ArgumentError("split_product", "how", how, f"one of {', '.join(WAYS)}")
    if chunk is not None and chunk < 1:
        raise ArgumentError("split_product", "chunk", chunk, "1 or more")
    if how == "cuda" and not out.is_cuda:
        raise UnavailableError(
            "split_product: the terms are on the CPU, and how='cuda' needs a GPU; how='torch' runs here"
        )
    return out.unsqueeze(0) if left.flat else out


# ---------------------------------------------------------------------------------------------------------------------
# Splitting one or two operands, ready to run: by CUDA C++ in one launch, or by torch.


@dataclass(frozen=True)
class Part:
    """One operand: x and, if `transposed`, its terms along columns; where they go; its scale: all as for `split`.

    peaks, inner: what the guard wants noted of a left and of a right operand, int32 (k,), zeros (`guard.py`).
    """

    x: torch.Tensor
    out: Terms
    transposed: bool = False
    scale: str = "row"
    peaks: torch.Tensor | None = None
    inner: torch.Tensor | None = None

    @property
    def along(self) -> torch.Tensor:
        """x as (batch, rows, k), k the direction of the terms."""
        matrices = self.x.unsqueeze(0) if self.x.ndim == 2 else self.x
        return matrices.transpose(1, 2) if self.transposed else matrices


def empty_terms(rows: int, k: int, batch: int | None = None, device: str | torch.device = "cpu") -> Terms:
    """Room for the terms of a matrix, or of a batch of them.

    >>> empty_terms(3, 5).hi.shape, empty_terms(3, 5, batch=2).flat
    (torch.Size([1, 3, 8]), False)
    """
    count = 1 if batch is None else batch
    both = torch.empty((2, count, rows, -(-k // 8) * 8), dtype=torch.float16, device=device)
    exponents = torch.empty((count, rows), dtype=torch.int32, device=device)
    return Terms(both[0], both[1], exponents, k, batch is None)


def prepared_splits(*parts: Part, how: str = "auto") -> Callable[[], None]:
    """A function of no arguments that splits one or two operands, on torch's current stream.

    how: "cuda" (compute capability 8.0 on, both in one launch), "torch"; "auto" takes the first that runs.
    It reads and writes the tensors given; a run must not overlap with another of the same. ArgumentError for others.
    """
    for part in parts:
        check_split(part.x, 2, part.scale, how)
        check_out(part.out, part.along, part.x.ndim == 2)
    steps: list[Callable[[], None]] = [partial(_give_exponents, part) for part in parts if part.scale != "row"]
    filled = [part for part in parts if part.out.hi.numel()]
    if filled:
        steps += _filling(filled, how)
    return steps[0] if len(steps) == 1 else partial(_all, tuple(steps))


def _filling(parts: list[Part], how: str) -> list[Callable[[], None]]:
    if how == "torch" or (how == "auto" and not parts[0].x.is_cuda):
        return [partial(_split_torch, part) for part in parts]
    sources = _sources(parts)
    if sources and operands.fits(sources):
        return [operands.prepared(sources)]
    if how == "cuda":
        raise UnavailableError("split: how='cuda' needs a GPU of compute capability 8.0 and operands without gaps")
    return [partial(_split_torch, part) for part in parts]


def _sources(parts: list[Part]) -> list[Source]:
    """The operands for CUDA C++; none where it cannot read one of them."""
    return [_source(part) for part in parts] if all(_lies_along(part) is not None for part in parts) else []


def _source(part: Part) -> Source:
    out = part.out
    turned, given = _lies_along(part) == 1, part.scale != "row"
    return Source(part.along, out.hi, out.lo, out.exponents, turned, given, part.peaks, part.inner)


def _lies_along(part: Part) -> int | None:
    """The axis of (batch, rows, k) along which x is contiguous; None: neither."""
    x = part.along
    return next((axis for axis in (2, 1) if x.stride(axis) == 1 or x.shape[axis] == 1), None)


def _split_torch(part: Part) -> None:
    x, made = part.along, part.out
    if part.scale == "row":
        made.exponents.copy_(_exponents(_largest(x, (2,))))
    numbers = scaled(x, -made.exponents.unsqueeze(-1))
    hi = numbers.half()
    lo = torch.where(hi.isfinite(), numbers - hi.float(), 0.0).half()
    for term, values in ((made.hi, hi), (made.lo, lo)):
        term[..., : made.k] = values
        term[..., made.k :] = 0


def _give_exponents(part: Part) -> None:
    if part.scale == "none":
        part.out.exponents.zero_()
    else:
        part.out.exponents.copy_(_exponents(_largest(part.along, (1, 2))).unsqueeze(1))


def _largest(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The largest finite |x| along axes; 0 where there is none."""
    sizes = torch.where(x.isfinite(), x.abs(), 0.0)
    return sizes.amax(axes) if x.numel() else x.new_zeros([size for i, size in enumerate(x.shape) if i not in axes])


def _exponents(largest: torch.Tensor) -> torch.Tensor:
    """e with largest 2^-e from 2^14 to 2^15, by float32's bits; a subnormal one counts as 2^-127."""
    return (largest.contiguous().view(torch.int32) >> 23) - 141


def _all(steps: tuple[Callable[[], None], ...]) -> None:
    for step in steps:
        step()
