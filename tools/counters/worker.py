"""The program that Nsight Compute watches: every operator in turn, between the profiler's start and stop.

`python -m tools.counters.worker plan.json` writes to plan.json what it ran and what `brrr.cost` counts.

At the end of a kernel some of what it wrote still lies in the L2, and reaches memory only when it is pushed out. So
each operator runs on the same tensors right before it is watched: what it leaves behind is as much as it found there,
and the two cancel.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F

from brrr.counting.cost import Cost
from brrr.counting.description import Description, array
from brrr.counting.tracing import cost
from brrr.gpu import GPU
from brrr.timing.gate import marker_kernel

L2_SETS = 20
"""The working set is so many times the L2."""
CALLS = 3
"""Watched calls of each operator."""
BEFORE = 2
"""Calls right before, which are not watched."""

TOLERANCE = 0.05


@dataclass(frozen=True)
class Moved:
    """One operator: its bytes of one call, read from and written to memory, as counted and as measured.

    >>> relu = Moved("relu", "torch.relu(x)", "float32", ("(8, 8)",), ("aten.relu",), 256, 256, 252, 268)
    >>> relu.ratio, relu.within
    (1.015625, True)
    """

    name: str
    written: str
    dtype: str
    shapes: tuple[str, ...]
    operators: tuple[str, ...]
    counted_read: float
    counted_written: float
    measured_read: float = 0.0
    measured_written: float = 0.0

    @property
    def ratio(self) -> float:
        """Measured over counted bytes: 1 where the count is right."""
        return (self.measured_read + self.measured_written) / (self.counted_read + self.counted_written)

    @property
    def within(self) -> bool:
        """Whether the count is right within 5 %."""
        return abs(self.ratio - 1) <= TOLERANCE


# ---------------------------------------------------------------------------------------------------------------------
# Operators that go through their data once or twice: what they run, and on which inputs.

ROWS = -1
"""In a shape: as many as it takes to fill the working set."""
WIDTH = 4096
IMAGE = (ROWS, 64, 56, 56)
TABLE = (ROWS, WIDTH)
SAMPLE_ROWS = 1024
ATEN = torch.ops.aten


@dataclass(frozen=True)
class Input:
    """One input: normal random values, a random mask, or all row numbers in random order."""

    shape: tuple[int, ...] = TABLE
    dtype: str = "float32"
    holds: Literal["values", "mask", "order"] = "values"

    def described(self, rows: int) -> Description:
        """Its shape and type."""
        return array(tuple(rows if size == ROWS else size for size in self.shape), self.dtype)

    def filled(self, rows: int, device: str) -> torch.Tensor:
        """The tensor itself; no row number comes twice, so that each row is read from memory once."""
        shape = self.described(rows).shape
        if self.holds == "order":
            return torch.randperm(rows, device=device)
        if self.holds == "mask":
            return torch.rand(shape, device=device) < 0.5
        return torch.randn(shape, device=device).to(getattr(torch, self.dtype))


@dataclass(frozen=True)
class Streaming:
    """One operator: its name, how it is written, and the inputs that it takes."""

    name: str
    written: str
    run: Callable[..., Any]
    inputs: tuple[Input, ...] = (Input(),)

    def cost(self, rows: int) -> Cost:
        """What `brrr.cost` counts for so many rows."""
        return cost(self.run, *(each.described(rows) for each in self.inputs))

    def rows(self, set_bytes: float) -> int:
        """The rows with which it touches so many bytes; a multiple of 8."""
        sizes = (self.cost(rows).working_set_bytes for rows in (2 * SAMPLE_ROWS, SAMPLE_ROWS))
        a_row = (next(sizes) - next(sizes)) / SAMPLE_ROWS
        return 8 * math.ceil(set_bytes / a_row / 8)

    def filled(self, rows: int, device: str) -> list[torch.Tensor]:
        """Its inputs."""
        return [each.filled(rows, device) for each in self.inputs]


X, MASK, ORDER = Input(), Input(dtype="bool", holds="mask"), Input((ROWS,), "int64", "order")
HALF, BF16 = Input(dtype="float16"), Input(dtype="bfloat16")
ROW, COLUMN, CHANNELS = Input((WIDTH,)), Input((ROWS, 1)), Input((64,))
PICTURES = Input(IMAGE)


_NORMED = (PICTURES, CHANNELS, CHANNELS)
_BACKWARD = (X, X, COLUMN, COLUMN, ROW, ROW)


def _layer_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, w: Any, b: Any) -> Any:
    return ATEN.native_layer_norm_backward(g, x, (WIDTH,), mean, rstd, w, b, (True, True, True))


def streaming() -> tuple[Streaming, ...]:
    """The operators, from those that take one element of each input for one of the result to whole rows for each.

    `x.clone()` is missing: it is no kernel, but a copy engine's. The last three go through all their data twice.

    >>> relu = streaming()[0]
    >>> relu.name, relu.rows(1e9), relu.cost(relu.rows(1e9)).eager_bytes
    ('relu', 30520, 1000079360.0)
    """
    return (
        Streaming("relu", "torch.relu(x)", torch.relu),
        Streaming("relu, bfloat16", "torch.relu(x)", torch.relu, (BF16,)),
        Streaming("sigmoid, float16", "torch.sigmoid(x)", torch.sigmoid, (HALF,)),
        Streaming("gelu", "gelu(x)", F.gelu),
        Streaming("times a number", "x * 1.5", lambda x: x * 1.5),
        Streaming("add", "x + y", torch.add, (X, X)),
        Streaming("add in place", "x.add_(y)", lambda x, y: x.add_(y), (X, X)),
        Streaming("add a row", "x + row", torch.add, (X, ROW)),
        Streaming("add a column", "x + column", torch.add, (X, COLUMN)),
        Streaming("addcmul", "torch.addcmul(x, y, z)", torch.addcmul, (X, X, X)),
        Streaming("where", "torch.where(mask, x, y)", torch.where, (MASK, X, X)),
        Streaming("compare", "x > 0", lambda x: x > 0),
        Streaming("cast", "x.to(bfloat16)", lambda x: x.to(torch.bfloat16)),
        Streaming("fill", "x.fill_(2)", lambda x: x.fill_(2)),
        Streaming("dropout", "dropout(x, 0.5)", lambda x: F.dropout(x, 0.5)),
        Streaming("relu, backward", "threshold_backward", lambda g, x: ATEN.threshold_backward(g, x, 0), (X, X)),
        Streaming("gelu, backward", "gelu_backward", ATEN.gelu_backward.default, (X, X)),
        Streaming("cat", "torch.cat([x, y])", lambda x, y: torch.cat([x, y]), (X, X)),
        Streaming("transposed copy", "x.t().contiguous()", lambda x: x.t().contiguous()),
        Streaming("half of the columns", "2 * x[:, :2048]", lambda x: 2 * x[:, : WIDTH // 2]),
        Streaming("every second column", "2 * x[:, ::2]", lambda x: 2 * x[:, ::2]),
        Streaming("index_select", "x.index_select(0, order)", lambda x, o: x.index_select(0, o), (X, ORDER)),
        Streaming("embedding", "embedding(order, table)", lambda x, o: F.embedding(o, x), (X, ORDER)),
        Streaming("sum", "x.sum()", torch.sum),
        Streaming("sum of rows", "x.sum(1)", lambda x: x.sum(1)),
        Streaming("mean of rows, bfloat16", "x.mean(1)", lambda x: x.mean(1), (BF16,)),
        Streaming("largest of columns", "x.amax(0)", lambda x: x.amax(0)),
        Streaming("cumsum", "x.cumsum(1)", lambda x: x.cumsum(1)),
        Streaming("softmax", "softmax(x, 1)", lambda x: x.softmax(1)),
        Streaming("log_softmax", "log_softmax(x, 1)", lambda x: x.log_softmax(1)),
        Streaming(
            "softmax, backward",
            "_softmax_backward_data",
            lambda g, y: ATEN._softmax_backward_data(g, y, 1, torch.float32),
            (X, X),
        ),
        Streaming("layer_norm", "layer_norm(x)", lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b), (X, ROW, ROW)),
        Streaming("rms_norm", "rms_norm(x)", lambda x, w: F.rms_norm(x, (WIDTH,), w), (X, ROW)),
        Streaming("group_norm", "group_norm(x, 8)", lambda x, w, b: F.group_norm(x, 8, w, b), _NORMED),
        Streaming(
            "batch_norm", "batch_norm(x)", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), _NORMED
        ),
        Streaming("layer_norm, backward", "native_layer_norm_backward", _layer_norm_backward, _BACKWARD),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The run that is watched.


def main(path: Path) -> None:
    """Run all operators, and write the plan."""
    properties = torch.cuda.get_device_properties()
    set_bytes = float(L2_SETS * properties.L2_cache_size)
    with torch.no_grad():
        rows = [_run(each, set_bytes) for each in streaming()]
    plan = {"l2_bytes": float(properties.L2_cache_size), "set_bytes": set_bytes, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(plan), encoding="utf-8")


def planned(each: Streaming, rows: int) -> Moved:
    """What is counted for an operator, nothing measured yet."""
    cost = each.cost(rows)
    running = [operator for operator in cost.operators if operator.kind != "view"]
    return Moved(
        each.name,
        each.written,
        running[0].dtype,
        tuple(str(given.described(rows).shape) for given in each.inputs),
        tuple(operator.name for operator in running),
        float(sum(operator.read_bytes for operator in running)),
        float(sum(operator.written_bytes for operator in running)),
    )


def _run(each: Streaming, set_bytes: float) -> Moved:
    """Its calls; a marker stands before each, so that the kernels of each are known."""
    rows = each.rows(set_bytes)
    inputs = each.filled(rows, GPU)
    marker_kernel()
    for _ in range(BEFORE):
        each.run(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for _ in range(CALLS):
        marker_kernel()
        each.run(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    del inputs
    torch.cuda.empty_cache()
    return planned(each, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
