"""Whether float32 products may use TF32, switched in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def precision_of(dtype: str) -> Iterator[None]:
    """TF32 for "tf32", and for nothing else; the user's own setting is put back."""
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32" if dtype == "tf32" else "ieee"
    try:
        yield
    finally:
        settings.fp32_precision = before
