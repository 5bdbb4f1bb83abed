"""Exercises 08b-step and 08b-until: what a step takes at least, and up to which batch the weights should stay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.roofline.persistent import Step
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero, slip

HIDDEN, BATCH, BLOCKS, ITEMSIZE = 1024, 24, 128, 4
EXCHANGE_S, L2_BYTES_PER_S, FLOP_PER_S = 1e-6, 5.5e12, 60e12
"""What the exercise states: a tanh layer in float32, and a GPU's rates."""
CLOSE = 0.03


def asked() -> Step:
    """The step that the exercise asks for, its input's product left out.

    >>> asked().limit
    'state'
    """
    state_s = BLOCKS * BATCH * HIDDEN * ITEMSIZE / L2_BYTES_PER_S
    return Step({"exchange": EXCHANGE_S, "state": state_s, "arithmetic": 2.0 * BATCH * HIDDEN**2 / FLOP_PER_S})


def grade_step(state_bytes: Any, seconds: Any, batch: Any) -> Mark:
    """The bytes that all blocks read in a step, its least time, and the most samples that the exchange hides."""
    if mark := not_above_zero(state_bytes=state_bytes, seconds=seconds, batch=batch):
        return mark
    if hint := _about_bytes(state_bytes) or _about_seconds(seconds) or _about_batch(batch):
        return Mark("wrong", *hint)
    state_s = units.seconds(asked().parts["state"])
    text = f"reading the state takes {state_s}, longer than the exchange and the arithmetic."
    return Mark("right", f"{text} Up to {hidden_by_exchange()} samples it hides behind the exchange.")


STEP_EXERCISE = Exercise("08b-step", grade_step)


def hidden_by_exchange() -> int:
    """The most samples whose state is read in no longer than the exchange takes.

    >>> hidden_by_exchange()
    10
    """
    return int(EXCHANGE_S * L2_BYTES_PER_S / (BLOCKS * HIDDEN * ITEMSIZE))


def _about_bytes(answer: float) -> tuple[str, str] | None:
    one = BATCH * HIDDEN * ITEMSIZE
    if math.isclose(answer, BLOCKS * one, rel_tol=CLOSE):
        return None
    known = {
        one: ("that is what one block reads.", f"All {BLOCKS} blocks read the whole state."),
        BLOCKS * BATCH * HIDDEN: ("those are numbers, not bytes.", "A float32 has four bytes."),
        HIDDEN * HIDDEN * ITEMSIZE: ("those are the weights, which stay where they are.", "Count the state."),
        BLOCKS * HIDDEN * ITEMSIZE: ("that is one sample's state.", f"There are {BATCH} samples."),
    }
    what, hint = slip(answer, known, ("not so many.", "Blocks times samples times hidden size times bytes."))
    return f"`state_bytes`: {what}", hint


def _about_seconds(answer: float) -> tuple[str, str] | None:
    floor = asked()
    parts = floor.parts
    if math.isclose(answer, floor.total_s, rel_tol=CLOSE):
        return None
    if math.isclose(answer, sum(parts.values()), rel_tol=CLOSE):
        return "`seconds`: that is the sum of all three.", "They may overlap: the longest of them counts."
    for name, part in parts.items():
        if math.isclose(answer, part, rel_tol=CLOSE):
            return f"`seconds`: that is the {name} alone.", "Another of the three takes longer."
    return f"`seconds` is {answer:g}.", "Work out exchange, bytes over bandwidth and FLOP over rate; take the longest."


def _about_batch(answer: float) -> tuple[str, str] | None:
    right = hidden_by_exchange()
    if answer == right:
        return None
    if answer == right + 1:
        return f"`batch`: {right + 1} samples take longer to read than the exchange does.", "Round down."
    return f"`batch` is {answer:g}.", "For which batch do the bytes take as long as the exchange? Round down."


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 08b-until: a function that tells up to which batch the weights should stay on the chip.

Times = Mapping[int, float]
Until = Callable[[Times, Times], Any]
CASES: Mapping[str, tuple[dict[int, float], dict[int, float], int]] = {
    "ours is faster at 1 and 2, not at 4": ({1: 1.0, 2: 1.0, 4: 3.0}, {1: 9.0, 2: 5.0, 4: 2.0}, 2),
    "ours is faster at all batches": ({1: 1.0, 8: 2.0}, {1: 9.0, 8: 9.0}, 8),
    "ours is faster at none": ({1: 5.0, 8: 6.0}, {1: 2.0, 8: 2.0}, 0),
    "ours is slower at 2 and faster again at 4": ({1: 1.0, 2: 4.0, 4: 1.0}, {1: 9.0, 2: 3.0, 4: 9.0}, 1),
    "the batches come in no order": ({16: 9.0, 1: 1.0, 4: 2.0}, {4: 5.0, 16: 3.0, 1: 9.0}, 4),
    "8 was measured one way only": ({1: 1.0, 2: 1.0, 8: 1.0}, {1: 9.0, 2: 9.0}, 2),
}
"""What is tried: our seconds a step by batch, the other's, and the right answer."""


def up_to(ours: Times, theirs: Times) -> int:
    """The largest batch up to which ours is faster at every batch measured both ways; 0 where it never is.

    >>> up_to({1: 1.0, 2: 3.0}, {1: 2.0, 2: 2.0})
    1
    """
    last = 0
    for batch in sorted(set(ours) & set(theirs)):
        if ours[batch] >= theirs[batch]:
            break
        last = batch
    return last


def grade_until(until: Any) -> Mark:
    """`until(ours, theirs)` returns the largest batch up to which ours is faster throughout."""
    if not callable(until):
        return Mark("wrong", f"`until` is {until!r}.", "Write the function's name: until=until.")
    for case, (ours, theirs, right) in CASES.items():
        found = ask(until, dict(ours), dict(theirs))
        if isinstance(found, bool) or found != right:
            return Mark("wrong", f"where {case}, it returns {found!r}.", f"Right is {right}.")
    return Mark("right", f"it is right for {len(CASES)} tables. {_here()}".rstrip())


UNTIL_EXERCISE = Exercise("08b-until", grade_until)


def _here() -> str:
    """What the function says of the source's own steps; nothing where it has none."""
    from brrr_course.lessons.rnn_data import step_times

    told = []
    for cell, dtype in (("rnn_tanh", "float32"), ("lstm", "float16")):
        try:
            times = step_times(cell, dtype)
        except BrrrError:
            return ""
        if times["ours"]:
            last = up_to(times["ours"], times["cudnn"])
            told.append(f"{cell} in {dtype}: {'all batches measured' if last == max(times['ours']) else last}")
    return f"On your source, keep the weights on the chip up to: {'; '.join(told)}." if told else ""
