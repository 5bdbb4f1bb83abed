"""Work by module: each operator, forward and backward, in the module that called it."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import brrr
from brrr.counting.by_module import by_module

IMAGE, ROWS = brrr.array((2, 4, 8, 8)), brrr.array((4, 16, 32))


class Residual(nn.Module):
    """A convolution before a norm, both called twice; an activation in place on a view, and dropout behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"conv": nn.Conv2d(4, 4, 1, bias=False), "norm": nn.BatchNorm2d(4)})
        self.act = nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), nn.Dropout())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.inner["norm"](self.inner["conv"](x))).view_as(x)
        return self.inner["norm"](self.inner["conv"](y)) + x  # type: ignore[no-any-return]


def flop(found: object) -> dict[str, float]:
    return {each.name: each.flop for each in found}  # type: ignore[attr-defined]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("again", [{}, {"use_reentrant": False}, {"use_reentrant": True}])
def test_forward_and_backward_belong_to_their_module(again: dict[str, bool], train: bool) -> None:
    block, size, product, passes = nn.Sequential(Residual()).train(train), 512, 512 * 8, 3 + bool(again)
    block.forward = partial(checkpoint, block.forward, **again) if again else block.forward  # type: ignore[method-assign]
    net = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), block)
    forward, both = (flop(brrr.cost(net, IMAGE, backward=each).by_module()) for each in (False, True))
    assert forward["Sequential.1.0.inner.conv"] == 2 * product and both["Sequential.1.0.act.1"] == passes * size
    assert both["Sequential.0"] == pytest.approx(2 * product, rel=0.01)  # the image needs no gradient
    # and the sums of two gradients, of the block's input and of the weight
    assert both["Sequential.1.0.inner.conv"] == pytest.approx(2 * passes * product + size + 16, rel=0.01)


def test_several_modules_and_what_is_in_none() -> None:
    first, second, x = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), torch.ones(2, 8)
    found = brrr.cost(lambda: second(first(x * 2)))
    tree = found.by_module()
    assert flop(tree)["Linear"] == 2 * 2 * 8 * 12 and tree[0].flop == found.flop
    assert str(tree).splitlines()[1].startswith("(all)")


def test_measured_times_stand_beside_it() -> None:
    found = brrr.cost(nn.Sequential(nn.Linear(64, 64), nn.ReLU()), brrr.array((16, 64)))
    measured = by_module(found.operators, measured_s=[("Sequential.0", 3.0), ("Sequential.1", 1.0)])
    assert [each.measured_s for each in measured] == [4.0, 4.0, 3.0, 1.0]
    assert "measured" in str(measured) and "predicted" not in str(measured)


@pytest.mark.parametrize("how", ["eager", "compiled"])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("model", "x"), [
    (nn.Sequential(nn.Conv2d(4, 4, 1), Residual()), IMAGE), (nn.Embedding(50, 8), brrr.array(16, "int64")),
    (nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)), ROWS), (nn.LSTM(32, 32, 2), ROWS),
    (nn.GRU(32, 32, bidirectional=True), ROWS), (nn.TransformerEncoderLayer(32, 4, 64), ROWS),
])  # fmt: skip
def test_a_prediction_has_the_work_of_the_cost(model: nn.Module, x: Any, backward: bool, how: Any) -> None:
    said = brrr.predict(model, x, device="datasheet:t4", how=how, backward=backward)
    tree, cudnn = said.by_module(), backward and isinstance(model, nn.RNNBase)  # which finds its input's gradient, too
    cost = said.cost if cudnn else brrr.cost(model, x, backward=backward)
    assert flop(tree) == flop(cost.by_module()) and tree[0].nbytes == said.cost.eager_bytes
    assert sum(each.counted_flop for each in said.kernels) == cost.flop
    assert said.busy_s == pytest.approx(tree[1].predicted_s) and "predicted" in str(tree)
