"""The passes over memory, each as a function of no arguments: by the kernels on a GPU, by torch elsewhere.

>>> out = torch.empty(7, 1, 8)
>>> pre_add_step(torch.ones(2, 16), "left", Implementation("sgemm", 1, "strassen"), out)()
>>> out[0, 0, 0]
tensor(2.)
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from brrr.strassen.algebra.reference import post_add_into, pre_add_into, signs_of
from brrr.strassen.implementations import Implementation
from brrr.strassen.passes.launch import Run, prepared, run_all
from brrr.strassen.passes.memory_pass import Shape, Work, assembled_work, chosen_form, factors_work


def pre_add_step(x: Tensor, side: str, how: Implementation, out: Tensor, *, transposed: bool = False) -> Run:
    """All products' factors of one operand into `out`, in its type, rounded once."""
    if _by_blocks(x, out):
        signs = signs_of(chosen_form(how.form), "transposed" if transposed else side)
        return partial(pre_add_into, x, signs, how.level, out)
    return prepared(factors_work(x, side, how.form, how.level, transposed, out))


def post_add_step(
    products: Tensor,
    how: Implementation,
    out: Tensor,
    *,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Run:
    """The result from all products into `out`, in its type, rounded once; then bias and ReLU."""
    if bias is None and not relu and _by_blocks(products, out):
        return partial(post_add_into, products, chosen_form(how.form).result, how.level, out)
    shape = (out.shape[0], out.shape[1])
    return prepared(assembled_work(products, how.form, how.level, shape, bias, relu, out))


def layer_step(
    products: Tensor, how: Implementation, shape: Shape, out: Tensor, behind: Implementation, *,
    bias: Tensor | None, relu: bool, keep: Tensor | None = None,
) -> Run:  # fmt: skip
    """Between two layers with levels: post-additions, bias, ReLU, and the next layer's left factors into `out`.

    One pass over memory where both have as many levels, else two by way of the layer's output. keep: (m, n), any
    strides, gets that output too.
    """
    work = assembled_work(products, how.form, how.level, shape, bias, relu, keep)
    return partial(run_all, [prepared(each) for each in passes(work, behind, out)])


def passes(work: Work, behind: Implementation, out: Tensor) -> list[Work]:
    """The passes over memory that a step needs."""
    spread = chosen_form(behind.form)
    if behind.level == work.level:
        return [replace(work, spread=spread, high=out)]
    between, block = work.matrix, (out.shape[1], out.shape[2])
    if between is None:
        wide = torch.float64 if out.dtype == torch.float64 else torch.float32
        between = torch.empty(work.shape, dtype=wide, device=out.device)
    return [
        replace(work, matrix=between),
        Work(behind.level, between, False, work.shape, block, spread=spread, high=out),
    ]


def _by_blocks(x: Tensor, out: Tensor) -> bool:
    """Whether torch sums them block by block: where no kernel does, and there is nothing to round."""
    return x.dtype == out.dtype and (x.dtype == torch.float64 or (x.dtype == torch.float32 and not x.is_cuda))
