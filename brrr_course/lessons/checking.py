"""`check`: an exercise marks itself. Right, wrong with a hint, or not answered; it never raises for a wrong answer."""

from difflib import get_close_matches
from types import EllipsisType
from typing import Any

from brrr.core.errors import ArgumentError
from brrr_course.lessons import registered
from brrr_course.lessons.calculations import calculated
from brrr_course.lessons.marks import Exercise, Mark
from brrr_course.lessons.sharing import send


def exercises(lesson: str = "") -> dict[str, Exercise]:
    """The exercises of a lesson (those of 09 lie in lesson_09*.py and in the data), or of all, by name."""
    return {**calculated(lesson), **registered(Exercise, "exercises", f"lesson_{lesson}*")}


def check(exercise: str = "", /, **answers: Any) -> Mark:
    """Mark an exercise; ``...`` stands for an answer that is not there yet.

    >>> check("00-launches", microseconds=...)
    Not answered yet: Replace the ... behind `microseconds=`.

    Parameters
    ----------
    exercise : str
        The exercise's name, such as "00-launches".
    **answers
        The answers by name: numbers, words or functions.

    Returns
    -------
    Mark
        Whether the answers are right, why, and a hint. If the student's own code raises or never ends, the mark shows
        that with its line, and the notebook goes on.

    Raises
    ------
    ArgumentError
        If there is no such exercise, or if it takes no answer of that name.
    """
    number = str(exercise).partition("-")[0]
    found = calculated(number).get(str(exercise))  # before the others are loaded, which takes torch
    if found is None and number.isalnum():  # it becomes part of a pattern
        found = exercises(number).get(exercise)
    if found is None:
        near = get_close_matches(str(exercise), sorted(exercises()), cutoff=0)
        raise ArgumentError("check", "exercise", exercise, f"its name, such as {', '.join(near)}")
    if set(found.takes) != set(answers):
        wanted = ", ".join(f"{name}=..." for name in found.takes)
        raise ArgumentError("check", "answers", ", ".join(answers), f'check("{exercise}", {wanted})')
    open_ones = [name for name, answer in answers.items() if isinstance(answer, EllipsisType)]
    if open_ones:
        behind = " and ".join(f"`{name}=`" for name in open_ones)
        return Mark("not answered", f"replace the ... behind {behind}.")
    try:
        mark = found.marked(**answers)
    except KeyboardInterrupt:
        return Mark("not answered", "it was interrupted before your function returned.")
    if mark.status != "not answered":
        send("check", found.name, mark.score or mark.status)
    return mark
