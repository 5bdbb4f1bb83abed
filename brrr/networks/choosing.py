"""`best`: the fastest way of running a network here, chosen by prediction and, where that is close, by measuring."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError, UnavailableError
from brrr.core.files import cache_folder, keep, kept
from brrr.core.measurement import Processor
from brrr.gpu import GPU, is_gpu, tensors_on
from brrr.networks.implementations import WAYS, Prepared
from brrr.networks.network import Network, Weights
from brrr.networks.predicting import Candidate, predictions, to_measure, worth_trying
from brrr.roofline.device_model import Where, known_here, peaks_here
from brrr.roofline.peaks import MissingPeakError

# ---------------------------------------------------------------------------------------------------------------------
# Which way was fastest for a network on a device, kept from one process to the next.

FILE = "best.json"
FORMAT = 1


@dataclass(frozen=True)
class Verdict:
    """The fastest way, what each that was measured took a call (`period_s`), and on which day."""

    way: str
    period_s: Mapping[str, float]
    day: str


def where() -> Path:
    """The file; it may be deleted at any time."""
    return cache_folder() / FILE


def key(network: Network, device: str, version: str, extra: str = "") -> str:
    """What a verdict holds for: the network, the device by name, torch's version, and this package's.

    >>> key(Network(1, 2, 64), "NVIDIA H200", "2.11.0").startswith("NVIDIA H200 | torch 2.11.0 | brrr ")
    True
    """
    from brrr.core import __version__

    return " | ".join([device, f"torch {version}", f"brrr {__version__}", str(network), *([extra] if extra else [])])


def recall(name: str) -> Verdict | None:
    """What was remembered under a key; None for nothing, and for a file that is damaged or of another format."""
    found = _entries().get(name)
    if not isinstance(found, dict):
        return None
    way, times, day = found.get("way"), found.get("period_s"), found.get("day")
    if not (isinstance(way, str) and isinstance(day, str) and isinstance(times, dict) and way in times):
        return None
    if not all(isinstance(each, (int, float)) and each > 0 for each in times.values()):
        return None
    return Verdict(way, {each: float(value) for each, value in times.items()}, day)


def remember(name: str, way: str, period_s: Mapping[str, float]) -> Verdict:
    """Keep a verdict; where the disk refuses, it holds for this once."""
    verdict = Verdict(way, dict(period_s), date.today().isoformat())
    entries = _entries() | {name: {"way": way, "period_s": dict(period_s), "day": verdict.day}}
    keep(where(), json.dumps({"format": FORMAT, "best": entries}, indent=1).encode())
    return verdict


def _entries() -> dict[str, Any]:
    try:
        found = json.loads(kept(where()) or b"{}")
    except ValueError:
        return {}
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("best"), dict):
        return {}
    return dict(found["best"])


BUDGET_S = 0.05
"""How long each candidate is measured."""


class Best:
    """A network in its fastest way, ready to be called: `way` is its name in `WAYS`, `why` a sentence.

    `run()` computes the result for `weights.x`, as it then is; a call copies another input there first. The next call
    may overwrite a result. `close` frees what it holds; it is also a context manager.
    """

    def __init__(self, weights: Weights, way: str, why: str, prepared: Prepared) -> None:
        self.network, self.weights, self.way, self.why, self._prepared = weights.network, weights, way, why, prepared
        self.run = prepared.run

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The network's result for x, of shape (batch, hidden); ArgumentError for another shape, type or device."""
        mine = self.weights.x
        if not isinstance(x, torch.Tensor):
            raise ArgumentError("Best", "x", type(x).__name__, "a tensor")
        if (x.shape, x.dtype, x.device) != (mine.shape, mine.dtype, mine.device):
            found, wanted = (f"{each.dtype} {tuple(each.shape)} on {each.device}" for each in (x, mine))
            raise ArgumentError("Best", "x", found, wanted, "Ask best() for another network")
        if x is not mine:
            mine.copy_(x)
        result: torch.Tensor = self.run()
        return result

    def close(self) -> None:
        """Free its memory; later calls are refused."""
        self._prepared.close()
        self.run = self._prepared.run

    def __enter__(self) -> Best:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Best({self.network}: {self.way}; {self.why})"


class _Built(NamedTuple):
    way: str
    prepared: Prepared
    why: str


def best(
    layers: int,
    batch: int,
    hidden: int,
    dtype: str = "float32",
    *,
    tf32: bool = False,
    weights: Weights | None = None,
    device: str | None = None,
    patient: bool = False,
    again: bool = False,
) -> Best:
    """Build the textbook network (Linear and ReLU, `layers` times) in the way that is fastest on this device.

    >>> network = best(2, 4, 64, device="cpu")
    >>> tuple(network(torch.randn(4, 64)).shape), network.way in WAYS
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
    device : {"cuda", "cpu"}, optional
        By default that of the weights, else the GPU if there is one.
    patient : bool
        Also try the ways that take up to minutes to build (torch.compile).
    again : bool
        Measure again, also where the user's cache knows the answer.

    Returns
    -------
    Best
        Call it with an input. `way` names the way, `why` says in a sentence why; `close()` frees its memory.

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
    The predictor ranks the ways. If the first is ahead by less than 20 %, or its prediction rests on no measurement,
    those that come near are built, checked against float64 and measured, a fraction of a second each. Ways with
    Strassen are taken only if their error stays within the tolerance that all ways have (`Weights.tolerance`).
    """
    network = Network(layers, batch, hidden, dtype, tf32)
    mine = _weights(network, weights, device)
    names = worth_trying(network, [name for name in WAYS if _usable(name, network, mine.device, patient)])
    if not names:
        raise UnavailableError(f"best: {WAYS['module'].why_not(network, mine.device)}")
    label = key(network, _device_name(mine.device), torch.__version__, "patient" if patient else "")
    known = None if again else recall(label)
    built = _remembered(known, names, mine) if known else None
    built = built or _chosen(network, names, mine, label)
    return Best(mine, built.way, built.why, built.prepared)


