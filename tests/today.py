"""Cases drawn by a seed that changes by day: in time all are run. pytest prints the seed; BRRR_TEST_SEED sets it.

`BRRR_TEST_SEED=all` draws every case. Of what takes seconds, as tests/slow.txt tells, `make test` draws one in SHARE.
"""

import os
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")
SEED = os.environ["BRRR_TEST_SEED"] = os.environ.get("BRRR_TEST_SEED") or f"{datetime.now(UTC):%Y-%m-%d}"
"""Set in the environment too: the workers of xdist inherit it."""


SHARE = 5


def drawn(cases: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, in their order."""
    if SEED == "all":
        return list(cases)
    chosen = random.Random(SEED).sample(range(len(cases)), min(count, len(cases)))
    return [cases[place] for place in sorted(chosen)]


def left_out(names: Iterable[str]) -> set[str]:
    """Those of the tests' names that another day runs. A line of tests/slow.txt is a test, or a file: all of it."""
    listed = (Path(__file__).parent / "slow.txt").read_text("utf-8").splitlines()
    slow = {line for line in listed if line and not line.startswith("#")}
    mine = {name: at for name in names for at in (name, name.partition("::")[0]) if at in slow}
    units = sorted({*mine.values()})
    today = {*drawn(units, -(-len(units) // SHARE))}
    return {name for name, at in mine.items() if at not in today}
