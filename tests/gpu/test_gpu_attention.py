"""Attention on a GPU: every way is right, who stores the matrix and who does not, and who refuses what and why."""

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from brrr.core.errors import DeviceMemoryError
from brrr_course.experiments import experiment
from brrr_course.experiments.attention import matrix_bytes

ATTENTION = experiment("attention")


def point(length: int, kind: str = "all", dtype: str = "bfloat16", head: int = 128) -> dict[str, Any]:
    return {"length": length, "kind": kind, "dtype": dtype, "head": head}


def test_only_the_steps_store_the_matrix() -> None:
    """The compiler keeps it too, unless it finds the textbook's words and calls the library."""
    at = point(8192)
    stored = {}
    for way in ("naive", "compile", "compile-known", "efficient", "flash", "cudnn"):
        held = ATTENTION.workload(way, at).others["peak_bytes"]()
        stored[way] = held / matrix_bytes(ATTENTION.variant(way), at)
    print(stored)
    assert 1.9 < stored["naive"] < 2.2 and 1 < stored["compile"] < 2.2
    assert max(stored[way] for way in ("compile-known", "efficient", "flash", "cudnn")) < 0.2


def test_the_largest_matrix_is_refused_with_its_size_and_flash_goes_on() -> None:
    with pytest.raises(DeviceMemoryError, match=r"three steps of 65536 tokens needs 277 GB"):
        ATTENTION.workload("naive", point(65536))
    assert ATTENTION.workload("flash", point(65536)).check() < 0.01


def test_for_one_query_flash_splits_the_keys() -> None:
    work = ATTENTION.workload("flash", point(32768, "one query"))
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work.run()
        torch.cuda.synchronize()
    names = [each.key for each in seen.key_averages()]
    print(*names, sep="\n")
    assert any("split" in name for name in names)
