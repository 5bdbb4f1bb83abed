"""Exercise 14-shards: a pair of Linear layers cut in two halves whose results add up to the whole."""

from typing import Any

import torch

from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.lessons.tensors import close

RANKS, BATCH, WIDTH, INNER = 2, 5, 12, 48


@exercise("14-shards")
def shards(cut: Any) -> str:
    """`cut(up, down, rank)` returns what GPU `rank` holds of both; what the GPUs compute with it must add up."""
    up, down, x = torch.randn(INNER, WIDTH), torch.randn(WIDTH, INNER), torch.randn(BATCH, WIDTH)
    total = torch.zeros(BATCH, WIDTH)
    for rank in range(RANKS):
        found = ask(cut, up.clone(), down.clone(), rank)
        if not isinstance(found, tuple | list) or len(found) != 2 or not all(map(torch.is_tensor, found)):
            raise Wrong("`cut` must return two tensors.", "return of_up, of_down")
        mine_up, mine_down = (each.to(up.dtype) for each in found)
        held, half = mine_up.numel() + mine_down.numel(), (up.numel() + down.numel()) // RANKS
        parts = [
            f"{tuple(mine.shape)} of {tuple(all_of.shape)}" for mine, all_of in zip(found, (up, down), strict=True)
        ]
        shapes = f"GPU {rank} holds {' and '.join(parts)}"
        if held > half:
            raise Wrong(f"{shapes}: more than half of the weights.", "Cut both layers.")
        if mine_up.shape[1:] != (WIDTH,):
            hint = "Before the ReLU a sum must be whole: cut `up` by its outputs, its first dimension."
            raise Wrong(f"{shapes}. x has {WIDTH} numbers for each sample, and `up` needs them all.", hint)
        if mine_down.shape != (WIDTH, mine_up.shape[0]):
            hint = "`down` takes what `up` made on this GPU: cut it by its inputs, its second dimension."
            raise Wrong(f"{shapes}. They do not fit together.", hint)
        total += torch.relu(x @ mine_up.T) @ mine_down.T
    if not close(total, torch.relu(x @ up.T) @ down.T, 1e-4):
        raise Wrong("the sum of both results is not the pair's.",
                    "GPU 0 takes the first half of the hidden numbers in both layers, GPU 1 the second.")  # fmt: skip
    return "each GPU holds half of the weights, and one all-reduce of the results is all they exchange."
