"""Into how many pieces an array is cut that passes a pipeline."""

from __future__ import annotations

import math
from typing import Any

from brrr.errors import ArgumentError

CHUNK_BYTES = 16 * 2**20
"""Large against what a chunk's launches cost, small against the whole: on an H200, 40 kernels a chunk, the host could
not keep up with chunks of 8 MB and less (2.1x over serial), and 64 MB filled the pipeline too slowly (2.3x)."""

FEWEST_CHUNKS = 4
SMALLEST_CHUNK_BYTES = 2**20
ALIGNED = 1024
"""Chunks of many elements begin at multiples of so many, so that copies and kernels start at round addresses."""


def chunk_elements(elements: int, chunks: int | None, itemsize: int) -> int:
    """How many elements a chunk has; the last one may have fewer.

    >>> chunk_elements(10, 4, 4), chunk_elements(2**26, None, 4)
    (3, 4194304)
    """
    if chunks is not None and whole("chunks", chunks) > elements:
        raise ArgumentError("Pipeline", "chunks", chunks, f"at most one for each of the {elements} elements")
    count = chunks or default_chunks(elements * itemsize)
    size = math.ceil(elements / count)
    return min(elements, math.ceil(size / ALIGNED) * ALIGNED) if size > 4 * ALIGNED else size


def default_chunks(nbytes: int) -> int:
    """How many chunks an array of so many bytes is cut into where nobody says.

    >>> default_chunks(2**30), default_chunks(2**24), default_chunks(2**20)
    (64, 4, 1)
    """
    by_size = math.ceil(nbytes / CHUNK_BYTES)
    return max(by_size, min(FEWEST_CHUNKS, nbytes // SMALLEST_CHUNK_BYTES), 1)


def whole(name: str, value: Any, call: str = "Pipeline") -> int:
    """A count that an argument gives; ArgumentError unless it is a whole number of at least 1.

    >>> whole("buffers", 3)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(call, name, value, "a whole number, at least 1")
    return value
