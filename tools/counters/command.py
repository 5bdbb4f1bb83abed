"""`brrr counters`: the bytes that operators move by the GPU's own counters, beside those that are counted.

python -m brrr counters                          # measure, print, and keep beside the device's recordings
python -m brrr counters --no-write               # only look
python -m brrr counters --replay app-range       # several calls of an operator as one range
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.counters.movements import Movements, write_counters
from tools.counters.ncu import REPLAYS, measured, profiled, version


def main(argv: Sequence[str]) -> int:
    """`brrr counters`: 0 when it went well; UnavailableError where the counters cannot be read."""
    options = _parser().parse_args(argv)
    found = count_on_hardware(options.replay, options.ncu, options.seconds)
    print(found)
    if not options.no_write:
        print(f"\nWritten to {write_counters(_folder(options.out, found.device), found)}")
    return 0


def count_on_hardware(replay: str = "application", ncu: str | None = None, timeout_s: float = 240.0) -> Movements:
    """Run all operators under Nsight Compute, in a process of its own, on the GPU here.

    Raises UnavailableError without a GPU, without `ncu`, or where it may not read the counters; RecordingError where
    what it printed does not fit what ran.
    """
    from brrr.course.sources.recorder import here
    from tools.counters.worker import CALLS

    machine, run = here("cuda")
    plan, seen = profiled(replay, ncu, timeout_s)
    return Movements(
        device=machine.device,
        driver=machine.driver,
        cuda=machine.cuda,
        torch=machine.torch,
        date=run.date,
        brrr=run.brrr,
        ncu=version(ncu),
        replay=replay,
        l2_bytes=float(plan["l2_bytes"]),
        set_bytes=float(plan["set_bytes"]),
        rows=measured(plan, seen, CALLS, replay),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr counters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda",), default="cuda", help="where to measure: a GPU has the counters")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the recordings; the device's lies inside it")
    parser.add_argument("--replay", choices=REPLAYS, default=REPLAYS[0], help="how ncu measures (default: application)")
    parser.add_argument("--ncu", metavar="PATH", help="the program ncu (default: the one on the PATH)")
    parser.add_argument("--seconds", type=float, default=240.0, help="give up after so many (default: 240)")
    parser.add_argument("--no-write", action="store_true", help="print the table and keep nothing")
    return parser


def _folder(out: Path | None, device: str) -> Path:
    from brrr.core.paths import recordings_root
    from brrr.gpu.device import slug

    return (out or recordings_root()) / slug(device)
