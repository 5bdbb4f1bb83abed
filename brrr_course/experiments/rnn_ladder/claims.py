"""What judges the claims on the ways to run a recurrent network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr_course.experiments.gemm.claims import blocks
from brrr_course.experiments.judging import all_within, datasheet, minimum
from brrr_course.experiments.rnn_ladder import grid
from brrr_course.nouns.claim import Judge, Verdict, not_below
from brrr_course.nouns.source import Evidence

At = dict[str, Value]
OURS = (*grid.LOOPS, "graph", "compiled", "persistent")
"""All that is not cuDNN."""
FEW = (1, 2, 4)
HALF_CELLS = ("rnn_tanh", "lstm")
KEPT = {"rnn_tanh": 1, "gru": 4, "lstm": 6}
"""Numbers that training keeps of a hidden unit, a step and a sample: its state, its gates and an LSTM's cell."""
FASTER = 1.02
"""One way is the best somewhere only where it is ahead of the others by more than this."""


def place(
    cell: str = "lstm", dtype: str = "float32", batch: int = grid.BATCH, hidden: int = grid.HIDDEN,
    steps: int = grid.STEPS, layers: int = grid.LAYERS,
) -> At:  # fmt: skip
    """A point; the paper's network, where nothing else is said."""
    return {"batch": batch, "hidden": hidden, "steps": steps, "layers": layers, "cell": cell, "dtype": dtype}


def half(cell: str, batch: int) -> At:
    """A point of cuDNN's line of batches in float16."""
    return place(cell, "float16", batch, grid.HALF_SIZE, layers=1)


def gain(evidence: Evidence, before: str, after: str, at: At) -> Estimate:
    """How many times as fast one way is as another; both are looked up before their ratio."""
    slow, fast = (evidence.get(line, **at) for line in (before, after))
    return slow / fast


def fastest(evidence: Evidence, lines: Iterable[str], at: At) -> tuple[str, Estimate]:
    """The fastest of some lines at a point, of those that were measured there."""
    found: dict[str, Estimate] = {}
    for line in lines:
        try:
            found[line] = evidence.get(line, **at)
        except NotRecordedError:
            continue
    if not found:
        raise NotRecordedError(f"no loop was measured at {named(at)}")
    return min(found.items(), key=lambda each: each[1].median)


def named(at: At) -> str:
    """A point in a sentence.

    >>> named(place(batch=4, layers=1))
    'lstm in float32, batch 4, hidden 512, 64 steps, 1 layer'
    """
    layers = f"{at['layers']} layer{'' if at['layers'] == 1 else 's'}"
    return f"{at['cell']} in {at['dtype']}, batch {at['batch']}, hidden {at['hidden']}, {at['steps']} steps, {layers}"


def in_graph(loop: str) -> str:
    """The line of a loop in a CUDA Graph, by the time on the device.

    >>> in_graph("naive"), in_graph("wavefront")
    ('naive graph span', 'graph span')
    """
    return "graph span" if loop == "wavefront" else f"{loop} graph span"


def _gains(before: str, after: str, bound: float, captured: bool = True) -> Judge:
    """One loop over another on the paper's network, each in a CUDA Graph, or one way over another as it is called."""

    def judge(evidence: Evidence) -> Verdict:
        slow, fast = (in_graph(each) if captured else each for each in (before, after))
        found = gain(evidence, slow, fast, place())
        where = "in a CUDA Graph " if captured else ""
        return Verdict(not_below(found, bound), f"{where}{after} is {found:x} as fast as {before}")

    return judge


def _gains_at(before: str, after: str, places: Sequence[At]) -> Judge:
    """One way over another at several points: the least is above 1."""

    def judge(evidence: Evidence) -> Verdict:
        found = [(at, gain(evidence, before, after, at)) for at in places]
        at, least = min(found, key=lambda each: each[1].median)
        slower = sum(each.high < 1 for _, each in found)
        text = f"{after} is at least {least:x} as fast as {before}, {named(at)}; slower at {slower} of {len(found)}"
        return Verdict(not_below(minimum(each for _, each in found), 1.0), text)

    return judge


# ---------------------------------------------------------------------------------------------------------------------
# The input's products: of one step, of two, of all.


def _two_best(evidence: Evidence) -> Verdict:
    """The better of one step's and all steps' products over two steps'."""
    two, one, every = (evidence.get(line, **place()) for line in map(in_graph, ("inputs2", "transposed", "inputs")))
    found = minimum((one / two, every / two))
    return Verdict(not_below(found, 1.0), f"two steps' are {one / two:x} as fast as one step's and {every / two:x} "
                   "as fast as all steps'")  # fmt: skip


