"""What one operator takes: issuing it, moving its bytes, doing its arithmetic; start and end of its kernel."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from brrr.core.errors import ArgumentError
from brrr.counting.cost import COPIED, EACH, IN_TURN, Matmul, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr.roofline.decoding import CLOCK_HZ, START_S, is_decoding, keys_s
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import CLASS, WHOLE, host_class, level_rate, memory_s
from brrr.roofline.gemm_families import Speeds, family_of, product_s
from brrr.roofline.lowering import TOLD, name_on_gpu, operations
from brrr.roofline.own_kernels import PLAIN, OwnKernel, own_kernel
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import short
from brrr.roofline.sweeps import BY_FLOP

MATRIX_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp64", "int8")
COMPUTED_IN = {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32"}
"""Plain arithmetic on the short types is done in float32."""
KERNELS: Mapping[str, Mapping[str, float]] = TOLD["kernel"]
"""How kernels that no sweep holds go through their elements (data/operators.toml says what each figure is)."""
FULL, BLOCK, LANES = 2048, 1024, 128
"""Threads of a full multiprocessor, of a block that a thread's steps lie in, and those that issue in each cycle."""
CROWD = 4
"""Elements that are added to one place where what an addition takes was recorded; those of more wait for each other."""
PAGEABLE = {f"{COPIED} in": 1e10, f"{COPIED} out": 1.8e10}
"""B/s of pageable copies, as seen on an H200's host: in one direction the driver gathers what it sends."""
PINNED_BYTES_PER_S = 2.5e10
"""Copies of pinned memory, where no datasheet tells the link: of the order of PCIe 4."""
TENSOR, ASYNC = ("tf32", "bfloat16", "float16"), (9, 0)
"""From this compute capability on the kernels of tensor cores fetch and write while they multiply; earlier ones, whose
threads do all of it, take both times one after the other."""
CACHED = 8e6
"""A working set that every data-centre GPU since 2020 holds in its cache."""


Terms = tuple[float, float, float]
"""Seconds of an operator's bytes, of its FLOP, and of its kernel."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The predicted times of one operator, in seconds.

    `memory_s` and `compute_s` are those of its bytes and of its FLOP alone, at the rates that its kernels can reach;
    `device_s` is what its kernel takes, start and end included (on a CPU: the call), None where nothing runs on the
    device. `known` is False where its FLOP are unknown, or nothing like it was swept, so that `compute_s` is too short;
    `waits`, whether the host waits until it is done.
    """

    name: str
    host_s: float
    memory_s: float
    compute_s: float
    device_s: float | None
    known: bool = True
    waits: bool = False

    @property
    def work_s(self) -> float:
        """The part that moves bytes or does arithmetic: the longer of the two."""
        return max(self.memory_s, self.compute_s)


def dtype_of(each: OperatorCost) -> str:
    """The type that it computes in: that of its products, where it has any."""
    return each.matmuls[0].dtype if each.matmuls else each.dtype


def modelled_time(
    each: OperatorCost, model: DeviceModel, working_set: float, *, host_s: float | None = None
) -> OperatorTime:
    """The times of one operator by its terms alone: by one function for each class of operators."""
    model = model.for_terms
    host = model.value(f"host.{host_class(each, model)}") if host_s is None else host_s
    device: float | None
    if each.kind == "view":
        moving, computing, device = 0.0, 0.0, None if model.is_gpu else host
    elif each.form.name.startswith(COPIED) and model.is_gpu:
        moving, computing, device = _copied(each, model)
    elif each.matmuls and model.is_gpu and model.sm_count is not None and not _by_flop(each, model):
        own = own_kernel(each)
        moving, computing, device = _own(own, each, model, working_set) if own else _tiled(each, model, working_set)
    else:
        moving, computing, device = _streamed(each, model, working_set, host)
    known = each.flop is not None and each.kind != "recurrent"  # whose steps wait for each other
    return OperatorTime(each.name, host, moving, computing, device, known, model.is_gpu and each.form.name in PAGEABLE)


def _by_flop(each: OperatorCost, model: DeviceModel) -> bool:
    return each.kind in BY_FLOP and model.reference is not None


def _streamed(each: OperatorCost, model: DeviceModel, working_set: float, host_s: float) -> Terms:
    """What goes once through its bytes, or as its kernel is told to, without tiles; on a CPU anything."""
    start = _start_s(each.kind, model) if model.is_gpu else host_s
    moving = memory_s(model, each.read_bytes, each.written_bytes, working_set, _stream_start_s(model), each.recent)
    computing, chain = compute_s(operations(each) if model.is_gpu else each, model), 0.0
    if not model.is_gpu:
        return moving, computing, start + max(moving, computing)
    if is_decoding(each):
        start, chain = start + START_S, keys_s(each, model)
    if told := kernel_of(each):
        model.note(f"how {each.name} goes through its elements is assumed (data/operators.toml)")
        start, moving = start + told.get("start_s", 0.0), moving * told.get("passes", 1)
        computing, chain = computing / told.get("rate", 1), chain or walked_s(each, told, model)
    if each.kind == "transform":
        start, moving = start + ROUNDS_S, max(moving, each.bytes / cache_rate(model) / SHARED) * each.form.window
    if each.kind == "transform" or each.form.name == IN_TURN:
        start *= each.form.window  # a kernel each
    return moving, computing, start + max(moving, computing, chain)


