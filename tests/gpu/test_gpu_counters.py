"""Bytes counted against the GPU's own counters; skipped where Nsight Compute may not read them, with its reason."""

import pytest

from brrr.core.errors import UnavailableError
from tools.counters.__main__ import count_on_hardware
from tools.counters.worker import L2_SETS


def test_counted_bytes_are_those_that_move() -> None:
    try:
        found = count_on_hardware()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    print(f"\n{found}")
    assert found.set_bytes >= L2_SETS * found.l2_bytes
    assert len(found.rows) - len(found.beyond) >= 15, found
    assert all(row.measured_read + row.measured_written > 0 for row in found.rows), "an operator ran no kernel"
