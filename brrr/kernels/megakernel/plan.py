"""The ways in which the persistent megakernel can share out a network of one width on a GPU.

>>> every = list(plans(256, H200))
>>> all(made.cluster * made.columns == made.width and made.shared_bytes <= H200.shared_bytes for made in every)
True

The kernel is told in the comment of `megakernel.cu`; the names here are those of its constants. How long a plan should
take, and so which is best, says `device.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd, lcm

CLUSTERS = (16, 8, 4, 2, 1)
"""Blocks of a cluster; 16 is more than every GPU allows (the portable limit is 8), so the GPU is asked."""

ROWS = (1, 2, 4, 8, 16)
TILE_ROWS, TILE_QUADS, K_WARPS = (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8)
MOST_WARPS, MOST_TILES = 16, 15
"""Warps of a block; tiles that several warps share, each with a barrier, of which a block has 16."""

DEPTHS, MOST_CHUNK_BYTES = (128, 64, 32), 32768
MOST_SLOTS, LAYERS_AHEAD = 32, 8
"""The ring holds at most so many chunks, and no more than so many layers."""

SCHEDULER_REGISTERS, OTHER_REGISTERS = 512, 44
"""Registers that the lanes of a scheduler's warps share out; those of a lane for all but weights, input and sums."""

MOST_STRAIGHT = 1536
"""Multiply-adds of a lane one after the other in the code, 16 bytes each: more do not fit in the instruction cache, and
one plan with 2048 took half again as long as it should."""

LARGEST_INPUT = 2**20 - 1
"""Bytes that a barrier in shared memory can count."""


@dataclass(frozen=True)
class NetworkShape:
    """The textbook network: `layers` x (Linear(hidden, hidden) + ReLU) on `batch` rows."""

    layers: int
    batch: int
    hidden: int


@dataclass(frozen=True)
class Gpu:
    """What a plan depends on: shared memory a block (bytes), and how many clusters of each size run at once."""

    shared_bytes: int
    active_clusters: Mapping[int, int] = field(hash=False)
    clock_hz: float = 1.98e9


H200 = Gpu(232448, {16: 7, 8: 15, 4: 30, 2: 66, 1: 132})
"""An H200 (how many clusters fit depends on which multiprocessors are switched off, so another may differ)."""


