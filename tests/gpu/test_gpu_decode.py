"""The language model on a GPU: every way gives the logits of the wider model, and what does not fit says its size."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from brrr_course.experiments.decode import SMALL, TOLERANCE, Call, CallInputs, way_of

SHAPE = SMALL._replace(dtype="bfloat16", layers=3)


@pytest.mark.parametrize("way", ["eager", "graph", "compile", "compile-graph"])
@pytest.mark.parametrize("call", [Call(1, 1, 128), Call(5, 1, 300), Call(1, 40, 40)])
def test_every_way_is_right(way: str, call: Call) -> None:
    given = CallInputs(SHAPE, call, "cuda")
    run, close = way_of(way, given, "cuda")
    given.expected = given.wider().double()
    error = given.error(run())
    print(f"{way} {call}: {error:.2g}")
    assert error < TOLERANCE["bfloat16"]
    close()


def test_attention_reads_the_cache_where_it_lies() -> None:
    """One kernel over grouped heads, or two where the keys are split; not torch's own matmuls over copies of them."""
    given = CallInputs(SHAPE, Call(4, 1, 4096), "cuda")
    given.run()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        given.run()
        torch.cuda.synchronize()
    names = [each.key for each in seen.key_averages()]
    print(*names, sep="\n")
    assert any("flash" in name or "fmha" in name or "cudnn" in name for name in names)
