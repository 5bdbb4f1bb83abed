"""What judges the claims on a recurrent layer whose weights stay on the chip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.judging import all_within, datasheet, minimum
from brrr_course.experiments.rnn.floor import exchange, floor_of
from brrr_course.experiments.rnn.steps import LONG, MAIN, At, cudnn, gains, gains_everywhere, named, place, slope
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, weakest
from brrr_course.nouns.source import Evidence

BATCHES = (1, 4, 16, 64)
TABLE: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("rnn_tanh", "float32"): ((5, 5, 3.5, 2), (7, 8, 6, 3)),
    ("lstm", "float32"): ((4, 4, 3, 1.8), (6, 6, 4.5, 2.5)),
    ("rnn_tanh", "float16"): ((1.8, 1.5, 1.8, 1.2), (2.5, 2.5, 2.5, 2.5)),
    ("lstm", "float16"): ((1.2, 1.1, 1, 1.2), (1.8, 1.8, 1.8, 1.8)),
}
"""How many times as fast as the best cuDNN ours is to be at each of BATCHES; and how many at best."""
CELLS, WIDTHS = ("rnn_tanh", "lstm"), ("float32", "float16")
LOW, SMALL = (1, 2, 3, 4, 8), (1, 2, 3, 4)


def _at_least(at: At, bound: float) -> Judge:
    """Ours against the best cuDNN of the same source, at one place."""

    def judge(evidence: Evidence) -> Verdict:
        ((_, gain),) = gains(evidence, [at])
        line, theirs = cudnn(evidence, at)
        text = f"{gain:x} as fast as cuDNN; its best is {evidence.experiment.line(line).label}, {theirs} a step"
        return Verdict(not_below(gain, bound), text)

    return judge


def short_name(cell: str, dtype: str) -> str:
    """What the claims call a cell and a type.

    >>> short_name("rnn_tanh", "float16")
    'tanh-fp16'
    """
    return f"{cell.removeprefix('rnn_')}-{dtype.replace('float', 'fp')}"


def _table() -> dict[str, Judge]:
    """A judge for each number of the table."""
    made: dict[str, Judge] = {}
    for (cell, dtype), (wanted, best) in TABLE.items():
        for batch, bound, far in zip(BATCHES, wanted, best, strict=True):
            name, at = f"{short_name(cell, dtype)}-batch-{batch}", place(cell, dtype, batch)
            made[name], made[f"{name}-far"] = _at_least(at, bound), _at_least(at, far)
    return made


def _all(places: Iterable[At], bound: float, rival: str = "") -> Judge:
    """Ours against a rival at several places: the least."""
    named_places = tuple(places)
    return lambda evidence: _least(gains(evidence, named_places, rival), bound)


def _least(found: Sequence[tuple[At, Estimate]], bound: float) -> Verdict:
    at, least = min(found, key=lambda each: each[1].median)
    short = sum(each.high < bound for _, each in found)
    text = f"at least {least:x}, {named(at)}; less than {units.ratio(bound)} at {short} of {len(found)} places"
    return Verdict(not_below(minimum(each for _, each in found), bound), text)


def _never_slower(evidence: Evidence) -> Verdict:
    """Ours against the best cuDNN wherever both were measured."""
    return _least(gains_everywhere(evidence), 1.0)


def _places(cells: Sequence[str], dtypes: Sequence[str], batches: Sequence[int]) -> list[At]:
    return [place(cell, dtype, batch) for cell in cells for dtype in dtypes for batch in batches]


def _doubles(evidence: Evidence) -> Verdict:
    """The loop of products over ours, at small mini-batches."""
    found = gains(evidence, [place(batch=batch) for batch in (1, 4, 8, 16)], "graph")
    text = ", ".join(f"{gain:x} at batch {at['batch']}" for at, gain in found)
    return all_within([gain for _, gain in found], 1.6, 2.4, f"a persistent kernel is as fast as the loop {text}")


def _all_alike(pairs: Sequence[tuple[At, At]], what: str) -> Judge:
    """Ours at one place over another, for several: all within a tenth."""

    def judge(evidence: Evidence) -> Verdict:
        steps = [
            (other, slope(evidence, "persistent", other), slope(evidence, "persistent", at)) for other, at in pairs
        ]
        found = [(at, one / two) for at, one, two in steps]
        text = ", ".join(f"{ratio:x} at {at['cell']}, batch {at['batch']}" for at, ratio in found)
        return all_within([ratio for _, ratio in found], 0.9, 1.1, f"{what}: {text}")

    return judge


def _long_sequences(evidence: Evidence) -> Verdict:
    """A step of a long sequence over one of a short one."""
    places = [place(cell, "float32", batch) for cell in CELLS for batch in (1, 4, 64)]
    steps = [(slope(evidence, "persistent", at, LONG, 1024), slope(evidence, "persistent", at)) for at in places]
    found = [long / short for long, short in steps]
    text = f"{units.ratio(min(found).median)} to {units.ratio(max(found).median)} over {len(found)} places"
    return all_within(found, 0.9, 1.1, f"a step beyond {LONG} steps takes as long as one before: {text}")


def _gain_shrinks(evidence: Evidence) -> Verdict:
    """The gain with 128 samples over that with 4."""
    found = []
    for cell in CELLS:
        (_, few), (_, many) = gains(evidence, [place(cell, "float32", batch) for batch in (4, 128)])
        found.append((cell, few, many))
    text = "; ".join(f"{cell}: {few:x} at batch 4, {many:x} at 128" for cell, few, many in found)
    halves = [not_below(few / many, 2.0) for _, few, many in found]
    return Verdict(weakest(halves), text)


def _graph_little(evidence: Evidence) -> Verdict:
    """What a CUDA Graph gains cuDNN."""
    places = [place(cell, "float32", batch) for cell in CELLS for batch in BATCHES]
    steps = [(at, slope(evidence, "cudnn", at), slope(evidence, "cudnn graph", at)) for at in places]
    found = [(at, one / two) for at, one, two in steps]
    at, most = max(found, key=lambda each: each[1].median)
    text = f"at most {most:x} as fast, {named(at)}"
    return all_within([ratio for _, ratio in found], 1 / 1.2, 1.2, text)


# ---------------------------------------------------------------------------------------------------------------------
# The floor, the chip's memories, and how many FLOP/s are reached.


def _exchange_dominates(evidence: Evidence) -> Verdict:
    """Of a step at batch 1, the share that a step without arithmetic takes."""
    parts = [(cell, exchange(evidence, cell, "float32"), slope(evidence, "persistent", place(cell))) for cell in CELLS]
    shares = {cell: tiny / whole for cell, tiny, whole in parts}
    text = ", ".join(f"{share:%} of a step of {cell}" for cell, share in shares.items())
    return Verdict(not_below(minimum(shares.values()), 0.5), f"the exchange is {text}, batch 1, hidden {MAIN}")


def _floor_explains(evidence: Evidence) -> Verdict:
    """The floor over the measured step: never above, and at least half of it."""
    places = [place(cell, "float32", batch) for cell in CELLS for batch in BATCHES]
    steps = [(at, slope(evidence, "persistent", at)) for at in places]
    found = [(at, floor_of(evidence, at).total_s / step) for at, step in steps]
    (at, least), (_, most) = (pick(found, key=lambda each: each[1].median) for pick in (min, max))
    text = f"the floor is {least:%} to {most:%} of a step, least with {named(at)}"
    return all_within([share for _, share in found], 0.5, 1.05, text)


def _registers_largest(evidence: Evidence) -> Verdict:
    sheet = datasheet(evidence)
    count, each, shared, l2 = sheet.sm_count, sheet.sm_register_bytes, sheet.sm_shared_bytes, sheet.l2_bytes
    if not (count and each and shared and l2):
        raise NotRecordedError(f"the datasheet of {sheet.name} does not tell its memories' sizes")
    sizes = {"registers": count * each, "shared memory and L1": count * shared, "L2": l2}
    text = ", ".join(f"{name} {units.nbytes(size)}" for name, size in sizes.items())
    return Verdict("holds" if max(sizes, key=sizes.__getitem__) == "registers" else "fails", text)


def _off_chip_slower(evidence: Evidence) -> Verdict:
    """The weights a second that registers give the FMA units at their peak, over those that the memory gives."""
    sheet = datasheet(evidence)
    fed = sheet.peak("fp32", "cuda cores") / 2 * 4
    ratio = fed / sheet.memory_bytes_per_s
    rates = f"{units.quantity(fed, 'B/s')} against {units.quantity(sheet.memory_bytes_per_s, 'B/s')}"
    text = f"{units.ratio(ratio)}: {rates} of the memory"
    return Verdict("holds" if ratio >= 2 else "fails", text)


def _cached(evidence: Evidence) -> Verdict:
    """The share of a layer's weights that lie in registers, by the plans."""
    slope(evidence, "persistent", place(batch=4))  # nothing is said of kernels that never ran

    from brrr.kernels.recurrent.plan import plan

    shares = {}
    for cell in CELLS:
        for dtype in WIDTHS:
            made = plan(cell, hidden=MAIN, batch=4, dtype=dtype)
            weights = made.flop // 2 // 4 * (4 if dtype == "float32" else 2)
            held = 4 * made.weight_registers * made.threads * made.group_blocks
            shares[f"{cell} in {dtype}"] = min(1.0, held / weights)
    text = ", ".join(f"{units.percent(share, 2)} of {name}" for name, share in shares.items())
    return Verdict("holds" if min(shares.values()) > 0.5 else "fails", f"registers hold {text}")


