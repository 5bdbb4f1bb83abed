"""What would help, and how much by prediction: each remedy looks at the evidence and says what the time would be.

A gain is the time as it is over the time predicted with the remedy. The host and the device work at the same time, so
that what is saved on the one does not count where the other takes as long.
"""

from __future__ import annotations

import math

from brrr.diagnosis.device_remedies import channels, fusing, halving, padding, precision, strided
from brrr.diagnosis.evidence import WORTH, Evidence, Remedy
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

FAULTS = (
    compiling, loading, waiting, allocating, pinning, keeping, optimiser, looping, padding, strided, channels,
)  # fmt: skip
GENERAL = (precision, fusing, halving, graph)


def remedies(found: Evidence) -> list[Remedy]:
    """Those that are predicted to gain something, first those that mend a fault, in each kind by their gain.

    A fault's gain counts double (on a logarithmic scale), since nothing is lost with it; that of a larger batch half;
    and while a debugging flag is on, no other figure means much.
    """
    weights = (((debugging,), math.inf), (FAULTS, 2.0), (GENERAL, 1.0), ((batch,), 0.5))
    made = [(look(found), weight) for looks, weight in weights for look in looks]
    kept = [(weight * math.log(each.gain), each) for each, weight in made if each is not None and each.gain >= WORTH]
    return [each for _, each in sorted(kept, key=lambda one: -one[0])]
