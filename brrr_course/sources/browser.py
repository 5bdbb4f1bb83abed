"""What a browser measured of its reader's GPU, kept as a recording: `recorded:yours`.

`view/drawn/yours.js` measures by WebGPU and hands over what it found; a kernel writes it beside the notebook.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from brrr.core import __version__
from brrr.core.errors import ArgumentError
from brrr.core.measurement import FIELDS, Estimate, Measurement
from brrr.core.recordings import offer
from brrr.counting.cost import Cost
from brrr_course.experiments import experiment
from brrr_course.sources.recording import Machine, Recording, RunDevice, RunInfo
from brrr_course.sources.rows import Row, Timed

SLUG, FOLDER, FOUND = "yours", "recordings", "browser.json"
"""`FOUND` is all that the browser told, for `brrr join`: no CSV holds what a launch takes."""
MOST_ROWS = 1000

when_kept: list[Callable[[str], object]] = []
"""Called with the peaks of what was kept, for who sends them to a class."""


def keep(found: Mapping[str, Any], into: Path | None = None) -> Path:
    """Write what a browser measured as the recording `yours`, in place of an earlier one, and return its folder.

    >>> import tempfile
    >>> row = {"experiment": "matmul", "variant": "webgpu", "point": {"size": 64}, "error": 1e-7, "flop": 524288,
    ...        "bytes": 49152, "times": {"host_s": [2e-5, 1e-5, 3e-5, 7], "latency_s": [2e-3, 1e-3, 3e-3, 7]}}
    >>> device = {"vendor": "apple", "architecture": "metal-3", "browser": "Safari 26"}
    >>> keep({"device": device, "rows": [row]}, Path(tempfile.mkdtemp())).name
    'yours'

    Parameters
    ----------
    found : mapping
        The result of `measure` in `yours.js`: `device`, and `rows` with `experiment`, `variant`, `point`, `times`,
        `flop`, `bytes` and `error`.
    into : Path, optional
        The folder of recordings; without it, `recordings` where the notebook stands.

    Raises
    ------
    ArgumentError
        If it is no such result. Nothing is written then.
    """
    root = into or Path.cwd() / FOLDER
    now = datetime.now(UTC)
    try:
        told = found["device"]
        device = f"{' '.join(filter(None, (told['vendor'], told['architecture'])))} (WebGPU)"
        run = RunInfo(now.strftime("%Y%m%d-%H%M%S-%f"), now.isoformat(timespec="seconds"), __version__,
                      (RunDevice(device),), runtime=str(told["browser"]))  # fmt: skip
        machine, rows = Machine(SLUG, device, "webgpu", (run,)), found["rows"]
        recordings = [
            Recording(experiment(name), machine, tuple(_row(each, run) for each in rows if each["experiment"] == name))
            for name in dict.fromkeys(each["experiment"] for each in rows[:MOST_ROWS])
        ]
        with TemporaryDirectory() as first:  # where writing checks it
            machine.write(Path(first))
            for each in recordings:
                each.write(Path(first))
            (Path(first) / FOUND).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
            shutil.rmtree(root / SLUG, ignore_errors=True)
            shutil.copytree(first, root / SLUG)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        said = re.sub(r"^.*[/\\](?=\w+\.csv)", "", str(wrong))  # that folder is gone by now
        said = f"without {said}" if isinstance(wrong, KeyError) else said
        raise ArgumentError("keep", "found", said, "what `measure` in yours.js returns") from wrong
    if into is None:
        offer(root)
    for send in when_kept:
        send(peaks_of(found))
    return root / SLUG


def _row(each: Mapping[str, Any], run: RunInfo) -> Row:
    """One of its rows, whose point has the axes of its experiment in their order."""
    point = experiment(each["experiment"]).point(**each["point"])
    times = dict[str, Any]()
    for name in FIELDS.keys() & each["times"].keys():
        median, low, high, n = each["times"][name]
        times[name] = Estimate(float(median), float(low), float(high), int(n))
    timed = Timed(Measurement(**times), Cost(float(each["flop"]), float(each["bytes"])), float(each["error"]))
    return Row.of(point, str(each["variant"]), timed, run.id, run.devices[0].name)


def peaks_of(found: Mapping[str, Any]) -> str:
    """Its bytes and FLOP a second, and the seconds of a launch alone and among many, as a class's gateway takes them.

    >>> peaks_of({"peaks": {"bytes_per_s": 1e11, "flop_per_s": 3e12}, "launch": {"alone": [7e-5], "among": [2e-6]}})
    '[100000000000.0, 3000000000000.0, 7e-05, 2e-06]'
    """
    peaks, launch = found.get("peaks", {}), found.get("launch", {})
    times = [launch.get(name, [None])[0] for name in ("alone", "among")]
    return json.dumps([peaks.get("bytes_per_s"), peaks.get("flop_per_s"), *times])
