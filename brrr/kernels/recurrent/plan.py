"""How a recurrent layer is shared out over a GPU's multiprocessors, so that its weights stay on the chip.

>>> plan("lstm", hidden=1024, batch=4, dtype="float32").blocks
128
>>> largest_hidden("lstm", "float32") >= 1280
True
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from heapq import nsmallest
from itertools import islice, product
from typing import NamedTuple

from brrr.core.errors import ArgumentError
from brrr.roofline.persistent import Step, persistent_s

CELLS = {"rnn_tanh": 0, "rnn_relu": 1, "lstm": 2}
TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
CHUNK = 32
"""Columns of the matrix that the lanes of a warp share out at a time."""
BYTES = 16
"""What a lane reads at once."""
REGISTERS, MOST_REGISTERS = 65536, 255
"""Of a multiprocessor and of a thread, 32 bits each."""
OVERHEAD = 32
"""Registers of a thread beside what it holds: addresses, counters."""
WARPS, LANE_ROWS = (4, 8, 16), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20)
"""What plans are made of."""
TRIED = 10
"""Plans that a layer's first call tries, since the one expected to be the fastest often is not."""


class Chip(NamedTuple):
    """What a plan depends on; the numbers are those of an H100 and an H200."""

    multiprocessors: int = 132
    shared_bytes: int = 232_448
    tf32: bool = True


H200 = Chip()


