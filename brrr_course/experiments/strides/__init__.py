"""One number in every `stride`: how much of what the memory moves is of use, and does a crooked start matter?

A multiprocessor asks the L2 cache for sectors of 32 bytes, eight floats; the cache may fetch more than one from memory
at once. A sector of which only a part is written must be read first. What is shown are useful bytes a second.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.predicted import BANDWIDTH, ONE_KERNEL, alone
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant

STRIDES = (1, 2, 3, 4, 8, 16, 32)
OFFSETS = (0, 1, 3, 8)
NUMBERS = (2**22, 2**26, 2**28)
ITEMSIZE, SECTOR, PIECE = 4, 32, 64
"""A piece is what the L2 cache of recent GPUs fetches from memory at once: two sectors."""

CACHED_BYTES = 2**27
"""No GPU's L2 holds an array of more."""

QUEUE_MAX = 2**24


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX numbers."""
    return variant.on_gpu or int(point["numbers"]) <= QUEUE_MAX


def touched(point: Point) -> int:
    """How many numbers there are from `offset` on, one in every `stride`, up to the end of the array.

    >>> touched({"numbers": 10, "stride": 4, "offset": 1})
    3
    """
    numbers, stride, offset = (int(point[name]) for name in ("numbers", "stride", "offset"))
    return max(0, -(-(numbers - offset) // stride))


def sectors(point: Point, nbytes: int = SECTOR) -> int:
    """How many sectors (or larger pieces) hold at least one of them, where the array begins with one.

    >>> [sectors({"numbers": 64, "stride": stride, "offset": 0}) for stride in (1, 2, 8, 16)]
    [8, 8, 8, 4]
    >>> sectors({"numbers": 64, "stride": 8, "offset": 1}, nbytes=64)
    4
    """
    stride, offset, count = int(point["stride"]), int(point["offset"]), touched(point)
    each = nbytes // ITEMSIZE
    if not count:
        return 0
    return count if stride >= each else (offset + (count - 1) * stride) // each - offset // each + 1


def cost(variant: Variant, point: Point) -> Cost:
    """The useful bytes; `eager_bytes` are those of all sectors that are touched."""
    return Cost(0.0, float(ITEMSIZE * touched(point)), eager_bytes=float(SECTOR * sectors(point)))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel that moves whole sectors of 32 bytes: all that hold a number which is touched.

    Beyond the caches the memory hands out two sectors at once, and a sector that is written in part is read before.
    """
    whole = float(SECTOR * sectors(point))
    in_memory = ITEMSIZE * int(point["numbers"]) > CACHED_BYTES
    fetched = float(PIECE * sectors(point, PIECE)) if in_memory else whole
    read, written = fetched, 0.0
    if variant.way == "write":
        read, written = fetched * _filled_in_part(point) if in_memory else 0.0, whole
    return alone(OperatorCost(f"strided {variant.way}", 0.0, read, written, "float32", (), ONE_KERNEL))


def _filled_in_part(point: Point) -> float:
    """The share of the sectors that are written in part, as the threads of a warp fill them.

    Of neighbours none, but where a warp begins inside a sector: it shares one of its four with the warp before.
    """
    if int(point["stride"]) > 1:
        return 1.0
    return 0.25 if int(point["offset"]) % (SECTOR // ITEMSIZE) else 0.0


def by_sectors(hardware: Hardware | None, point: Point) -> float | None:
    """The useful bytes a second of a strided read, if single sectors moved at the datasheet's bandwidth."""
    if hardware is None or not touched(point):
        return None
    return hardware.memory_bytes_per_s * ITEMSIZE * touched(point) / (SECTOR * sectors(point))


EXPERIMENT = Experiment(
    title="Strides and crooked starts",
    question="Who reads one number in eight: does it take an eighth of the time?",
    axes=(
        Axis("stride", STRIDES, label="stride (floats)", quick=(1, 4, 8, 32)),
        Axis("offset", OFFSETS, label="first number", scale="category", quick=(0, 1)),
        Axis("numbers", NUMBERS, label="floats in the array", quick=(2**22,)),
    ),
    variants=(
        Variant("read", "read", "cuda"),
        Variant("write", "write", "cuda"),
        Variant("queue-read", "x[offset::stride] summed", "cpu-queue", way="read", stands_in_for="read"),
        Variant("queue-write", "x[offset::stride] filled", "cpu-queue", way="write", stands_in_for="write"),
    ),
    field="busy_s",
    package=__name__,
    anchors=({"stride": 1, "offset": 0, "numbers": 2**26}, {"stride": 8, "offset": 0, "numbers": 2**26}),
    rate=Rate("bytes", "B/s", "useful bytes a second"),
    guides=(
        BANDWIDTH,
        Guide("sectors", "read, if single sectors moved", "PREDICTED", "rate", by_sectors, ("read",)),
    ),
)  # fmt: skip
