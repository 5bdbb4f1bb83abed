"""All that a prediction on a GPU without a sweep is judged by, in one go on that machine; run again, it goes on.

python -m tools.prediction.field OUT [MINUTES]    # 9 minutes where nothing is said
python -m tools.prediction.field OUT 4 cpu        # the CPU: calibrated for 100 s, then the cases of `prediction`

It calibrates for 100 s, measures the ten programs, then operators and drawn calls, then those of another seed, as far
as the time holds. Each result is written at once. Elsewhere, with BRRR_RECORDINGS=OUT:
python -m tools.prediction claims operators operators_drawn operators_again --source recorded:h100
python -m tools.prediction.programs OUT --judge
python -m tools.prediction rows recorded:cpu > errors.csv
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from brrr.gpu.probe import cpu_count
from brrr.roofline.peaks import PEAKS
from brrr_course.sources.record import THREADS

CALIBRATE_S, PROGRAMS_S = 100, 130
EXPERIMENTS = ("operators", "operators_drawn", "operators_again")


def steps(out: Path, until_s: float, device: str = "cuda") -> Iterator[tuple[list[str], float]]:
    """Each command with the seconds that it may take."""
    if not list(out.glob(f"*/{PEAKS}")):
        seconds = ["--seconds", str(CALIBRATE_S)]
        yield ["brrr", "calibrate", "--device", device, "--out", str(out), *seconds], 1.5 * CALIBRATE_S
    if device == "cuda":
        yield ["tools.prediction.programs", str(out)], PROGRAMS_S
    for name in EXPERIMENTS if device == "cuda" else ("prediction",):
        left_s = until_s - time.monotonic()
        minutes = ["--minutes", f"{max(left_s - 15, 1) / 60:.2f}"]
        yield ["tools.prediction", "record", name, "--device", device, "--out", str(out), *minutes], left_s


def main(argv: Sequence[str]) -> int:
    """0 when all ran to its end, 1 where something is left, 2 for a call that cannot be understood."""
    if not 1 <= len(argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(argv[0]).absolute()
    out.mkdir(parents=True, exist_ok=True)
    began, left = time.monotonic(), False
    until_s = began + 60 * float(argv[1] if len(argv) > 1 else 9)
    for command, most_s in steps(out, until_s, *argv[2:]):
        left_s = min(most_s, until_s - time.monotonic())
        if left_s < 20:
            left = True
            break
        print(f"[{time.monotonic() - began:.0f} s] {' '.join(command)}", flush=True)
        threads = {**THREADS, "OMP_NUM_THREADS": str(cpu_count())}  # as `record` has them, for calibrate, too
        env = {**threads, **os.environ, "BRRR_RECORDINGS": str(out)}
        try:
            left |= (
                subprocess.run([sys.executable, "-m", *command], env=env, timeout=left_s, check=False).returncode != 0
            )
        except subprocess.TimeoutExpired:
            print(f"ended after {left_s:.0f} s: run it again, and it goes on", flush=True)
            left = True
    print(f"[{time.monotonic() - began:.0f} s] {'something is left' if left else 'all done'}", flush=True)
    return int(left)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
