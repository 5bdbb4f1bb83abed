"""Runs a file of Triton cases in Triton's interpreter, in a process of its own: the interpreter is chosen at import."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def interpreted_cases(file: str) -> dict[str, Any]:
    """What the cases of `tests/<file>` gave on fresh random input; the seed is told where the process fails."""
    seed = str(secrets.randbelow(10**6))
    ran = subprocess.run(
        [sys.executable, str(HERE / file), seed], capture_output=True, text=True, check=False, timeout=300,
        cwd=HERE.parent, env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )  # fmt: skip
    assert ran.returncode == 0, f"seed {seed}\n{ran.stderr}"
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