@dataclass(frozen=True)
class MegakernelPlan:
    """One way to share out a network of this width; batch and layers may vary.

    hidden: the network's; width: rounded up. cluster: blocks; rows: of the batch, a cluster. tile_rows and tile_quads:
    a tile, rows by 4 * quads columns; k_warps: warps that share one. depth: values of k in a chunk of weights; slots:
    chunks in the ring, a multiple of k_warps. overlap: a launch may begin before the one in front of it has ended (the
    kernel waits for its end before it reads x, or writes anything). wide: the cluster is no thread-block cluster but
    any blocks of the GPU, and its results go through global memory.
    """

    hidden: int
    width: int
    cluster: int
    rows: int
    tile_rows: int
    tile_quads: int
    k_warps: int
    depth: int
    slots: int
    overlap: bool = False
    wide: bool = False

    @property
    def columns(self) -> int:
        """Columns of each layer that a block computes."""
        return self.width // self.cluster

    @property
    def tiles(self) -> int:
        return self.rows // self.tile_rows * (self.columns // (4 * self.tile_quads))

    @property
    def warps(self) -> int:
        """Warps of a block that compute; one more fetches weights."""
        return self.tiles * self.k_warps

    @property
    def threads(self) -> int:
        return 32 * (self.warps + 1)

    @property
    def registers(self) -> int:
        """Registers that a lane may use."""
        return min(255, SCHEDULER_REGISTERS // -(-(self.warps + 1) // 4) // 8 * 8)

    @property
    def needed_registers(self) -> int:
        """Registers that a lane needs for a chunk of weights, its input and sums, and everything else."""
        sums = self.tile_rows * self.tile_quads
        return self.depth // 8 * self.tile_quads + 4 * self.tile_rows + max(sums, 4) + OTHER_REGISTERS

    @property
    def chunks(self) -> int:
        """Chunks of weights for each layer and block."""
        return self.width // self.depth

    @property
    def weight_bytes(self) -> int:
        """Of a layer's weights, those that a block reads."""
        return 4 * self.columns * self.width

    @property
    def slot_bytes(self) -> int:
        """A chunk of weights and room for a layer's biases."""
        return 4 * self.columns * (self.depth + 1)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: 8 bytes a barrier, the ring, two inputs, two tiles a warp."""
        barriers = 8 * (2 * self.slots + 2 * self.rows // self.tile_rows)
        tiles = 2 * self.warps * 16 * self.tile_rows * self.tile_quads
        return rounded_up(barriers) + rounded_up(self.slots * self.slot_bytes) + 8 * self.width * self.rows + tiles

    def clusters(self, batch: int) -> int:
        """Clusters for so many rows."""
        return -(-batch // self.rows)

    def defines(self) -> tuple[str, ...]:
        """The kernel's constants as options of the compiler.

        >>> next(plans(256, H200)).defines()[0]
        '-DHIDDEN=256'
        """
        shape = ("hidden", "width", "cluster", "rows", "tile_rows", "tile_quads")
        names = (*shape, "k_warps", "depth", "slots", "wide")
        return tuple(f"-D{name.upper()}={int(getattr(self, name))}" for name in names)


def rounded_up(count: int, unit: int = 128) -> int:
    return -(-count // unit) * unit


def plans(hidden: int, gpu: Gpu) -> Iterator[MegakernelPlan]:
    """Every plan for this width that fits in a block's shared memory and registers."""
    for cluster, rows, *tile in product(gpu.active_clusters, ROWS, TILE_ROWS, TILE_QUADS, K_WARPS):
        made = make_plan(hidden, gpu, cluster, rows, *tile) if rows % tile[0] == 0 else None
        if made is not None:
            yield made


def wide_plans(network: NetworkShape, gpu: Gpu) -> Iterator[MegakernelPlan]:
    """The plans in which all blocks of the GPU share out the columns, with one or more groups of rows."""
    blocks = gpu.active_clusters.get(1, 0)
    for rows in TILE_ROWS if blocks else ():
        groups = -(-network.batch // rows)
        for quads in TILE_QUADS:
            columns = -(-network.hidden * groups // (blocks * 4 * quads)) * 4 * quads  # as few as let all run at once
            cluster = rounded_up(-(-network.hidden // columns), 32 // gcd(32, columns))
            for k_warps in K_WARPS if rows < 2 * network.batch and cluster * groups <= blocks else ():
                made = make_plan(network.hidden, gpu, cluster, rows, rows, quads, k_warps, wide=True)
                if made is not None:
                    yield made


def make_plan(
    hidden: int, gpu: Gpu, cluster: int, rows: int, tile_rows: int, tile_quads: int, k_warps: int = 1, *,
    wide: bool = False,
) -> MegakernelPlan | None:  # fmt: skip
    """The plan with these numbers, with as large chunks and as large a ring as fit; None where that is no plan.

    >>> made = make_plan(100, H200, cluster=16, rows=4, tile_rows=2, tile_quads=1)
    >>> made.width, made.columns, made.warps, made.slot_bytes
    (128, 8, 4, 4128)
    """
    unit = lcm(32, 4 * tile_quads * cluster)
    width = -(-hidden // unit) * unit
    for depth in DEPTHS:
        bare = MegakernelPlan(hidden, width, cluster, rows, tile_rows, tile_quads, k_warps, depth, 0, wide=wide)
        if not 1 <= bare.warps <= MOST_WARPS or (k_warps > 1 and bare.tiles > MOST_TILES):
            return None
        divides = width % depth == 0 and bare.chunks % k_warps == 0
        small = bare.slot_bytes <= MOST_CHUNK_BYTES + 4 * bare.columns and 4 * tile_rows * width <= LARGEST_INPUT
        straight = min(bare.chunks // k_warps, 4) * depth // 8 * tile_rows * tile_quads  # of up to four chunks
        if divides and small and straight <= MOST_STRAIGHT and bare.needed_registers <= bare.registers:
            return with_ring(bare, gpu)
    return None


def with_ring(bare: MegakernelPlan, gpu: Gpu) -> MegakernelPlan | None:
    """The plan with as large a ring as fits, or None where two chunks do not.

    A whole number of turns of the warps that share a tile, so that each warp finds its chunks in the same slots always.
    """
    room = gpu.shared_bytes - replace(bare, slots=MOST_SLOTS).shared_bytes + MOST_SLOTS * bare.slot_bytes
    slots = min((room - 128) // bare.slot_bytes, MOST_SLOTS, LAYERS_AHEAD * bare.chunks)
    slots -= slots % bare.k_warps
    return replace(bare, slots=slots) if slots >= 2 else None
