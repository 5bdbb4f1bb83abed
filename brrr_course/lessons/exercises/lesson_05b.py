"""Exercise 05b-again: a chain of operators that keeps its input alone, and is computed again for the backward pass."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from brrr_course.experiments.remat import chain
from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.lessons.tensors import Watching, close, tensor

DEPTH, SHAPE, TOLERANCE = 8, (256, 1024), 1e-5
"""Operators in the chain, numbers that it gets, and a relative error that float32 stays far below."""


@exercise("05b-again")
def again(again: Any) -> str:
    """Right is the chain's result and its gradient, with nothing kept between the passes but input and result."""
    x = torch.randn(SHAPE).mul_(2).requires_grad_()
    gradient = torch.randn(SHAPE)
    made: set[StorageWeakRef] = set()
    ran = [0]

    def after(function: Any, args: Any, kwargs: Any, result: Any) -> None:
        ran[-1] += "hardswish.default" in str(function)
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor) and each.nbytes >= x.nbytes:
                made.add(StorageWeakRef(each.untyped_storage()))

    with Watching(after):
        y = tensor(ask(again, x), "Return the result of the last hardswish.")
        ends = {StorageWeakRef(each.untyped_storage()) for each in (x, y)}
        kept = sum(not each.expired() for each in made - ends)
        ran.append(0)
        if not y.requires_grad:
            raise Wrong("your result has no gradient.", "Is it computed under no_grad, or detached?")
        ask(y.backward, gradient)
    wide = x.detach().double().requires_grad_()
    expected = chain("hardswish", DEPTH)(wide)
    (right,) = torch.autograd.grad(expected, wide, gradient.double())
    if y.shape != x.shape or not close(y.detach(), expected.detach(), TOLERANCE):
        raise Wrong(f"your result is not that of {DEPTH} hardswishes.", "Keep the arithmetic as it was.")
    if x.grad is None or not close(x.grad, right, TOLERANCE):
        raise Wrong("the result is right, its gradient is not.", "The backward pass must go through all eight.")
    if kept:
        text = f"it is right, and keeps {kept} of the {DEPTH - 1} arrays between the operators."
        raise Wrong(text, "checkpoint(function, x, use_reentrant=False) keeps only x of all that `function` computes.")
    return (
        f"none of the {DEPTH - 1} arrays between the operators is kept. For that the backward pass ran {ran[-1]} "
        "hardswishes again: one by one that costs time, fused into one kernel it can save time, too."
    )
