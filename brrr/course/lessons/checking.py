"""`check`: an exercise marks itself. Right, wrong with a hint, or not answered; it never raises for a wrong answer."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import EllipsisType
from typing import Any, Literal

from brrr.core.errors import ArgumentError
from brrr.course.view.display import message_html

Status = Literal["right", "wrong", "not answered"]
_COLOUR = {"right": "right", "wrong": "wrong", "not answered": "open"}

EXERCISES: Mapping[str, str] = {
    "00-orders": "brrr.course.lessons.exercises.orders:grade",
    "01-timer": "brrr.course.lessons.exercises.timer:grade",
    "01-crossover": "brrr.course.lessons.exercises.crossover:grade",
    "02-road": "brrr.course.lessons.exercises.road:grade",
    "02-sines": "brrr.course.lessons.exercises.sines:grade",
    "02b-pipeline": "brrr.course.lessons.exercises.pipeline:grade",
    "02b-chunks": "brrr.course.lessons.exercises.chunks:grade",
    "03-chatty": "brrr.course.lessons.exercises.chatty:grade",
    "03-ahead": "brrr.course.lessons.exercises.ahead:grade",
    "03b-mend": "brrr.course.lessons.exercises.benchmark:grade",
    "03b-width": "brrr.course.lessons.exercises.width:grade",
    "04-slips": "brrr.course.lessons.exercises.slips:grade",
    "04b-mend": "brrr.course.lessons.exercises.coalesce:grade",
    "04b-share": "brrr.course.lessons.exercises.share:grade",
    "05-bytes": "brrr.course.lessons.exercises.bytes:grade",
    "05-fuse": "brrr.course.lessons.exercises.fuse:grade",
    "06-fuse": "brrr.course.lessons.exercises.bias_relu:grade",
    "06-capture": "brrr.course.lessons.exercises.capture:grade",
    "06b-floor": "brrr.course.lessons.exercises.barriers:grade",
    "09-sign": "brrr.course.lessons.exercises.sign:grade",
    "09-crossover": "brrr.course.lessons.exercises.strassen_crossover:grade",
    "09b-scaling": "brrr.course.lessons.exercises.scaling:grade",
}
"""Each exercise, and the `module:function` that marks it; the function's keyword arguments are the answers it takes."""


@dataclass(frozen=True)
class Mark:
    """What `check` says: the status, why, and a hint where one helps.

    >>> Mark("wrong", "Your timer returned nothing.", "End it with `return`.")
    Not yet: Your timer returned nothing.
    Hint: End it with `return`.
    """

    status: Status
    text: str
    hint: str = ""

    @property
    def right(self) -> bool:
        """Whether the answer is right."""
        return self.status == "right"

    @property
    def _title(self) -> str:
        return {"right": "Right", "wrong": "Not yet", "not answered": "Not answered yet"}[self.status]

    def _lines(self) -> list[str]:
        return [self.text[:1].upper() + self.text[1:], *([f"Hint: {self.hint}"] if self.hint else [])]

    def __repr__(self) -> str:
        return f"{self._title}: " + "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return message_html(_COLOUR[self.status], self._title, self._lines())


def check(exercise: str, /, **answers: Any) -> Mark:
    """Mark an exercise; `...` stands for an answer that is not there yet.

    >>> check("00-orders", microseconds=...)
    Not answered yet: Replace the ... behind `microseconds=`.

    An exception in the student's own code is shown with its line and does not stop the notebook. ArgumentError for an
    exercise that does not exist, or an answer under another name.
    """
    if exercise not in EXERCISES:
        raise ArgumentError("check", "exercise", exercise, f"one of {', '.join(EXERCISES)}")
    module, _, name = EXERCISES[exercise].partition(":")
    grade: Callable[..., Mark] = getattr(import_module(module), name)
    _names_fit(exercise, grade, answers)
    open_ones = [name for name, answer in answers.items() if isinstance(answer, EllipsisType)]
    if open_ones:
        behind = " and ".join(f"`{name}=`" for name in open_ones)
        return Mark("not answered", f"replace the ... behind {behind}.")
    try:
        return grade(**answers)
    except StudentError as raised:
        return Mark("wrong", f"your function raised {raised}")


def _names_fit(exercise: str, grade: Callable[..., Mark], answers: Mapping[str, Any]) -> None:
    takes = grade.__code__.co_varnames[: grade.__code__.co_argcount + grade.__code__.co_kwonlyargcount]
    if set(takes) != set(answers):
        wanted = ", ".join(f"{name}=..." for name in takes)
        raise ArgumentError("check", "answers", sorted(answers), f'check("{exercise}", {wanted})')


class StudentError(Exception):
    """The student's own code raised; the text says what and where."""


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """Call the student's function; what it raises becomes a StudentError that names the line.

    >>> ask(lambda: 1 / 0)
    Traceback (most recent call last):
    ...
    brrr.course.lessons.checking.StudentError: ZeroDivisionError: division by zero
    """
    try:
        return function(*args)
    except (Exception, SystemExit) as error:
        raise StudentError(_where(function, error)) from error


def _where(function: Callable[..., Any], error: BaseException) -> str:
    """The error, and the last line of the student's own file that led to it."""
    text = f"{type(error).__name__}: {error}"
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not own:
        return text
    line = own[-1].lineno or 0
    code = linecache.getline(own[-1].filename, line).strip()
    return f"{text}\nin line {line}: {code}" if code else text
