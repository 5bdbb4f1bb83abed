"""A made-up recording of `memory_swap` on an H100, from the H200's rows and ratios."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from brrr_course.experiments import experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded, recorded
from brrr_course.sources.recording import Recording

SWAP = experiment("memory_swap")


def h100(folder: Path, ratios: Callable[[str], float], device: str = "") -> Evidence:
    """A made-up recording of another device: each call takes so many times as long as on the H200."""
    mine, theirs = recorded("h100"), recorded("h200").recording(SWAP)
    of = mine.recording(experiment("unary"))
    run = of.rows[0].run
    rows = []
    for row in {row.point: row for row in theirs.rows}.values():  # the newest
        time = row.measurement.kernel_s
        assert time is not None
        times = time * ratios(str(row.point[0]))
        rows.append(replace(row, run=run, measurement=replace(row.measurement, kernel_s=times, busy_s=times,
                                                              span_s=None, period_s=None, latency_s=None)))  # fmt: skip
    machine = replace(of.machine, device=device or of.machine.device)
    (folder / "h100").mkdir()
    machine.write(folder / "h100")
    Recording(SWAP, machine, tuple(rows)).write(folder / "h100")
    return Evidence(SWAP, Recorded("h100", folder))
