"""`brrr compare`: whether calls became slower, by two files that `brrr time --json` or `to_json()` wrote.

for i in 1 2 3; do python -m brrr time "f(x)" --setup "from mine import f, x" --json >> new.json; done
python -m brrr compare old.json new.json --threshold 1.05
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError, RecordingError
from brrr.core.measurement import CONFIDENCE, FIELDS, Estimate, Measurement
from brrr.timing.comparing import ratio, verdict


def main(argv: Sequence[str]) -> int:
    """`brrr compare`: 1 if an interval lies wholly above the threshold, 2 for files that cannot be compared, else 0."""
    parser = argparse.ArgumentParser(prog="brrr compare", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="what was measured before")
    parser.add_argument("new", help="what was measured now")
    parser.add_argument("--threshold", type=float, default=1.05, metavar="X", help="how slow is too slow: 1.05")
    parser.add_argument("--field", choices=FIELDS, default="period_s", help="the time to compare (default: period_s)")
    options = parser.parse_args(argv)
    try:
        ratios = compared(read(options.old), read(options.new), options.field)
    except BrrrError as error:
        print(f"brrr compare: {error}", file=sys.stderr)
        return 2
    slower = [name or options.new for name, each in ratios.items() if each.low > options.threshold]
    print(f"above {options.threshold:g}x by all of the interval: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


FEWEST = 3
"""So many processes a side show by themselves how far processes differ."""
BETWEEN = {False: 1.5, True: 1.1}
"""On a CPU, and on a GPU: by so much equal code was seen to differ from one process to the next; fewer are taken so."""

Processes = Mapping[str, list[Measurement]]
"""Of each call: what was measured of it, process by process."""


def compared(old: Processes, new: Processes, field: str) -> dict[str, Estimate]:
    """The ratio of each call that both have, which is printed; an interval that is not known has infinite ends."""
    pairs = {
        name: [[t for m in side[name] if (t := m.get(field))] for side in (old, new)] for name in old if name in new
    }
    times = {name: sides for name, sides in pairs.items() if all(sides)}
    devices = {m.device for side in (old, new) for found in side.values() for m in found}
    if not times or len(devices) > 1:
        here = f"old: {', '.join(old) or 'a call'}; new: {', '.join(new) or 'a call'}; {', '.join(sorted(devices))}"
        wanted = f"a time that both files have of one call, on one device ({here})"
        raise ArgumentError("compare", "field", field, wanted)
    level = (1 - CONFIDENCE) / len(times)
    ratios = {
        name: _over(sides[0], sides[1], level, BETWEEN[old[name][0].span_s is not None])
        for name, sides in times.items()
    }
    rows = [(name or "the call", *map(_told, times[name]), f"{each:x}", verdict("new", each))
            for name, each in ratios.items()]  # fmt: skip
    notes = [f"only in one file: {name}" for name in sorted({*old} ^ {*new})]
    if any(len(side) < FEWEST for sides in times.values() for side in sides):
        notes.append(
            f"of fewer than {FEWEST} processes a side: equal code differs from process to process, and the interval is "
            "as much wider. Append more to each file: brrr time --json >> FILE"
        )
    print("\n".join([*units.table([("call", "old", "new", "new over old", "verdict"), *rows]), *notes]))
    return ratios


def _over(old: list[Estimate], new: list[Estimate], level: float, between: float) -> Estimate:
    """New over old: of enough processes each against each, else the first of each, as wide as processes may differ."""
    if len(old) < FEWEST or len(new) < FEWEST:
        found = ratio(new[0], old[0], level)
        return Estimate(found.median, found.low / between, found.high * between, found.n, 0)
    before, now = ([each.median for each in side] for side in (old, new))
    low, high = min(now) / max(before), max(now) / min(before)
    return Estimate(median(now) / median(before), low, high, len(old) + len(new), 0)


def _told(side: list[Estimate]) -> str:
    """A process's time, or those of several, from the shortest to the longest."""
    times = sorted(each.median for each in side)
    return str(side[0]) if len(side) == 1 else f"{units.seconds_range(times[0], times[-1], 3)} ({len(side)} processes)"


def read(path: str) -> Processes:
    """The measurements of a file by their calls, of one process behind another; RecordingError where it holds none."""
    found: dict[str, list[Measurement]] = {}
    try:
        text = Path(path).read_text("utf-8").strip()
        while text:
            one, end = json.JSONDecoder().raw_decode(text)
            calls = one.get("calls") if isinstance(one.get("calls"), dict) else {"": one.get("measurement", one)}
            for name, each in calls.items():
                found.setdefault(name, []).append(_measured(each))
            text = text[end:].lstrip()
    except KeyError as error:
        raise RecordingError(f"{path} holds no measurement: it has no {error.args[0]}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path} holds no measurement: {type(error).__name__}: {error}") from None
    if not found:
        raise RecordingError(f"{path} holds no measurement: it is empty")
    return found


def _measured(found: Mapping[str, Any]) -> Measurement:
    times: Any = {name: Estimate(float(each["median"]), float(each["low"]), float(each["high"]), int(each["n"]))
                  for name in FIELDS if (each := found[name]) is not None}  # fmt: skip
    return Measurement(device=str(found["device"]), **times)