def _rates(evidence: Evidence, cell: str, batches: Iterable[int], hidden: int = MAIN) -> dict[int, Estimate]:
    """FLOP/s of the recurrent product alone, by batch."""
    steps = {batch: slope(evidence, "persistent", place(cell, "float32", batch, hidden)) for batch in batches}
    each = 2.0 * hidden**2 * (4 if cell == "lstm" else 1)
    return {batch: each * batch / step for batch, step in steps.items()}


def _high_throughput(evidence: Evidence) -> Verdict:
    found = {(cell, batch): rate for cell in CELLS for batch, rate in _rates(evidence, cell, (16, 32, 64, 128)).items()}
    (cell, batch), best = max(found.items(), key=lambda each: each[1].median)
    share = best / datasheet(evidence).peak("fp32", "cuda cores")
    rate = units.quantity(best.median, "FLOP/s")
    return Verdict(not_below(share, 0.5), f"{share:%} of the peak, {rate}, {cell} at batch {batch}")


def _sustains(evidence: Evidence) -> Verdict:
    rate = _rates(evidence, "rnn_tanh", (4,), 1152)[4]
    return Verdict(not_below(rate, 2.8e12), f"{units.quantity(rate.median, 'FLOP/s')} at batch 4, hidden 1152")


def _of_peak(evidence: Evidence) -> Verdict:
    share = _rates(evidence, "rnn_tanh", (4,), 1152)[4] / datasheet(evidence).peak("fp32", "cuda cores")
    return band_verdict(share, 0.8 * 0.45, 1.2 * 0.45, f"{share:%} of the peak at batch 4, hidden 1152")


