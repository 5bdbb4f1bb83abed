"""How much memory a piece of work takes at its peak, before it runs, what for, and what lies beside it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.counting.cost import Cost, Life
from brrr.roofline.allocator import Allocator, Block
from brrr.roofline.device_model import DeviceModel

PARTS = ("parameters", "gradients", "optimiser", "activations", "temporaries", "workspace", "cache", "inputs", "other")
"""What memory is for; the optimiser's is its state, the cache's are keys and values, the workspace is cuBLAS's."""
CONTEXT_BYTES = 600 * 10**6
"""Assumed of CUDA's context with torch's kernels in it, which lies beside what torch's allocator takes."""
WORKSPACE_BYTES, OF_HOPPER = (4096 * 2 + 16 * 8) * 1024, 4096 * 8 * 1024
"""What torch gives cuBLAS in each thread that multiplies; on compute capability 9.0 and 10.0."""


@dataclass(frozen=True, repr=False)
class Memory(Carded):
    """The memory that a piece of work takes at its peak, and what for.

    >>> import torch, brrr
    >>> layer, x = torch.nn.Linear(1024, 1024, bias=False), brrr.array((2048, 1024))
    >>> found = brrr.predict(layer, x, device="datasheet:a100").memory
    >>> found.parts["parameters"], found.parts["inputs"]
    (4194304, 8388608)

    `Prediction.memory` is one. It prints as one sentence.

    Attributes
    ----------
    device : str
        The device that it is for.
    peak_bytes : int
        The most that is allocated at once, as `torch.cuda.max_memory_allocated` says after some calls.
    parts : dict of str to int
        The bytes of it by what they are for at that moment: "parameters", "gradients", "optimiser" (its state),
        "activations" (kept for the backward pass, or handed on in inference), "temporaries", "workspace" (cuBLAS's),
        "cache" (keys and values, or what else is kept for the next call), "inputs", "other".
    reserved_bytes : int
        What torch's allocator holds for it, as `torch.cuda.max_memory_reserved` says: also what it rounds up and keeps.
    context_bytes : int
        What CUDA holds beside the allocator, assumed; 0 on a CPU.
    device_bytes : int or None
        What the device has, where its datasheet says so.
    fits : bool
        Whether the allocator finds room for all of it, beside the context.
    timeline : tuple of int
        The allocated bytes while each operator of one call ran.
    """

    device: str
    peak_bytes: int
    parts: dict[str, int]
    reserved_bytes: int
    context_bytes: int = 0
    device_bytes: int | None = None
    fits: bool = True
    timeline: tuple[int, ...] = field(default=(), repr=False)

    @property
    def needed_bytes(self) -> int:
        """All that it takes of the device: what is reserved, and the context."""
        return self.reserved_bytes + self.context_bytes

    def _card(self) -> Card:
        shares = {name: nbytes / self.peak_bytes for name, nbytes in self.parts.items()}
        rows = [("bytes", "what for"), *((units.nbytes(each), name) for name, each in self.parts.items())]
        reserved, context = units.nbytes(self.reserved_bytes), units.nbytes(self.context_bytes)
        beside = f"{reserved} reserved by the allocator, {context} of context beside it." * bool(self.context_bytes)
        full = "" if self.fits else f"It does not fit into the device's {units.nbytes(self.device_bytes or 0)}."
        title, badge = f"{units.nbytes(self.peak_bytes)} at its peak.", f"PREDICTED · {self.device}"
        return Card(title, [beside, full], shares, badge, [rows], max(shares, key=lambda name: shares[name]))

    def __repr__(self) -> str:
        most, share = max(self.parts.items(), key=lambda part: part[1])
        said = f"{units.nbytes(self.peak_bytes)} at its peak, {units.percent(share / self.peak_bytes)} {most}"
        beside = f"; {units.nbytes(self.needed_bytes)} with what the allocator and the context keep"
        said += beside * bool(self.context_bytes) + ", which does not fit" * (not self.fits)
        return units.sayable(f"PREDICTED: {said} ({self.device})")


def memory_of(work: Cost, model: DeviceModel, limit_bytes: float | None = None) -> Memory | None:
    """The memory of a counted piece of work on a device; None of a bare cost, of which nobody knows its storages.

    limit_bytes: what the allocator may take; by default what the device has beside the context.
    """
    if not work.operators:
        return None
    lives = [*(work.lives or [Life(int(work.working_set_bytes), -1, 1, "other")]), *_workspaces(work, model)]
    context = CONTEXT_BYTES if model.is_gpu else 0
    device_bytes = model.hardware.memory_bytes if model.hardware and model.is_gpu else None
    if limit_bytes is None:
        limit_bytes = device_bytes - context if device_bytes else math.inf
    allocated, reserved = _allocated(lives) if model.is_gpu else (_alive(lives), 0)
    peak, parts = max(allocated), Counter[str]()
    place = allocated.index(peak)
    for each in lives:
        if each.born < place <= each.died:
            parts[each.part] += each.nbytes
    parts["other"] += peak - parts.total()  # what is rounded up
    return Memory(model.device, peak, {name: parts[name] for name in PARTS if parts[name]}, reserved or peak, context,
                  device_bytes, _fits(lives, reserved, limit_bytes), tuple(allocated[1:]))  # fmt: skip


def _workspaces(work: Cost, model: DeviceModel) -> list[Life]:
    """Torch gives cuBLAS memory once in a thread; autograd runs the backward pass in another."""
    if not model.is_gpu or model.hardware is None:
        return []
    nbytes = OF_HOPPER if model.hardware.compute_capability in ((9, 0), (10, 0)) else WORKSPACE_BYTES
    threads = {each.backward for each in work.operators if each.kind == "matmul"}
    return [Life(nbytes, -1, len(work.operators), "workspace")] * len(threads)


def _alive(lives: Sequence[Life]) -> list[int]:
    """The bytes alive before all operators, and while each ran."""
    change = Counter[int]()
    for each in lives:
        change[each.born + 1] += each.nbytes
        change[each.died + 1] -= each.nbytes
    found = [0]
    for place in range(max(change)):
        found.append(found[-1] + change[place])
    return found[1:]


def _allocated(lives: Sequence[Life], limit_bytes: float = math.inf) -> tuple[list[int], int]:
    """The same as torch's allocator has them, and the most that it reserves."""
    born, died = defaultdict[int, list[Life]](list), defaultdict[int, list[Block]](list)
    for each in lives:
        born[each.born + 1].append(each)
    pool, found, most = Allocator(limit_bytes), list[int](), 0
    for place in range(max(each.died for each in lives) + 1):
        for block in died.pop(place, ()):
            pool.give_back(block)
        for each in born[place]:
            died[each.died + 1].append(pool.allocate(each.nbytes))
        found.append(pool.allocated_bytes)
        most = max(most, pool.reserved_bytes)
    return found, most


def _fits(lives: Sequence[Life], reserved: int, limit_bytes: float) -> bool:
    """Whether the allocator gets along with less than it would reserve."""
    if reserved > limit_bytes:
        try:
            _allocated(lives, limit_bytes)
        except MemoryError:
            return False
    return True
