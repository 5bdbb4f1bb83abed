"""What a lesson says, and what was recorded of it: the one reader of both for tests that hold them together."""

import re
from pathlib import Path
from typing import Any

from figures import rows

SOURCES = Path(__file__).resolve().parents[1] / "notebooks" / "source"


def said(lesson: str) -> str:
    """A lesson's text on one line."""
    (path,) = SOURCES.glob(f"{lesson}_*.py")
    return " ".join(re.sub(r"^# ?", "", path.read_text("utf-8"), flags=re.MULTILINE).split())


def value(about: str, field: str, variant: str, **at: Any) -> float:
    """What `figures.rows` finds at the one place that is named, on an H200.

    >>> value("scaling", "rate", "gemm", batch=64) > 0
    True
    """
    ((_, found),) = rows(about, field, variant, [f"{name}={value}" for name, value in at.items()])
    return float(found)