def _thirty_times(evidence: Evidence) -> Verdict:
    ((_, gain),) = gains(evidence, [place(batch=4)], "graph")
    return band_verdict(gain, 24, 36, f"{gain:x} as fast as the loop of products at batch 4")


# ---------------------------------------------------------------------------------------------------------------------
# Training, memory, errors, and what fits.


def _train(evidence: Evidence, line: str, cell: str, batch: int) -> Estimate:
    return evidence.get(line, **place(cell, "float32", batch), steps=LONG)


def _training_faster(evidence: Evidence) -> Verdict:
    keys = [(cell, batch) for cell in CELLS for batch in BATCHES]
    times = [(key, _train(evidence, "train cudnn", *key), _train(evidence, "train persistent", *key)) for key in keys]
    found = {key: theirs / ours for key, theirs, ours in times}
    (cell, batch), least = min(found.items(), key=lambda each: each[1].median)
    return Verdict(not_below(minimum(found.values()), 1.0), f"at least {least:x} as fast, {cell} at batch {batch}")


def _peak(evidence: Evidence, variant: str, cell: str, batch: int) -> int:
    """The peak of one training step's memory."""
    key = tuple(evidence.experiment.point(**place(cell, "float32", batch), steps=LONG).values())
    found = evidence.source.known(evidence.experiment, variant).get(key)
    if found is None or not found.peak_bytes:
        raise NotRecordedError(f"the memory of {variant} was not measured for {cell} at batch {batch}")
    return found.peak_bytes