ROUNDS_S, SHARED = 1.5e-6, 0.5
"""What a kernel of a transform takes beside an empty one, whose rounds through shared memory wait for each other, and
its share of the cache's rate, since a block loads, calculates and stores one after the other. Assumed."""
MISS, EVICTS = 380.0, 2.2
"""Cycles that a load takes longer from memory than from the cache: none do where a call's bytes are less than 1 / 2.2
of the cache, and all where they are twice as many, as recorded."""


def kernel_of(each: OperatorCost) -> Mapping[str, float]:
    """What is known of a kernel that no sweep holds, by its name or its name and form; nothing of any other one."""
    name = name_on_gpu(each)
    return KERNELS.get(f"{name}, {each.form.name}") or KERNELS.get(name, {})


def walked_s(each: OperatorCost, told: Mapping[str, float], model: DeviceModel) -> float:
    """Seconds of a kernel's threads: what all of them issue, or the steps of each, where the device holds them at once.

    What waits for steps or for indices waits neither for the memory's rate nor for arithmetic.
    """
    threads, steps, issued = each.form.lines, each.form.length, told.get("instructions", 0.0)
    issued *= max(1.0, each.form.over / CROWD) if each.form.name == EACH else 1.0
    issuing = (issued * steps + told.get("once", 0.0)) * threads / (plain_rate(model, "fp32") or math.inf)
    full, together = max(1.0, threads / FULL / (model.sm_count or 1)), min(threads, BLOCK) / LANES
    cache = model.hardware and model.hardware.l2_bytes
    missed = min(1.0, max(0.0, math.log2(EVICTS * each.bytes / cache))) if cache and each.bytes else 0.0
    cycles = max(told["step"] + MISS * missed, issued * together) if "step" in told else 0.0
    return max(issuing, full * steps * cycles / (model.clock_hz or CLOCK_HZ))


def _copied(each: OperatorCost, model: DeviceModel) -> Terms:
    """Over the link: in pinned memory at its rate, beside the host; else through a buffer of the driver's."""
    way, _, pinned = each.form.name.partition(", ")
    rate = pinned_rate(model.hardware) if pinned else min(PAGEABLE[way], pinned_rate(model.hardware))
    model.use(f"link, {pinned or 'pageable'}", rate, Peak.stated(rate, "B/s", "assumed"))
    moving = each.written_bytes / rate
    return moving, 0.0, model.value("kernel.floor") + moving


def pinned_rate(known: Hardware | None) -> float:
    """B/s of copies of pinned memory from or to a device, by its datasheet where that tells the link."""
    return 0.9 * known.host_link.bytes_per_s if known and known.host_link else PINNED_BYTES_PER_S


def stream_s(model: DeviceModel, read: float, written: float, working_set: float = 0.0) -> float:
    """Seconds of a kernel that reads and writes so many bytes and does next to nothing else, start and end included.

    >>> from brrr.roofline.device_model import model_of
    >>> round(stream_s(model_of("datasheet:h200"), 2.4e9, 2.4e9) * 1e3, 1)
    1.2

    `working_set`: the bytes that the whole call touches, where they are more. On a CPU the call counts with it.
    """
    model = model.for_terms
    start = _start_s("fused", model) if model.is_gpu else model.value(f"host.{CLASS['fused']}")
    return start + memory_s(model, read, written, max(working_set, read + written), _stream_start_s(model))


def _tiled(each: OperatorCost, model: DeviceModel, working_set: float) -> Terms:
    """Products of matrices by tiles and waves; memory and arithmetic overlap as the family of kernels lets them."""
    model.note("constants of the kernels of matrix products are assumed: they were fitted on an H200")
    families = [family_of(product) for product in each.matmuls]
    computing = sum(_product_s(product, model) for product in each.matmuls)
    moving = memory_s(model, each.read_bytes, each.written_bytes, working_set, recent=each.recent)
    start, power = _cycle(model) * max(each.start_s for each in families), min(each.overlap for each in families)
    if dtype_of(each) in TENSOR and model.hardware and (model.hardware.compute_capability or ASYNC) < ASYNC:
        power = 1.0
    model.use("product.start", start, Peak.stated(start, "s", "assumed"))
    device = start + (moving**power + computing**power) ** (1 / power)
    rates = [min(1.0, family_of(one).share) * model.value(f"matmul.{matrix_dtype(one.dtype)}") for one in each.matmuls]
    alone = sum(one.flop / rate for one, rate in zip(each.matmuls, rates, strict=True))  # in full tiles and full waves
    return moving, min(alone, computing), device


