"""What a split product may lose, and the classical product in its place where it does: decided on the device.

>>> a, b = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1e9], [1.0], [1e-9]])
>>> lost_digits(a, b), lost_digits(a.flip(1), b)
(False, True)

Two float16 terms keep a number to 2^-40 of the largest of its row (`operands_kernel.py`). So row i of a @ b is wrong by
at most about 2^-40 sqrt(k) max|a_i| max|b|, and is itself about as large as max|a_i| times the largest number of the
row of b that it is multiplied with. Where that is more than `SPREAD` times smaller than the largest number of b, digits
may be lost. How a's rows differ in size beside each other does not matter, nor how b's columns do. Products with
Strassen's levels are not guarded: who asks for levels knows that sums mix large blocks with small ones.

On a GPU the kernels that split note this on the way, and one launch more decides and, where it must, multiplies
(`split_operands.cu`); nothing waits for the host, so that a CUDA Graph holds it.
"""

import ctypes
from functools import partial

import torch
from torch import Tensor

from brrr.gpu.launching import fields
from brrr.gpu.nvrtc import function
from brrr.gpu.precision import float32_products
from brrr.strassen.launcher import Run, launched
from brrr.strassen.split.operands_kernel import SOURCE, THREADS

SPREAD = 4096.0
SIDE = 128


class Guard(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = fields(P="a b out peaks inner", q="a_row a_column b_row b_column out_row", i="m n k keep")


def noted(k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Zeros for the peaks of the left operand and the sizes inside the right one: int32, one for each place along k.

    Behind the peaks is one more, in which blocks are counted. After each run they are zeros again.

    >>> [len(each) for each in noted(5, torch.device("cpu"))]
    [6, 5]
    """
    both = torch.zeros(2 * k + 1, dtype=torch.int32, device=device)
    return both[: k + 1], both[k + 1 :]


def guard_step(a: Tensor, b: Tensor, out: Tensor, peaks: Tensor, inner: Tensor, keep: bool = False) -> Run:
    """A function of no arguments that writes the classical a @ b (m, n) into `out` where digits may have been lost.

    a: (m, k), b: (k, n), float32, any strides; out: its rows contiguous. peaks, inner: as `noted` made them, and as the
    splits of a and b wrote them. keep: what is noted of b stays, since b was split before.
    """
    if not out.is_cuda:
        return partial(_on_host, a, b, out)
    made, device = argument(a, b, out, peaks, inner, keep), out.device.index
    tiles = -(-made.m // SIDE) * -(-made.n // SIDE)
    blocks = max(1, min(tiles, int(torch.cuda.get_device_properties(device).multi_processor_count)))
    kernel = function(SOURCE, "brrr_guard", device)
    return launched(kernel, device, blocks, THREADS, [made], a, b, out, peaks, inner)


def argument(a: Tensor, b: Tensor, out: Tensor, peaks: Tensor, inner: Tensor, keep: bool) -> Guard:
    """The kernel's argument."""
    pointers = [each.data_ptr() for each in (a, b, out, peaks, inner)]
    return Guard(*pointers, *a.stride(), *b.stride(), out.stride(0), *out.shape, a.shape[1], keep)


@float32_products()
def _on_host(a: Tensor, b: Tensor, out: Tensor) -> None:
    if lost_digits(a, b):
        torch.mm(a, b, out=out)


def lost_digits(a: Tensor, b: Tensor) -> bool:
    """Whether a split product of a (m, k) and b (k, n) may lose digits: the kernel's rule, in torch."""
    if not a.numel() or not b.numel():
        return False
    sizes, inner = (torch.where(each.isfinite(), each.abs(), 0.0) for each in (a, b))
    largest, inner = sizes.amax(1, keepdim=True), inner.amax(1)
    peaks = ((sizes == largest) & (largest > 0)).any(0)
    return bool(peaks.any()) and bool(inner.amax() > SPREAD * inner[peaks].amin())
