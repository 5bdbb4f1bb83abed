"""Which kernels do the work: CUDA C++, Triton, or torch's operators.

>>> import torch
>>> from brrr.strassen.forms import STRASSEN
>>> x, out = torch.ones(2, 16), torch.empty(7, 1, 8)
>>> prepared(Work(1, x, False, (2, 16), (1, 8), spread=STRASSEN, high=out))()
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from brrr.errors import ArgumentError, UnavailableError
from brrr.kernels.strassen_sums_work import DTYPES, Work, run_in_torch

Kernels = Literal["auto", "cuda", "triton", "torch"]
Run = Callable[[], object]


def prepared(work: Work, kernels: Kernels = "auto") -> Run:
    """The work as a function of no arguments, by what `kernels` says."""
    if kernels not in ("auto", "cuda", "triton", "torch"):
        raise ArgumentError("strassen_sums", "kernels", kernels, '"auto", "cuda", "triton" or "torch"')
    tensors = (work.source, work.bias, work.matrix, work.high, work.low)
    narrow = all(each is None or each.dtype in DTYPES for each in tensors)
    if kernels == "torch" or (kernels == "auto" and not (work.source.is_cuda and narrow)):
        return partial(run_in_torch, work)
    if not narrow:
        raise ArgumentError("strassen_sums", "kernels", kernels, '"torch" for types wider than float32')
    return _by_kernels(work, kernels)


def _by_kernels(work: Work, kernels: Kernels) -> Run:
    if kernels == "triton":
        from brrr.kernels import strassen_sums_triton

        return strassen_sums_triton.prepared(work)
    if not work.source.is_cuda:
        raise UnavailableError("strassen_sums: CUDA C++ needs tensors on an NVIDIA GPU; move them there with .cuda()")
    from brrr.kernels import strassen_launch

    try:
        return strassen_launch.prepared(work)
    except (UnavailableError, ImportError):
        if kernels == "cuda":
            raise
    return _by_kernels(work, "triton")


def in_turn(*runs: Run) -> Run:
    """One function that calls all of them."""
    return partial(_each, runs)


def _each(runs: tuple[Run, ...]) -> None:
    for run in runs:
        run()
