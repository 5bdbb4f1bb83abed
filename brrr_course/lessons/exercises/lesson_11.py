"""Exercise 11-capture: fix a decoder's step so that a CUDA Graph can hold it: it must not ask the GPU for a number.

That needs no GPU here: `brrr.cost` runs the step on tensors without values, as a capture does.
"""

from typing import Any

import torch

from brrr.core.errors import TraceError
from brrr.counting.tracing import cost
from brrr_course.lessons.marks import Wrong, ask, exercise

READERS, WORDS, LENGTH, FIRST = 3, 50, 6, 2


@exercise("11-capture")
def capturable(step: Any) -> str:
    """Two steps one after the other, against what they should write; then a third on tensors without values."""
    text, place = torch.zeros(READERS, LENGTH, dtype=torch.long), torch.tensor([FIRST])
    expected = text.clone()
    for at in (FIRST, FIRST + 1):
        logits = torch.randn(READERS, WORDS)
        ask(step, logits, text, place)
        expected[:, at] = logits.argmax(-1)
        if not torch.equal(text, expected):
            raise Wrong(
                f"after a step at place {at} the text is not as it should be.", "Column `place` gets the words."
            )
        if place.tolist() != [at + 1]:
            raise Wrong(f"`place` is {place.tolist()} after a step at {at}.", "Change the tensor itself: place += 1.")
    try:
        cost(step, torch.randn(READERS, WORDS), text, place)
    except TraceError:
        hint = "`.item()`, `int(...)` and an `if` on a tensor wait for the GPU. A tensor can be an index as it is."
        raise Wrong("the text is right, but the step still asks the GPU for a number.", hint) from None
    return "nothing in it waits for the GPU. The place stays on the GPU, and a graph of the step writes on and on."
