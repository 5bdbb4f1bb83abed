"""FLOP of cuDNN's recurrent layers, which run all steps in one call."""

from __future__ import annotations

from brrr.counting.call import Call
from brrr.counting.cost import Matmul
from brrr.counting.formula import Formula
from brrr.counting.products import dtype_name

# For each unit and step, after the products and their biases, by cuDNN's mode: relu, tanh, LSTM, GRU.
# RNN: the sum of both products, then the activation. LSTM: 4 sums, 3 sigmoids of 4, a tanh, f c + i g, o tanh(c).
# GRU: 2 sums and 2 sigmoids of 4, then tanh(n + r h) and n + z (h - n).
_PER_UNIT = {0: 2, 1: 2, 2: 22, 3: 16}


def _steps(call: Call) -> tuple[int, int]:
    """(rows of all steps together, batch): a packed sequence's rows too are its input's size over its width."""
    x = call.tensor("input")
    return x.numel() // x.shape[-1], call.tensor("hx").shape[1]


def _matmuls(call: Call) -> tuple[Matmul, ...]:
    """A layer's weights come as (input's, state's), then biases: one product for all steps, then one for each step."""
    rows, batch = _steps(call)
    found: list[Matmul] = []
    for place, weight in enumerate(w for w in call.tensors("weight") if w.dim() == 2):
        width, depth = weight.shape
        of_state = place % 2
        product = Matmul(batch if of_state else rows, width, depth, dtype=dtype_name(weight))
        found += [product] * (rows // batch if of_state else 1)
    return tuple(found)


def _flop(call: Call) -> float | None:
    """The products, a bias added to each, and the cell; None for a projected state, which has a third product."""
    if call.args["proj_size"]:
        return None
    rows, _ = _steps(call)
    biases = sum(bias.numel() for bias in call.tensors("weight") if bias.dim() == 1)
    units = call.args["hidden_size"] * call.args["num_layers"] * (1 + call.args["bidirectional"])
    products = sum(each.flop for each in _matmuls(call))
    return products + float(rows * (biases + units * _PER_UNIT[call.args["mode"]]))


def recurrent() -> dict[str, Formula]:
    """cuDNN's forward call; its backward is not known."""
    return {"aten._cudnn_rnn": Formula("recurrent", _flop, _matmuls)}
