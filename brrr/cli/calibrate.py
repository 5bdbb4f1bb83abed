"""`brrr calibrate`: measure this machine's peaks, print them, and keep them with its recordings.

python -m brrr calibrate --device cuda           # measure the GPU
python -m brrr calibrate --no-write              # only look
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from brrr.core.errors import BrrrError, RecordingError
from brrr.core.recordings import own_root
from brrr.gpu import is_cpu
from brrr.gpu.device import slug
from brrr.roofline.calibrate import calibrate
from brrr.roofline.peaks import Peaks, find_peaks, require_its, slug_of, write


def main(argv: Sequence[str]) -> int:
    """`brrr calibrate`: 0 when it went well, 2 for an error."""
    parser = argparse.ArgumentParser(prog="brrr calibrate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", metavar="KIND", help="cpu, cuda, mps, … (default: the GPU if there is one)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the recordings; the device's lies inside it")
    parser.add_argument("--seconds", type=float, default=100.0, help="take no longer than so many (default: 100)")
    parser.add_argument("--quick", action="store_true", help="a few sizes in a few seconds: to try it")
    parser.add_argument("--no-write", action="store_true", help="print the peaks and keep nothing")
    options = parser.parse_args(argv)

    def say(part: str) -> None:
        print(f"measuring: {part}", file=sys.stderr, flush=True)

    try:
        peaks = calibrate(options.device, budget_s=options.seconds, quick=options.quick, progress=say)
        print(peaks)
        if not options.no_write:
            print(f"\nWritten to {keep(options.out or own_root(), peaks)}")
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def keep(root: Path, peaks: Peaks) -> Path:
    """Write the peaks into the device's folder, of a CPU beside another one's by its name; RecordingError where those
    of another device lie there.
    """
    folder = root / slug_of(peaks)
    if is_cpu(peaks.kind) and anothers(folder, peaks):
        folder = root / slug(peaks.device)
    if said := anothers(folder, peaks):
        raise RecordingError(said)
    return write(folder, peaks)


def anothers(folder: Path, peaks: Peaks) -> str:
    """Whose recordings or peaks a folder has, where they are another device's; else empty."""
    try:
        require_its(folder, peaks)
    except RecordingError as error:
        return str(error)
    there = find_peaks(folder)
    if there is None or there.device == peaks.device:
        return ""
    return f"{folder}: holds the peaks of {there.device}; these are of {peaks.device}. Keep them elsewhere: --out DIR"