def _saves_memory(evidence: Evidence) -> Verdict:
    """Ours with 4 samples against cuDNN with 64: as fast a sample, in less memory."""
    ours, theirs = (_train(evidence, line, "rnn_tanh", b) / float(b) for line, b in (("train persistent", 4),
                                                                                     ("train cudnn", 64)))  # fmt: skip
    less, more = _peak(evidence, "train-persistent", "rnn_tanh", 4), _peak(evidence, "train-cudnn", "rnn_tanh", 64)
    speed = theirs / ours
    text = (f"{speed:x} as fast a sample at batch 4 as cuDNN at 64; "
            f"{units.nbytes(less)} of memory against {units.nbytes(more)}")  # fmt: skip
    return Verdict(not_below(speed, 1.0) if less < more else "fails", text)


def _training_memory(evidence: Evidence) -> Verdict:
    ours, theirs = ({(cell, batch): _peak(evidence, variant, cell, batch) for cell in CELLS for batch in BATCHES}
                    for variant in ("train-persistent", "train-cudnn"))  # fmt: skip
    shares = {key: ours[key] / theirs[key] for key in ours}
    (cell, batch), most = max(shares.items(), key=lambda each: each[1])
    text = f"at most {units.ratio(most)} of cuDNN's memory, {cell} at batch {batch}"
    return Verdict("holds" if most <= 1.1 else "fails", text)


def _as_accurate(evidence: Evidence) -> Verdict:
    """The worst error of ours over cuDNN's, wherever both were measured."""
    ours, theirs = (dict(evidence.source.known(evidence.experiment, each).items()) for each in ("persistent", "cudnn"))
    pairs = [(key, m.error, theirs[key].error) for key, m in ours.items() if key in theirs]
    found = {key: one / two for key, one, two in pairs if one is not None and two}
    if not found:
        raise NotRecordedError("no error of ours was recorded beside cuDNN's")
    worst = max(found, key=lambda key: found[key])
    batch, hidden, _, cell, dtype = worst
    where = named(place(str(cell), str(dtype), int(batch), int(hidden)))
    text = f"at most {units.ratio(found[worst])} of cuDNN's error, {where}; {len(found)} points"
    return Verdict("holds" if found[worst] <= 2 else "fails", text)


FIT = {("rnn_tanh", "float32"): 1792, ("rnn_tanh", "float16"): 2560, ("lstm", "float32"): 1280}


def _fits(evidence: Evidence) -> Verdict:
    """The largest hidden sizes that were measured."""
    found = {}
    for cell, dtype in FIT:
        known = evidence.source.known(evidence.experiment, "persistent")
        sizes = [int(hidden) for _, hidden, _, one, kind in known if (one, kind) == (cell, dtype)]
        if not sizes:
            raise NotRecordedError(f"no {cell} in {dtype} was measured")
        found[cell, dtype] = max(sizes)
    text = ", ".join(f"{cell} in {dtype}: {size}" for (cell, dtype), size in found.items())
    return Verdict("holds" if all(found[each] >= FIT[each] for each in FIT) else "fails", text)


JUDGES: dict[str, Judge] = {
    **_table(),
    "low-batch": _all(_places(CELLS, ("float32",), LOW), 2.0),
    "doubles": _doubles,
    "cached-in-registers": _cached,
    "registers-largest": _registers_largest,
    "off-chip-slower": _off_chip_slower,
    "high-throughput": _high_throughput,
    "saves-memory": _saves_memory,
    "sustains": _sustains,
    "of-the-peak": _of_peak,
    "thirty-times": _thirty_times,
    "graph-three-times": _all(_places(CELLS, WIDTHS, SMALL), 3.0, "graph"),
    "never-slower": _never_slower,
    "beats-tf32": _all(_places(CELLS, ("float32",), SMALL), 1.0, "cudnn tf32"),
    "gain-shrinks": _gain_shrinks,
    "exchange-dominates": _exchange_dominates,
    "floor-explains": _floor_explains,
    "long-sequences": _long_sequences,
    "cudnn-graph-little": _graph_little,
    "relu-as-tanh": _all_alike([(place("rnn_relu", batch=b), place(batch=b)) for b in (1, 64)], "ReLU over tanh"),
    "bfloat16-as-float16": _all_alike([(place(cell, "bfloat16", b), place(cell, "float16", b))
                                       for cell in CELLS for b in (1, 16, 64)], "bfloat16 over float16"),
    "training-faster": _training_faster,
    "training-memory": _training_memory,
    "as-accurate": _as_accurate,
    "fits": _fits,
}  # fmt: skip
