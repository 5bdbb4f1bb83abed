"""What other people measured on other cards beside what a datasheet alone predicts, and beside a roofline.

The folder's operators.csv is theirs (`models.csv` beside it tells it from a recording of ours); the project keeps the
errors only. Constants of the predictor were chosen by two thirds of the rows: Pascal's boards, and a third of the other
rows, by their hash, were held out. Types that other libraries than torch multiply are left out.
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import torch

from brrr.counting.cost import Cost
from brrr.counting.tracing import cost
from brrr.gpu.datasheet import find_hardware
from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import short
from brrr.roofline.predicting import predict
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
