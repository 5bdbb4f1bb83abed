"""float32 matrices as two float16 terms, and their product by the tensor cores, as exact as float32's own.

>>> a, b, out = torch.randn(64, 100), torch.randn(48, 100), torch.empty(64, 48)
>>> left, right = empty_terms(64, 100), empty_terms(48, 100)
>>> prepared_splits(SplitSource(a, left), SplitSource(b, right))()
>>> prepared_product(left, right, out)()
>>> bool((out - a @ b.T).norm() < 1e-6 * out.norm())
True

x = (hi + lo) 2^e. hi is x 2^-e rounded to float16, 11 bits; lo is what is left, rounded to 11 more. Of the four
products of terms the smallest, lo lo, is left out, and three are summed, on the tensor cores with a total outside (see
`split_product.cu` for why).

Range. Each row (along k) has an e of its own, so that its largest number lies from 2^14 to 2^15:

- no finite float32 overflows, and rows of very different size are all exact;
- a number is exact to 2^-23 of itself down to 2^-16 of its row's largest, and below that to 2^-39 of the largest: in a
  row whose numbers differ by more, the small ones lose digits, as they do in a sum with the large ones;
- infinity and NaN are kept in hi, with a lo of 0: their whole row (or column) of the product is infinite or NaN, and
  may be NaN where float32's product is infinite, since infinity meets terms of zero or of another sign. Other rows are
  as they should be;
- subnormal numbers are scaled as others are. A product out of float32's range is infinite, or rounded to a subnormal.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from brrr.gpu import is_gpu
from brrr.kernels.alone import CudaFile, Example, alone
from brrr.strassen.launcher import Run
from brrr.strassen.split import operands_kernel, product_kernel
from brrr.strassen.split.operands_kernel import SplitSource as SplitSource
from brrr.strassen.split.operands_kernel import Terms as Terms


def empty_terms(rows: int, k: int, device: str | torch.device = "cpu") -> Terms:
    """Room for the terms of a matrix.

    >>> empty_terms(3, 5).hi.shape
    torch.Size([1, 3, 8])
    """
    hi, lo = torch.empty((2, 1, rows, -(-k // 8) * 8), dtype=torch.float16, device=device)
    return Terms(hi, lo, torch.empty((1, rows), dtype=torch.int32, device=device))


def prepared_splits(*sources: SplitSource) -> Run:
    """A function of no arguments that splits one or two operands, on torch's current stream.

    By CUDA C++ (compute capability 8.0 on, both in one launch), else by torch. It reads and writes the tensors given; a
    run must not overlap with another of the same.
    """
    filled = [each for each in sources if each.out.hi.numel()]
    if filled and operands_kernel.fits(filled[0].x) and all(each.lies for each in filled):
        return operands_kernel.prepared(filled)
    return partial(split_in_torch, filled)


def split_in_torch(sources: Sequence[SplitSource]) -> None:
    """The same by torch's operators: what the kernel is compared with."""
    for source in sources:
        x, made = source.x, source.out
        largest = torch.where(x.isfinite(), x.abs(), 0.0).amax(1) if x.numel() else x.new_zeros(x.shape[0])
        # e with largest 2^-e from 2^14 to 2^15, by float32's bits; a subnormal one counts as 2^-127
        made.exponents.copy_((largest.contiguous().view(torch.int32) >> 23) - 141)
        numbers = scaled(x, -made.exponents[0].unsqueeze(-1))
        hi = numbers.half()
        lo = torch.where(hi.isfinite(), numbers - hi.float(), 0.0).half()
        for term, values in ((made.hi, hi), (made.lo, lo)):
            term[..., : x.shape[1]] = values
            term[..., x.shape[1] :] = 0


def scaled(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """x 2^e in two steps, since 2^e alone may be out of float32's range.

    >>> scaled(torch.tensor([2.0**-149]), torch.tensor([140])).log2().item()
    -9.0
    """
    e = e.clamp(-252, 252)
    half = e >> 1
    first, second = (((each + 127) << 23).to(torch.int32).view(torch.float32) for each in (half, e - half))
    return x * first * second


def prepared_product(left: Terms, right: Terms, out: torch.Tensor) -> Run:
    """left @ right^T into `out`, float32 (m, n) or (count, m, n), rows contiguous: a function of no arguments."""
    result = out.unsqueeze(0) if out.dim() == 2 else out
    if not result.numel() or not left.hi.numel():
        return result.zero_
    if has_kernel(result.device):
        return product_kernel.prepared(left, right, result)
    return partial(multiply_in_torch, left, right, result)


def has_kernel(device: torch.device) -> bool:
    """Whether terms are multiplied by CUDA C++ there: compute capability 9.0.

    >>> has_kernel(torch.device("cpu"))
    False
    """
    return is_gpu(device) and torch.cuda.get_device_capability(device) == (9, 0)


def multiply_in_torch(left: Terms, right: Terms, out: torch.Tensor) -> None:
    """Three float32 products of the terms, which are exact in float32."""
    a_hi, a_lo, b_hi, b_lo = (each.float() for each in (left.hi, left.lo, right.hi, right.lo))
    total = a_hi @ b_lo.transpose(1, 2) + a_lo @ b_hi.transpose(1, 2) + a_hi @ b_hi.transpose(1, 2)
    out.copy_(scaled(total, left.exponents.unsqueeze(2) + right.exponents.unsqueeze(1)))


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.strassen.split.splitting`.


def examples(device: str) -> Iterator[Example]:
    """Splitting both matrices of 8192 x 8192, and multiplying their terms."""
    n = 8192
    (a, b, out), (left, right) = torch.randn(3, n, n, device=device), (empty_terms(n, n, device) for _ in range(2))
    split, product = prepared_splits(SplitSource(a, left), SplitSource(b, right)), prepared_product(left, right, out)
    exact = a.double() @ b.double().T

    def both() -> Any:
        split()
        product()
        return out

    yield Example("two terms of both matrices", 0.0, 4.0 * a.nbytes, split, exact, 1e-6, checked=both)
    if has_kernel(out.device):
        yield Example("product of terms", 3 * 2.0 * n**3, 3.0 * out.nbytes, product, exact, 1e-6, "fp16", both)


if __name__ == "__main__":
    product = CudaFile(product_kernel.SOURCE, product_kernel.Tiling().defines(), architectures=("sm_90a",))
    alone(examples, CudaFile(operands_kernel.SOURCE, architectures=("sm_80", "sm_90")), product)
