"""What would help, and how much by prediction: each remedy looks at the evidence and says what the time would be.

A gain is the time as it is over the time predicted with the remedy. The host and the device work at the same time, so
that what is saved on the one does not count where the other takes as long.
"""

from dataclasses import replace

from brrr.diagnosis import host_remedies as host
from brrr.diagnosis.batching import looping
from brrr.diagnosis.device_remedies import channels, halving, in_one_setting, multiplying, padding, precision, strided
from brrr.diagnosis.evidence import LEAST, WORTH, Evidence, Remedy
from brrr.diagnosis.fewer_bits import fewer_bits
from brrr.diagnosis.fusion import fusing
from brrr.diagnosis.loading import loading, picking
from brrr.diagnosis.persistent_kernel import persistent

FIRST = (host.compiling, host.debugging)
OF_HOST = (loading, picking, host.waiting, host.allocating, host.pinning, host.keeping, host.optimiser)
FAULTS = (*OF_HOST, looping, padding, strided, channels)
GENERAL = (precision, in_one_setting, multiplying, fusing, halving, host.graph)
REWRITES = (persistent, fewer_bits)
DEVICE = ("tensor cores", "tf32", "lower precision", "fewer bits", "strassen", "fusion", "rematerialisation")
"""What takes nothing from the host, so that a larger batch gains beside it."""
ALWAYS = ("no synchronisation", "debugging off")
"""Named from `LEAST` on: no CUDA Graph can hold a step that waits, and checks hide what else there is."""
WAITS = ("load in the background", "batch at once", "no synchronisation", "keep memory", "cuda graph")
"""What leaves the device its work: it gains no more than the time in which that does nothing."""


def remedies(found: Evidence) -> tuple[list[Remedy], list[Remedy]]:
    """Those that are predicted to gain a tenth (`ALWAYS`: a twentieth), in each group by their gain; and those dropped.

    First what leaves no other figure its meaning, then faults, with which nothing is lost, then what has its price, a
    kernel of one's own, and last a larger batch, which is another computation, for the overhead that the others leave.
    """
    named: list[Remedy] = []
    dropped: list[Remedy] = []
    if not found.device_s:  # nothing is done in the stretch that could be faster
        return named, dropped
    for looks in (FIRST, FAULTS, GENERAL, REWRITES):
        made = [_bounded(found, each) for look in looks if (each := look(found)) is not None]
        for each in sorted(made, key=lambda each: -each.gain):
            (named if each.gain >= (LEAST if each.name in ALWAYS else WORTH) else dropped).append(each)
    mended = [each.gain for each in named if each.name not in (*DEVICE, "batched")]
    turns = [each.gain for each in named if each.name == "batched"]
    if (last := host.batch(found, max(mended, default=1.0), max(turns, default=1.0))) is not None:
        (named if last.gain >= WORTH else dropped).append(last)
    return named, dropped


def _bounded(found: Evidence, each: Remedy) -> Remedy:
    most = found.wall_s / found.device_s if each.name in WAITS else each.gain
    return each if each.gain <= most else replace(each, gain=most)
