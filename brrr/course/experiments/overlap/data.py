"""What the variants of a point of `overlap` share: input, result and reference; and how a result is checked.

Each result array is spoilt before its variant's check, so that nobody passes by what another one left there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch

from brrr.running.pipeline import host_array

TOLERANCE = 1e-5
"""float32 sines stay near 1e-7; one sine too few or too many would be off by 1e-3 and more."""

CHECK_ELEMENTS = 2**24


class Shared:
    """Input, result and reference of one point; freed when the point's last workload is."""

    def __init__(self, elements: int, sines: int, place: str) -> None:
        self.elements, self.sines, self.place = elements, sines, place
        pinned = place == "cuda"
        self.x, self.out = host_array(elements, pinned=pinned), host_array(elements, pinned=pinned)
        self.x.copy_(torch.randn(elements, device=place))
        self._reference: torch.Tensor | None = None
        self._pageable: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def pageable(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The input and a result array in pageable memory, made when first asked for."""
        if self._pageable is None:
            self._pageable = host_array(self.elements, pinned=False).copy_(self.x), torch.empty_like(self.x)
        return self._pageable

    def spoilt(self, array: torch.Tensor) -> torch.Tensor:
        """The array, filled with NaN."""
        return array.copy_(torch.full((), float("nan"), device=self.place).expand(len(array)).contiguous())

    @property
    def reference(self) -> torch.Tensor:
        """The sines of the input in float64, on the GPU where there is one."""
        if self._reference is None:
            self._reference = self.x.to(self.place).double()
            sine_in_place(self._reference, self.sines)
        return self._reference

    def error(self, found: torch.Tensor) -> float:
        """The relative error of a result, a piece at a time, so that its float64 copy stays small."""
        pieces = zip(found.split(CHECK_ELEMENTS), self.reference.split(CHECK_ELEMENTS), strict=True)
        off = sum(float(torch.sum((piece.to(self.place).double() - true) ** 2)) for piece, true in pieces)
        return float((off / float(torch.sum(self.reference**2))) ** 0.5)


_alive: WeakValueDictionary[tuple[int, int, str], Shared] = WeakValueDictionary()


def shared(elements: int, sines: int, place: str) -> Shared:
    """The data of a point, the same for all its variants as long as one of them holds it."""
    found = _alive.get((elements, sines, place))
    if found is None:
        gc.collect()  # the last point's workloads are in cycles, and hold gigabytes of pinned memory
        found = _alive[elements, sines, place] = Shared(elements, sines, place)
    return found


def sine_in_place(values: torch.Tensor, count: int) -> None:
    """`count` sines, one after another, each a pass over the memory."""
    for _ in range(count):
        values.sin_()


def copied(data: Shared, *found: torch.Tensor) -> Callable[[Any], float]:
    """The relative error of copies, which is zero or wrong."""

    def error(_: Any) -> float:
        wrong = [float("inf") for copy in found if not torch.equal(copy.cpu(), data.x)]
        return max(wrong, default=0.0)

    return error
