"""How long each way takes, before it runs: its passes over memory and its products, by the roofline's predictor.

>>> predictor = Predictor.of("h200")
>>> parts = predictor.parts(WAYS["sgemm-strassen-1"], 8192, 8192, 8192)
>>> parts.total_s < predictor.parts(WAYS["sgemm"], 8192, 8192, 8192).total_s, parts.sums_s < parts.products_s
(True, True)

The constants that correct it stand in `calibration.py`. Importing this loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from brrr.counting.cost import Matmul, OperatorCost
from brrr.gpu import is_gpu
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.calibration import BY_SIZE_ON, CONSTANTS, rate_of
from brrr.strassen.peeling import (
    NOTHING,
    Sizes,
    aligned_size,
    block_sizes,
    copied,
    core_of,
    halves,
    thin_bytes,
    thin_parts,
)
from brrr.strassen.ways import INNERS, SIZES, WAYS, Inner, Way
from brrr.strassen.workspace import Traffic, blocks_added

if TYPE_CHECKING:
    from brrr.roofline.device_model import DeviceModel

_LIBRARY = {"fp16x3": "fp16"}
"""The library product whose predicted rate an inner product of ours goes by."""

_CPU_LIBRARY = {"fp16x3": "sgemm", "fp16": "sgemm"}
"""What stands for a type that a CPU has no units for."""

_MATRIX = {"fp64": "float64", "sgemm": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""What the predictor calls the type of a library product."""


