"""The errors of brrr: each names the call, the argument, its value, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BrrrError(Exception):
    """Base of every error that brrr raises on purpose: `except brrr.BrrrError` catches them all.

    One comes back whole from another process, whatever its own arguments were.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return BrrrError.__new__, (type(self), *self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message says all, and the lines above it would be ours."""
        return [f"{type(self).__name__}: {self}"]


class ArgumentError(BrrrError, ValueError):
    """An argument has a value that the call cannot use.

    >>> raise ArgumentError("measure", "budget_s", -1, "a positive number of seconds")
    Traceback (most recent call last):
    ...
    brrr.core.errors.ArgumentError: measure: budget_s is -1; expected a positive number of seconds
    """

    def __init__(self, call: str, argument: str, value: object, expected: str, hint: str = "") -> None:
        self.call, self.argument, self.value, self.expected = call, argument, value, expected
        message = f"{call}: {argument} is {value!r}; expected {expected}"
        super().__init__(f"{message}. {hint}" if hint else message)


class UnavailableError(BrrrError, RuntimeError):
    """A GPU, a compiler or a library is not here; the message says what is shown instead."""


class NotRecordedError(BrrrError, LookupError):
    """A recording does not hold the point asked for; the message names the nearest ones."""


class RecordingError(BrrrError, ValueError):
    """A recording's file is damaged or does not fit; the message names the file and the row."""


class WrongResultError(BrrrError, ArithmeticError):
    """A workload's result differs from its reference, so that no time is shown for it."""


class DeviceMemoryError(BrrrError, MemoryError):
    """A point needs more memory than the device has; the message gives both in bytes."""


class CaptureError(BrrrError, RuntimeError):
    """A function cannot become a CUDA Graph; the message names what in it prevents that, and what to do."""


class TraceError(BrrrError, RuntimeError):
    """A callable cannot be counted without running it; the message names its line and what to do."""


EXTRAS = {
    "torch": "torch", "matplotlib": "plot", "triton": "cuda", "pycuda": "cuda", "nvmath": "cuda", "cupti": "cuda",
    "pynvml": "cuda",
}  # fmt: skip
"""The extra of the distribution that brings a package."""


def install(package: str) -> str:
    """The command that brings a package that is not here.

    >>> install("torch")
    'pip install "brrr-gpu[torch]"'
    """
    return f'pip install "brrr-gpu[{EXTRAS[package]}]"'


@contextmanager
def extras(call: str) -> Iterator[None]:
    """Around what needs a package of an extra: without it an UnavailableError that says which to install.

    >>> with extras("draw"):
    ...     raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.axes")
    Traceback (most recent call last):
    brrr.core.errors.UnavailableError: draw needs matplotlib, which is not installed: pip install "brrr-gpu[plot]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise UnavailableError(f"{call} needs {package}, which is not installed: {install(package)}") from error
