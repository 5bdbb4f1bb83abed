"""The commands behind `brrr`: lab, doctor, record, join, calibrate, claims, time, diagnose."""

from __future__ import annotations

import traceback
from pathlib import Path


def own_error(error: BaseException) -> str:
    """An error of the user's code with the places of the user's own files, none of ours or of Python's.

    >>> own_error(ValueError("mine"))
    'ValueError: mine'
    """
    ours = str(Path(__file__).parents[1])
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith((ours, "<"))]
    said = "".join(traceback.format_exception_only(error)).strip()
    return "\n".join([said, *(f"  {each.filename}, line {each.lineno}, in {each.name}" for each in frames)])