class RecurrentPlan(NamedTuple):
    """One way to share out a layer: groups of blocks hold a copy of the weights each and take part of the batch.

    lane_rows: rows of the matrix that a lane holds, with tensor cores tiles of 16 rows that a warp holds; chunks: of 32
    columns (split: 16) that a warp holds, of which shared_chunks in shared memory; samples: of the batch between two
    barriers of a block; split: float32 on tensor cores, as sums of tf32.
    """

    cell: str
    hidden: int
    batch: int
    dtype: str
    backward: bool
    warps: int
    chunks: int
    shared_chunks: int
    lane_rows: int
    samples: int
    groups: int
    split: bool = False

    @property
    def half(self) -> bool:
        return self.dtype != "float32"

    @property
    def tiles(self) -> bool:
        """Whether tensor cores compute it, on tiles of 16 rows."""
        return self.half or self.split

    @property
    def element_bytes(self) -> int:
        return 2 if self.half else 4

    @property
    def gates(self) -> int:
        return 4 if self.cell == "lstm" else 1

    @property
    def columns(self) -> int:
        """Values that each block reads of a sample: the state, backward the gradients of all gates."""
        return self.hidden * (self.gates if self.backward else 1)

    @property
    def rows(self) -> int:
        """Rows of the matrix that a block holds."""
        return (16 if self.tiles else 4) * self.lane_rows

    @property
    def units(self) -> int:
        """Values of the state that a block computes."""
        return self.rows // (1 if self.backward else self.gates)

    @property
    def group_blocks(self) -> int:
        return -(-self.hidden // self.units)

    @property
    def group_batch(self) -> int:
        return -(-self.batch // self.groups)

    @property
    def blocks(self) -> int:
        return self.groups * self.group_blocks

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def parts(self) -> int:
        """Words of 16 bytes that a lane holds of a chunk."""
        return self.lane_rows * (2 if self.tiles else 1)

    @property
    def weight_registers(self) -> int:
        """Registers of a thread that hold weights."""
        return 4 * self.parts * (self.chunks - self.shared_chunks)

    @property
    def registers(self) -> int:
        """Registers that a thread needs, by count of what it holds; `OVERHEAD` is for addresses and the rest."""
        sets = self.samples // 8 if self.tiles else self.samples
        state = 4 * sets * self.chunks
        sums = 8 if self.half else self.lane_rows * sets * (8 if self.split else 1)
        overhead = OVERHEAD + 20 * (self.backward and self.gates == 4)
        return self.weight_registers + state + sums + overhead

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: weights, the warps' sums twice, an LSTM's cells."""
        weights = self.shared_chunks * self.parts * self.threads * BYTES
        sums = 2 * self.warps * self.samples * (self.rows + 4) * 4
        return weights + sums + (self.group_batch * self.units * 4 if self.gates == 4 else 0)

    @property
    def state_bytes(self) -> int:
        """Bytes that all blocks together read from L2 in a step."""
        return self.group_blocks * self.batch * self.columns * self.element_bytes

    @property
    def flop(self) -> int:
        """Floating-point operations of a step, an FMA as two, without the padding."""
        return 2 * self.gates * self.hidden * self.hidden * self.batch

    def fits(self, chip: Chip) -> bool:
        """Whether all blocks run at once, with their weights in registers and shared memory."""
        registers = min(MOST_REGISTERS, REGISTERS // self.threads)
        enough = self.registers <= registers and self.shared_bytes <= chip.shared_bytes
        return enough and self.blocks <= chip.multiprocessors

    def defines(self, train: bool = False, watch: int = 0) -> tuple[str, ...]:
        """The compiler's options for the kernel."""
        numbers = {
            "HIDDEN": self.hidden, "KIND": CELLS[self.cell], "TYPE": TYPES[self.dtype], "SPLIT": self.split,
            "BACKWARD": self.backward, "TRAIN": train, "WARPS": self.warps, "CHUNKS": self.chunks,
            "SHARED_CHUNKS": self.shared_chunks, "LANE_ROWS": self.lane_rows, "SAMPLES": self.samples,
            "GROUP_BLOCKS": self.group_blocks, "GROUP_BATCH": self.group_batch, "WATCH": watch,
        }  # fmt: skip
        return tuple(f"-D{name}={int(value)}" for name, value in numbers.items())


COSTS: dict[str, tuple[float, ...]] = {
    "float": (637, 0.40, 190, 27, 0.71, 0.315, 0.24, 229, 5.1),
    "split": (668, 0, 114, 40, 2.18, 0.665, 0.335, 909, 10.9),
    "half": (860, 0, 85, 0, 1.32, 0.284, 0.567, 0, 11.9),
}
"""Cycles that parts of a step take, fitted to single timings of several hundred plans on an H200. Of a turn, from one
barrier to the next: itself, and in it multiply-adds, sums, loads of the state, words of shared memory. Of a step: the
state, as a block reads it and as L2 gives it; its beginning; and each block of a group."""
CLOCK_HZ = 1.98e9
"""At which they were timed."""


def predicted_s(made: RecurrentPlan, steps: int = 1) -> float:
    """Seconds that so many steps are expected to take: what the plans of a layer are compared by, before a trial."""
    kind = "half" if made.half else "split" if made.split else "float"
    turn, work, read, load, shared, state, l2, begin, block = COSTS[kind]
    turn += work * made.lane_rows * made.chunks * made.samples * made.warps
    turn += read * made.rows * made.samples / 32
    turn += load * made.chunks * (made.samples // 8 if made.tiles else made.samples) * made.warps / 4
    turn += shared * made.shared_chunks * made.parts * made.warps * 4
    turns = -(-made.group_batch // made.samples)
    serial = turns * turn + begin + block * made.group_blocks
    in_block = state * made.group_batch * made.columns * made.element_bytes / 128
    flows = {"block": in_block / CLOCK_HZ, "L2": l2 * made.state_bytes / 1e3 / CLOCK_HZ}
    return persistent_s(Step(flows, serial / CLOCK_HZ), steps)


def plans(
    cell: str, hidden: int, batch: int, dtype: str, chip: Chip, backward: bool = False
) -> Iterator[RecurrentPlan]:
    """All plans of a layer that fit."""
    columns = hidden * (4 if cell == "lstm" and backward else 1)
    half = dtype != "float32"
    for warps, lane_rows, split in product(WARPS, LANE_ROWS, (False, True)[: 1 if half or not chip.tf32 else 2]):
        chunks = -(-columns // ((CHUNK // 2 if split else CHUNK) * warps))
        for samples in (8, 16) if half or split else (1, 2, 4):
            one = RecurrentPlan(cell, hidden, batch, dtype, backward, warps, chunks, 0, lane_rows, samples, 1, split)
            most = min(chip.multiprocessors // one.group_blocks, -(-batch // samples))
            for groups in range(1, most + 1):
                made = one._replace(groups=groups)
                if (groups - 1) * made.group_batch < batch:  # else the last group would have no samples
                    spread = (made._replace(shared_chunks=shared) for shared in range(chunks + 1))
                    yield from islice((each for each in spread if each.fits(chip)), 1)


@lru_cache(maxsize=1024)
def shortlist(
    cell: str, hidden: int, batch: int, dtype: str = "float32", chip: Chip = H200, backward: bool = False
) -> tuple[RecurrentPlan, ...]:
    """The plans that are expected to be the fastest, first the best; ArgumentError where none fits.

    cell: "rnn_tanh", "rnn_relu" or "lstm"; hidden: a multiple of 4 (float32) or 8 (float16, bfloat16). The error names
    the largest layer that fits.
    """
    found = nsmallest(TRIED, plans(cell, hidden, batch, dtype, chip, backward), key=predicted_s)
    if not found:
        most = largest_hidden(cell, dtype, chip, backward)
        way = "backward pass of a " if backward else ""
        expected = f"at most {most}: more weights of a {way}{cell} in {dtype} do not fit on this GPU at once"
        raise ArgumentError("PersistentRNN", "hidden_size", hidden, expected)
    return tuple(found)


def plan(
    cell: str, hidden: int, batch: int, dtype: str = "float32", chip: Chip = H200, backward: bool = False
) -> RecurrentPlan:
    """The plan that is expected to be the fastest; arguments and errors as of `shortlist`."""
    return shortlist(cell, hidden, batch, dtype, chip, backward)[0]


@lru_cache(maxsize=64)
def largest_hidden(cell: str, dtype: str, chip: Chip = H200, backward: bool = False) -> int:
    """The largest layer, in whole 32, whose weights fit on the chip."""
    sizes = range(CHUNK, 512 * CHUNK, CHUNK)
    return CHUNK * bisect_left(sizes, True, key=lambda size: not any(plans(cell, size, 1, dtype, chip, backward)))
