"""torch, while `make lab` still installs it: a cell that imports it waits, says so, and goes on when it is there."""

import importlib
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from brrr.core.errors import UnavailableError

NOTE = Path(sys.prefix, "brrr-coming.txt")
"""What dev.py says while it completes this environment; it is empty afterwards."""

FRESH_S, LOOK_S = 300.0, 1.0


class NotThereError(UnavailableError, ModuleNotFoundError):
    """torch did not come; the message says what to do. It is a ModuleNotFoundError, too."""


class Coming(MetaPathFinder):
    """Stands before all that finds modules, and lets `import torch` wait; an interrupt ends the wait.

    What only asks whether torch is there does not wait: `brrr.gpu.probe.torch_module`.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Nothing is found here: once torch is there, what comes behind finds it."""
        if name != "torch":
            return
        waited = is_coming()
        while is_coming():
            _show(f"torch is still being installed, and this cell waits for it. {_last_line()}")
            time.sleep(LOOK_S)
        importlib.invalidate_caches()
        if PathFinder.find_spec(name) is None:
            raise NotThereError(
                "torch is not here: its installation ended early. Where you typed `make lab` stands why; end it there "
                "with Ctrl-C, and `make lab` once more goes on from where it was."
            )
        if waited:
            _show("torch is here.")
            print()


def watch() -> None:
    """Let what imports torch in this process wait for it, if it is being installed."""
    if is_coming():
        sys.meta_path.insert(0, Coming())


def is_coming() -> bool:
    """Whether torch is being installed beside this process: there is a note, and somebody still writes it."""
    try:
        return bool(_last_line()) and time.time() - NOTE.stat().st_mtime < FRESH_S
    except OSError:
        return False


def _show(text: str) -> None:
    """Write it in place of what stood there."""
    print(f"\r{text:<140}", end="", flush=True)


def _last_line() -> str:
    try:
        return NOTE.read_text(encoding="utf-8", errors="replace").split("\n")[-2:][0]
    except OSError:
        return ""
