"""`check`: an exercise marks itself. Right, wrong with a hint, or not answered; it never raises for a wrong answer."""

from __future__ import annotations

import linecache
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Literal, TypeVar

from brrr.core.errors import ArgumentError
from brrr_course.lessons import registered
from brrr_course.lessons.sharing import send
from brrr_course.view.display import message_html

T = TypeVar("T")
Status = Literal["right", "wrong", "not answered"]
_COLOUR = {"right": "right", "wrong": "wrong", "not answered": "open"}


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


@dataclass(frozen=True)
class Exercise:
    """An exercise of a module in exercises/, found by that; the arguments of `grade` are the answers that it marks.

    `words` holds what may be chosen, for an answer that is a word.
    """

    name: str
    grade: Callable[..., Mark]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def exercises(lesson: str = "") -> dict[str, Exercise]:
    """The exercises of a lesson (those of 09 lie in lesson_09*.py), or of all, by name."""
    return registered(Exercise, "exercises", f"lesson_{lesson}*")


def check(exercise: str, /, **answers: Any) -> Mark:
    """Mark an exercise; `...` stands for an answer that is not there yet.

    >>> check("00-launches", microseconds=...)
    Not answered yet: Replace the ... behind `microseconds=`.

    An exception in the student's own code is shown with its line and does not stop the notebook. ArgumentError for an
    exercise that does not exist, or an answer under another name.
    """
    number = exercise.partition("-")[0]
    found = exercises(number).get(exercise) if number.isalnum() else None  # it becomes part of a pattern
    if found is None:
        raise ArgumentError("check", "exercise", exercise, f"one of {', '.join(sorted(exercises()))}")
    grade = found.grade
    _names_fit(exercise, grade, answers)
    open_ones = [name for name, answer in answers.items() if isinstance(answer, EllipsisType)]
    if open_ones:
        behind = " and ".join(f"`{name}=`" for name in open_ones)
        return Mark("not answered", f"replace the ... behind {behind}.")
    try:
        mark = grade(**answers)
    except StudentError as raised:
        mark = Mark("wrong", f"your function raised {raised}")
    send("check", exercise, mark.status)
    return mark


def _names_fit(exercise: str, grade: Callable[..., Mark], answers: Mapping[str, Any]) -> None:
    takes = grade.__code__.co_varnames[: grade.__code__.co_argcount + grade.__code__.co_kwonlyargcount]
    if set(takes) != set(answers):
        wanted = ", ".join(f"{name}=..." for name in takes)
        raise ArgumentError("check", "answers", sorted(answers), f'check("{exercise}", {wanted})')


def not_above_zero(**answers: Any) -> Mark | None:
    """The mark for the first answer that is no finite number above 0; None where all are.

    >>> not_above_zero(seconds=1e-6, batch=-1)
    Not yet: `batch` is -1.
    Hint: Write a number above 0.
    """
    for name, answer in answers.items():
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 < answer < math.inf:
            return Mark("wrong", f"`{name}` is {answer!r}.", "Write a number above 0.")
    return None


def slip(answer: float, known: Mapping[Any, T], other: T) -> T:
    """What is said of the usual slip that comes to this number; `other` where none does.

    >>> slip(8.0, {8: "bits, not bytes"}, "not so many"), slip(7, {8: "bits, not bytes"}, "not so many")
    ('bits, not bytes', 'not so many')
    """
    return next((said for number, said in known.items() if math.isclose(answer, number)), other)


class StudentError(Exception):
    """The student's own code raised; the text says what and where."""


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """Call the student's function; what it raises becomes a StudentError that names the line.

    >>> ask(lambda: 1 / 0)
    Traceback (most recent call last):
    ...
    brrr_course.lessons.checking.StudentError: ZeroDivisionError: division by zero
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
