"""Exercise 05-kernel: two cosines as one Triton kernel, whose reads and writes Triton's interpreter counts.

The interpreter runs it on the CPU, on a machine with a GPU too; there the compiled kernel is tried and timed as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from brrr.core import units
from brrr_course.experiments.cos_cos import cos_cos
from brrr_course.lessons.marks import StudentError, Unmarked, Wrong, ask, exercise
from brrr_course.lessons.tensors import first_like
from brrr_course.lessons.triton_here import WHY, NoTriton, load

BLOCK, COUNTED, TIMED = 1024, 100_000, 2**26
TRIED = ((2500, "float32"), (1024, "float32"), (1, "float32"), (2500, "bfloat16"), (COUNTED, "float32"))
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Sizes, most of which leave a block's end unused, and types; what each type's rounding stays below."""


class Traffic:
    """Stands between Triton's interpreter and the memory: the bytes that a kernel reads and writes, and where.

    `again` are the bytes read of what the kernel itself has written; `outside` says what would have left the arrays,
    which is not let through: in the interpreter it would be the notebook's own memory.
    """

    def __init__(self, *arrays: torch.Tensor) -> None:
        self.memory: Any = None
        self.spans = [(each.data_ptr(), each.data_ptr() + each.nbytes) for each in arrays]
        self.read = self.written = self.again = 0
        self.outside = ""
        self._stored: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)

    def load(self, places: Any, mask: Any, other: Any, kind: Any) -> Any:
        """What the interpreter calls for a `tl.load`."""
        used, itemsize = self._inside("reads", places[mask], np.dtype(kind).itemsize)
        self.read += len(used) * itemsize
        self.again += sum(place in self._stored for place in used) * itemsize
        return self.memory.load(places, mask, other, kind)

    def store(self, places: Any, values: Any, mask: Any) -> Any:
        """What the interpreter calls for a `tl.store`."""
        used, itemsize = self._inside("writes", places[mask], values.dtype.itemsize)
        self.written += len(used) * itemsize
        self._stored.update(used)
        return self.memory.store(places, values, mask)

    def _inside(self, does: str, places: Any, itemsize: int) -> tuple[list[int], int]:
        if not np.all(np.any([(places >= start) & (places < end) for start, end in self.spans], axis=0)):
            self.outside = does
            raise IndexError("outside of every array")
        return places.tolist(), itemsize


@contextmanager
def interpreted(kernel: Any, traffic: Traffic) -> Iterator[Any]:
    """The kernel for Triton's interpreter, with those beside it, also where Triton would compile them for a GPU."""
    from triton.runtime import interpreter, jit

    beside = kernel.fn.__globals__
    compiled = {name: each for name, each in beside.items() if isinstance(each, jit.JITFunction)}
    memory = interpreter._interpreter
    try:
        beside.update({name: interpreter.InterpretedFunction(each.fn) for name, each in compiled.items()})
        interpreter._interpreter, traffic.memory = traffic, memory
        yield interpreter.InterpretedFunction(kernel.fn)
    finally:
        interpreter._interpreter = memory
        beside.update(compiled)


