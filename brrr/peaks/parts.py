"""A calibration part by part: each has its share of the time, and one that fails costs only itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from brrr.errors import UnavailableError, WrongResultError
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.peaks import Peaks
from brrr.peaks.sweep import Sweep


@dataclass
class Findings:
    """What a calibration has found so far, and how much of its time is left."""

    until_s: float
    quick: bool = False
    measured: dict[str, Peak] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    assumed: dict[str, Peak] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds left of the whole budget, none below zero."""
        return max(0.0, self.until_s - time.perf_counter())

    def note(self, what: str) -> None:
        """Say what is missing, and why; each thing once."""
        if what not in self.notes:
            self.notes.append(what)


@dataclass(frozen=True)
class Part:
    """One part: its name, what it does, and the seconds it needs at least."""

    name: str
    run: Callable[[Findings], None]
    needs_s: float = 0.0


def measured_peaks(device: str, budget_s: float, *, quick: bool, progress: Callable[[str], None]) -> Peaks:
    """Run all parts of the device's calibration within the budget."""
    import torch  # its loading is not the device's doing, and so not in the budget

    assert torch is not None
    from brrr.recordings.this_run import here

    if device == "cuda":
        _require_compiler()
        if quick:  # whose few seconds the first uses would take up
            _first_uses()
    found = Findings(time.perf_counter() + budget_s, quick)
    machine, run = here("cuda" if device == "cuda" else "cpu")
    run_parts(_parts(device), found, progress)
    return Peaks(
        device=machine.device,
        kind="cuda" if device == "cuda" else "cpu",
        date=run.date,
        brrr=run.brrr,
        driver=machine.driver,
        cuda=machine.cuda,
        torch=machine.torch,
        measured=found.measured,
        curves=found.curves,
        assumed=found.assumed,
        sweeps=found.sweeps,
        notes=tuple(found.notes),
    )


def run_parts(parts: Sequence[Part], found: Findings, progress: Callable[[str], None]) -> None:
    """Each part in turn; one for which no time is left, or which fails, becomes a note.

    WrongResultError is let through: a wrong result is no missing figure.
    """
    for part in parts:
        if part.needs_s and found.quick:
            found.note(f"{part.name}: left out of a quick calibration")
            continue
        if found.left_s <= part.needs_s:
            found.note(f"{part.name}: left out: it may need {part.needs_s:g} s, and {found.left_s:.1f} s were left")
            continue
        progress(part.name)
        try:
            part.run(found)
        except WrongResultError:
            raise
        except Exception as error:  # a missing library, too little memory, an operator that this torch lacks
            found.note(f"{part.name}: not measured: {said(error)}")


def _require_compiler() -> None:
    """UnavailableError unless CUDA C++ can be compiled here: every time on the GPU is taken behind a gate of it."""
    from brrr.kernels.nvrtc import probe_kernel

    try:
        probe_kernel("brrr_marker")
    except (ImportError, UnavailableError) as error:
        raise UnavailableError(
            f"calibrate: the GPU's peaks need NVRTC and cuda-bindings, which come with torch's CUDA builds: {error}. "
            "Install cuda-bindings; until then the recorded peaks are there, and calibrate('cpu')"
        ) from error


def _first_uses() -> None:
    """What a process pays once on a GPU: the timers' calibration, the profiler's start, the library of products."""
    import torch

    from brrr.peaks.gpu_times import own_times
    from brrr.timing.calibration import calibration

    calibration(torch.cuda.current_device())
    x = torch.ones(64, 64, device="cuda")
    own_times([lambda: torch.relu(x)])
    torch.matmul(x, x)
    torch.cuda.synchronize()


def _parts(device: str) -> Sequence[Part]:
    if device == "cuda":
        from brrr.peaks.gpu import PARTS as gpu_parts

        return gpu_parts
    from brrr.peaks.cpu import PARTS as cpu_parts

    return cpu_parts


def said(error: Exception) -> str:
    """What went wrong, on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
