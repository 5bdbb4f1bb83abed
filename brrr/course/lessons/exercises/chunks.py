"""Exercise 02b-chunks: how many chunks? Enough to fill the pipeline, not so many that their launches cost more."""

from __future__ import annotations

from typing import Any

from brrr.course.lessons.checking import Mark

LAUNCH = 0.02
"""What a chunk costs besides, on each lane, as a share of what the whole array takes there."""

NEAR = 0.10


def time_of(chunks: int, launch: float = 0.0) -> float:
    """The time of n chunks through three lanes, that of the whole array on one lane being 1: (n + 2)(1/n + launch).

    >>> time_of(1), time_of(20)
    (3.0, 1.1)
    """
    return (chunks + 2) * (1 / chunks + launch)


def enough() -> int:
    """The fewest chunks whose time is at most a tenth above that of endlessly many, which is 1.

    >>> enough()
    20
    """
    return next(n for n in range(1, 1000) if time_of(n) <= 1 + NEAR + 1e-12)


def best() -> int:
    """The number of chunks with the shortest time where each chunk costs something: the square root of 2 / launch.

    >>> best()
    10
    """
    return min(range(1, 1000), key=lambda n: time_of(n, LAUNCH))


def grade(enough: Any, best: Any) -> Mark:
    """Both numbers must be right.

    >>> grade(20, 10).status, grade(18, 10).status
    ('right', 'wrong')
    """
    for name, said, right, hint in (
        ("enough", enough, ENOUGH, _hint_enough(enough)),
        ("best", best, BEST, _hint_best(best)),
    ):
        if isinstance(said, bool) or not isinstance(said, int | float):
            return Mark("wrong", f"`{name}` is {said!r}.", "Write a number of chunks, as in 8.")
        if said != right:
            return Mark("wrong", f"`{name}={said}` is not it.", hint)
    text = f"{ENOUGH} chunks take {time_of(ENOUGH):.2f}; with the cost of a launch, {BEST} take "
    text += f"{time_of(BEST, LAUNCH):.2f}: fewer fill the pipeline too slowly, and more only launch more."
    return Mark("right", text)


def _hint_enough(said: Any) -> str:
    if said == 18:
        return "That reaches 90 % of the best rate. Asked is a time at most 10 % above the best: (n + 2) / n <= 1.1."
    return "The first chunk reaches the download after two others have passed the upload: n chunks take (n + 2) / n."


def _hint_best(said: Any) -> str:
    if said == 1:
        return "One chunk launches least, but nothing overlaps. Compute (n + 2) (1 / n + 0.02) for some n."
    return "Each of the n + 2 steps takes 1 / n + 0.02. Which n makes their product smallest?"


ENOUGH, BEST = enough(), best()
