"""Settings that were drawn, in a file with a line of JSON for each: measured where it lacks them, or judged."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Processor
from brrr.gpu.device import this_device
from tools.prediction.claims import percentile

Row = dict[str, Any]
Settings = Callable[[Processor], Iterable[tuple[Row, Callable[[], Row]]]]
"""On a device: what a row tells its setting by, and what measures the rest of the row."""


def measure_or_judge(
    argv: Sequence[str], usage: str | None, file: str, settings: Settings, judged: Callable[[list[Row]], str]
) -> int:
    """Measure what is missing while the time lasts, or judge; 2 for a call that cannot be understood."""
    if len(argv) < 2 or not (argv[1].isdecimal() or argv[1] == "--judge"):
        print(usage, file=sys.stderr)
        return 2
    path = Path(argv[0]) / file
    device: Processor = "cpu" if "cpu" in argv else "cuda"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    if argv[1] == "--judge":
        print(judged(rows))
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + int(argv[1])
    for setting, measured in settings(device):
        row = json.loads(json.dumps({**setting, "device": this_device(device).slug}))
        there = any(row.items() <= each.items() for each in rows if "error" not in each)
        if there or time.monotonic() > until_s:
            continue
        try:
            row |= measured()
        except (BrrrError, RuntimeError) as error:
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        with path.open("a") as kept:
            kept.write(json.dumps(row) + "\n")
        print(*setting.values(), row.get("error", "measured"), flush=True)
        torch.cuda.empty_cache()
    return 0


def errors_table(heads: Sequence[str], errors: Mapping[Any, Sequence[float]]) -> list[str]:
    """Of each kind, whose words are a tuple, how many there are, their median and their 90th percentile."""
    lines = [(*kind, str(len(each)), *(units.percent(percentile(each, at), 2) for at in (0.5, 0.9)))
             for kind, each in errors.items()]  # fmt: skip
    return units.table([(*heads, "n", "median", "90 %"), *lines])
