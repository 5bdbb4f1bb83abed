"""Exercise 08-combine: the products of an LSTM's four gates as one or two.

The student's functions are run under a mode of torch that counts products and sees whether weights are moved.
"""

from collections.abc import Sequence
from typing import Any

import torch

from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.lessons.tensors import Watching, close, first_like

GATES, BATCH, INPUTS, HIDDEN = 4, 3, 24, 16
"""Small enough that no result of a step is as large as one gate's weights: what is as large are weights."""
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear"}
MOVES = {"cat", "stack", "clone", "copy_", "_to_copy", "copy", "repeat"}
MOST, TOLERANCE = 2, 1e-4
Weights = Sequence[torch.Tensor]


def eight(x: torch.Tensor, h: torch.Tensor, w: Weights, u: Weights) -> list[torch.Tensor]:
    """What the gates are computed from, a product for each: what the exercise starts from."""
    return [x @ w[gate].t() + h @ u[gate].t() for gate in range(GATES)]


@exercise("08-combine")
def combine(stack: Any, gates: Any) -> str:
    """Right if `gates` gives all four by at most two products, from weights that `stack` has arranged."""
    x, h = torch.randn(BATCH, INPUTS), torch.randn(BATCH, HIDDEN)
    w, u = ([torch.randn(HIDDEN, each) / each**0.5 for _ in range(GATES)] for each in (INPUTS, HIDDEN))
    seen: list[tuple[str, Any]] = []
    with torch.no_grad():
        weights = ask(stack, list(w), list(u))
        with Watching(lambda function, args, kwargs, result: seen.append((function.overloadpacket.__name__, result))):
            found = ask(gates, x.clone(), h.clone(), weights)
    _look_at(found, x, h, w, u)
    products = sum(name in PRODUCTS for name, _ in seen)
    if any(name in MOVES and torch.is_tensor(made) and made.numel() >= HIDDEN**2 for name, made in seen):
        raise Wrong("it moves the weights at each step.", "Do that in `stack`, which runs once.")
    if products > MOST:
        hint = "Stack the weights below each other, multiply once, and cut the result: torch.cat, then chunk."
        raise Wrong(f"the result is right, and takes {products} products.", hint)
    return _why(products)


def _why(products: int) -> str:
    if products == 1:
        return (
            "one product. It suits a single step best: with x inside, the input's part can no longer be made "
            "beforehand, for all steps at once."
        )
    return f"{2 * GATES} products have become {products}, and the input's part can be made beforehand."


def _look_at(found: Any, x: torch.Tensor, h: torch.Tensor, w: Weights, u: Weights) -> None:
    several = isinstance(found, list | tuple) or (isinstance(found, torch.Tensor) and found.dim() == 3)
    if not several or len(found) != GATES:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise Wrong(f"`gates` returned {shape}.", f"Return {GATES} tensors: result.chunk({GATES}, dim=1).")
    expected = [each.double() for each in eight(x, h, w, u)]
    for gate, (one, right) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(one, torch.Tensor) or one.shape != right.shape:
            shape = tuple(one.shape) if isinstance(one, torch.Tensor) else type(one).__name__
            raise Wrong(f"gate {gate} is {shape}.", f"It has a row for each sample: {tuple(right.shape)}.")
        if not close(one, right, TOLERANCE):
            known = [(each, f"it is what gate {other} should be") for other, each in enumerate(expected)]
            known.append((x @ w[gate].t(), "the state's product is missing"))
            known.append((h @ u[gate].t(), "the input's product is missing"))
            hint = "Row by row, the stacked weights are those of gate 0, then those of gate 1, and so on."
            raise Wrong(f"gate {gate} is wrong: {first_like(one, known, 'the numbers differ', TOLERANCE)}.", hint)
