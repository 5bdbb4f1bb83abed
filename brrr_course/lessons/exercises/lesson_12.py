"""Exercise 12-fullgraph: change a function until torch.compile takes it as one graph. No kernel is made for it here:
torch traces the function, and runs the graph as it stands.
"""

from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException

from brrr_course.experiments.checked import compiled, quietly
from brrr_course.lessons.marks import Wrong, ask, exercise

INPUTS = {"large": 30.0, "small": 0.01}
"""Scales of two inputs: one must be scaled back, the other not."""


@exercise("12-fullgraph")
def whole(step: Any) -> str:
    """Right on a large input and on a small one, and taken as one graph that is right on both."""
    call = compiled(step, backend="eager", fullgraph=True)
    for size, scale in INPUTS.items():
        x = scale * torch.randn(8, 64)
        _look_at(ask(step, x.clone()), x, f"the result is wrong for {size} numbers.")
        try:
            with quietly():
                found = call(x.clone())
        except TorchDynamoException as refused:
            hint = "print, .item(), float() and an `if` on a tensor end a graph. clamp computes both cases at once."
            reason = str(refused).strip().partition("\n")[0]
            raise Wrong(f"the result is right, but fullgraph=True refuses it: {reason}.", hint) from None
        _look_at(found, x, f"compiled, the result is wrong for {size} numbers.")
    return "one graph. What Python would decide by a number, the tensors now compute."


def _look_at(found: Any, x: torch.Tensor, otherwise: str) -> None:
    expected = torch.tanh(x / x.square().mean().sqrt().clamp(min=1.0))
    if not isinstance(found, torch.Tensor) or not torch.allclose(found, expected, atol=1e-5):
        raise Wrong(otherwise, "Scale back only above 1.")
