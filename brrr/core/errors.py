"""The errors of brrr: each names the call, the argument, its value, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BrrrError(Exception):
    """The base of every error that brrr raises on purpose.

    >>> try:
    ...     raise ArgumentError("measure", "budget_s", -1, "a positive number of seconds")
    ... except BrrrError as error:
    ...     print(error)
    measure: budget_s is -1; expected a positive number of seconds

    ``except brrr.BrrrError`` catches them all. Errors keep their fields when they are pickled.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return BrrrError.__new__, (type(self), *self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message says all, and the lines above it would be ours."""
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]


class ArgumentError(BrrrError, ValueError):
    """An argument has a value that the call cannot use.

    >>> raise ArgumentError("measure", "budget_s", -1, "a positive number of seconds")
    Traceback (most recent call last):
    ...
    brrr.core.errors.ArgumentError: measure: budget_s is -1; expected a positive number of seconds

    It is a ValueError, too.

    Parameters
    ----------
    call : str
        The function that was called.
    argument : str
        The argument's name.
    value : object
        Its value.
    expected : str
        What the function would have taken.
    hint : str
        What to do, if that helps.
    """

    def __init__(self, call: str, argument: str, value: object, expected: str, hint: str = "") -> None:
        self.call, self.argument, self.value, self.expected = call, argument, value, expected
        message = f"{call}: {argument} is {value!r}; expected {expected}"
        super().__init__(f"{message}. {hint}" if hint else message)


def whole(call: str, argument: str, value: object, least: int = 1, most: int | None = None) -> int:
    """A count that an argument gives; ArgumentError unless it is a whole number from `least` to `most`.

    >>> whole("Pipeline", "buffers", True)
    Traceback (most recent call last):
    ...
    brrr.core.errors.ArgumentError: Pipeline: buffers is True; expected a whole number, at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        such = f", at least {least}" if most is None else f" from {least} to {most}"
        raise ArgumentError(call, argument, value, f"a whole number{such}")
    return value


class UnavailableError(BrrrError, RuntimeError):
    """A GPU, a compiler or a library that the call needs is not here.

    The message says what is missing, how to get it, and in a lesson what is shown instead. It is a RuntimeError, too.
    """


class NotRecordedError(BrrrError, LookupError):
    """A recording does not hold the point that was asked for.

    The message names the nearest points that were recorded. It is a LookupError, too.
    """


class RecordingError(BrrrError, ValueError):
    """A recording's file is damaged, or two recordings do not fit together.

    The message names the file and the row. It is a ValueError, too.
    """


class WrongResultError(BrrrError, ArithmeticError):
    """A result differs from its reference, so no time is shown for it.

    It is an ArithmeticError, too.
    """


class DeviceMemoryError(BrrrError, MemoryError):
    """The work needs more memory than the device has.

    The message gives both in bytes. It is a MemoryError, too.
    """


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: ours, Python's, or one of torch's errors, some of which say it in words only.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."))
    True
    """
    return isinstance(error, MemoryError) or any(x in repr(error) for x in ("OutOfMemory", "of memory", "allocate mem"))


class CaptureError(BrrrError, RuntimeError):
    """A function cannot be captured as a CUDA graph.

    The message names what in it prevents the capture, and what to do. It is a RuntimeError, too.
    """


class TraceError(BrrrError, RuntimeError):
    """A callable cannot be counted without running it.

    The message names the line that prevents it, and what to do. It is a RuntimeError, too.
    """


EXTRAS = {"torch": "torch", "matplotlib": "plot", **dict.fromkeys(("triton", "pycuda", "nvmath", "pynvml"), "cuda")}
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


def first_line(error: object) -> str:
    """The first line of a message, or the error's type where it has none.

    >>> first_line(ValueError("no\\nmore")), first_line(ValueError())
    ('no', 'ValueError')
    """
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
