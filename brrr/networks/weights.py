"""A network's numbers: weights, biases and one input; and what the result should be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from brrr.core.errors import ArgumentError, DeviceMemoryError
from brrr.networks.network import Network

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
        network = self.network
        for name, tensors in (("weights", self.weights), ("biases", self.biases)):
            if len(tensors) != network.layers:
                raise ArgumentError("Weights", name, f"{len(tensors)} tensors", f"{network.layers}, one for each layer")
        square, row = (network.hidden, network.hidden), (network.hidden,)
        for each in self.weights:
            self._check("weights", each, square)
        for each in self.biases:
            self._check("biases", each, row)
        self._check("x", self.x, (network.batch, network.hidden))

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
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise DeviceMemoryError(
                f"Weights.random: {network} needs {network.weight_bytes} bytes on {where}, and there are less"
            ) from error

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.x.device

    def reference(self) -> torch.Tensor:
        """The result for `x` in float64, on the same device."""
        y = self.x.double()
        for w, b in zip(self.weights, self.biases, strict=True):
            y = (y @ w.double().t() + b.double()).relu_()
        return y

    def error(self, found: torch.Tensor, expected: torch.Tensor | None = None) -> float:
        """||found - expected|| / ||expected||; NaN for another shape or device, infinite if something should be 0.

        expected: the reference, where it is at hand.
        """
        wanted = self.reference() if expected is None else expected
        if found.shape != wanted.shape or found.device != wanted.device:
            return math.nan
        size = float(torch.linalg.norm(wanted))
        away = float(torch.linalg.norm(found.detach().double() - wanted))
        return away / size if size else (0.0 if away == 0 else math.nan if math.isnan(away) else math.inf)

    @property
    def tolerance(self) -> float:
        """The largest error that passes."""
        layers = self.network.layers
        if self.network.tf32:
            return max(TOLERANCES["tf32"], TF32_LAYER * layers)
        return TOLERANCES[self.network.dtype] * max(1.0, math.sqrt(layers / 8))

    def _check(self, name: str, tensor: object, shape: tuple[int, ...]) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise ArgumentError("Weights", name, type(tensor).__name__, "tensors")
        kind = getattr(torch, self.network.dtype)
        if tensor.shape != shape or tensor.dtype != kind:
            raise ArgumentError("Weights", name, f"{tensor.dtype} {tuple(tensor.shape)}", f"{kind} of shape {shape}")
        if tensor.device != self.x.device or not tensor.is_contiguous():
            found = f"strides {tensor.stride()} on {tensor.device}"
            raise ArgumentError("Weights", name, found, f"contiguous, on {self.x.device}", "Use .contiguous()")
