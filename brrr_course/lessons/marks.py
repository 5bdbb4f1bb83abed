"""What an exercise is, what is said of an answer, and what those that run the student's code share."""

import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from brrr.core.time_limit import Late, within
from brrr_course.view.display import message_html

Status = Literal["right", "wrong", "not answered"]
TITLES = {"right": "Right", "wrong": "Not yet", "not answered": "Not answered yet"}
LIMIT_S = 10.0
"""How long each call of the student's own code may take."""


@dataclass(frozen=True)
class Mark:
    """What `check` says of an answer: its status, why, and a hint.

    >>> Mark("wrong", "Your timer returned nothing.", "End it with `return`.")
    Not yet: Your timer returned nothing.
    Hint: End it with `return`.

    Attributes
    ----------
    status : {"right", "wrong", "not answered"}
        The status. `right` says whether it is "right".
    text : str
        Why.
    hint : str
        What to try, if that helps.
    score : str
        How much of it is right, where that is counted, as "5 of 8".
    """

    status: Status
    text: str
    hint: str = ""
    score: str = ""

    @property
    def right(self) -> bool:
        """Whether the answer is right."""
        return self.status == "right"

    def _lines(self) -> list[str]:
        return [self.text[:1].upper() + self.text[1:], *([f"Hint: {self.hint}"] if self.hint else [])]

    def __repr__(self) -> str:
        return f"{TITLES[self.status]}: " + "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return message_html(self.status.replace("not answered", "open"), TITLES[self.status], self._lines())


class Wrong(Exception):
    """Raised anywhere below an exercise's `grade`: what is wrong with an answer, a hint, and what is right of it."""

    status: Status = "wrong"

    def __init__(self, text: str, hint: str = "", score: str = "") -> None:
        super().__init__(text)
        self.text, self.hint, self.score = text, hint, score


class Unmarked(Wrong):
    """Nothing can be said of an answer on this machine; the text says why, the hint where it can."""

    status = "not answered"


class StudentError(Wrong):
    """The student's own code raised; the text says what and where."""


@dataclass(frozen=True)
class Exercise:
    """An exercise by its name: the answers that it takes, and what marks them.

    `grade` gets the answers by name and returns what is said when they are right; it raises `Wrong` for others.
    `functions` are the answers that must be functions, which is looked at first.
    """

    name: str
    takes: tuple[str, ...]
    grade: Callable[..., str]
    functions: tuple[str, ...] = ()

    def marked(self, **answers: Any) -> Mark:
        """The mark for answers that are there, right or wrong."""
        try:
            for each in self.functions:
                if not callable(answers[each]):
                    before = "" if self.takes == (each,) else "..., "
                    hint = f'Pass the function itself: check("{self.name}", {before}{each}={each}).'
                    raise Wrong(f"`{each}` is {answers[each]!r}, not a function.", hint)
            return Mark("right", self.grade(**answers))
        except Wrong as wrong:
            return Mark(wrong.status, wrong.text, wrong.hint, wrong.score)


def exercise(name: str, *, values: tuple[str, ...] = ()) -> Callable[[Callable[..., str]], Exercise]:
    """Make an exercise of the function that grades it; its arguments are the student's functions, but for `values`.

    >>> @exercise("99-double")
    ... def double(twice):
    ...     if ask(twice, 4) != 8:
    ...         raise Wrong("`twice(4)` is not 8.", "Add it to itself.")
    ...     return "that is it."
    >>> double.marked(twice=lambda x: 2 * x)
    Right: That is it.
    """

    def made(grade: Callable[..., str]) -> Exercise:
        takes = grade.__code__.co_varnames[: grade.__code__.co_argcount]
        return Exercise(name, takes, grade, tuple(each for each in takes if each not in values))

    return made


def is_number(answer: Any) -> bool:
    """Whether an answer is a number: neither a text nor True or False.

    >>> is_number(2.5), is_number(True), is_number("2")
    (True, False, False)
    """
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """Call the student's function; what it raises becomes a StudentError that names the line, and so does its delay.

    >>> ask(lambda: 1 / 0)
    Traceback (most recent call last):
    ...
    brrr_course.lessons.marks.StudentError: your function raised ZeroDivisionError: division by zero
    """
    try:
        with within(LIMIT_S):
            return function(*args)
    except Late as late:
        told = f"your function did not return within {LIMIT_S:g} s{_where(function, late)}"
        raise StudentError(told, "Does a loop of yours never end?") from None
    except (Exception, SystemExit) as error:
        told = f"your function raised {type(error).__name__}: {error}{_where(function, error)}"
        raise StudentError(told) from error


def _where(function: Callable[..., Any], error: BaseException) -> str:
    """The last line of the student's own file that led to the error."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = own[-1].lineno or 0 if own else 0
    code = linecache.getline(own[-1].filename, line).strip() if own else ""
    return f"\nin line {line}: {code}" if code else ""
