"""The commands behind `brrr`: lab, doctor, record, join, calibrate, claims, time, compare, diagnose."""

import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from brrr.core import units


def show_anything() -> None:
    """Let no output end in an error for a sign that its encoding lacks: what stands for it is written instead."""
    streams: Any = sys.stdout, sys.stderr
    for each in streams:
        with suppress(AttributeError):  # none, or one of somebody's own
            each.reconfigure(errors=units.STAND_INS)


def own_error(error: BaseException) -> str:
    """An error of the user's code with the places of the user's own files, none of ours or of Python's.

    >>> own_error(ValueError("mine"))
    'ValueError: mine'
    """
    ours = str(Path(__file__).parents[1])
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith((ours, "<"))]
    said = "".join(traceback.format_exception_only(error)).strip()
    return "\n".join([said, *(f"  {each.filename}, line {each.lineno}, in {each.name}" for each in frames)])
