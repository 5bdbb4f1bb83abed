"""How much memory a piece of work takes at its peak, before it runs, what for, and what lies beside it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.counting.cost import Cost, Life
from brrr.roofline.allocator import Allocator
from brrr.roofline.device_model import DeviceModel

PARTS = ("parameters", "gradients", "optimiser", "activations", "temporaries", "workspace", "cache", "inputs", "other")
"""What memory is for; the optimiser's is its state, the cache's are keys and values, the workspace is cuBLAS's."""
CONTEXT_BYTES = 800 * 10**6
"""CUDA's context with torch's kernels in it, beside torch's allocator: on an H200 `mem_get_info` told 726 to 808 MB."""
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

    `Prediction.memory` is one.

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
        What CUDA holds beside the allocator, as on an H200; 0 on a CPU.
    device_bytes : int or None
        What the device has, where its datasheet says so.
    fits : bool
        Whether the allocator finds room for all of it, beside the context.
    """

    device: str
    peak_bytes: int
    parts: dict[str, int]
    reserved_bytes: int
    context_bytes: int = 0
    device_bytes: int | None = None
    fits: bool = True

    def _card(self) -> Card:
        shares = {name: nbytes / self.peak_bytes for name, nbytes in self.parts.items()}
        rows = [("bytes", "what for"), *((units.nbytes(each), name) for name, each in self.parts.items())]
        reserved, context = units.nbytes(self.reserved_bytes), units.nbytes(self.context_bytes)
        beside = f"{reserved} reserved by the allocator, {context} of context beside it." * bool(self.context_bytes)
        full = "" if self.fits else f"It does not fit into the device's {units.nbytes(self.device_bytes or 0)}."
        title, badge = f"{units.nbytes(self.peak_bytes)} at its peak.", f"PREDICTED · {self.device}"
        return Card(title, [beside, full], shares, badge, [rows], max(shares, key=lambda name: shares[name]))


def memory_of(work: Cost, model: DeviceModel, limit_bytes: float | None = None) -> Memory | None:
    """The memory of a counted piece of work on a device; None of a bare cost, of which nobody knows its storages.

    limit_bytes: what the allocator may take; by default what the device has beside the context.
    """
    if not work.operators:
        return None
    known, context_bytes = model.hardware, CONTEXT_BYTES * model.is_gpu
    there = known.memory_bytes if known and model.is_gpu else None
    lives = [*(work.lives or [Life(int(work.working_set_bytes), -1, 1, "other")])]
    if model.is_gpu:  # torch gives cuBLAS memory once in each thread, and autograd's is another
        nbytes = OF_HOPPER if known and known.compute_capability in ((9, 0), (10, 0)) else WORKSPACE_BYTES
        threads = {each.backward for each in work.operators if each.kind == "matmul"}
        lives += [Life(nbytes, -1, len(work.operators), "workspace")] * len(threads)
    most = limit_bytes or (there - context_bytes if there else math.inf)
    pool, parts, blocks = Allocator(most), Counter[str](), dict[int, tuple[int, int, bool]]()
    peak = held = when = 0
    ends = [(life.born, 1, at) for at, life in enumerate(lives)] + [(life.died, 0, at) for at, life in enumerate(lives)]
    for now, comes, at in sorted(ends):  # what dies makes room first
        if comes:
            nbytes = lives[at].nbytes
            blocks[at] = pool.allocate(nbytes) if model.is_gpu else (0, nbytes, False)
            held += blocks[at][1]
            peak, when = (held, now) if held > peak else (peak, when)
        else:
            held -= blocks[at][1]
            if model.is_gpu:
                pool.give_back(*blocks[at])
    for life in lives:
        parts[life.part] += life.nbytes * (life.born <= when < life.died)
    parts["other"] += peak - parts.total()  # what is rounded up
    found, reserved_bytes = {name: parts[name] for name in PARTS if parts[name]}, pool.most_bytes or peak
    return Memory(model.device, peak, found, reserved_bytes, context_bytes, there, reserved_bytes <= most)
