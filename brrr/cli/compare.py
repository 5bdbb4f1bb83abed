"""`brrr compare`: whether calls became slower, by two files that `brrr time --json` or `to_json()` wrote.

python -m brrr time "f(x)" --setup "from mine import f, x" --json > new.json
python -m brrr compare old.json new.json --threshold 1.05
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    print(f"above {options.threshold:g}x for certain: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


def compared(old: Mapping[str, Measurement], new: Mapping[str, Measurement], field: str) -> dict[str, Estimate]:
    """The ratio of each call that both have, which is printed; an interval that is not known has infinite ends."""
    times = {name: (before, now) for name in old if name in new
             if (before := old[name].get(field)) and (now := new[name].get(field))}  # fmt: skip
    devices = {each.device for found in (old, new) for each in found.values()}
    if not times or len(devices) > 1:
        wanted = f"a time that both files have of one call, on one device (here {', '.join(sorted(devices))})"
        raise ArgumentError("compare", "field", field, wanted)
    ratios = {name: ratio(now, before, (1 - CONFIDENCE) / len(times)) for name, (before, now) in times.items()}
    rows = [(name, *map(str, times[name]), f"{each:x}", verdict("new", each)) for name, each in ratios.items()]
    one_sided = [f"only in one file: {name}" for name in sorted({*old} ^ {*new})]
    print("\n".join([*units.table([("call", "old", "new", "new over old", "verdict"), *rows]), *one_sided]))
    return ratios


def read(path: str) -> dict[str, Measurement]:
    """The measurements of a file by their calls; RecordingError where it holds none."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        calls = found.get("calls") if isinstance(found.get("calls"), dict) else {"": found.get("measurement", found)}
        return {name: _measured(each) for name, each in calls.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RecordingError(f"{path} holds no measurement: {type(error).__name__}: {error}") from None


def _measured(found: Mapping[str, Any]) -> Measurement:
    times: Any = {name: Estimate(float(each["median"]), float(each["low"]), float(each["high"]), int(each["n"]))
                  for name in FIELDS if (each := found[name]) is not None}  # fmt: skip
    return Measurement(device=str(found["device"]), **times)
