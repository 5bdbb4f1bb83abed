"""What other people measured on other cards beside what a datasheet alone predicts, and beside a roofline.

The folder's operators.csv is theirs (`models.csv` beside it tells it from a recording of ours), and its recurrent.csv
DeepBench's (Baidu Research, Apache-2.0): cuDNN's layers without their inputs' products. The project keeps the errors
only. Constants of the predictor were chosen by two thirds of the rows: Pascal's boards, and a third of the other rows,
by their hash, were held out. Types that other libraries than torch multiply are left out.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from brrr.counting.cost import Cost, OperatorCost
from brrr.counting.tracing import cost
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr.roofline.device_model import model_of
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.peaks import short
from brrr.roofline.predicting import predict
from brrr.roofline.recurrent import ALL, lowered
from tools.judge.calls import OPERATORS, STREAMS
from tools.judge.diagnosis import table
from tools.judge.rows import Row

TURNS = 6
"""So many weights go in turn where a CUDA Graph was replayed."""
LIKE = {"ln": "layer_norm", **dict.fromkeys(("mul", "div", "pow"), "add"),
        **dict.fromkeys(("addu", "mulu", "divu", "powu"), "scale")}  # fmt: skip
"""What moves the same bytes by another name."""
SIZES = ("b", "m", "k", "n", "rows", "cols")


@cache
def cost_of(operator: str, dtype: str, turns: int, sizes: tuple[int, ...]) -> Cost:
    """What an operator costs, from its sizes as the file has them, or as many as there are weights in turn."""
    b, m, k, n = (0, 0, 0, *sizes)[-4:]
    told = {"linear": (b * m, k, n), "bmm": (b, m, n, k)}.get(operator, sizes)
    called = {**STREAMS, **OPERATORS}[LIKE.get(operator, operator)]
    inputs = [torch.empty(each, dtype=getattr(torch, dtype), device="meta") for each in called.inputs(*told)]
    if turns == 1:
        return cost(called.run, *inputs)

    def in_turn(x: torch.Tensor, *weights: torch.Tensor) -> None:
        for each in weights:
            called.run(x, each)

    return cost(in_turn, inputs[0], *(torch.empty_like(inputs[1]) for _ in range(turns)))


def rows(folder: Path) -> Iterator[Row]:
    """Those of the file, where it is this one."""
    for line in table(folder / "operators.csv") if (folder / "models.csv").is_file() else ():
        yield from of_line(line)
    for line in table(folder / "recurrent.csv") if (folder / "recurrent.csv").is_file() else ():
        yield from of_layer(line)


LAYERS = {"rnn_relu": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}
AT = ("device", "software", "operator", "dtype", "hidden", "batch", "steps", "pass")


@cache
def layer_cost(cell: str, dtype: str, hidden: int, batch: int, steps: int, backward: bool) -> Cost:
    """A layer of as many inputs as units, as cuDNN runs it on a GPU."""
    with torch.device("meta"):
        kind = getattr(torch, dtype)
        module, x = LAYERS[cell](hidden, hidden, dtype=kind), torch.empty(steps, batch, hidden, dtype=kind)
    return predict(module, x.requires_grad_(backward), device="datasheet:v100", backward=backward).cost


def kernels_of(line: Mapping[str, str], device: Hardware) -> tuple[OperatorCost, ...]:
    """Those of one timed pass, by cuDNN's standard algorithm and without torch; the inputs' products are left out."""
    what, sizes = line["pass"], [int(line[each]) for each in ("hidden", "batch", "steps")]
    work = layer_cost(line["operator"], line["dtype"], *sizes, what != "forward")
    layer = next(each for each in work.operators if each.kind == "recurrent" and each.backward == (what != "forward"))
    stepwise = replace(layer, form=replace(layer.form, name=f"{layer.form.name}, packed"))
    call, *kernels = lowered([stepwise], model_of(device))
    at_once = [each for each in kernels if each.form.name == ALL]
    found = at_once[-1:] if what == "backward weights" else [each for each in kernels if each not in at_once]
    return replace(call, backward=False), *found


def of_layer(line: Mapping[str, str]) -> Iterator[Row]:
    """The errors of one time of a recurrent layer in a loop; of what was held out once more."""
    board, seconds, key = find_hardware(line["device"]), float(line["seconds"]), ",".join(line[each] for each in AT)
    if board is None:
        return
    kernels = kernels_of(line, board)
    products = [each.matmuls[0] for each in kernels if each.matmuls]
    flop, moved = sum(each.flop for each in products), sum(each.read_bytes for each in map(operator_of, products[:1]))
    said = predict(Cost(flop, moved, operators=kernels), device=board, tf32=False).period_s
    errors = {"by its datasheet": said, "by a roofline": model_of(board).roof_s(flop, moved, short(line["dtype"]))}
    if hashlib.sha256(key.encode()).digest()[0] % 3 == 0:
        errors["by its datasheet, held out"] = said
    for way, predicted_s in errors.items():
        for group in (f"{line['device']}, {line['pass']}", f"{line['device']}, {line['pass']}, {line['dtype']}"):
            yield Row(group, way, key, predicted_s / seconds - 1)


def of_line(line: Mapping[str, str]) -> Iterator[Row]:
    """The errors of one time; of what was held out once more."""
    board, dtype, seconds = find_hardware(line["device"]), line["dtype"], float(line["seconds"])
    if board is None or dtype not in ("float32", "bfloat16"):
        return
    turns = TURNS if "in turn" in line["software"] else 1
    work = cost_of(line["operator"], dtype, turns, tuple(int(line[each]) for each in SIZES if line[each]))
    said = predict(work, device=board, how="eager" if turns == 1 else "graph", calls=1, tf32=False)
    roof_s = model_of(board).roof_s(work.flop, work.eager_bytes, short(dtype)) / turns
    found_s = said.latency_s if turns == 1 else (said.span_s or 0.0) / turns
    errors = {"by its datasheet": found_s, "by a roofline": roof_s}
    key = ",".join(line[each] for each in ("device", "operator", "dtype", *SIZES))
    if board.generation == "Pascal" or hashlib.sha256(key.encode()).digest()[0] % 3 == 0:
        errors["by its datasheet, held out"] = errors["by its datasheet"]
    what = line["operator"] if line["operator"] in ("linear", "bmm", "ln", "softmax") else "pointwise"
    for way, predicted_s in errors.items():
        for group in ("all", f"{line['device']}, all", f"{line['device']}, {what}"):
            yield Row(group, way, key, predicted_s / seconds - 1)
