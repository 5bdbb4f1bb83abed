"""The program that Nsight Compute watches: every operator in turn, between the profiler's start and stop.

`python -m brrr.counters.worker plan.json application` writes to plan.json what it ran and what `brrr.cost` counts.

At the end of a kernel some of what it wrote still lies in the L2, and reaches memory only when it is pushed out. So
each operator runs on the same tensors right before it is watched: what it leaves behind is as much as it found there,
and the two cancel.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from brrr.counters.moved import Moved
from brrr.counters.streaming import Streaming, streaming
from brrr.timing.gate import marker_kernel

L2_SETS = 20
"""The working set is so many times the L2."""
CALLS = 3
"""Watched calls of each operator."""
BEFORE = 2
"""Calls right before, which are not watched."""


def main(argv: Sequence[str]) -> int:
    """Run all operators, and write the plan."""
    path, replay = Path(argv[0]), argv[1]
    properties = torch.cuda.get_device_properties()
    set_bytes = float(L2_SETS * properties.L2_cache_size)
    with torch.no_grad():
        rows = [_run(each, set_bytes, by_kernel=replay != "app-range") for each in streaming()]
    plan = {"l2_bytes": float(properties.L2_cache_size), "set_bytes": set_bytes, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(plan), encoding="utf-8")
    return 0


def planned(each: Streaming, rows: int) -> Moved:
    """What is counted for an operator, nothing measured yet."""
    cost = each.cost(rows)
    running = [operator for operator in cost.operators if operator.kind != "view"]
    return Moved(
        each.name,
        each.written,
        running[0].dtype,
        tuple(str(given.described(rows).shape) for given in each.inputs),
        tuple(operator.name for operator in running),
        float(sum(operator.read_bytes for operator in running)),
        float(sum(operator.written_bytes for operator in running)),
    )


def _run(each: Streaming, set_bytes: float, *, by_kernel: bool) -> Moved:
    """Its calls; kernel by kernel, a marker stands before each call, so that the kernels of each are known."""
    rows = each.rows(set_bytes)
    inputs = each.filled(rows, "cuda")
    marker_kernel()
    for _ in range(BEFORE):
        each.run(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for _ in range(CALLS):
        if by_kernel:
            marker_kernel()
        each.run(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    del inputs
    torch.cuda.empty_cache()
    return planned(each, rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
