"""`best`: the fastest way of running a network here, found by building and measuring all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import torch

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError, UnavailableError
from brrr.gpu import tensors_on
from brrr.gpu.device import processor_for
from brrr.kernels.checks import check_shape, check_tensors
from brrr.networks.implementations import IMPLEMENTATIONS
from brrr.networks.network import Network, Weights
from brrr.networks.prepared import Prepared

BUDGET_S = 0.05
"""How long each candidate is measured."""


class Best(Prepared):
    """The textbook network in its fastest implementation, ready to be called.

    `implementation` is the name, and `why` says why it was chosen. `run()` uses the current `weights.x`; a call with an
    input copies it there first. The next call may overwrite a result. `close` frees the memory, as does leaving a
    ``with`` block.
    """

    def __init__(self, weights: Weights, implementation: str, why: str, prepared: Prepared) -> None:
        super().__init__(prepared.run, prepared.release)
        prepared.release = lambda: None  # this frees it from here on
        self.network, self.weights = weights.network, weights
        self.implementation, self.why = implementation, why

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The network's result for x, of shape (batch, hidden); ArgumentError for another shape, type or device."""
        mine = self.weights.x
        check_tensors("Best", {"weights": mine, "x": x}, (self.network.dtype,), strided=True)
        check_shape("Best", "x", x, mine.shape)
        if x is not mine:
            mine.copy_(x)
        result: torch.Tensor = self.run()
        return result

    def __repr__(self) -> str:
        return f"Best({self.network}: {self.implementation}; {self.why})"


def best(
    layers: int, batch: int, hidden: int, dtype: str = "float32", *, tf32: bool = False,
    weights: Weights | None = None, device: str | None = None, patient: bool = False,
) -> Best:  # fmt: skip
    """Build the textbook network (Linear and ReLU, `layers` times) in its fastest implementation on this device.

    >>> network = best(2, 4, 64, device="cpu")
    >>> tuple(network(torch.randn(4, 64)).shape), network.implementation in IMPLEMENTATIONS
    ((4, 64), True)
    >>> network.close()

    Parameters
    ----------
    layers : int
        How many layers.
    batch : int
        The input's rows; an input has the shape (batch, hidden).
    hidden : int
        The width of all layers.
    dtype : {"float32", "float16", "bfloat16"}
        The type of weights and inputs.
    tf32 : bool
        Whether float32 may be multiplied in TF32.
    weights : Weights, optional
        The network's own weights. By default random ones.
    device : str, optional
        A kind of device, as `brrr.measure` takes it. By default that of the weights, else the GPU if there is one.
    patient : bool
        Also try implementations that take up to minutes to build (torch.compile).

    Returns
    -------
    Best
        Call it with an input. `implementation` is the name, `why` says why it was chosen; `close()` frees its memory.

    Raises
    ------
    ArgumentError
        For sizes and types that do not exist.
    UnavailableError
        If the device is not here.
    DeviceMemoryError
        If the network does not fit on it.

    Notes
    -----
    Every implementation that runs here is built, checked against float64 and timed for a twentieth of a second,
    interleaved with the others. Those with Strassen are tried only where their levels are predicted to gain, and chosen
    only if their error stays within the tolerance that all have (`Weights.tolerance`).
    """
    network = Network(layers, batch, hidden, dtype, tf32)
    mine = _weights(network, weights, device)
    quick = [name for name, each in IMPLEMENTATIONS.items() if patient or not each.slow_to_build]
    names = [name for name in quick if IMPLEMENTATIONS[name].why_not(network, mine.device) is None]
    if not names:
        raise UnavailableError(f"best: {IMPLEMENTATIONS['module'].why_not(network, mine.device)}")
    return _fastest(names, mine)


def _weights(network: Network, weights: Weights | None, device: str | None) -> Weights:
    if weights is None:
        return Weights.random(network, processor_for("best", device))
    if not isinstance(weights, Weights):
        raise ArgumentError("best", "weights", type(weights).__name__, "a brrr.networks.Weights, or None")
    if weights.network != network:
        raise ArgumentError("best", "weights", f"those of {weights.network}", f"those of {network}")
    if device is not None and weights.device.type != torch.device(device).type:
        raise ArgumentError("best", "device", device, f"{weights.device}, where the weights are")
    return weights


def _fastest(names: list[str], weights: Weights) -> Best:
    """Build and check them, measure them where they are several, keep the fastest and close the others."""
    expected, made, complaints = weights.reference(), dict[str, Prepared](), list[str]()
    with ExitStack() as stack:
        for name in names:
            try:
                built = stack.enter_context(IMPLEMENTATIONS[name].build(weights))
            except (BrrrError, torch.OutOfMemoryError) as refusal:
                complaints.append(f"{name}: {refusal}.")
                continue
            error = weights.error(built.run(), expected)
            if error <= weights.tolerance:
                made[name] = built
            else:
                built.close()
                complaints.append(f"{name} gives a wrong result (relative error {error:.1e}).")
        if not made:
            raise UnavailableError(f"best: no way of running {weights.network} works here. {' '.join(complaints)}")
        name, why = _measured(made, weights.device) if len(made) > 1 else (*made, "the only way here")
        return Best(weights, name, why, made[name])


def _measured(made: Mapping[str, Prepared], device: torch.device) -> tuple[str, str]:
    """The fastest of them, measured in turns, and how long it and the next two take."""
    from brrr.timing import measure_together

    found = measure_together([each.run for each in made.values()], device=tensors_on(device), budget_s=BUDGET_S)
    times = {name: m.period_s.median for name, m in zip(made, found, strict=True) if m.period_s is not None}
    order = sorted(times, key=lambda name: times[name])
    return order[0], "measured: " + ", ".join(f"{name} {units.seconds(times[name], 2)}" for name in order[:3])
