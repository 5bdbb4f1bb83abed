"""What one operator takes: issuing it, moving its bytes, doing its arithmetic; start and end of its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from brrr.core.errors import ArgumentError
from brrr.counting.cost import Matmul, OperatorCost
from brrr.roofline.basis import Basis
from brrr.roofline.host import WHOLE, Step, host_class, without_host
from brrr.roofline.lowering import operations
from brrr.roofline.peaks.peak import Peak
from brrr.roofline.peaks.peaks import Peaks, short
from brrr.roofline.products import Speeds, family_of, product_s, row_bytes
from brrr.roofline.streams import level_rate, level_s, memory_s
from brrr.roofline.sweeps import Corrections, made_of

MATRIX_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp64", "int8")
COMPUTED_IN = {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32"}
"""Plain arithmetic on the short types is done in float32."""
STEP_S = 1e-6
"""A step down a column, three times read and once written, where nothing hides the memory's answer; assumed."""
FEW_COLUMNS, MOST_THREADS = 64, 1024
"""Of so few columns, torch's softmax gives each to several threads of a block."""
CACHED = 8e6
"""A working set that every data-centre GPU since 2020 holds in its cache."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The predicted times of one operator, in seconds.

    `memory_s` and `compute_s` are those of its bytes and of its FLOP alone, at the rates that its kernels can reach;
    `device_s` is what its kernel takes, start and end included (on a CPU: the call), None where nothing runs on the
    device. `known` is False where its
    FLOP are unknown, so that `compute_s` is too short.
    """

    name: str
    host_s: float
    memory_s: float
    compute_s: float
    device_s: float | None
    known: bool = True

    @property
    def work_s(self) -> float:
        """The part that moves bytes or does arithmetic: the longer of the two."""
        return max(self.memory_s, self.compute_s)

    @property
    def step(self) -> Step:
        """As the two clocks see it."""
        return Step(self.host_s, self.device_s)


def operator_time(
    each: OperatorCost, basis: Basis, working_set: float, *, tf32: bool = False, host_s: float | None = None
) -> OperatorTime:
    """The times of one operator; `host_s` replaces the host cost of its class.

    Where sweeps were measured, the model's time on the device is corrected by them. What its bytes and its FLOP take
    alone does not grow where a kernel was slower than its model: something else held it up.
    """
    made = modelled_time(each, basis, working_set, tf32=tf32, host_s=host_s)
    if made.device_s is None or not basis.is_gpu or basis.peaks is None or not basis.peaks.sweeps:
        return made
    factor = _factor(each, basis, basis.peaks, tf32)
    if factor is None:
        return made
    alone = min(1.0, factor)
    return replace(
        made, memory_s=made.memory_s * alone, compute_s=made.compute_s * alone, device_s=made.device_s * factor
    )


def _factor(each: OperatorCost, basis: Basis, peaks: Peaks, tf32: bool) -> float | None:
    """By how much the measured sweeps correct the model; notes say what was taken."""
    corrections = corrections_of(peaks)
    if len(each.matmuls) == 1 and each.kind == "matmul" and basis.sm_count is not None:
        product = _as_computed(each.matmuls[0], tf32)
        found = corrections.of_product(product, _speeds(product, basis))
        if found is not None:
            basis.note(f"products corrected by a measured sweep of {len(peaks.sweeps['products'])}")
        return found
    if each.matmuls or each.kind in (WHOLE, "fused"):
        return None
    answer = corrections.of_operator(each)
    if answer is None:
        return None
    factor, own = answer
    basis.note(f"operators corrected by a measured sweep of {len(peaks.sweeps['operators'])}")
    if not own:
        basis.note(f"{each.name} was not in the sweep: corrected as other {each.kind} operators")
    return factor


def corrections_of(peaks: Peaks) -> Corrections:
    """What the sweeps of these peaks say against the models that rest on them; no cost of the host counts here."""
    return _corrections_of(without_host(peaks))


@lru_cache(maxsize=4)
def _corrections_of(peaks: Peaks) -> Corrections:
    basis = Basis.measured(peaks)

    def product_time(product: Matmul) -> tuple[float, Speeds]:
        itemsize, batch = row_bytes(product, 1), product.batch
        read, written = batch * product.k * (product.m + product.n), batch * product.m * product.n
        each = OperatorCost("product", product.flop, itemsize * read, itemsize * written, product.dtype, (), "matmul",
                            (product,))  # fmt: skip
        time_s = modelled_time(each, basis, 0.0, host_s=0.0).device_s
        assert time_s is not None
        return time_s, _speeds(product, basis)

    def operator_s(each: OperatorCost) -> float:
        return modelled_time(each, basis, 0.0, host_s=0.0).device_s or 0.0

    return made_of(peaks, product_time, operator_s)


