"""What the forum thread said about the pseudo-linear layer, and what holds; and this package's own explanation."""

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr_course.experiments.judging import curve, datasheet
from brrr_course.experiments.pseudo_linear.theory import FORWARD, linear_cost, pseudo_cost
from brrr_course.experiments.published import pseudo_linear
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

MANY = 32768


def thread(evidence: Evidence, table: str) -> Table:
    """The speed-ups of one of the thread's own tables, by the width."""
    return Table(("width",), {(row.width,): row.speedup for row in pseudo_linear(table)})


def clever_multiplication(evidence: Evidence) -> Verdict:
    """Three tests of "fewer multiplications"; the thread's guess fails if all three speak against it.

    With fewer than n³ multiplications the rate counted with all n³ could exceed the peak, and whole numbers close to
    the limit of exactness would come out rounded. And if the stand-in runs at the memory's pace, its bytes explain its
    time, and nothing is left for the matrix product to explain.
    """
    hardware = datasheet(evidence)
    linear = curve(evidence, "linear busy", "width", batch=MANY, direction=FORWARD)
    pseudo = curve(evidence, "pseudo triton busy", "width", batch=MANY, direction=FORWARD)
    width = max(set(linear) & set(pseudo))
    exact = sorted(int(width) for width, *_ in evidence.source.known(evidence.experiment, "linear-integers"))
    if not exact:
        raise NotRecordedError("the product of whole numbers was not measured, or did not come out exact")
    peak = hardware.peak("fp32")
    rates = [linear_cost(w, MANY).flop / time.median / peak for w, time in linear.items()]
    beyond = [w for w, time in linear.items() if linear_cost(w, MANY).flop / time.high > peak]
    nbytes = pseudo_cost(width, MANY).bytes
    share = nbytes / pseudo[width].median / hardware.memory_bytes_per_s
    most = linear[width].median * hardware.memory_bytes_per_s / nbytes
    text = (
        f"counted with all its multiplications, Linear reaches at most {units.percent(max(rates), 2)} of the fp32 "
        f"peak; its products of whole numbers are exact at width {' and '.join(map(str, exact))}; the fused stand-in "
        f"moves its bytes at {units.percent(share, 2)} of the bandwidth, at which no stand-in of width {width} "
        f"can be more than {units.ratio(most)} faster"
    )
    if beyond:
        return Verdict("holds", text)
    return Verdict("fails" if share >= 0.7 else "undecided", text)
