"""Record a reference on this machine's GPU: its long sweep, the host's cost of each operator, and the sweeps' fits.

python -m tools.reference DIR [MINUTES]    # the peaks into that folder; 60 minutes where nothing is said
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from brrr.roofline.calibrate import calibrate
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peak import SweptCalls
from brrr.roofline.peaks import write
from tools.reference.compiled import measure_compiled
from tools.reference.fitting import fitted
from tools.reference.host_calls import measure_calls
from tools.reference.operators import sweep_every_operator
from tools.reference.products import sweep_every_product

HOST_S = 120.0
"""Of the time, for the host's costs by operator."""


def main(argv: Sequence[str]) -> int:
    """0 when it went well, 2 for a call that cannot be understood."""
    if not 1 <= len(argv) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    minutes = float(argv[1]) if len(argv) > 1 else 60.0
    began, peaks = time.perf_counter(), calibrate("cuda", progress=print)
    found = Findings(time.perf_counter() + HOST_S, device=peaks.device, measured=dict(peaks.measured))
    measure_compiled(found)
    measure_calls(found)
    found.until_s = began + 60 * minutes
    sweep_every_product(found)
    sweep_every_operator(found)
    sweeps = {name: _plain(sweep) for name, sweep in found.sweeps.items()}
    own = replace(peaks, measured=found.measured, sweeps=sweeps, reference="", notes=(*peaks.notes, *found.notes))
    print(write(Path(argv[0]), fitted(own)))
    return 0


def _plain(sweep: SweptCalls) -> SweptCalls:
    """Without what an older reference said of its calls."""
    return replace(sweep, columns={name: column for name, column in sweep.columns.items() if name != "carried"})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
