"""The exponents that split operands share: the sums of a level in two float16 terms, each row of a block with one."""

from functools import partial

import torch

from brrr.strassen.algebra.forms import BilinearForm
from brrr.strassen.algebra.reference import signs_of
from brrr.strassen.passes.launch import Run, prepared, run_all
from brrr.strassen.passes.sums import chosen_form, factors_work
from brrr.strassen.split import operands_kernel as kernel
from brrr.strassen.split.operands_kernel import Terms


def prepared_split_pre_add(
    x: torch.Tensor, side: str, form: str | None, level: int, *, transposed: bool = False, out: Terms
) -> Run:
    """The factors in two float16 terms, as a function of no arguments: it finds the exponents anew each time.

    Each row of a block has one exponent, by the largest number in the rows that it sums: see `split_exponents`. Rows of
    terms lie along k: a right operand is (n, k), as Linear's weights lie, and `transposed`.
    """
    exponents, known = out.exponents[0], chosen_form(form)
    work = factors_work(x, side, form, out.hi, level=level, transposed=transposed, low=out.lo, exponents=exponents)
    find: Run = partial(split_exponents, x, work.side, known, level, exponents)
    if x.numel() and exponents.is_contiguous() and kernel.exponents_fit(x):  # in one launch
        find = kernel.prepared_exponents(x, exponents, 1 << level, _gain(known, work.side, level))
    return partial(run_all, (find, prepared(work)))


def split_exponents(x: torch.Tensor, side: str, form: BilinearForm, level: int, out: torch.Tensor) -> torch.Tensor:
    """Into `out`, int32 (rows of a block,): the exponents that bring all sums below 2^15, within float16's range.

    >>> from brrr.strassen.algebra.forms import STRASSEN
    >>> split_exponents(torch.full((2, 16), 3.0), "left", STRASSEN, 1, torch.empty(1, dtype=torch.int32))
    tensor([-12], dtype=torch.int32)

    The largest finite number in the rows that are summed is below 2^e; a sum of a level adds at most 2 blocks
    (Strassen) or 4 (Winograd), so it gains 1 or 2 binary places. What is 2^18 times smaller than the largest loses
    digits of its low term: an error of 2^-40 of the largest. side: "left", "right" or "transposed".
    """
    sizes = torch.where(x.isfinite(), x, 0.0).abs().float()
    largest = sizes.amax(1) if x.numel() else sizes.new_zeros(x.shape[0])
    places = (largest.contiguous().view(torch.int32) >> 23) - 126  # zeros and subnormal numbers: -126
    whole = torch.full((len(out) << level,), -126, dtype=torch.int32, device=x.device)
    whole[: len(places)] = places
    most = whole.view(1 << level, len(out)).amax(0)
    return out.copy_((most + _gain(form, side, level) - 15).clamp(-110, 126))


def _gain(form: BilinearForm, side: str, level: int) -> int:
    """Binary places that a sum of blocks may have more than its blocks."""
    terms = int(abs(signs_of(form, side)).sum(1).max())
    return (terms - 1).bit_length() * level
