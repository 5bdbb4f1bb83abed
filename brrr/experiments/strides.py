"""One number in every `stride`: how much of what the memory moves is of use, and does a crooked start matter?

Memory moves in sectors of 32 bytes, eight floats. What is shown are useful bytes a second.
"""

from __future__ import annotations

from brrr.claim import Claim, Evidence, Verdict, band_verdict, three_way
from brrr.counting.cost import Cost
from brrr.experiment import Axis, Experiment, Guide, Line, Point, Rate, Value, Variant
from brrr.experiments.bands import all_within
from brrr.experiments.judging import over, shown
from brrr.machines.datasheet import Hardware
from brrr.measurement import Estimate

HERE = "this course"
STRIDES = (1, 2, 3, 4, 8, 16, 32)
OFFSETS = (0, 1, 3, 8)
NUMBERS = (2**22, 2**26, 2**28)
ITEMSIZE, SECTOR = 4, 32
QUEUE_MAX, LARGE = 2**24, 2**28
"""Claims look at an array of 1 GiB, which no cache holds."""


def supports(variant: Variant, point: Point) -> bool:
    """The toy accelerator stops at QUEUE_MAX numbers."""
    return variant.device == "cuda" or int(point["numbers"]) <= QUEUE_MAX


def touched(point: Point) -> int:
    """How many numbers there are from `offset` on, one in every `stride`, up to the end of the array.

    >>> touched({"numbers": 10, "stride": 4, "offset": 1})
    3
    """
    numbers, stride, offset = (int(point[name]) for name in ("numbers", "stride", "offset"))
    return max(0, -(-(numbers - offset) // stride))


def sectors(point: Point) -> int:
    """How many sectors of 32 bytes hold at least one of them, where the array begins with a sector.

    >>> [sectors({"numbers": 64, "stride": stride, "offset": 0}) for stride in (1, 2, 8, 16)]
    [8, 8, 8, 4]
    >>> sectors({"numbers": 64, "stride": 1, "offset": 1})
    8
    """
    stride, offset, count = int(point["stride"]), int(point["offset"]), touched(point)
    each = SECTOR // ITEMSIZE
    if not count:
        return 0
    return count if stride >= each else (offset + (count - 1) * stride) // each - offset // each + 1


def useful(variant: Variant, point: Point) -> int:
    """The useful bytes: the touched numbers once, and for a copy the result too."""
    return ITEMSIZE * touched(point) * (2 if variant.name.endswith("copy") else 1)


def cost(variant: Variant, point: Point) -> Cost:
    """The useful bytes; `eager_bytes` are those of all sectors that are touched, and of a copy's result."""
    result = ITEMSIZE * touched(point) if variant.name.endswith("copy") else 0
    return Cost(0.0, float(useful(variant, point)), eager_bytes=float(SECTOR * sectors(point) + result))


def bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The memory's bandwidth by the datasheet, in B/s."""
    return hardware.memory_bytes_per_s if hardware else None


def by_sectors(hardware: Hardware | None, point: Point) -> float | None:
    """The useful bytes a second of a strided read, if whole sectors move at the datasheet's bandwidth."""
    if hardware is None or not sectors(point):
        return None
    return hardware.memory_bytes_per_s * ITEMSIZE * touched(point) / (SECTOR * sectors(point))


def _time(evidence: Evidence, line: str, stride: int, offset: int = 0) -> Estimate:
    """The time on the largest array; on a GPU only, for on a CPU a loop without vectors hides the memory."""
    point: dict[str, Value] = {"stride": stride, "offset": offset, "numbers": LARGE}
    return evidence.get(line, **point)


def useful_share(evidence: Evidence, line: str, stride: int, base: int = 1) -> tuple[float, float, float]:
    """Useful bytes a second with one stride over those with another, as (middle, low, high)."""
    ratio = over(_time(evidence, line, base), _time(evidence, line, stride))
    counts = [touched({"numbers": LARGE, "stride": each, "offset": 0}) for each in (stride, base)]
    scale = counts[0] / counts[1]
    return ratio[0] * scale, ratio[1] * scale, ratio[2] * scale


def _sector_is_paid(evidence: Evidence) -> Verdict:
    """Useful bytes a second of a read with stride 8 over stride 1: an eighth, a quarter of it either way."""
    found = useful_share(evidence, "read", 8)
    return band_verdict(found, 0.75 / 8, 1.25 / 8, f"with stride 8 a read gets {shown(found)} of the useful bytes")


def _time_is_flat(evidence: Evidence) -> Verdict:
    """The time of a read with stride 4, which leaves out three numbers of four, over stride 1: 0.9x to 1.1x."""
    ratio = over(_time(evidence, "read", 4), _time(evidence, "read", 1))
    return band_verdict(ratio, 0.9, 1.1, f"reading one number in four over all: {shown(ratio)} of the time")


def _no_worse_beyond(evidence: Evidence) -> Verdict:
    """Useful bytes a second of a read with stride 32 over stride 8: at least 0.75x."""
    found = useful_share(evidence, "read", 32, base=8)
    text = f"with stride 32 a read gets {shown(found)} of the useful bytes of stride 8"
    return Verdict(three_way(found[1], found[2], 0.75), text)


def _crooked_start(evidence: Evidence) -> Verdict:
    """A read and a write that begin with the second number over one that begins with the first: at most 1.1x."""
    found = {line: over(_time(evidence, line, 1, 1), _time(evidence, line, 1)) for line in ("read", "write")}
    text = "; ".join(f"{line}: {shown(ratio)}" for line, ratio in found.items())
    return all_within(found.values(), 0.0, 1.1, f"beginning one number later, {text} of the time")


CLAIMS = (
    Claim("sector-is-paid", "Who uses one number in eight pays for all eight.", HERE,
          "useful bytes over busy_s of a read, stride 8 over stride 1, 2^28 floats, hot; 1/8 within 25 %",
          _sector_is_paid),
    Claim("time-is-flat", "Leaving out three numbers of four saves no time.", HERE,
          "busy_s of a read, stride 4 over stride 1, 2^28 floats, hot; within 10 %", _time_is_flat),
    Claim("no-worse-beyond", "Beyond the width of a sector a wider stride costs no more for each number.", HERE,
          "useful bytes over busy_s of a read, stride 32 over stride 8, 2^28 floats, hot; at least 0.75x",
          _no_worse_beyond),
    Claim("crooked-start", "Neighbours that begin in the middle of a sector cost hardly more.", HERE,
          "busy_s of a read and a write with stride 1, offset 1 over offset 0, 2^28 floats, hot; at most 1.1x",
          _crooked_start),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="strides",
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
        Variant("copy", "torch, x[offset::stride] copied", "cuda"),
        Variant("queue-copy", "x[offset::stride] copied", "cpu-queue"),
        Variant("queue-read", "x[offset::stride] summed", "cpu-queue"),
        Variant("queue-write", "x[offset::stride] filled", "cpu-queue"),
    ),
    lines=(
        Line("read", "read", "busy_s", "read"),
        Line("write", "write", "busy_s", "write"),
        Line("copy", "copy", "busy_s", "torch, x[offset::stride] copied", shown=False),
        Line("queue read", "queue-read", "kernel_s", "x[offset::stride] summed"),
        Line("queue write", "queue-write", "kernel_s", "x[offset::stride] filled"),
        Line("queue copy", "queue-copy", "kernel_s", "x[offset::stride] copied", shown=False),
    ),
    build="brrr.experiments.strides_work:workload",
    supports="brrr.experiments.strides:supports",
    cost="brrr.experiments.strides:cost",
    claims=CLAIMS,
    anchors=({"stride": 1, "offset": 0, "numbers": 2**26}, {"stride": 8, "offset": 0, "numbers": 2**26}),
    rate=Rate("bytes", "B/s", "useful bytes a second"),
    guides=(
        Guide("bandwidth", "the memory's bandwidth", "DATASHEET", "rate", "brrr.experiments.strides:bandwidth"),
        Guide("sectors", "whole sectors at that bandwidth", "PREDICTED", "rate",
              "brrr.experiments.strides:by_sectors", ("read",)),
    ),
)  # fmt: skip
