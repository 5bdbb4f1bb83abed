"""Eight loaders that starve the device and eight healthy programs: what `diagnose` says of each, and what workers gain.

python -m tools.judge.loaders                 # on a CPU: a step computes on one thread, and sleeps as if a GPU worked
python -m tools.judge.loaders --device cuda   # beside a GPU, which multiplies as long
python -m tools.judge.loaders --only pictures plain --details

Right is a starved program whose first remedy is to load in the background, and a healthy one without it. The gain is
measured with as many workers as were advised, a program's paces before and after it in turn. What is true of the
waiting is the step's time on a batch that is kept. Where other programs take the cores a gain is "busy": undecided.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial

import torch

from brrr.core import units
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.report import Diagnosis
from brrr.timing.sampler import cpu_seconds, crowded
from tools.judge.loader_programs import HEALTHY, STARVED, Step, Trained

NEAR, PACED_S, ROUNDS = 0.2, 0.5, 3
"""A predicted gain within so much of the measured one is right; for so long a program runs before its pace is taken,
and then again; and so often."""
ADVICE, WAITING = "load in the background", "waiting for data"
WORKERS = re.compile(r"num_workers=(\d+)")


def pace_s(step: Step, device: str) -> float:
    """Seconds of a step once what was made ahead is used up."""
    for _ in range(2):
        began, steps = time.perf_counter(), 0
        while steps < 3 or time.perf_counter() - began < PACED_S:
            step()
            steps += 1
        if device != "cpu":
            torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def paces_s(steps: Sequence[Step], device: str) -> list[float]:
    """The paces of some programs, by turns: others use this machine, too."""
    rounds = [[pace_s(step, device) for step in steps] for _ in range(ROUNDS)]
    return [statistics.median(each) for each in zip(*rounds, strict=True)]


def waits(found: Diagnosis) -> float:
    """The share of a step that waits for data, as it was said."""
    return found.shares.overhead_s.get(WAITING, 0.0) / found.steps / found.step_s


def others() -> bool:
    """Whether other programs take the cores now, so that no worker can show what it gains."""
    before = cpu_seconds()
    time.sleep(PACED_S)
    return crowded(before, cpu_seconds())


def starved(name: str, device: str, details: bool) -> tuple[tuple[str, ...], bool, bool | None]:
    """What is said of a starved program and what is true of it: whether it was named, and its gain was near.

    The second is None where others take the cores.
    """
    now, ms, build = STARVED[name]
    train = Trained(device, ms if device == "cpu" else ms / 3)  # beside a GPU the host loads meanwhile
    found = diagnose(build(now, train), device=device)
    print(found.details() if details else f"  {name}", file=sys.stderr)
    advised = [each for each in found.remedies if each.name == ADVICE]
    workers = int(WORKERS.findall(advised[0].why)[0]) if advised else now + 1
    before = build(now, train)
    before()
    busy = others()
    before_s, after_s, rest_s = paces_s([before, build(workers, train), partial(train, train.kept)], device)
    gain, said = before_s / after_s, advised[0].gain if advised else 1.0
    right, near = found.remedies[:1] == (*advised,), bool(advised) and abs(said / gain - 1) <= NEAR
    busy |= others()
    shares = units.percent(waits(found), 2), units.percent(1 - rest_s / before_s, 2), "yes" if right else "no"
    gains = f"{now} to {workers}", units.ratio(said), units.ratio(gain)
    return (name, *shares, *gains, "busy" if busy else "yes" if near else "no"), right, None if busy else near


def healthy(name: str, device: str, details: bool) -> tuple[tuple[str, ...], bool]:
    """What is said of a healthy program: whether nothing was."""
    ms, build = HEALTHY[name]
    found = diagnose(build(Trained(device, ms)), device=device)
    print(found.details() if details else f"  {name}", file=sys.stderr)
    silent = all(each.name != ADVICE for each in found.remedies)
    return (name, units.percent(waits(found), 2), "yes" if silent else "no"), silent


def main(argv: Sequence[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser("python -m tools.judge.loaders", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", choices=(*STARVED, *HEALTHY), default=(*STARVED, *HEALTHY))
    parser.add_argument("--details", action="store_true", help="print each diagnosis")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    made = [starved(name, asked.device, asked.details) for name in asked.only if name in STARVED]
    sound = [healthy(name, asked.device, asked.details) for name in asked.only if name in HEALTHY]
    heads = "starved", "said to wait", "waits", "named first", "workers", "predicted", "measured", "within 20 %"
    print("\n".join(units.table([heads, *(row for row, *_ in made)])))
    decided = [near for *_, near in made if near is not None]
    print(f"{sum(right for _, right, _ in made)} named, of {len(made)}; {sum(decided)} near, of {len(decided)}\n")
    print("\n".join(units.table([("healthy", "said to wait", "silent"), *(row for row, _ in sound)])))
    print(f"{sum(silent for _, silent in sound)} silent, of {len(sound)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