def modelled_time(
    each: OperatorCost, basis: Basis, working_set: float, *, tf32: bool = False, host_s: float | None = None
) -> OperatorTime:
    """The times of one operator by the models alone."""
    host = basis.value(f"host.{host_class(each, basis)}") if host_s is None else host_s
    if each.kind == "view":
        return OperatorTime(each.name, host, 0.0, 0.0, None if basis.is_gpu else host)
    if each.matmuls and basis.is_gpu and basis.sm_count is not None:
        return _tiled(each, basis, working_set, tf32, host)
    start = _start_s(each, basis) if basis.is_gpu else host
    moving = memory_s(
        basis, each.read_bytes, each.written_bytes, working_set, _stream_start_s(basis), in_place=_in_place(each)
    )
    computing = compute_s(operations(each) if basis.is_gpu else each, basis, tf32)
    waiting = serial_s(each, basis) if basis.is_gpu else 0.0
    device = start + max(moving, computing, waiting)
    return OperatorTime(each.name, host, moving, computing, device, each.flop is not None)


def serial_s(each: OperatorCost, basis: Basis) -> float:
    """Seconds of what runs one element after the other, however many lines there are: torch's softmax over columns."""
    if each.kind != "softmax" or each.form.name != "columns":
        return 0.0
    basis.note("a softmax over columns goes down each in steps: 1 µs a step is assumed, as seen on an H200")
    return STEP_S * softmax_steps(each.form.length, each.form.lines)


