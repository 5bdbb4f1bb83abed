"""What a guess is compared with of one experiment alone: a block's classes, steps, regimes, errors, and the like."""

import math
from bisect import bisect
from contextlib import suppress

from brrr.core import units
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Measurement
from brrr_course.experiments import memory_swap
from brrr_course.experiments.block import AS_BERT, CLASSES, flop
from brrr_course.experiments.compiled import FIRST_CALLS
from brrr_course.experiments.gemm import DTYPES
from brrr_course.experiments.memory_swap import gain, swapped
from brrr_course.experiments.mystery import regime_of
from brrr_course.experiments.mystery import times as program_times
from brrr_course.experiments.rnn import MAIN, At, place, step
from brrr_course.lessons.comparison import Subject, lines_here
from brrr_course.lessons.rnn_data import both_steps
from brrr_course.lessons.strassen_levels import grown, kinds_of, sizes_with_errors
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named


def classes(subject: Subject) -> Comparison:
    """FLOP a second of a block's matmuls over those of its norms, and every class of operators of a training step.

    As wide as BERT where the point names no other.
    """
    evidence, point = subject.evidence, {**AS_BERT, **subject.at}
    try:
        taken = {name: evidence.get(name, **point).median for name in CLASSES}
        step = evidence.get("step", **point)
    except NotRecordedError:
        return Comparison(f"{subject.source.name} has no block taken apart: it takes a GPU.")
    counted = {name: flop(name, point) for name in CLASSES}
    done, spent = sum(counted.values()), sum(taken.values())
    rates = {name: counted[name] / taken[name] for name in CLASSES}
    rows = [(subject.experiment.variant(n).label, units.percent(counted[n] / done), units.percent(taken[n] / spent),
             units.quantity(rates[n], "FLOP/s")) for n in CLASSES]  # fmt: skip
    said = subject.judged(rates["products"] / rates["norms"])
    header = ("operators", "share of the FLOP", "share of the device's time", "FLOP per second")
    return subject.table(f"{said[:1].upper()}{said[1:]}. {_of_peak(evidence, done / step.median)}", header, rows)


def _of_peak(evidence: Evidence, rate: float) -> str:
    try:
        share = rate / evidence.datasheet().peak("bf16", "tensor cores")
    except NotRecordedError:
        return ""
    return f"The whole step does {units.percent(share)} of the FLOP that the datasheet allows in its time."


def regime(subject: Subject) -> Comparison:
    """The regime of one of the three programs by what its four measurements say."""
    model = str(subject.at["model"])
    try:
        found = program_times(subject.evidence, model)
    except NotRecordedError:
        return Comparison(f"{subject.source.name} has no program {model}: it takes a GPU.")
    eager, graph, half, double = (each.median for each in found.values())
    rows = [
        ("without the host, as a CUDA Graph", units.ratio(eager / graph), "overhead"),
        ("half the bytes", units.ratio(graph / half), "memory"),
        ("twice the batch takes", units.ratio(double / graph), "under-filled"),
    ]
    said = f"Program {model}: {subject.judged(regime_of(eager, graph, half, double))}."
    return subject.table(said, ("what is changed", "gain, or growth", "it would be"), rows)


def swap_evidence(source: Source) -> Evidence:
    """The calls on a source whose device is the H200's chip with another memory, else as they were recorded on an H100.

    NotRecordedError where there is neither.
    """
    for each in (source, source_named("recorded:h100")):
        evidence = Evidence(memory_swap.EXPERIMENT, each)
        with suppress(NotRecordedError):
            if swapped(evidence).values:
                return evidence
    raise NotRecordedError("nothing was recorded on an H100: brrr record memory_swap measures it there")


def swap(subject: Subject) -> Comparison:
    """How much faster a call is on the H200, as one of three options: hardly, by a part, by all that the memory is."""
    if len(getattr(subject.form, "options", ())) != len(memory_swap.REGIMES):
        raise ArgumentError("compare", "guess", subject.form, "a guess of three options, from no gain to all of it")
    evidence, call = swap_evidence(subject.source), str(subject.at["call"])
    ratio = swapped(evidence).values[call,]
    option = subject.form.options[-1 - memory_swap.REGIMES.index(memory_swap.regime(ratio.median, gain(evidence)))]
    return Comparison(f"{call}: {subject.judged(option)}. It is {units.ratio(ratio.median, 3)} as fast.")


PAID = ("fewer than 1000", "1000 to 10 000", "10 000 to 100 000", "more, or never")
"""The options of a guess of calls; each but the last ends at ten times the one before."""


def payback(subject: Subject) -> Comparison:
    """The calls after which compiling has paid for itself, of each program; the guess is of the one at the point."""
    rows, options = [], dict[tuple[str, str], str]()
    for program, size in FIRST_CALLS:
        try:
            first, eager, made = (subject.evidence.get(name, program=program, size=size).median
                                  for name in ("first cold", "eager", "compile"))  # fmt: skip
        except NotRecordedError:
            continue
        calls = first / (eager - made) if eager > made else math.inf
        options[program, size] = PAID[bisect((1e3, 1e4, 1e5), calls)]
        shown = (units.seconds(each) for each in (first, eager, made))
        rows.append((f"{program}, {size}", *shown, units.quantity(calls, "") if calls < math.inf else "never"))
    if (asked := (subject.point["program"], subject.point["size"])) not in options:
        return Comparison(f"{subject.badge} has no first call of this program: it takes a GPU.")
    header = ("program", "first call", "a call as written", "a call compiled", "paid back after ... calls")
    return subject.table(f"{', '.join(map(str, asked))}: {subject.judged(options[asked])}.", header, rows)


