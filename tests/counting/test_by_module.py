"""Work by module: each operator, forward and backward, in the module that called it."""

import torch
from torch import nn

import brrr
from brrr.counting.by_module import by_module


class Twice(nn.Module):
    """A layer that is called twice, and an operator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"shared": nn.Linear(8, 8, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner["shared"](self.inner["shared"](x)))


def flop(found: object) -> dict[str, float]:
    return {each.name: each.flop for each in found}  # type: ignore[attr-defined]


def test_forward_and_backward_belong_to_their_module() -> None:
    x, product = brrr.array((4, 8)), 2 * 4 * 8 * 8
    forward = flop(brrr.cost(Twice(), x).by_module())
    assert forward["Twice.inner.shared"] == forward["Twice.inner"] == 2 * product
    assert forward[""] == forward["Twice"] == 2 * product + 4 * 8
    both = flop(brrr.cost(Twice(), x, backward=True).by_module())
    assert both["Twice.inner.shared"] >= 5 * product  # two more products for the weight's gradients, one for x's


def test_several_modules_and_what_is_in_none() -> None:
    first, second, x = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), torch.ones(2, 8)
    found = brrr.cost(lambda: second(first(x * 2)))
    tree = found.by_module()
    assert flop(tree)["Linear"] == 2 * 2 * 8 * 12 and tree[0].flop == found.flop
    assert str(tree).splitlines()[1].startswith("(all)")


def test_predicted_and_measured_times_stand_beside_it() -> None:
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    said = brrr.predict(layers, brrr.array((16, 64)), device="datasheet:t4")
    tree = said.by_module()
    assert said.busy_s is not None and abs(sum(each.predicted_s or 0.0 for each in tree[2:]) - said.busy_s) < 1e-12
    measured = by_module(said.kernels, measured_s={"Sequential.0": 3.0, "Sequential.1": 1.0})
    assert [each.measured_s for each in measured] == [4.0, 4.0, 3.0, 1.0]
    assert "measured" in str(measured) and "predicted" not in str(measured)