def _detrimental(evidence: Evidence) -> Verdict:
    """Where all steps' products in one make the network slower, among mini-batches other than 32."""
    places = [place(cell, batch=batch, layers=1) for cell in grid.CELLS for batch in grid.BATCHES if batch != 32]
    found = {named(at): gain(evidence, in_graph("transposed"), in_graph("inputs"), at) for at in places}
    slower = sum(each.high < 1 for each in found.values())
    worst = min(found, key=lambda name: found[name].median)
    text = f"slower at {slower} of {len(found)} places; the least gain is {found[worst]:x}, {worst}"
    return Verdict("holds" if 3 * slower >= len(found) else "fails", text)


def _best_depends(evidence: Evidence) -> Verdict:
    """How often each of the three is the best by more than a hair, wherever all were measured."""
    times = [evidence.everywhere(in_graph(loop)) for loop in grid.INPUTS]
    common = set.intersection(*(set(each) for each in times))
    if len(common) < len(grid.BATCHES):
        raise NotRecordedError("one, two and all steps' products were hardly measured together")
    won = dict.fromkeys(grid.INPUTS, 0)
    for key in common:
        (first, best), (second, _) = sorted(
            ((each[key].median, name) for name, each in zip(grid.INPUTS, times, strict=True)), key=lambda pair: pair[0]
        )[:2]
        won[best] += second / first > FASTER
    counts = ", ".join(f"{name} {count}" for name, count in won.items())
    text = f"best by more than {units.percent(FASTER - 1)}, of {len(common)} places: {counts}"
    return Verdict("holds" if sum(count > 0 for count in won.values()) >= 2 else "fails", text)


def _wavefront(evidence: Evidence) -> Verdict:
    """The fastest loop layer by layer over the one in wavefront order."""
    wave = evidence.get(in_graph("wavefront"), **place())
    best, time = fastest(evidence, map(in_graph, grid.INPUTS), place())
    found = time / wave
    return Verdict(not_below(found, 1.0), f"wavefront is {found:x} as fast as {best}, the best layer by layer")


# ---------------------------------------------------------------------------------------------------------------------
# The products: how many blocks they are, and what part of the time is theirs.


def launched(evidence: Evidence, product: str) -> dict[tuple[Value, ...], int]:
    """How many blocks a product's first kernel was launched with, at every point, as the profiler told them."""
    known = evidence.source.known(evidence.experiment, product).items()
    found = {key: blocks(m.launched[0]) for key, m in known if m.launched}
    if not found:
        raise NotRecordedError(f"no kernel of {product} was named")
    return found


def _lacks_parallelism(evidence: Evidence) -> Verdict:
    """A gate's products that leave multiprocessors without a block."""
    sms = datasheet(evidence).sm_count or 1
    found = launched(evidence, "gate-product")
    few = sum(count < sms for count in found.values())
    text = f"fewer blocks than {sms} multiprocessors at {few} of {len(found)} places, {min(found.values())} at least"
    return Verdict("holds" if 2 * few > len(found) else "fails", text)


def _combined_parallel(evidence: Evidence) -> Verdict:
    """Blocks of all steps' input product over those of one step's product, which is of the recurrent one's shape."""
    one, every = (launched(evidence, name) for name in ("state-product", "inputs-product"))
    found = {key: every[key] / one[key] for key in one if key in every}
    if not found:
        raise NotRecordedError("the two products were named at no point together")
    text = f"{units.ratio(min(found.values()))} to {units.ratio(max(found.values()))} of the blocks"
    return Verdict("holds" if min(found.values()) > 1 else "fails", f"{text} at {len(found)} places")


BOUND = (
    *(place(cell, layers=1) for cell in grid.CELLS),
    *(place(hidden=hidden, layers=1) for hidden in grid.SIZES[2:]),
)
"""Where the products' part of the time is told: each cell, and the LSTM's larger sizes."""


def _shares(evidence: Evidence, inputs: bool) -> dict[str, Estimate]:
    """The part of the graph's time that recurrent products take, and with the inputs' one, each measured alone."""
    found = {}
    for at in BOUND:
        state, every, whole = (evidence.get(line, **at) for line in ("state product", "inputs product", "graph span"))
        lone = state * float(int(at["steps"]))
        share = lone / whole
        if inputs:
            more = every / whole
            share = Estimate(share.median + more.median, share.low + more.low, share.high + more.high, share.n)
        found[f"{at['cell']}, hidden {at['hidden']}"] = share
    return found


def _mostly(inputs: bool) -> Judge:
    """More than half of the time at each place."""

    def judge(evidence: Evidence) -> Verdict:
        found = _shares(evidence, inputs)
        text = "; ".join(f"{share:%} with {name}" for name, share in found.items())
        return Verdict(not_below(minimum(found.values()), 0.5), f"{'all' if inputs else 'recurrent'} products: {text}")

    return judge


