"""Triton for an exercise, `from brrr_course.lessons.triton_here import tl, triton`: it loads wherever the course does.

Without a GPU, kernels run in Triton's interpreter, which must be asked for before Triton is loaded. Where Triton has no
build at all, a stand-in takes its place that lets the lesson run and says what is missing when a kernel is called.
"""

import os
from typing import Any

import torch

from brrr.core.errors import UnavailableError

WHY = "Triton is not installed here, and has no build for some systems; the rest of the lesson runs without it"


triton: Any
"""Triton, for the kernels of exercises: its interpreter if there is no GPU, a stand-in if it is not installed."""
tl: Any
"""Triton's language, `triton.language`, or the same stand-in."""


class NoKernel:
    """What the stand-in makes of a kernel: launching it says why it cannot run."""

    def __getitem__(self, grid: Any) -> Any:
        """The launch."""
        raise UnavailableError(f"triton kernel: {WHY}")


class NoTriton:
    """Enough of Triton that a kernel can be written down."""

    constexpr = None

    @staticmethod
    def jit(function: Any) -> NoKernel:
        """The decorator of a kernel."""
        return NoKernel()

    def __getattr__(self, name: str) -> Any:
        raise UnavailableError(f"triton.{name}: {WHY}")


def load() -> tuple[Any, Any]:
    """Triton and its language, or the stand-in for both.

    >>> triton, tl = load()  # doctest: +SKIP
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    try:
        import triton
        import triton.language
    except ImportError:
        return NoTriton(), NoTriton()
    return triton, triton.language


def __getattr__(name: str) -> Any:
    """`triton` and `tl`, loaded when they are imported: the interpreter is asked for by nobody else."""
    if name not in ("triton", "tl"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load()[("triton", "tl").index(name)]
