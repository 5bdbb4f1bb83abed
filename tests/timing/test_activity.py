"""Sums over a profiler's record: overlap, markers, and the function's own waits."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from brrr.timing.activity import Activity, busy_union_s, detaching_cupti, kernel_sum_s, split_by_marker, waits

INTERVALS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), min_size=1, max_size=12)


@given(INTERVALS)
def test_the_union_is_what_counting_nanoseconds_gives(intervals: list[tuple[int, int]]) -> None:
    activities = [Activity("k", start, start + length, 7) for start, length in intervals]
    covered = {ns for start, length in intervals for ns in range(start, start + length)}
    assert round(busy_union_s(activities) * 1e9) == len(covered)
    assert busy_union_s(activities) <= kernel_sum_s(activities) + 1e-15
    span_ns = max(a.end_ns for a in activities) - min(a.start_ns for a in activities)
    assert busy_union_s(activities) <= span_ns * 1e-9 + 1e-15


def test_calls_are_told_apart_by_the_marker() -> None:
    names = ["stray", "brrr_gate", "brrr_marker", "a", "b", "brrr_evict_write", "brrr_evict_read", "brrr_marker", "c"]
    activities = [Activity(name, i, i + 1, 7) for i, name in enumerate(names)]
    assert [[a.name for a in call] for call in split_by_marker(activities)] == [["a", "b"], ["c"]]


def test_a_spin_kernel_of_ours_is_part_of_the_call() -> None:
    activities = [Activity("brrr_marker", 0, 1, 7), Activity("brrr_spin", 1, 9, 7)]
    assert [a.name for a in split_by_marker(activities)[0]] == ["brrr_spin"]


def test_only_waits_are_waits() -> None:
    calls = ["cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync", "cudaDeviceSynchronize"]
    assert waits(calls) == ["cudaStreamSynchronize", "cudaDeviceSynchronize"]


def test_the_callers_setting_is_put_back() -> None:
    os.environ.pop("TEARDOWN_CUPTI", None)
    with detaching_cupti():
        assert os.environ["TEARDOWN_CUPTI"] == "1"
    assert "TEARDOWN_CUPTI" not in os.environ
    os.environ["TEARDOWN_CUPTI"] = "0"
    with detaching_cupti():
        pass
    assert os.environ.pop("TEARDOWN_CUPTI") == "0"
