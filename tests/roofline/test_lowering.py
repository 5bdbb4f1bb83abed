"""What torch takes apart on a CPU, `as_on_gpu` puts together again, by the names of the parts.

A torch that takes one of them apart in another way fails here, and the message names it, with its parts: they then go
into the tables of brrr/roofline/lowering.py.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.roofline.lowering import as_on_gpu

X = array((8, 64)), array(64)
SHORT = array((8, 64), "bfloat16"), array(64, "bfloat16")
NORM, NORM_BACKWARD = "aten._fused_rms_norm", "aten._fused_rms_norm_backward"
LSTM, GRU = "aten._thnn_fused_lstm_cell", "aten._thnn_fused_gru_cell"


def rms(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return f.rms_norm(x, (64,), weight)


def trained(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return rms(x.requires_grad_(), None if weight is None else weight.requires_grad_())


CANARIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "rms_norm": (rms, X[:1], [NORM]),
    "rms_norm of bfloat16": (rms, SHORT, [NORM]),
    "LSTM": (nn.LSTM(64, 64), (array((1, 8, 64)),), [LSTM]),
    "LSTM and its gradients": (nn.LSTM(64, 64), (array((1, 8, 64)),), [LSTM, f"{LSTM}_backward"]),
}
AROUND = {"zeros", "unbind", "view", "t", "mm", "stack", "select", "add", "sum", "unsafe_split"}
"""What stands beside the gates of a recurrent layer on a GPU, too."""


@pytest.mark.parametrize("name", CANARIES)
def test_the_parts_that_this_torch_makes_are_known(name: str) -> None:
    fn, args, wanted = CANARIES[name]
    operators = cost(fn, *args, backward="gradient" in name).operators
    found = [each.name for each in as_on_gpu(operators) if each.name.removeprefix("aten.") not in AROUND]
    assert found == wanted, f"torch {torch.__version__} makes {name} of {' '.join(each.name for each in operators)}"


def written_out(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@pytest.mark.parametrize("backward", [False, True])
def test_a_norm_that_is_written_out_in_python_runs_operator_by_operator(backward: bool) -> None:
    x, weight = (each if not backward else array(each.shape, "bfloat16", requires_grad=True) for each in SHORT)
    operators = [
        each for each in cost(written_out, x, weight, backward=backward).operators if each.name != "aten.detach"
    ]
    assert as_on_gpu(operators) == operators and (len(operators) > 20) == backward