def data(subject: Subject) -> Comparison:
    """A large matmul of random numbers and of zeros in the main types, with the GPU's clock and power beside."""
    size, columns = 8192, 4096
    rows = []
    for dtype in DTYPES[:3]:
        known = [subject.source.known(subject.experiment, name).get((columns, size, dtype)) for name in ("nn", "zeros")]
        measured = [each for each in known if each is not None and each.span_s is not None]
        if len(measured) == 2:
            rows.append((dtype, *_of_data(*measured)))
    if not rows:
        return Comparison(f"{subject.badge} has no such product of zeros: it takes a GPU.")
    header = ("", "time with zeros over time with random numbers", "clock, random and zeros", "power, random and zeros")
    return subject.table(f"M = K = {size}, {columns} columns.", header, rows)


def gallery(subject: Subject) -> Comparison:
    """How many times as fast as its rival each winner is, by the naive benchmark and by the careful one."""
    found, pairs = subject.experiment, [("honest", "cheat"), ("careful honest", "careful cheat")]
    rows = []
    for trick in subject.source.values(found, "trick"):
        times = [[subject.timed(name, {"trick": trick}) for name in pair] for pair in pairs]
        rows.append((str(trick), *(f"{a[1] / b[1]:x}" if a and b else "–" for a, b in times)))
    said = "How many times as fast as its rival each of them is."
    return subject.table(said, ("", "by the naive benchmark", "by the careful one"), rows)


def clock(subject: Subject) -> Comparison:
    """A product's time, clock and power at first, late and last, with and without pauses."""
    rows = []
    for line in lines_here(subject.experiment, subject.source, ["back to back", "paused"]):
        every = sorted(subject.source.known(subject.experiment, line.variant).items())
        for (seconds,), found in dict(every[:1] + every[-2:]).items():
            shown = (units.quantity(each, of) if each else "not told"
                     for each, of in ((found.sm_clock_hz, "Hz"), (found.power_w, "W")))  # fmt: skip
            rows.append((line.label, f"{seconds:g} s", str(found.get(line.field)), *shown, ", ".join(found.flags)))
    header = ("", "after", "a matmul takes", "clock", "power", "flags")
    return subject.table("The same matmul, with what the driver told meanwhile.", header, rows)


def _of_data(random: Measurement, zeros: Measurement) -> tuple[str, ...]:
    one, other = random.span_s, zeros.span_s
    assert one is not None
    assert other is not None
    clocks = " and ".join(units.quantity(each.sm_clock_hz or 0.0, "Hz") for each in (random, zeros))
    watts = " and ".join("?" if each.power_w is None else units.quantity(each.power_w, "W") for each in (random, zeros))
    return units.ratio((other / one).median), clocks, watts


def steps(subject: Subject) -> Comparison:
    """The best cuDNN's time step over ours by batch: what a longer sequence takes more, by its further steps."""
    evidence, at = subject.evidence, {"batch": (1, 4, 16, 64), "cell": "rnn_tanh", "dtype": "float32", **subject.at}
    cell, dtype = str(at["cell"]), str(at["dtype"])
    rows, gains = [], {}
    for batch in at["batch"]:
        here = place(cell, dtype, batch)
        if both := both_steps(evidence, here):
            ours, variant, theirs = both
            gains[batch] = theirs / ours
            graphs = [_step(evidence, each, here) for each in ("cudnn", "graph")]
            shown = [units.seconds(each.median) for each in (ours, theirs)]
            rows.append((str(batch), *shown, subject.experiment.variant(variant).label, f"{gains[batch]:x}", *graphs))
    if not gains:
        return Comparison(f"{subject.badge} has no step of {cell} in {dtype} both ways: it takes a GPU.")
    first, gain = next(iter(gains.items()))
    header = ("mini-batch", "weights on the chip", "cuDNN's best", "which of its ways", "over ours",
              "cuDNN as torch calls it", "loop in a CUDA Graph")  # fmt: skip
    judged = f"; at batch {first} {subject.judged(gain.median)}" if subject.form else ""
    return subject.table(f"A step of {cell} in {dtype}, hidden size {MAIN}{judged}.", header, rows)


def _step(evidence: Evidence, variant: str, at: At) -> str:
    try:
        return units.seconds(step(evidence, variant, **at).median)
    except NotRecordedError:
        return "–"


def errors(subject: Subject) -> Comparison:
    """The growth of the error with so many Strassen levels, for each kind of product, at the largest size.

    The first kind that the source has is compared with the guess. Errors are over those of the same inner product
    without levels.
    """
    source, level = subject.source, int(subject.at["level"])
    for size in reversed(sizes_with_errors(source)):
        found = {kind: ratios for kind in kinds_of(source) if (ratios := grown(source, kind, size, level))}
        if found:
            break
    else:
        return Comparison(f"{subject.badge} has no error of {level} levels beside that of none.")
    rows = [(kind, units.ratio(error), units.ratio(error ** (1 / level)), units.ratio(speed))
            for kind, (speed, error) in found.items()]  # fmt: skip
    first, (_, error) = next(iter(found.items()))
    header = ("product", f"error, {level} levels over none", "per level", "speed over none")
    return subject.table(f"At size {size}, {first}: {subject.judged(error)}.", header, rows)