def launch(kernel: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    """As the lesson shows it."""
    ask(partial(kernel[(-(-x.numel() // BLOCK),)], BLOCK=BLOCK), x, y, x.numel())


@exercise("05-kernel", values=("kernel",))
def fill_in(kernel: Any) -> str:
    """Right is one cosine of the other at every size and type, each number read once, each result written once."""
    if isinstance(load()[0], NoTriton):
        raise Unmarked(f"{WHY}.", "Nothing later needs it, so go on. Linux runs it, WSL and Colab too, without a GPU.")
    if not hasattr(kernel, "fn"):
        hint = 'Keep @triton.jit in front of it, and pass the kernel itself: check("05-kernel", kernel=kernel).'
        raise Wrong(f"`kernel` is {kernel!r}, not a Triton kernel.", hint)
    for size, kind in TRIED:
        x = torch.randn(size).to(getattr(torch, kind))
        traffic = _look_at(kernel, x)
    read, written, unfused = (units.nbytes(each) for each in (traffic.read, traffic.written, 4 * x.nbytes))
    text = f"on {COUNTED:,} float32 numbers you read {read} and wrote {written}; the unfused way moves {unfused}"
    if traffic.again:
        hint = "A variable of the kernel is a register: compute the second cosine of it, and store only that."
        raise Wrong(f"{text}. Your result is right, but the first cosine is stored and read again.", hint)
    if traffic.read > x.nbytes or traffic.written > x.nbytes:
        raise Wrong(f"{text}. One read and one write of each number are enough.", "Load once, store once.")
    text = f"{text}: twice the bytes. Sizes that leave the last block's end unused are right, and so is bfloat16."
    return text + _on_gpu(kernel) if torch.cuda.is_available() else text


def _look_at(kernel: Any, x: torch.Tensor) -> Traffic:
    """Run it in the interpreter, its result at first full of NaN."""
    kept, y = x.clone(), torch.full_like(x, torch.nan)
    traffic = Traffic(x, y)
    try:
        with interpreted(kernel, traffic) as here:
            launch(here, x, y)
    except StudentError as raised:
        raise _told(raised, traffic, x) from None
    if not torch.equal(x, kept):
        raise Wrong("your kernel changed its input.", "Store to y + place.")
    if not traffic.written:
        raise Wrong("your kernel stores nothing.", "Fill in both lines: the cosines, then tl.store(y + place, ...).")
    _look_at_numbers(x, y)
    return traffic


def _told(raised: StudentError, traffic: Traffic, x: torch.Tensor) -> Wrong:
    """The usual mistakes that raise."""
    if traffic.outside:
        said = f"with {x.numel():,} numbers your kernel {traffic.outside} beyond the end of an array."
        return Wrong(said, "The last block is not full: each load and each store needs mask=inside.")
    if "Expected dtype" in raised.text:
        return Wrong(f"your kernel fails for {x.dtype}.", "tl.cos takes float32: keep .to(tl.float32) behind the load.")
    return raised


def _look_at_numbers(x: torch.Tensor, y: torch.Tensor) -> None:
    expected, tolerance = cos_cos(x.double()), TOLERANCE[x.dtype]
    wrong = ~torch.isclose(y.double(), expected, rtol=tolerance, atol=tolerance)
    if not bool(wrong.any()):
        return
    first = int(wrong.nonzero()[0])
    what = f"of {x.numel():,} numbers {int(wrong.sum()):,} are wrong, the first at {first}: {float(y[first]):.6g} "
    known = ((x.cos(), "That is one cosine. Where is the other?"), (x, "That is x itself. Where are the cosines?"))
    other = "Is it the cosine of the cosine, and y + place where it is stored?"
    if bool(y.isnan().any()):
        other = "NaN is where nothing was written: each program stores its whole block, at y + place."
    raise Wrong(f"{what}instead of {float(expected[first]):.6g}.", first_like(y, known, other, tolerance))


def _on_gpu(kernel: Any) -> str:
    """The compiled kernel: right at the same sizes, and its time beside the two operators'."""
    from brrr.timing import measure_together

    for size, kind in TRIED:
        x = torch.randn(size, device="cuda").to(getattr(torch, kind))
        launch(kernel, x, y := torch.full_like(x, torch.nan))
        _look_at_numbers(x, y)
    x = torch.randn(TIMED, device="cuda")
    y = torch.empty_like(x)
    times = [
        each.busy_s or each.period_s for each in measure_together([lambda: cos_cos(x), lambda: launch(kernel, x, y)])
    ]
    slow_s, fast_s = (each.median for each in times if each)
    took = f"two operators take {units.seconds(slow_s)}, your kernel {units.seconds(fast_s)}"
    return f" On this GPU, with 2²⁶ numbers, {took}: {units.ratio(slow_s / fast_s)}."
