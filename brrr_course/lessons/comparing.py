"""`compare`: the student's guess beside what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons import quantities, special_quantities
from brrr_course.lessons.answers import Quantity
from brrr_course.lessons.comparison import Subject
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, Waiting
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source
from brrr_course.sources import source_for
from brrr_course.view.display import renew_all

Compared = Callable[[Subject], Comparison]

ANY: Mapping[str, Compared] = {
    "time": quantities.times, "growth": quantities.growth, "speed-up": quantities.speedups,
    "memory": quantities.memory,
}  # fmt: skip
"""What any experiment's lines can be compared by."""

SPECIAL: Mapping[str, Mapping[str, Compared]] = {
    "block": {"classes": special_quantities.classes},
    "cheats": {"gallery": special_quantities.gallery},
    "clocks": {"clock": special_quantities.clock},
    "compiled": {"payback": special_quantities.payback},
    "gemm": {"data": special_quantities.data},
    "memory_swap": {"swap": special_quantities.swap},
    "mystery": {"regime": special_quantities.regime},
    "rnn": {"step": special_quantities.steps},
    "strassen": {"error": special_quantities.errors},
}
"""What one experiment alone can be compared by."""

NO_FACTOR = ("time", "memory", "data", "regime", "swap", "payback", "clock", "gallery")
UNJUDGED = ("memory", "data", "step", "clock", "gallery")
"""Tables that stand without a guess."""


def compare(
    guess: Guess | None, experiment: str, lines: Sequence[str] | Mapping[str, str] = (), *, of: str = "time",
    truth: str = "", at: Mapping[str, Value] | None = None, source: Source | None = None,
    **axes: Value | tuple[Value, Value],
) -> Comparison:  # fmt: skip
    """Compare a guess with the measurement.

    >>> from brrr_course.lessons.guessing import guess
    >>> from brrr_course.sources.recorded import Recorded
    >>> g = guess("How long does a matmul of size 4096 take?", unit="s", answer="25 µs")
    Your guess: 25 µs
    >>> compare(g, "matmul", ["synchronized"], size=4096, source=Recorded("h200"))
    At size 4096, you said 25 µs, measured ... ms: ...x too short.
    ...

    Before the guess is given it asks for it; in a notebook it fills itself in afterwards.

    Parameters
    ----------
    guess : Guess or None
        The guess. None is allowed for tables that need none ("memory", "data", "step", "clock", "gallery").
    experiment : str
        The experiment.
    lines : sequence or mapping of str
        The lines to show. For a choice, a mapping from each option to its line; for "speed-up", from each line to its
        base, the guessed one first.
    of : str
        What is compared:

        - "time": the lines' times. With `truth`, their errors. If an axis has two values, as in ``repeat=(1, 32)``, the
          growth between them, beside the predicted one; the guess is a factor.
        - "speed-up": how many times as fast as its base each line is.
        - "memory": how much memory a call takes at most, beside its time.
        - a quantity of one experiment: "classes" of "block" (time by class of operators), "gallery" of "cheats" (what
          each wins), "clock" of "clocks" (with the power), "payback" of "compiled" (the calls after which compiling has
          paid), "data" of "gemm" (random numbers against zeros), "regime" of "mystery",
          "step" of "rnn" (cuDNN's time step over ours), "swap" of "memory_swap" (what another memory gains), "error"
          of "strassen" (the error of each level).
    truth : str
        The line that the others are compared with.
    at : mapping of str, optional
        The point, as for `explore`. It snaps to the nearest one that the data have.
    source : Source, optional
        Where the measurements come from, as for `explore`. A live source measures them now.
    **axes
        Values by axis; they override those in `at`.

    Returns
    -------
    Comparison
        A sentence with both values and their ratio, and a table.

    Raises
    ------
    ArgumentError
        If a quantity, a line or an axis does not exist, or if the guess is of another kind than the quantity takes.

    Notes
    -----
    Where there is no GPU, the CPU queue's line stands in for a GPU's (`queue synchronized` for `synchronized`).
    """
    described = experiment_named(experiment)
    quantity = _quantity(described, of, growing=any(isinstance(value, tuple) for value in axes.values()))
    form = guess.form if guess is not None else None
    if quantity is quantities.growth or of not in NO_FACTOR:
        fits, wanted = isinstance(form, Quantity) and form.unit == "x", 'a guess of a factor: guess(..., unit="x")'
    else:
        fits, wanted = form is not None, "a guess: guess(...)"
    if not fits and (form or of not in UNJUDGED):
        raise ArgumentError("compare", "guess", form, wanted)

    def compared() -> Comparison:
        asked, guessed = (guess.form, guess.value) if guess is not None else (None, None)
        named = lines.values() if isinstance(lines, Mapping) and of == "time" else lines
        point, chosen = {**(at or {}), **axes}, source_for(source, described.name, tuple(named))
        subject = Subject(asked, guessed, described.on(chosen.kind), chosen, lines, point, of, truth)
        found = quantity(subject)
        if chosen.live:
            renew_all(described.name)
        return replace(found, measured=next(iter(subject.held), None))

    if guess is None or guess.answered:
        return compared()
    return Waiting(UNANSWERED, guess=guess, compared=compared)


def _quantity(experiment: Experiment, of: str, *, growing: bool) -> Compared:
    """The function that compares by a word; ArgumentError for one that means nothing here."""
    if of == "time" and growing:
        return quantities.growth
    there = {**ANY, **SPECIAL.get(experiment.name, {})}
    if of not in there:
        raise ArgumentError("compare", "of", of, f"one of {', '.join(there)}")
    return there[of]
