"""Exercise 16-alive: a loop that trains, and keeps no step's graph alive for the next."""

import weakref
from typing import Any

import torch

from brrr_course.lessons.marks import Wrong, ask, exercise

STEPS, WIDTH, RATE = 4, 8, 0.01


class _Token:
    """Lives as long as a graph."""


class _Kept(torch.autograd.Function):
    """Passes its input on, and leaves a token in the graph."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, graphs: list[Any]) -> torch.Tensor:
        ctx.token = _Token()
        graphs.append(weakref.ref(ctx.token))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None


class WatchedLinear(torch.nn.Linear):
    """A layer that knows how many of its graphs were alive at once."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH)
        self.graphs, self.most = list[Any](), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Kept.apply(super().forward(x), self.graphs)  # type: ignore[no-untyped-call]
        self.most = max(self.most, sum(each() is not None for each in self.graphs))
        return y  # type: ignore[no-any-return]


@exercise("16-alive")
def alive(train: Any) -> str:
    """The mean of the steps' losses as a number, the same weights afterwards, and one graph alive at a time."""
    given, batches = WatchedLinear(), [torch.randn(3, WIDTH) for _ in range(STEPS)]
    expected, losses = torch.nn.Linear(WIDTH, WIDTH), []
    expected.load_state_dict(given.state_dict())
    optimizers = [torch.optim.SGD(each.parameters(), RATE) for each in (given, expected)]
    for x in batches:
        loss = expected(x).square().mean()
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        losses.append(float(loss.detach()))
    mean = ask(train, given, optimizers[0], batches)
    if not torch.allclose(given.weight, expected.weight, atol=1e-5):
        raise Wrong("the weights are not as trained by these steps.", "Keep backward, step and zero_grad.")
    if isinstance(mean, torch.Tensor) and mean.requires_grad:
        raise Wrong("what it returns still has its graph.", "`.item()` or `.detach()` lets the graph go.")
    if not isinstance(mean, float | torch.Tensor) or abs(float(mean) - sum(losses) / STEPS) > 1e-4:
        raise Wrong("it does not return the mean of the losses.", "Add them up as numbers, and divide by their count.")
    if given.most > 2:  # while the next one is made, the last may still have its name
        raise Wrong(
            f"{given.most} graphs were alive at once.", "Whatever holds a loss between the steps holds its graph."
        )
    return f"no graph outlives its step, however many there are; before, all {STEPS} were alive at the end."
