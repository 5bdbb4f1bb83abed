"""Made-up traces of a GPU in the format of torch's profiler: operators, each with its launch and kernel."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from brrr.counting.cost import OperatorCost
from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.diagnosis.operator_cost import cost_of
from brrr.diagnosis.report import Diagnosis
from brrr.roofline.corrections import operator_time
from brrr.roofline.device_model import model_of
from brrr.tracing.events import Inputs

TYPE = {"int64": "long int", "float32": "float", "bfloat16": "c10::BFloat16"}


class Maker:
    """Writes events as they happen: the host goes on after each, the device does one kernel after another.

    Times are in microseconds. An operator takes `host_us`, of which a launch is the last third.
    """

    def __init__(self, device: str = "NVIDIA H200") -> None:
        self.device, self.events = device, []  # type: str, list[dict[str, Any]]
        self.now, self.free, self.number = 1e6, 1e6, 0

    def _add(self, category: str, name: str, start: float, took: float, **args: Any) -> None:
        when = {"ts": round(start, 3), "dur": round(took, 3), "pid": 1, "tid": 1}
        self.events.append({"ph": "X", "cat": category, "name": name, **when, "args": args})

    def host(self, took: float) -> None:
        """Python goes on."""
        self.now += took

    def span(self, name: str, start: float) -> None:
        """A span of the user's, from then until now."""
        self._add("user_annotation", name, start, self.now - start)

    def work(
        self, name: str, *tensors: tuple[Sequence[int], Sequence[int], str], numbers: Sequence[str] = (), us: float,
        host_us: float = 6.0, blocks: int = 4096, category: str = "kernel", kernel: str = "", nbytes: int = 0,
    ) -> None:  # fmt: skip
        """An operator that launches one kernel of so many microseconds."""
        self.number += 1
        spare = len(numbers) - len(tensors)
        described = {
            "Input Dims": [list(size) for size, _, _ in tensors] + [[]] * spare,
            "Input Strides": [list(stride) for _, stride, _ in tensors] + [[]] * spare,
            "Input type": [TYPE[dtype] for *_, dtype in tensors] + ["Scalar"] * spare,
            "Concrete Inputs": list(numbers) or [""] * len(tensors),
        }
        self._add("cpu_op", name, self.now, host_us, **described)
        launch = self.now + host_us * 2 / 3
        self._add("cuda_runtime", "cudaLaunchKernel", launch, host_us / 3, correlation=self.number)
        self.now += host_us
        start = max(self.free, self.now)
        grid = {"grid": [blocks, 1, 1], "block": [256, 1, 1]} if category == "kernel" else {"bytes": nbytes}
        self._add(category, kernel or f"{name}_kernel", start, us, device=0, stream=7, correlation=self.number, **grid)
        self.free = start + us

    def gradient(self, name: str, *tensors: tuple[Sequence[int], Sequence[int], str], us: float) -> None:
        """An operator that autograd's engine calls."""
        began = self.now
        self.work(name, *tensors, us=us)
        self.host(1.0)
        self._add("cpu_op", f"autograd::engine::evaluate_function: {name}", began, self.now - began)

    def wait(self, name: str = "cudaDeviceSynchronize") -> None:
        """The host waits for the device."""
        until = max(self.free, self.now) + 2
        self._add("cuda_runtime", name, self.now, until - self.now, correlation=0)
        self.now = until

    def write(self, path: Path) -> Path:
        """The file."""
        header = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": self.device, "numSms": 132}]}
        path.write_text(json.dumps({**header, "traceEvents": self.events}, indent=1), encoding="utf-8")
        return path


def plain(*size: int, dtype: str = "float32") -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """A contiguous tensor of a size, as `Maker.work` takes it."""
    strides, step = [], 1
    for each in reversed(size):
        strides.append(step)
        step *= each
    return size, tuple(reversed(strides)), dtype


def cost(name: str, *tensors: tuple[Sequence[int], Sequence[int], str]) -> OperatorCost:
    """What an operator on such tensors costs."""
    parts = zip(*((tuple(size), tuple(stride), TYPE[dtype]) for size, stride, dtype in tensors), strict=True)
    found = cost_of(name, Inputs(*map(tuple, parts), ("",) * len(tensors)))  # type: ignore[call-arg]
    assert found is not None
    return found


def predicted_us(name: str, *tensors: tuple[Sequence[int], Sequence[int], str]) -> float:
    """Microseconds that the roofline gives the operator's kernel on an H200."""
    made = cost(name, *tensors)
    found = operator_time(made, model_of("h200"), made.bytes, host_s=0.0).device_s
    assert found is not None
    return found * 1e6


Build = Callable[[Maker], None]
LARGE = plain(2**26)
PRODUCT = plain(8192, 8192, dtype="bfloat16")


def diagnosis(folder: Path, step: Build, steps: int = 10, wait: bool = True, device: str = "NVIDIA H200") -> Diagnosis:
    """Of so many marked steps, and the host waiting at their end."""
    made = Maker(device)
    for number in range(steps):
        began = made.now
        step(made)
        if wait and number == steps - 1:
            made.wait()
        made.span(f"ProfilerStep#{number}", began)
    return diagnose_trace(made.write(folder / "trace.json"))


def gains(found: Diagnosis) -> dict[str, float]:
    """What its remedies gain, by their names, in their order."""
    return {each.name: each.gain for each in found.remedies}


def product(made: Maker) -> None:
    made.work("aten::mm", PRODUCT, PRODUCT, us=predicted_us("aten::mm", PRODUCT, PRODUCT))


def pick(made: Maker, size: list[int], at: int, name: str = "aten::select") -> None:
    """One of the first dimension, or sixteen of the last one."""
    numbers = ["", "0", str(at)] if name == "aten::select" else ["", "-1", str(at), str(at + 16), "1"]
    scalars = len(numbers) - 1
    made._add("cpu_op", name, made.now, 2.0, **{"Input Dims": [size, *[[]] * scalars], "Concrete Inputs": numbers,
              "Input Strides": [[1], *[[]] * scalars], "Input type": ["float", *["Scalar"] * scalars]})  # fmt: skip
    made.host(2)


def tiny(made: Maker) -> None:
    for _ in range(8):
        made.work("aten::relu", plain(64), us=1.5, blocks=1)