@dataclass(frozen=True)
class Parts:
    """Seconds of a way: the pass before the products on each side, the products, and the pass behind them.

    `thin_s` is for the products of what an odd size leaves over, where that is peeled off.
    """

    left_s: float
    right_s: float
    products_s: float
    post_add_s: float
    thin_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it, one after the other, as a CUDA Graph runs it."""
        return self.left_s + self.right_s + self.products_s + self.post_add_s + self.thin_s

    @property
    def sums_s(self) -> float:
        """The passes over memory."""
        return self.left_s + self.right_s + self.post_add_s


@dataclass(frozen=True)
class Predictor:
    """Times on one device; `basis` is what is known of it, looked up once."""

    basis: DeviceModel = field(hash=False, compare=False)

    @classmethod
    def of(cls, device: object) -> Predictor:
        """For a device as `brrr.predict` takes it; MissingPeakError where nothing is known of it."""
        from brrr.roofline.device_model import model_of

        return cls(model_of(device))  # type: ignore[arg-type]

    @property
    def kind(self) -> str:
        """ "cuda" or "cpu"."""
        return self.basis.kind

    def parts(
        self, way: Way, m: int, n: int, k: int, operand: str = "float32", *, whole: bool = False, aligned: bool = True
    ) -> Parts:
        """The seconds of a way's passes and products; MissingPeakError where the device lacks its type.

        whole: sizes are rounded up to whole blocks, as in a chain of layers, and nothing is peeled off. aligned: a
        classical product may copy its operands to aligned rows.
        """
        m, n, k = (max(1, size) for size in (m, n, k))  # an empty product takes no less
        core = (m, n, k) if whole else core_of(way, m, n, k, operand)
        made = self._core(way, core, operand, aligned and is_gpu(self.kind))
        return made if core == (m, n, k) else replace(made, thin_s=self._thin_s(core, (m, n, k), operand))

    def _core(self, way: Way, sizes: Sizes, operand: str, aligned: bool = True) -> Parts:
        """What goes through the levels, or a classical product."""
        if way.nested:
            return self._nested(way, sizes, operand)
        copies = copied(way, *sizes, operand).any and aligned
        left_s, right_s, post_add_s = self._passes(way, *sizes, operand, aligned)
        m, n, k = (sizes[0], *map(aligned_size, sizes[1:])) if copies else sizes
        return Parts(left_s, right_s, self._products(way, m, n, k), post_add_s)

    def _thin_s(self, core: Sizes, sizes: Sizes, operand: str) -> float:
        """The thin products beside a core, by the library; what is added to is read too."""
        seconds = 0.0
        for part in thin_parts(core, *sizes):
            added = part[2] < sizes[2]
            again = thin_bytes(part, added, operand)[0] - thin_bytes(part, False, operand)[0]
            seconds += self._product_s(INNERS[PLAIN[operand]], 1, *part) + self._pass((again, 0), float(again))
        return seconds

    def _nested(self, way: Way, sizes: Sizes, operand: str) -> Parts:
        """The outermost level's passes, and seven products of half the sizes one after another."""
        left_s, right_s, post_add_s = self._passes(way.outermost, *sizes, operand)
        each = self._core(way.within, halves(*sizes), operand)
        return Parts(
            left_s + 7 * each.left_s,
            right_s + 7 * each.right_s,
            7 * each.products_s,
            post_add_s + 7 * each.post_add_s,
        )

    def _passes(
        self, way: Way, m: int, n: int, k: int, operand: str, aligned: bool = True
    ) -> tuple[float, float, float]:
        """The passes before the products on each side and behind them."""
        traffic = (Traffic.of if is_gpu(self.kind) else Traffic.by_blocks)(way, m, n, k, operand, aligned=aligned)
        touched = float(traffic.touched)
        copies = copied(way, m, n, k, operand) if aligned else NOTHING
        left, right, post_add = ("sums",) * 3 if copies.any else _rates_of(way, self.kind)
        return (
            self._pass(traffic.left, touched, left),
            self._pass(traffic.right, touched, right),
            self._pass(traffic.post_add, touched, post_add),
        )

    def total_s(
        self, way: Way, m: int, n: int, k: int, operand: str = "float32", depth: int = 0, *, whole: bool = False,
        aligned: bool = True,
    ) -> float:  # fmt: skip
        """All of it, the outer `depth` levels depth first: seven products one after another, sums by plain passes.

        whole, aligned: as for `parts`.
        """
        if not depth:
            return self.parts(way, m, n, k, operand, whole=whole, aligned=aligned).total_s
        rows, columns, deep = halves(m, n, k)
        size, (before, behind) = SIZES[operand], blocks_added(str(way.form))
        blocks = before * (rows * deep + deep * columns) + behind * rows * columns
        sums_s = self._pass((2 * size * blocks, size * blocks), 3.0 * size * blocks)
        return 7 * self.total_s(way.within, rows, columns, deep, operand, depth - 1, whole=True) + sums_s

    def chain_s(self, way: Way, layers: int, rows: int, hidden: int, operand: str = "float32") -> float:
        """A network of square layers, one pass over memory between the products of two; weights prepared."""
        parts = self.parts(way, rows, hidden, hidden, operand, whole=True, aligned=way.dtype != operand)
        if not way.level or way.nested:  # bias and ReLU in the product, or in place behind it
            size = SIZES[operand] * rows * hidden
            behind = self._pass((size, size), 2.0 * size) if way.kind.split or way.nested else 0.0
            return layers * (parts.total_s + behind)
        traffic = Traffic.of(way, rows, hidden, hidden, operand)
        fused = not way.kind.split
        between = self._pass((traffic.post_add[0], traffic.left[1]), float(traffic.touched)) if fused else 0.0
        between = between or parts.post_add_s + parts.left_s
        return parts.left_s + parts.post_add_s + layers * parts.products_s + (layers - 1) * between

    def _pass(self, moved: tuple[int, int], touched: float, rate: str = "sums") -> float:
        read, written = moved
        if not read:
            return 0.0
        each = OperatorCost("sums", 0.0, float(read), float(written), "float32", (), "fused")
        return self._device_s(each, max(touched, each.bytes)) / self._rate(rate)

    def _products(self, way: Way, m: int, n: int, k: int) -> float:
        rows, deep, columns = block_sizes(way, m, n, k)
        return self._product_s(way.kind, way.products, rows, columns, deep)

    def _product_s(self, inner: Inner, count: int, m: int, n: int, k: int) -> float:
        """The library product of its kind, as many times, by the rate of the inner product against it."""
        if inner.name == "fp16x3" and is_gpu(self.kind):  # its terms are filled up: no size is an odd one
            m, n, k = (-(-size // 8) * 8 for size in (m, n, k))
        library = (_LIBRARY if is_gpu(self.kind) else _CPU_LIBRARY).get(inner.name, inner.name)
        matrix = _MATRIX.get(library, inner.dtype)
        each = Matmul(m, n, k, count, matrix, (False, True))
        size = SIZES[matrix]
        cost = OperatorCost(
            "bmm" if count > 1 else "mm", each.flop, float(size * count * k * (m + n)), float(size * count * m * n),
            matrix, ((m, k), (k, n)), "matmul", (each,),
        )  # fmt: skip
        seconds = self._device_s(cost, cost.bytes, tf32=library == "tf32")
        work = (float(count) * m * n * k) ** (1 / 3)
        return inner.products * seconds / self._product_rate(inner.name, count, work)

    def _product_rate(self, inner: str, count: int, size: float) -> float:
        """By what a rate differs from the predictor's; where it was measured, by the size of a cube of as much work."""
        found, basis = rate_of(inner, batched=count > 1), self.basis
        known = basis.peaks is not None and basis.device == BY_SIZE_ON
        return found.at(size) if known else found.value

    def _rate(self, name: str) -> float:
        return CONSTANTS[f"rate.{name}"].value

    def _device_s(self, each: OperatorCost, working_set: float, *, tf32: bool = False) -> float:
        """By the roofline's model; on a GPU without the host's part, as in a CUDA Graph."""
        from brrr.roofline.terms import operator_time

        made = operator_time(each, self.basis, working_set, tf32=tf32, host_s=0.0 if self.basis.is_gpu else None)
        assert made.device_s is not None  # no view
        return made.device_s


def _rates_of(way: Way, kind: str) -> tuple[str, str, str]:
    """The constants by which the passes before the products on each side go, and the pass behind them."""
    if way.level or not is_gpu(kind):
        return ("sums",) * 3
    if way.inner == "fp16x3":
        return "sums", "turned", "sums"
    return ("casts",) * 3


@lru_cache(maxsize=4096)
def predicted_s(way: str | Way, m: int, n: int, k: int, device: str = "h200", operand: str = "float32") -> float:
    """The seconds that a way takes on a device.

    >>> round(predicted_s("sgemm", 8192, 8192, 8192, "datasheet:h200") * 1e3)
    17
    """
    known = WAYS[way] if isinstance(way, str) else way
    return Predictor.of(device).parts(known, m, n, k, operand).total_s