def _loads_once(evidence: Evidence) -> Verdict:
    """The time with each mini-batch up to 64 over that with one sample."""
    upto = [batch for batch in grid.BATCHES if batch <= grid.BATCH]
    times = {batch: evidence.get("graph span", **place(batch=batch, layers=1)) for batch in upto}
    found = {batch: time / times[1] for batch, time in times.items() if batch > 1}
    text = ", ".join(f"{ratio.median:.2f}x with {batch}" for batch, ratio in found.items())
    return all_within(found.values(), 0.9, 1.1, f"of the time with one sample: {text}")


def _activations(evidence: Evidence) -> Verdict:
    """Bytes of the gates and states that training keeps over those of the weights, at the most steps recorded."""
    steps = grid.LENGTHS[-1]
    ratios = {}
    for cell in grid.CELLS:
        for hidden in grid.SIZES:
            weights = 2 * grid.GATES[cell] * (hidden + 1) * hidden
            ratios[cell, hidden] = steps * grid.BATCH * KEPT[cell] * hidden / weights
    (cell, hidden), least = min(ratios.items(), key=lambda each: each[1])
    text = f"at least {units.ratio(least)} of the weights' memory, {cell} of hidden size {hidden}"
    return Verdict("holds" if least >= 2 else "fails", f"{text}; {steps} steps, {grid.BATCH} samples")


# ---------------------------------------------------------------------------------------------------------------------
# What came later: CUDA Graphs, cuDNN, weights that stay on the chip.


def _ahead_of_cudnn(evidence: Evidence) -> Verdict:
    """cuDNN over the best of all else on the paper's network."""
    theirs = evidence.get("cudnn", **place())
    best, ours = fastest(evidence, OURS, place())
    found = theirs / ours
    return Verdict(not_below(found, 1.0), f"{best} is {found:x} as fast as cuDNN")


def _host_bound(evidence: Evidence) -> Verdict:
    """The share of the loops' time that the same work does not take in a CUDA Graph."""
    names = ("naive", "combined", "transposed", "wavefront")
    times = {name: (evidence.get(in_graph(name), **place()), evidence.get(name, **place())) for name in names}
    found = {name: 1 - graph / whole for name, (graph, whole) in times.items()}
    text = ", ".join(f"{share:%} of {name}" for name, share in found.items())
    return Verdict(not_below(minimum(found.values()), 0.5), f"waiting for the host: {text}")


def _cudnn_cliff(evidence: Evidence) -> Verdict:
    """cuDNN's time with 4 samples over that with 8."""
    found = {}
    for cell in HALF_CELLS:
        four, eight = (evidence.get("cudnn", **half(cell, batch)) for batch in (4, 8))
        found[cell] = four / eight
    text = "; ".join(f"{cell}: {ratio:x}" for cell, ratio in found.items())
    return Verdict(not_below(minimum(found.values()), 1.0), f"4 samples take of the time of 8: {text}")


PADDED = [half(cell, batch) for cell in HALF_CELLS for batch in grid.HALF_BATCHES if grid.padded({"batch": batch})]
LOW_BATCH = [place(cell, batch=batch, layers=1) for cell in HALF_CELLS for batch in FEW]
DEEP = [place(batch=batch) for batch in FEW]

JUDGES: dict[str, Judge] = {
    "combining-helps": _gains("naive", "combined", 1.0),
    "streams-help": _gains("combined", "streamed", 1.0),
    "fusing-helps": _gains("streamed", "fused", 1.0),
    "transposing-helps": _gains("fused", "transposed", 1.1),
    "two-steps-best": _two_best,
    "all-inputs-detrimental": _detrimental,
    "best-depends": _best_depends,
    "combined-parallel": _combined_parallel,
    "wavefront-helps": _wavefront,
    "exposed-parallelism": _gains("naive", "wavefront", 2.0),
    "lacks-parallelism": _lacks_parallelism,
    "recurrent-bottleneck": _mostly(inputs=False),
    "products-dominate": _mostly(inputs=True),
    "loads-once": _loads_once,
    "activations": _activations,
    "ahead-of-cudnn": _ahead_of_cudnn,
    "graph-gains": _gains("wavefront", "graph", 2.0, captured=False),
    "host-bound": _host_bound,
    "cudnn-cliff": _cudnn_cliff,
    "padding-gains": _gains_at("cudnn", "cudnn padded", PADDED),
    "persistent-ahead": _gains_at("graph", "persistent", [*LOW_BATCH, *DEEP]),
}
