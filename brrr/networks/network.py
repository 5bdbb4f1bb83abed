"""What network it is, what it costs, and how fast it could be at best; no torch is needed to say so."""

from __future__ import annotations

import math
from dataclasses import dataclass

from brrr.core.errors import ArgumentError, DeviceMemoryError, is_out_of_memory, whole
from brrr.core.heavy import torch
from brrr.counting.cost import ITEMSIZE, Cost, Form, Matmul, OperatorCost
from brrr.kernels.checks import FLOATS, check_shape, check_tensors
from brrr.roofline.device_model import Where, model_of
from brrr.roofline.peaks import short

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
            whole("Network", name, getattr(self, name), most=LARGEST)
        object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))
        if self.dtype not in FLOATS:
            raise ArgumentError("Network", "dtype", self.dtype, f"one of {', '.join(FLOATS)}")
        if not isinstance(self.tf32, bool) or (self.tf32 and self.dtype != "float32"):
            raise ArgumentError("Network", "tf32", self.tf32, f"True or False with float32, False with {self.dtype}")

    @property
    def itemsize(self) -> int:
        """Bytes of an element.

        >>> Network(1, 2, 128, "bfloat16").itemsize
        2
        """
        return ITEMSIZE[self.dtype]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights and biases.

        >>> Network(8, 16, 256).weight_bytes
        2105344
        """
        return self.layers * self.itemsize * (self.hidden * self.hidden + self.hidden)

    @property
    def cost(self) -> Cost:
        """FLOP and bytes with the operators that torch runs: a product with its bias, then ReLU in place.

        >>> [each.name for each in Network(1, 4, 64).cost.operators]
        ['aten.t', 'aten.addmm', 'aten.relu_']

        As `brrr.cost` counts the module: the bias counts one FLOP an element, and so does ReLU.
        """
        m, n, rows = self.batch, self.hidden, self.itemsize * self.batch * self.hidden
        product = Matmul(m=m, n=n, k=n, dtype=self.dtype, transposed=(False, True))
        with_bias, read = product.flop + m * n, self.itemsize * (n + n * n) + rows
        layer = (
            OperatorCost("aten.t", 0.0, 0, 0, self.dtype, ((n, n),), "view"),
            OperatorCost("aten.addmm", with_bias, read, rows, self.dtype, ((n,), (m, n), (n, n)), "matmul", (product,)),
            OperatorCost("aten.relu_", float(m * n), rows, rows, self.dtype, ((m, n),), form=Form("", 1, m * n)),
        )
        operators, needed = layer * self.layers, self.weight_bytes + 2.0 * rows
        flop, moved = sum(each.counted_flop for each in operators), sum(each.bytes for each in operators)
        return Cost(flop, needed, moved, needed + (rows if self.layers > 1 else 0), operators)

    def floor_s(self, device: Where) -> float:
        """Lower bound in seconds: the longer of all bytes at memory bandwidth and all FLOP at the best rate.

        `device` is what `brrr.predict` takes, such as the peaks that `brrr.calibrate()` returns; MissingPeakError where
        it lacks one of the two. A network small enough to stay in the cache from call to call may be faster than the
        bytes say.
        """
        kind = "tf32" if self.tf32 else self.dtype
        return model_of(device).roof_s(self.cost.flop, self.cost.bytes, short(kind))

    def __str__(self) -> str:
        precision = "TF32" if self.tf32 else self.dtype
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers} of {self.hidden}, batch {self.batch}, {precision}"


# ---------------------------------------------------------------------------------------------------------------------
# A network's numbers: weights, biases and one input; and what the result should be.

BIAS = 0.3
"""The biases' standard deviation: large enough that a layer without its bias is a wrong result in every type."""

TOLERANCES = {"float32": 1e-5, "tf32": 3e-3, "float16": 5e-3, "bfloat16": 3e-2}
"""The largest relative error (2-norm) that passes, of up to eight layers (of few, in TF32); of more it grows as
independent errors do."""

