"""What a split makes, and what may be split and multiplied: see `brrr.strassen.splitting`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from brrr.errors import ArgumentError, UnavailableError

SCALES, WAYS = ("row", "matrix", "none"), ("auto", "cuda", "triton", "torch")


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

        >>> from brrr.strassen.splitting import split
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
        raise ArgumentError("split", "terms", terms, "2", "Three are brrr.kernels.split_rivals' bf16x6")
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


def check_triton(x: torch.Tensor) -> None:
    """UnavailableError where no Triton kernel runs on a tensor."""
    from triton import knobs

    if not x.is_cuda and not knobs.runtime.interpret:
        raise UnavailableError(
            "split: the tensors are on the CPU, and a Triton kernel needs an NVIDIA GPU. how='torch' runs here, or set "
            "TRITON_INTERPRET=1 before Triton is loaded to run the kernel in its interpreter"
        )
