"""Exercise 08-combine: the products of an LSTM's four gates as one or two.

The student's functions are run under a mode of torch that counts products and sees whether weights are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr_course.lessons.checking import Exercise, Mark, ask

GATES, BATCH, INPUTS, HIDDEN = 4, 3, 24, 16
"""Small enough that no result of a step is as large as one gate's weights: what is as large are weights."""
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear"}
MOVES = {"cat", "stack", "clone", "copy_", "_to_copy", "copy", "repeat"}
MOST, TOLERANCE = 2, 1e-4
Weights = Sequence[torch.Tensor]


class Counter(TorchDispatchMode):
    """How many products were made, and whether weights were moved."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products, self.moved = 0, False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        self.products += name in PRODUCTS
        self.moved |= name in MOVES and isinstance(result, torch.Tensor) and result.numel() >= HIDDEN * HIDDEN
        return result


def eight(x: torch.Tensor, h: torch.Tensor, w: Weights, u: Weights) -> list[torch.Tensor]:
    """What the gates are computed from, a product for each: what the exercise starts from."""
    return [x @ w[gate].t() + h @ u[gate].t() for gate in range(GATES)]


def grade_combine(stack: Any, gates: Any) -> Mark:
    """Right if `gates` gives all four by at most two products, from weights that `stack` has arranged."""
    for name, given in {"stack": stack, "gates": gates}.items():
        if not callable(given):
            return Mark("wrong", f"`{name}` is {given!r}.", f"Write the function's name: {name}={name}.")
    x, h = torch.randn(BATCH, INPUTS), torch.randn(BATCH, HIDDEN)
    w, u = ([torch.randn(HIDDEN, each) / each**0.5 for _ in range(GATES)] for each in (INPUTS, HIDDEN))
    with torch.no_grad():
        weights, counted = ask(stack, list(w), list(u)), Counter()
        with counted:
            found = ask(gates, x.clone(), h.clone(), weights)
    if mistake := _mistake(found, x, h, w, u):
        return Mark("wrong", *mistake)
    if counted.moved:
        return Mark("wrong", "it moves the weights at each step.", "Do that in `stack`, which runs once.")
    if counted.products > MOST:
        hint = "Stack the weights below each other, multiply once, and cut the result: torch.cat, then chunk."
        return Mark("wrong", f"the result is right, and takes {counted.products} products.", hint)
    return Mark("right", _why(counted.products))


COMBINE_EXERCISE = Exercise("08-combine", grade_combine)


def _why(products: int) -> str:
    if products == 1:
        return (
            "one product. It suits a single step best: with x inside, the input's part can no longer be made "
            "beforehand, for all steps at once."
        )
    return f"{2 * GATES} products have become {products}, and the input's part can be made beforehand."


def _mistake(found: Any, x: torch.Tensor, h: torch.Tensor, w: Weights, u: Weights) -> tuple[str, str] | None:
    """What is wrong with the result, and a hint; None if it is right."""
    several = isinstance(found, list | tuple) or (isinstance(found, torch.Tensor) and found.dim() == 3)
    if not several or len(found) != GATES:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        return f"`gates` returned {shape}.", f"Return {GATES} tensors: result.chunk({GATES}, dim=1)."
    expected = [each.double() for each in eight(x, h, w, u)]
    for gate, (one, right) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(one, torch.Tensor) or one.shape != right.shape:
            shape = tuple(one.shape) if isinstance(one, torch.Tensor) else type(one).__name__
            return f"gate {gate} is {shape}.", f"It has a row for each sample: {tuple(right.shape)}."
        if not _close(one, right):
            return f"gate {gate} is wrong: {_known(one, expected, x @ w[gate].t(), h @ u[gate].t())}.", (
                "Row by row, the stacked weights are those of gate 0, then those of gate 1, and so on."
            )
    return None


def _known(one: torch.Tensor, expected: Sequence[torch.Tensor], of_input: Any, of_state: Any) -> str:
    for other, right in enumerate(expected):
        if _close(one, right):
            return f"it is what gate {other} should be"
    for name, missing in (("state", of_input), ("input", of_state)):
        if _close(one, missing):
            return f"the {name}'s product is missing"
    return "the numbers differ"


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one.double(), other.double(), rtol=TOLERANCE, atol=TOLERANCE)
