"""`brrr doctor --report`: what brrr measures here, for those to read who have no such device."""

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial

from brrr.cli.inventory import Row
from brrr.core import __version__
from brrr.core.errors import first_line
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.timed import step_from, timed
from brrr.gpu import UNTRUSTED_EVENTS, is_gpu, tensors_on
from brrr.gpu.device import default_device_kind
from brrr.roofline.calibrate import calibrate

SETUP = """import torch
small, large, host = torch.ones(1 << 10, device=on), torch.ones(1 << 24, device=on), torch.ones(1 << 24)
a, b = torch.ones(2, 1 << 10, 1 << 10, device=on)"""
CALLS = "torch.relu(small)", "torch.relu(large)", "a @ b", "large.copy_(host)"
EVENTS = """begin, end = (torch.Event(device=on, enable_timing=True) for _ in range(2))
begin.record(); torch.relu(large); end.record(); torch.accelerator.synchronize(); begin.elapsed_time(end)"""
NONE = "the CPU, as torch has no accelerator that works"
PATH = re.compile(r"(?<![\w./])(?:~|[A-Za-z]:)?/+[\w.][^\s'\"\\]*")


def report(rows: Iterable[Row]) -> str:
    """As JSON what was seen, and what a few calls take on the accelerator that torch uses, else on the CPU; no paths.

    What fails is told by its error's type and first line, and stops nothing.
    """
    kind = default_device_kind()
    found: dict[str, object] = {row.what: f"{row.status}: {row.seen}" for row in rows}
    found |= {"brrr": __version__, "system": platform.platform(), "measured": kind if is_gpu(kind) else NONE}
    step = partial(step_from, SETUP, namespace={"on": tensors_on(kind)})
    asked: dict[str, Callable[[], object]] = {
        **{code: lambda code=code: timed(step(code), device=kind).details() for code in CALLS},  # type: ignore[misc]
        "diagnose": lambda: diagnose(step(CALLS[1]), device=kind).details(),
        "calibrate": lambda: calibrate(kind, budget_s=4.0, quick=True),
    }
    if is_gpu(kind) and kind not in UNTRUSTED_EVENTS:  # to ask these may hang
        asked["ms between two events"] = lambda: [each() for each in [step(EVENTS)] * 9]
    for name, ask in asked.items():
        print(f"trying: {name}", file=sys.stderr, flush=True)  # the last one named is what ends the process
        try:
            found[name] = str(ask()).splitlines()
        except (Exception, KeyboardInterrupt) as error:  # Ctrl-C leaves out what hangs
            found[name] = f"failed: {type(error).__name__}: {first_line(error)}"
    return impersonal(json.dumps(found, indent=1, ensure_ascii=False))


def impersonal(text: str) -> str:
    """JSON without paths, in which names of people and computers stand.

    >>> print(impersonal(json.dumps({"failed": f"no {os.path.expanduser('~')}/a b.so, nor C:\\\\ada.dll: 3 B/s"})))
    {"failed": "no PATH b.so, nor PATH 3 B/s"}
    """
    home = os.path.expanduser("~").replace("\\", "/")
    return PATH.sub("PATH", text.replace(r"\\", "/").replace(home if len(home) > 1 else "~", "~"))
