"""What network it is, what it costs, and how fast it could be at best; no torch is needed to say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brrr.core.errors import ArgumentError
from brrr.counting.cost import Cost, Form, Matmul, OperatorCost

if TYPE_CHECKING:
    from brrr.roofline.peaks.peaks import Peaks

ITEMSIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
LARGEST = 2**31 - 1
"""Sizes are 32 bits wide in cuBLAS and in the kernels."""


@dataclass(frozen=True)
class Network:
    """`layers` times y = relu(x W^T + b), square weights of `hidden`, `batch` rows, inference only.

    >>> Network(8, 16, 256).cost
    16.8 MFLOP, 2.14 MB, 7.88 FLOP/B

    dtype: "float32", "float16" or "bfloat16", of weights and activations; sums are float32. tf32: products of float32
    may run in TF32 on a GPU. ArgumentError for sizes below 1 and other types.
    """

    layers: int
    batch: int
    hidden: int
    dtype: str = "float32"
    tf32: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "batch", "hidden"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
                raise ArgumentError("Network", name, value, f"a whole number from 1 to {LARGEST}")
        object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))
        if self.dtype not in ITEMSIZES:
            raise ArgumentError("Network", "dtype", self.dtype, f"one of {', '.join(ITEMSIZES)}")
        if not isinstance(self.tf32, bool) or (self.tf32 and self.dtype != "float32"):
            raise ArgumentError("Network", "tf32", self.tf32, f"True or False with float32, False with {self.dtype}")

    @property
    def itemsize(self) -> int:
        """Bytes of an element.

        >>> Network(1, 2, 128, "bfloat16").itemsize
        2
        """
        return ITEMSIZES[self.dtype]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights and biases.

        >>> Network(8, 16, 256).weight_bytes
        2105344
        """
        return self.layers * self.itemsize * (self.hidden * self.hidden + self.hidden)

    @property
    def memory_bytes(self) -> int:
        """About the most that one way takes: weights, a packed copy of them, and a few activations.

        >>> Network(8, 16, 256).memory_bytes < 5e6
        True
        """
        return 2 * self.weight_bytes + 6 * self.itemsize * self.batch * self.hidden

    @property
    def cost(self) -> Cost:
        """FLOP and bytes with the operators that torch runs: a product with its bias, then ReLU in place.

        >>> [each.name for each in Network(1, 4, 64).cost.operators]
        ['aten.t', 'aten.addmm', 'aten.relu_']

        As `brrr.cost` counts the module: the bias counts one FLOP an element, and so does ReLU.
        """
        rows = float(self.itemsize * self.batch * self.hidden)
        layer = (self._view(), self._product(), self._relu())
        operators = layer * self.layers
        needed = self.weight_bytes + 2 * rows
        return Cost(
            flop=sum(each.flop or 0.0 for each in operators),
            bytes=needed,
            eager_bytes=sum(each.bytes for each in operators),
            working_set_bytes=needed + (rows if self.layers > 1 else 0.0),
            operators=operators,
        )

    @property
    def fused_cost(self) -> Cost:
        """The same with a kernel for each layer that ends in ReLU, as a fused epilogue has it.

        >>> len(Network(8, 4, 64).fused_cost.operators)
        8
        """
        whole = self.cost
        operators = (self._product(),) * self.layers
        return Cost(whole.flop, whole.bytes, sum(each.bytes for each in operators), whole.working_set_bytes, operators)

    def floor_s(self, peaks: Peaks) -> float:
        """No way from memory is faster, in seconds: all bytes at the memory's rate, or all FLOP at the best product's.

        `peaks` are a device's, as `brrr.calibrate()` returns them; MissingPeakError where they lack one of the two. A
        network small enough to stay in the cache from call to call may be faster than the bytes say.
        """
        kind = "tf32" if self.tf32 else self.dtype
        memory_s = self.cost.bytes / peaks.memory_bytes_per_s.value
        return max(memory_s, self.cost.flop / peaks.matmul(kind).value)

    def _view(self) -> OperatorCost:
        return OperatorCost("aten.t", 0.0, 0, 0, self.dtype, ((self.hidden, self.hidden),), "view")

    def _product(self) -> OperatorCost:
        m, n = self.batch, self.hidden
        product = Matmul(m=m, n=n, k=n, dtype=self.dtype, transposed=(False, True))
        shapes = (n,), (m, n), (n, n)
        read = self.itemsize * (n + m * n + n * n)
        flop = product.flop + m * n
        return OperatorCost("aten.addmm", flop, read, self.itemsize * m * n, self.dtype, shapes, "matmul", (product,))

    def _relu(self) -> OperatorCost:
        count = self.batch * self.hidden
        moved, shapes = self.itemsize * count, ((self.batch, self.hidden),)
        return OperatorCost(
            "aten.relu_", float(count), moved, moved, self.dtype, shapes, "pointwise", (), Form("", 1, count)
        )

    def __str__(self) -> str:
        precision = "TF32" if self.tf32 else self.dtype
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers} of {self.hidden}, batch {self.batch}, {precision}"