def softmax_steps(length: int, columns: int) -> int:
    """How many steps a softmax of columns takes: a column to a thread, and to several where there are few columns.

    >>> softmax_steps(4096, 1000), softmax_steps(4096, 16)
    (4096, 64)

    Block sizes as torch chooses them: SpatialSoftMax_getBlockSize in aten/src/ATen/native/cuda/SoftMax.cu.
    """
    if columns > FEW_COLUMNS or length < FEW_COLUMNS:
        return length
    threads = 1
    while 2 * threads * columns <= MOST_THREADS and 2 * threads <= length:
        threads *= 2
    return -(-length // threads)


def _in_place(each: OperatorCost) -> bool:
    return each.kind == "pointwise" and each.name.endswith("_")


def _tiled(each: OperatorCost, basis: Basis, working_set: float, tf32: bool, host_s: float) -> OperatorTime:
    """Products of matrices by tiles and waves; memory and arithmetic overlap as the family of kernels lets them."""
    basis.note("constants of the kernels of matrix products are assumed: they were fitted on an H200")
    products = [_as_computed(product, tf32) for product in each.matmuls]
    families = [family_of(product) for product in products]
    computing = sum(_product_s(product, basis) for product in products)
    moving = level_s(basis, each.read_bytes, each.written_bytes, working_set)
    start, power = max(family.start_s for family in families), min(family.overlap for family in families)
    basis.use("product.start", start, Peak.stated(start, "s", "assumed"))
    device = start + (moving**power + computing**power) ** (1 / power)
    alone = sum(_flop_s(product, basis) for product in products)
    return OperatorTime(each.name, host_s, moving, min(alone, computing), device, each.flop is not None)


def _flop_s(product: Matmul, basis: Basis) -> float:
    """Its FLOP alone, in full tiles and full waves of its kernels."""
    share = min(1.0, family_of(product).share)
    return product.flop / (share * basis.value(f"matmul.{matrix_dtype(product.dtype, False)}"))


def _product_s(product: Matmul, basis: Basis) -> float:
    """Its tiles, and never faster than the device's best rate; large ones never faster than others of that size.

    Large products draw so much power that the clock falls: the measured curve by size tells how far.
    """
    name = f"matmul.{matrix_dtype(product.dtype, False)}"
    best, speeds = basis.value(name), _speeds(product, basis)
    curve = basis.curves.get(name)
    if curve is not None and (size := product_size(product)) > curve.best_point[0]:
        best = min(best, curve.at(size))
    return max(product_s(product, speeds), product.flop / best)


def product_size(product: Matmul) -> float:
    """The side of the square product with as many FLOP."""
    volume = float(product.batch) * product.m * product.n * product.k
    return float(volume ** (1 / 3))


def _as_computed(product: Matmul, tf32: bool) -> Matmul:
    return replace(product, dtype="tf32") if tf32 and short(product.dtype) == "fp32" else product


def _speeds(product: Matmul, basis: Basis) -> Speeds:
    assert basis.sm_count is not None
    rate = basis.value(f"matmul.{matrix_dtype(product.dtype, False)}")
    return Speeds(rate, cache_rate(basis), basis.sm_count)


def _start_s(each: OperatorCost, basis: Basis) -> float:
    """Start and end of a kernel. A fused one has no sweep that tells what it takes beyond an empty kernel's floor."""
    return basis.value("kernel.pointwise" if each.kind == "fused" and basis.has("kernel.pointwise") else "kernel.floor")


def _stream_start_s(basis: Basis) -> float:
    """What a measured stream holds besides moving bytes: a kernel's start and end; on a CPU, calling torch's copy."""
    if not basis.curves:
        return 0.0
    return basis.value("kernel.floor") if basis.is_gpu else basis.value("host.copy")


def compute_s(each: OperatorCost, basis: Basis, tf32: bool) -> float:
    """Seconds of arithmetic: matrix products at their own rate, anything else at that of plain operations."""
    if each.matmuls:
        return sum(matmul_s(product, basis, tf32) for product in each.matmuls)
    if not each.flop:
        return 0.0
    if each.kind == WHOLE:
        return each.flop / best_rate(basis, matrix_dtype(each.dtype, tf32))
    rate = plain_rate(basis, short(each.dtype))
    return each.flop / rate if rate else 0.0


def plain_rate(basis: Basis, dtype: str) -> float | None:
    """FLOP/s of operations that are no fused multiply-adds; None, with a note, where nobody knows it."""
    dtype = COMPUTED_IN.get(dtype, dtype)
    if basis.has(f"arithmetic.{dtype}.mul"):
        return basis.value(f"arithmetic.{dtype}.mul")
    if basis.has(f"arithmetic.{dtype}.fma"):
        basis.note("plain operations count at half the rate of fused multiply-adds, which are 2 FLOP each")
        return basis.value(f"arithmetic.{dtype}.fma") / 2
    basis.note(f"the rate of plain {dtype} arithmetic is not known on {basis.device}: its term is left out")
    return None


def best_rate(basis: Basis, dtype: str) -> float:
    """The best FLOP/s of a data type on any unit: of products of matrices, or of fused multiply-adds."""
    names = [name for name in (f"matmul.{dtype}", f"arithmetic.{dtype}.fma") if basis.has(name)]
    values = {
        name: basis.curves[name].best.value if name in basis.curves else basis.figures[name].value for name in names
    }
    return basis.value(max(values, key=values.__getitem__, default=f"matmul.{dtype}"))


def matmul_s(product: Matmul, basis: Basis, tf32: bool) -> float:
    """Seconds of arithmetic of a product where no tiles are known: on a CPU at the rate of its size, else the best."""
    name = f"matmul.{matrix_dtype(product.dtype, tf32)}"
    if not basis.is_gpu and name in basis.curves:
        return product.flop / _rate_of_size(basis, name, product)
    if basis.is_gpu:
        basis.note("the number of multiprocessors is not known, so products of matrices count without tiles and waves")
    return product.flop / basis.value(name)


def _rate_of_size(basis: Basis, name: str, product: Matmul) -> float:
    """The measured rate of the square product with as many FLOP."""
    curve = basis.curves[name]
    rate = curve.at(product_size(product))
    return basis.use(name, rate, curve.best)


def cache_rate(basis: Basis) -> float:
    """B/s of the cache that all multiprocessors share, from a working set of CACHED bytes."""
    name = next((each for each in ("read", "copy") if each in basis.curves), None)
    if name is not None:
        return level_rate(basis.curves[name], CACHED)
    basis.note("the cache is taken to be twice as fast as the memory: no datasheet gives it")
    return 2 * basis.value("copy")


def matrix_dtype(dtype: str, tf32: bool) -> str:
    """A product's data type as the peaks have it.

    >>> matrix_dtype("float8_e5m2", False), matrix_dtype("float32", True)
    ('fp8', 'tf32')
    """
    name = "fp8" if "float8" in dtype else short(dtype)
    if name not in MATRIX_DTYPES:
        raise ArgumentError("predict", "dtype", dtype, f"one of {', '.join(MATRIX_DTYPES)} for products of matrices")
    return "tf32" if tf32 and name == "fp32" else name