def _usable(name: str, network: Network, device: torch.device, patient: bool) -> bool:
    way = WAYS[name]
    return (patient or not way.slow_to_build) and way.why_not(network, device) is None


def _weights(network: Network, weights: Weights | None, device: str | None) -> Weights:
    if weights is None:
        return Weights.random(network, _device(device))
    if not isinstance(weights, Weights):
        raise ArgumentError("best", "weights", type(weights).__name__, "a brrr.networks.Weights, or None")
    if weights.network != network:
        raise ArgumentError("best", "weights", f"those of {weights.network}", f"those of {network}")
    if device is not None and weights.device.type != torch.device(device).type:
        raise ArgumentError("best", "device", device, f"{weights.device}, where the weights are")
    return weights


def _device(device: str | None) -> str:
    from brrr.gpu.device import processor_for

    if device not in (None, *get_args(Processor)):
        hint = "For another GPU, make it torch's current one: torch.cuda.device(...)"
        raise ArgumentError("best", "device", device, '"cuda" or "cpu"', hint)
    return processor_for("best", device)


def _remembered(known: Verdict, names: Sequence[str], weights: Weights) -> _Built | None:
    """What was fastest before; None where it is not here any more."""
    if known.way not in names:
        return None
    prepared, _ = _built(known.way, weights, weights.reference())
    return None if prepared is None else _Built(known.way, prepared, f"measured on {known.day}: {_compared(known)}")


def _chosen(network: Network, names: Sequence[str], weights: Weights, label: str) -> _Built:
    ranked = predictions(network, names, _where(weights.device))
    complaints: list[str] = []
    while ranked:
        names = to_measure(ranked)
        found = _predicted(ranked, weights) if len(names) == 1 else _fastest(names, weights, label, complaints)
        if found is not None:
            return found
        ranked = [each for each in ranked if each.way not in names]  # none of them worked: the next ones
    raise UnavailableError(f"best: no way of running {network} works here. {' '.join(complaints)}")


def _where(device: torch.device) -> Where:
    """What is known of this machine, where it will run; a GPU's datasheet counts too."""
    try:
        return known_here(GPU) if is_gpu(device) else peaks_here("cpu")
    except MissingPeakError:
        return None


def _predicted(ranked: Sequence[Candidate], weights: Weights) -> _Built | None:
    """The first of the ranking, unmeasured."""
    first = ranked[0]
    prepared, _ = _built(first.way, weights, weights.reference())
    if prepared is None:
        return None
    after = [each for each in ranked[1:] if each.period_s is not None][:1]
    if first.period_s is None:
        return _Built(first.way, prepared, "the only way here")
    said = f"predicted {units.seconds(first.period_s, 2)}"
    return _Built(first.way, prepared, said + "".join(f", {each.way} {_time(each.period_s)}" for each in after))


def _fastest(names: Sequence[str], weights: Weights, label: str, complaints: list[str]) -> _Built | None:
    """Build and check them, measure them interleaved, keep the fastest and close the others."""
    from brrr.timing import measure_together

    expected = weights.reference()
    with ExitStack() as stack:
        made: dict[str, Prepared] = {}
        for name in names:
            prepared, complaint = _built(name, weights, expected)
            complaints += [complaint] if complaint else []
            if prepared is not None:
                made[name] = stack.enter_context(prepared)
        if not made:
            return None
        place = tensors_on(weights.device)
        runs = [each.run for each in made.values()]
        measured = measure_together(runs, device=place, budget_s=BUDGET_S)
        times = {name: m.period_s.median for name, m in zip(made, measured, strict=True) if m.period_s is not None}
        way = min(times, key=lambda name: times[name])
        verdict = remember(label, way, times)
        kept = Prepared(made[way].run, made[way].release)
        made[way].release = _nothing  # it stays open
        return _Built(way, kept, f"measured: {_compared(verdict)}")


def _built(name: str, weights: Weights, expected: torch.Tensor) -> tuple[Prepared | None, str | None]:
    """A way that is built and right; else what is wrong with it."""
    try:
        prepared = WAYS[name].build(weights.network, weights)
    except (BrrrError, torch.OutOfMemoryError) as refusal:
        return None, f"{name}: {refusal}."
    try:
        error = weights.error(prepared.run(), expected)
    except BaseException:
        prepared.close()
        raise
    if math.isnan(error) or error > weights.tolerance:
        prepared.close()
        return None, f"{name} gives a wrong result (relative error {error:.1e})."
    return prepared, None


def _compared(verdict: Verdict) -> str:
    """The fastest and the next two, with their times."""
    order = sorted(verdict.period_s, key=lambda name: verdict.period_s[name])
    order = [verdict.way, *(name for name in order if name != verdict.way)]
    return ", ".join(f"{name} {_time(verdict.period_s[name])}" for name in order[:3])


def _time(seconds: float | None) -> str:
    return "unknown" if seconds is None else units.seconds(seconds, 2)


def _device_name(device: torch.device) -> str:
    from brrr.gpu.probe import cpu_name

    return torch.cuda.get_device_name(device) if is_gpu(device) else cpu_name()


def _nothing() -> None:
    """It is freed by whoever asked for it."""
