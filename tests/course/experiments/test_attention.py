"""Attention: the three steps against a loop, what is counted, what is refused, and wrong results that are found out."""

import math
import shutil
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr_course.experiments import experiment
from brrr_course.experiments.attention import (
    ALL,
    CAUSAL,
    ONE,
    AttentionInputs,
    attention_in,
    steps,
    textbook,
)
from brrr_course.experiments.checked import peak_bytes_of

ATTENTION = experiment("attention")
SHAPE = (2, 96, 96, 32)


def point(length: int, kind: str = ALL, dtype: str = "bfloat16", head: int = 128) -> dict[str, Any]:
    return {"length": length, "kind": kind, "dtype": dtype, "head": head}


def inputs(kind: str, dtype: torch.dtype = torch.float32) -> AttentionInputs:
    heads, queries, keys, head = SHAPE
    return AttentionInputs((heads, 1 if kind == ONE else queries, keys, head), kind, dtype, "cpu")


def by_loops(given: AttentionInputs) -> torch.Tensor:
    """Query by query and key by key, as the formula stands."""
    q, k, v = (each.detach().double()[0] for each in given.qkv)
    result = torch.zeros_like(q)
    for head in range(q.shape[0]):
        for row in range(q.shape[1]):
            seen = row + 1 if given.kind == CAUSAL else k.shape[1]
            weights = [math.exp(float(q[head, row] @ k[head, key]) / math.sqrt(q.shape[-1])) for key in range(seen)]
            for key, weight in enumerate(weights):
                result[head, row] += weight / sum(weights) * v[head, key]
    return result[None].float()


@pytest.mark.parametrize("kind", [ALL, CAUSAL, ONE])
def test_the_steps_and_the_library_are_the_formula(kind: str) -> None:
    given = inputs(kind)
    for way in ("naive", "flash"):
        torch.testing.assert_close(given.run(attention_in(way))[0], by_loops(given), rtol=1e-4, atol=1e-5)
        assert given.error(given.run(attention_in(way))) < 1e-5


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_the_compiler_knows_one_of_them_by_heart() -> None:
    """It puts the library's attention in the textbook's place, which does not round the scores to bfloat16."""
    given = inputs(ALL, torch.bfloat16)
    counters.clear()
    with config.patch(force_disable_caches=True):  # what the cache holds is found by no pass
        found = given.run(attention_in("compile-known"))
    assert counters["inductor"]["fuse_attention"] == 1
    assert given.error(found) < given.error(given.run(textbook)) / 2


def test_flash_holds_no_matrix_and_the_steps_hold_two() -> None:
    given = inputs(ALL)
    heads, queries, keys, head = SHAPE
    matrix, result = 4 * heads * queries * keys, 4 * heads * queries * head
    stored = peak_bytes_of(lambda: given.run(steps), "cpu")()
    assert 2 * matrix <= stored <= 2 * matrix + 2 * result


def test_what_cannot_run_says_why_before_anything_is_made() -> None:
    for way in ("flash", "cudnn"):
        with pytest.raises(UnavailableError, match="has no kernel for float32"):
            ATTENTION.workload(way, point(512, ALL, "float32"))
    with pytest.raises(DeviceMemoryError, match=r"CPU, three steps of 1048576 tokens needs 8\.\d+ TB"):
        ATTENTION.workload("cpu-naive", point(2**20))
