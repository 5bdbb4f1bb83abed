"""What would help, and how much by prediction: each remedy looks at the evidence and says what the time would be.

A gain is the time as it is over the time predicted with the remedy. The host and the device work at the same time, so
that what is saved on the one does not count where the other takes as long.
"""

from brrr.diagnosis.device_remedies import channels, halving, multiplying, padding, precision, strided
from brrr.diagnosis.evidence import WORTH, Evidence, Remedy
from brrr.diagnosis.fusion import fusing
from brrr.diagnosis.host_remedies import (
    allocating,
    batch,
    compiling,
    debugging,
    graph,
    keeping,
    loading,
    looping,
    optimiser,
    pinning,
    waiting,
)  # fmt: skip
from brrr.diagnosis.persistent import persistent

FIRST = (compiling, debugging)
FAULTS = (loading, waiting, allocating, pinning, keeping, optimiser, looping, padding, strided, channels)
GENERAL = (precision, multiplying, fusing, halving, graph)
REWRITES = (persistent,)
LAST = (batch,)
ALWAYS = (waiting, debugging)
"""Named however little they gain: no CUDA Graph can hold a step that waits, and checks hide what else there is."""


def remedies(found: Evidence) -> list[Remedy]:
    """Those that are predicted to gain a tenth, and `ALWAYS`, in each group by their gain.

    First what leaves no other figure its meaning, then faults, with which nothing is lost, then what has its price, a
    kernel of one's own, and last a larger batch, which is another computation.
    """
    made: list[Remedy] = []
    if not found.device_s:  # nothing is done in the stretch that could be faster
        return made
    for looks in (FIRST, FAULTS, GENERAL, REWRITES, LAST):
        group = [(look, each) for look in looks if (each := look(found)) is not None]
        kept = [each for look, each in group if each.gain >= WORTH or look in ALWAYS]
        made += sorted(kept, key=lambda each: -each.gain)
    return made