def _own(own: OwnKernel, each: OperatorCost, model: DeviceModel, working_set: float) -> Terms:
    """A product in a kernel of its own: bytes, arithmetic, and the way through k overlap as it lets them."""
    model.note("constants of torch's kernels for 8 and 4 bits are assumed: they were fitted on an H100")
    model.use("product.start", own.start_s, Peak.stated(own.start_s, "s", "assumed"))
    (product,) = each.matmuls
    tiles_s = product.flop / model.value(PLAIN) if own.unpacks else _product_s(product, model)
    moving = memory_s(model, each.read_bytes, each.written_bytes, working_set, recent=each.recent) / own.memory
    computing, chain = tiles_s / own.rate, product.k * own.cycles / (model.clock_hz or CLOCK_HZ)
    device = own.start_s + sum(part**own.overlap for part in (moving, computing, chain)) ** (1 / own.overlap)
    return moving, max(computing, chain), device


def _product_s(product: Matmul, model: DeviceModel) -> float:
    """Its tiles, and never faster than the device's best rate; large ones never faster than others of that size.

    Large products draw so much power that the clock falls: the measured curve by size tells how far.
    """
    name = f"matmul.{matrix_dtype(product.dtype)}"
    best = model.value(name)
    curve = model.curves.get(name)
    if curve is not None and (size := product_size(product)) > curve.best_point[0]:
        best = min(best, curve.at(size))
    assert model.sm_count is not None
    speeds = Speeds(model.value(name), cache_rate(model), model.sm_count, _cycle(model))
    return max(product_s(product, speeds), product.flop / best)


def product_size(product: Matmul) -> float:
    """The side of the square product with as many FLOP."""
    volume = float(product.batch) * product.m * product.n * product.k
    return float(volume ** (1 / 3))


def _cycle(model: DeviceModel) -> float:
    """How much longer a cycle is than an H200's, on which the kernels' constants were fitted."""
    return CLOCK_HZ / (model.clock_hz or CLOCK_HZ)


def _start_s(kind: str, model: DeviceModel) -> float:
    """Start and end of a kernel. A fused one has no sweep that tells what it takes beyond an empty kernel's floor."""
    return model.value("kernel.pointwise" if kind == "fused" and model.has("kernel.pointwise") else "kernel.floor")


def _stream_start_s(model: DeviceModel) -> float:
    """What a measured stream holds besides moving bytes: a kernel's start and end; on a CPU, calling torch's copy."""
    return model.value("kernel.floor" if model.is_gpu else "host.copy") if model.curves else 0.0


def compute_s(each: OperatorCost, model: DeviceModel) -> float:
    """Seconds of arithmetic: matrix products at their own rate, anything else at that of plain operations."""
    if _by_flop(each, model):
        return (each.flop or 0.0) / model.value(f"matmul.{matrix_dtype(dtype_of(each))}")
    if each.matmuls:
        return sum(matmul_s(product, model) for product in each.matmuls)
    if not each.flop:
        return 0.0
    if each.kind == WHOLE:
        return each.flop / model.best_rate(matrix_dtype(each.dtype))
    rate = plain_rate(model, short(each.dtype))
    return each.flop / rate if rate else 0.0


def plain_rate(model: DeviceModel, dtype: str) -> float | None:
    """FLOP/s of operations that are no fused multiply-adds; None, with a note, where nobody knows it."""
    dtype = COMPUTED_IN.get(dtype, dtype)
    if model.has(f"arithmetic.{dtype}.mul"):
        return model.value(f"arithmetic.{dtype}.mul")
    if model.has(f"arithmetic.{dtype}.fma"):
        model.note("plain operations count at half the rate of fused multiply-adds, which are 2 FLOP each")
        return model.value(f"arithmetic.{dtype}.fma") / 2
    model.note(f"the rate of plain {dtype} arithmetic is not known on {model.device}: its term is left out")
    return None


def matmul_s(product: Matmul, model: DeviceModel) -> float:
    """Seconds of arithmetic of a product where no tiles are known: on a CPU at the rate of its size, else the best."""
    name = f"matmul.{matrix_dtype(product.dtype)}"
    if not model.is_gpu and name in model.curves:
        curve = model.curves[name]
        return product.flop / model.use(name, curve.at(product_size(product)), curve.best)
    if model.is_gpu:
        model.note("the number of multiprocessors is not known, so products of matrices count without tiles and waves")
    return product.flop / model.value(name)


def cache_rate(model: DeviceModel) -> float:
    """B/s of the cache that all multiprocessors share, from a working set of CACHED bytes."""
    name = next((each for each in ("read", "copy") if each in model.curves), None)
    if name is not None:
        return level_rate(model.curves[name], CACHED)
    model.note("the cache is taken to be twice as fast as the memory: no datasheet gives it")
    return 2 * model.value("copy")


def matrix_dtype(dtype: str) -> str:
    """A product's data type as the peaks have it.

    >>> matrix_dtype("float8_e5m2"), matrix_dtype("float32")
    ('fp8', 'fp32')
    """
    name = "fp8" if "float8" in dtype else short(dtype)
    if name not in MATRIX_DTYPES:
        raise ArgumentError("predict", "dtype", dtype, f"one of {', '.join(MATRIX_DTYPES)} for products of matrices")
    return name
