"""On a GPU a step's parts add up to what torch's allocator says, and what does not fit is told as that."""

import pytest
import torch

from brrr_course.experiments.footprint import Footprint


@pytest.mark.parametrize("way", ["AdamW", "checkpointing", "decoding"])
def test_the_parts_followed_one_by_one_are_what_the_allocator_has_at_most(way: str) -> None:
    parts = Footprint(way, 2, 512, "cuda").found.parts
    assert sum(parts.values()) == pytest.approx(torch.cuda.max_memory_reserved(), rel=0.05)
    assert (parts["activations"] > 0) is (way != "decoding")
    assert parts["temporaries"] < 0.5 * sum(parts.values()), "else no allocation was seen"


def test_out_of_memory_is_a_measurement() -> None:
    """On a quarter of the GPU: what other processes hold of it changes nothing."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        found = Footprint("AdamW", 64, 2048, "cuda").found
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert found.full and sum(found.parts.values()) > 0.2 * torch.cuda.get_device_properties(0).total_memory
    assert torch.cuda.memory_allocated() < 2**33
