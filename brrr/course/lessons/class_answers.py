"""What the class answered: how often each answer was given, to be shown in class."""

from __future__ import annotations

from urllib.parse import quote

from brrr.course.lessons.sharing import gateway, line
from brrr.course.lessons.waiting import Comparison

BAR = 30
"""Characters of the longest bar."""


def class_answers(question: str) -> Comparison:
    """How often the class gave each answer to a question, or each mark to an exercise; for the teacher's token.

    >>> class_answers("01-timer")  # doctest: +SKIP
    12 answers: 01-timer
    right        9  ##############################
    wrong        3  ##########
    """
    found = gateway("class_answers").connection.ask("GET", f"/answers?name={quote(line(question))}")
    most = max((count for _, count in found), default=1)
    rows = tuple((value, str(count), "#" * round(BAR * count / most)) for value, count in found)
    return Comparison(f"{sum(count for _, count in found)} answers: {question}", ("answer", "students", ""), rows)