TF32_LAYER = 1e-3
"""What each layer may add in TF32. Matrix units may drop the 13 bits that TF32 lacks instead of rounding them: each
operand then loses 2^-11 of its power of two on average, about 3.5e-4 of itself, so each product 7e-4, always towards
zero. Such errors do not cancel: they add up from layer to layer."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of shape (hidden, hidden) as (out, in), biases (hidden,), an input `x` of shape (batch, hidden).

    >>> w = Weights.random(Network(layers=2, batch=3, hidden=8), "cpu", seed=1)
    >>> len(w.weights), tuple(w.x.shape), w.reference().dtype
    (2, (3, 8), torch.float64)

    All contiguous, of the network's type and on one device; ArgumentError for any others.
    """

    network: Network
    weights: list[torch.Tensor]
    biases: list[torch.Tensor]
    x: torch.Tensor

    def __post_init__(self) -> None:
        network, n = self.network, self.network.hidden
        for name, tensors, shape in (
            ("x", [self.x], (network.batch, n)), ("weights", self.weights, (n, n)), ("biases", self.biases, (n,)),
        ):  # fmt: skip
            if name != "x" and len(tensors) != network.layers:
                raise ArgumentError("Weights", name, f"{len(tensors)} tensors", f"{network.layers}, one for each layer")
            for each in tensors:
                check_tensors("Weights", {"x": self.x, name: each}, (network.dtype,))
                check_shape("Weights", name, each, shape)

    @classmethod
    def random(cls, network: Network, device: str | torch.device, seed: int | None = None) -> Weights:
        """Normal numbers, the weights with a variance of 2/hidden, so that ReLU layers keep the activations' size.

        (He, Zhang, Ren and Sun, "Delving Deep into Rectifiers", 2015.) seed: None draws fresh ones. DeviceMemoryError
        where the device has no room for them.
        """
        where, kind = torch.device(device), getattr(torch, network.dtype)
        draw = torch.Generator(where)
        draw.manual_seed(seed) if seed is not None else draw.seed()

        def normal(scale: float, *shape: int) -> torch.Tensor:
            return (torch.randn(shape, generator=draw, device=where) * scale).to(kind)

        n, spread = network.hidden, math.sqrt(2 / network.hidden)
        try:
            weights = [normal(spread, n, n) for _ in range(network.layers)]
            biases = [normal(BIAS, n) for _ in range(network.layers)]
            return cls(network, weights, biases, normal(1.0, network.batch, n))
        except RuntimeError as error:  # torch's own error for a GPU is one of these too
            if not is_out_of_memory(error):
                raise
            raise DeviceMemoryError(
                f"Weights.random: {network} needs {network.weight_bytes} bytes on {where}, and there are less"
            ) from error

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.x.device

    def reference(self) -> torch.Tensor:
        """The result for `x` in float64, on the same device, or on the CPU where that has no such numbers."""
        from brrr.roofline.calibrate.part import double

        y = double(self.x)
        for w, b in zip(self.weights, self.biases, strict=True):
            y = (y @ double(w).t() + double(b)).relu_()
        return y

    def error(self, found: torch.Tensor, expected: torch.Tensor | None = None) -> float:
        """||found - expected|| / ||expected||; NaN for another shape or device, infinite if the reference is all 0.

        expected: the reference, if you have it.
        """
        from brrr.roofline.calibrate.part import double

        wanted = self.reference() if expected is None else expected
        if found.shape != wanted.shape or found.device != self.x.device:
            return math.nan
        size, away = float(wanted.norm()), float((double(found.detach()) - wanted).norm())
        return away / size if size else (0.0 if away == 0 else math.nan if math.isnan(away) else math.inf)

    @property
    def tolerance(self) -> float:
        """The largest error that passes."""
        layers = self.network.layers
        if self.network.tf32:
            return max(TOLERANCES["tf32"], TF32_LAYER * layers)
        return TOLERANCES[self.network.dtype] * max(1.0, math.sqrt(layers / 8))
