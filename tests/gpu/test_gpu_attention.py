"""Attention on a GPU: every way is right, who stores the matrix and who does not, and who refuses what and why."""

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from brrr.core.errors import DeviceMemoryError
from brrr_course.experiments import experiment
from brrr_course.experiments.attention import KINDS, matrix_bytes

ATTENTION = experiment("attention")
IMPLEMENTATIONS = [each.name for each in ATTENTION.variants if each.on_gpu]


def point(length: int, kind: str = "all", dtype: str = "bfloat16", head: int = 128) -> dict[str, Any]:
    return {"length": length, "kind": kind, "dtype": dtype, "head": head}


def refused(way: str, at: dict[str, Any]) -> bool:
    return at["dtype"] == "float32" and way in ("flash", "cudnn")


POINTS = (*(point(2048, kind) for kind in KINDS), point(128), point(512, dtype="float32"), point(512, head=64))
CASES = [(way, at) for at in POINTS for way in IMPLEMENTATIONS if ATTENTION.has(way, at) and not refused(way, at)]


@pytest.mark.parametrize(("way", "at"), CASES)
def test_every_way_is_right(way: str, at: dict[str, Any]) -> None:
    work = ATTENTION.workload(way, at)
    print(f"{way} {at}: {work.check():.2g}, {work.others['peak_bytes']() / 1e6:.1f} MB")


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
