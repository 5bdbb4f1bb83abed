"""Cases drawn by a seed that changes by day: in time all are run. pytest prints the seed; BRRR_TEST_SEED sets it."""

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

Case = TypeVar("Case")
SEED = os.environ.setdefault("BRRR_TEST_SEED", f"{datetime.now(UTC):%Y-%m-%d}")  # the workers of xdist inherit it


def drawn(cases: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, in their order."""
    chosen = random.Random(SEED).sample(range(len(cases)), min(count, len(cases)))
    return [cases[place] for place in sorted(chosen)]
