"""Which way was fastest for a network on a device, kept from one process to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from brrr.core.paths import cache_folder, keep, kept
from brrr.networks.network import Network

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


def key(network: Network, device: str, torch: str, extra: str = "") -> str:
    """What a verdict holds for: the network, the device by name, torch's version, and this package's.

    >>> key(Network(1, 2, 64), "NVIDIA H200", "2.11.0").startswith("NVIDIA H200 | torch 2.11.0 | brrr ")
    True
    """
    from brrr.core import __version__

    return " | ".join([device, f"torch {torch}", f"brrr {__version__}", str(network), *([extra] if extra else [])])


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
