"""Exercise 12-fullgraph: change a function until torch.compile takes it as one graph. Nothing is compiled here: the
graphs that torch hands to its back end are counted.
"""

from typing import Any

import torch

from brrr_course.experiments.checked import compiled, quietly
from brrr_course.lessons.marks import Wrong, ask, exercise

LARGE, TINY = 30.0, 0.01
"""Scales of two inputs: one must be scaled back, the other not."""


@exercise("12-fullgraph")
def whole(step: Any) -> str:
    """Right on a large input and on a small one, and taken as one graph that is right on both."""
    inputs = [scale * torch.randn(8, 64) for scale in (LARGE, TINY)]
    graphs: list[Any] = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    call = compiled(step, backend=counted)
    for x in inputs:
        expected = torch.tanh(x / x.square().mean().sqrt().clamp(min=1.0))
        with quietly():
            for way, run in (("", step), ("compiled, ", call)):
                found = ask(run, x.clone())
                if not isinstance(found, torch.Tensor) or not torch.allclose(found, expected, atol=1e-5):
                    size = "large" if x is inputs[0] else "small"
                    raise Wrong(f"{way}the result is wrong for numbers that are {size}.", "Scale back only above 1.")
    if len(graphs) != 1:
        hint = "print, .item(), float() and an `if` on a tensor end a graph. clamp computes both cases at once."
        raise Wrong(f"the result is right, but torch.compile makes {len(graphs)} graphs of it.", hint)
    return "one graph, with fullgraph=True too. What Python would decide by a number, the tensors now compute."
