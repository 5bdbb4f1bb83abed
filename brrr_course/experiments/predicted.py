"""What `Experiment.predicts` and guides are made of: operators with their FLOP and bytes, written down by hand.

`brrr.cost` would find the same by tracing, but needs torch for it, which a slider cannot wait for; the tests hold one
against the other. A fused kernel is one operator that reads what comes from outside and writes the result.
"""

from collections.abc import Iterable
from typing import Literal

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, Matmul, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr.roofline.device_model import model_of
from brrr_course.nouns.experiment import Guide, PredictedRun, Variant

How = Literal["eager", "graph", "compiled"]
ONE_KERNEL = "whole"
"""The kind of a kernel that is no operator of torch."""


def pointwise(
    name: str, numbers: float, itemsize: int, dtype: str = "float32", *, reads: float | None = None, flop: float = 1.0,
    form: Form | None = None,
) -> OperatorCost:  # fmt: skip
    """An operator on each of so many numbers; `reads` are the numbers read, `flop` those of one element.

    >>> pointwise("add", 100, 4, reads=200).bytes
    1200.0
    """
    taken = numbers if reads is None else reads
    return OperatorCost(f"aten.{name}", flop * numbers, itemsize * float(taken), itemsize * float(numbers), dtype,
                        ((int(numbers),),), form=form or Form("", 1, int(numbers)))  # fmt: skip


def moving(name: str, numbers: int, itemsize: int, dtype: str = "float32") -> OperatorCost:
    """A copy of so many numbers."""
    nbytes = float(itemsize * numbers)
    return OperatorCost(f"aten.{name}", 0.0, nbytes, nbytes, dtype, ((numbers,),), "copy", form=Form("", 1, numbers))


def reduction(name: str, form: Form, itemsize: int, dtype: str = "float32", flop: float | None = None) -> OperatorCost:
    """A sum, a mean or a maximum of each line: one FLOP less than numbers for each result, if not told.

    >>> reduction("sum", Form("rows", 64, 1024), 4).read_bytes
    262144.0
    """
    numbers, results = form.lines * form.length, form.lines
    counted = numbers - results if flop is None else flop
    read, written = itemsize * float(numbers), itemsize * float(results)
    return OperatorCost(f"aten.{name}", float(counted), read, written, dtype, ((numbers,),), "reduction", form=form)


def product(
    name: str, m: int, n: int, k: int, itemsize: int, dtype: str = "float32", bias: int = 0,
    transposed: tuple[bool, bool] = (False, False),
) -> OperatorCost:  # fmt: skip
    """An (m, k) by (k, n) product, and a bias of so many numbers added to its rows.

    >>> product("addmm", 64, 1024, 1024, 4, bias=1024).flop
    134283264.0
    """
    each = Matmul(m, n, k, dtype=dtype, transposed=transposed)
    added = float(m * n) if bias else 0.0
    read, written = itemsize * float(m * k + k * n + bias), itemsize * float(m * n)
    return OperatorCost(f"aten.{name}", each.flop + added, read, written, dtype, ((m, k), (k, n)), "matmul", (each,))


def view(name: str) -> OperatorCost:
    """What only looks at a tensor in another way."""
    return OperatorCost(f"aten.{name}", 0.0, 0.0, 0.0, "float32", (), "view")


def kernel(of: Iterable[str], flop: float, read: float, written: float, dtype: str = "float32", *,
           fma: bool = False) -> OperatorCost:  # fmt: skip
    """One kernel made of several operators; with `fma` its arithmetic is fused multiply-adds, 2 FLOP each.

    >>> kernel(["cos", "cos"], 2e6, 4e6, 4e6).name
    'fused(aten.cos, aten.cos)'
    """
    name = f"fused({', '.join(f'aten.{each}' for each in of)})"
    return OperatorCost(name, float(flop), float(read), float(written), dtype, (), ONE_KERNEL if fma else "fused")


def run(operators: Iterable[OperatorCost], nbytes: float, working_set: float, how: How = "eager") -> PredictedRun:
    """The operators as one call: `nbytes` are the compulsory ones, `working_set` all that the call touches."""
    listed = tuple(operators)
    eager = sum(each.bytes for each in listed)
    return PredictedRun(Cost(flop_of(listed), float(nbytes), eager, float(working_set), listed), how)


def alone(operator: OperatorCost, how: How = "eager", working_set: float | None = None) -> PredictedRun:
    """One operator or kernel that touches what it moves, or a working set that is told."""
    return run((operator,), operator.bytes, operator.bytes if working_set is None else working_set, how)


def unpredicted(variant: Variant, point: Point) -> None:
    """Nothing: the predictor has no model of kernels that wait for each other."""


def how_of(way: str) -> How:
    """How a way runs: `compile` and its kind compiled, all else eager."""
    return "compiled" if way.startswith("compile") else "eager"


def flop_of(operators: Iterable[OperatorCost]) -> float:
    """The FLOP of all of them."""
    return sum(each.flop or 0.0 for each in operators)


def own_names(operators: Iterable[OperatorCost]) -> list[str]:
    """The operators' names without torch's prefix, as `kernel` takes them."""
    return [each.name.removeprefix("aten.") for each in operators]


def bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The memory's bandwidth by the datasheet, in B/s; None without one."""
    return hardware.memory_bytes_per_s if hardware else None


def least_s(hardware: Hardware | None, flop: float, nbytes: float) -> float | None:
    """The least seconds of FLOP and bytes by the datasheet's roofline; None without one."""
    return model_of(hardware).roof_s(flop, nbytes) if hardware else None


BANDWIDTH = Guide("bandwidth", "the memory's bandwidth", "DATASHEET", "rate", bandwidth)
"""Drawn where an experiment shows bytes a second."""
