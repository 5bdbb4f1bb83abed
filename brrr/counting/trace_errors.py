"""Why a callable could not be counted, at which line, and what to do about it."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import fake_tensor

from brrr.errors import BrrrError, TraceError

_NEEDS_VALUES = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)
_UNSUPPORTED = (fake_tensor.UnsupportedFakeTensorException, NotImplementedError)
_VALUES_TEXT = (".numpy() is not supported", "data pointer", "fake tensor", "faketensor", "meta tensor")
_OURS = (os.path.dirname(torch.__file__), os.path.dirname(__file__))


@contextmanager
def explained(fn: Any, run: bool) -> Iterator[None]:
    """Turn what only a trace raises into a TraceError; an error of the callable's own passes unchanged."""
    try:
        yield
    except BrrrError:
        raise
    except Exception as error:
        reason = None if run else _reason(error)
        if reason is None:
            raise
        raise TraceError(_message(fn, error, reason)) from error


def _reason(error: Exception) -> str | None:
    """What about a description stopped the trace; None for an error that real tensors would raise too."""
    if isinstance(error, _NEEDS_VALUES):
        return f"needs a value, which a description does not have ({error})"
    if isinstance(error, _UNSUPPORTED):
        return f"uses what works on real tensors only ({_first_line(error)})"
    text = str(error).lower()
    if any(part in text for part in _VALUES_TEXT):
        return f"needs the data itself, which a description does not have ({_first_line(error)})"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _message(fn: Any, error: Exception, reason: str) -> str:
    name = getattr(fn, "__name__", type(fn).__name__)
    advice = "Pass real tensors and run=True, which runs it once; or count the part before that line"
    return f"cost: {name} cannot be traced: {_line(error)} {reason}. {advice}"


def _line(error: Exception) -> str:
    """The innermost line that is neither torch's nor this package's, with its text where it can be read."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_OURS):
            text = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{os.path.basename(frame.filename)}:{frame.lineno} `{text}`" if text else f"line {frame.lineno}"
    return "it"
