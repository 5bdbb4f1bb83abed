"""A kernel by itself: `python -m brrr.kernels.repeat` checks it, times it, and places it on the roofline.

Without a GPU, CUDA C++ is only compiled, and Triton's kernels are checked in its interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from brrr.core import units
from brrr.core.callables import giving as giving
from brrr.core.errors import UnavailableError
from brrr.core.heavy import torch
from brrr.gpu import CUDA


class CudaFile(NamedTuple):
    """A `.cu` file of this package: NVRTC's options for it, text in front of it, and what it is compiled for.

    architectures: by default the oldest GPU that is supported, and an H100's.
    """

    path: str
    options: tuple[str, ...] = ()
    head: str = ""
    architectures: tuple[str, ...] = ("sm_75", "sm_90")


class Example(NamedTuple):
    """A kernel on fresh random inputs: what it needs, what launches it and gives its results, and what they must be.

    flop, nbytes: what it must compute in `dtype` and move, at least; expected: in float64, a tuple of several results;
    tolerance: the largest ||result - expected|| / ||expected|| that passes; checked: launches and gives the results,
    where the launch alone, which is timed, leaves them in another form.
    """

    name: str
    flop: float
    nbytes: float
    launch: Callable[[], Any]
    expected: torch.Tensor | tuple[torch.Tensor, ...]
    tolerance: float = 1e-5
    dtype: str = "fp32"
    checked: Callable[[], Any] | None = None

    @property
    def error(self) -> float:
        """Of one launch, of its worst result."""
        several = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        found = (self.checked or self.launch)()
        pairs = zip(found if len(several) > 1 else (found,), several, strict=True)
        return max(float((one.double() - other).norm() / other.norm()) for one, other in pairs)


def alone(examples: Callable[[str], Iterable[Example]], *sources: CudaFile) -> NoReturn:
    """What `python -m` runs of a kernel's module: a line for each of its examples; the status is 1 if one is wrong.

    examples: makes them on a CUDA device, or small ones of Triton's on "cpu"; sources: the `.cu` files.
    """
    from brrr.gpu.device import cuda_problem

    problem, triton = cuda_problem(), sys.modules.get("triton")
    if problem and not (triton is not None and triton.knobs.runtime.interpret):
        for source in sources:
            print(compiled(source), flush=True)
        if triton is None:
            print(f"Nothing was launched: {problem}")
            sys.exit(0)
        print(f"In Triton's interpreter: {problem}", flush=True)
        command = [sys.executable, "-m", getattr(sys.modules["__main__"].__spec__, "name", "")]
        sys.exit(subprocess.call(command, env={**os.environ, "TRITON_INTERPRET": "1"}))  # read as Triton is loaded
    wrong = False
    for each in examples("cpu" if problem else CUDA):
        error = each.error
        wrong |= not error <= each.tolerance
        verdict = f"{'right' if error <= each.tolerance else 'WRONG'} (relative error {error:.1e})"
        print(f"{each.name}: {verdict}" + ("" if problem else f", {placed(each)}"), flush=True)
    sys.exit(int(wrong))


def compiled(source: CudaFile) -> str:
    """Whether a `.cu` file of this package compiles, in words; no GPU is needed, only NVRTC."""
    from brrr.gpu.nvrtc import compile_cubin, missing, source_text

    if missing():
        return f"{source.path} was not compiled: NVRTC is not here (pip install cuda-bindings nvidia-cuda-nvrtc)"
    try:
        text = source.head + source_text(source.path)
        sizes = [len(compile_cubin(text, source.path, each, source.options)) for each in source.architectures]
    except UnavailableError as error:
        return str(error)
    code = ", ".join(f"{units.nbytes(size)} for {each}" for size, each in zip(sizes, source.architectures, strict=True))
    return f"{source.path} compiles: {code}"


def placed(example: Example) -> str:
    """The measured time of an example on this GPU, its rates, and how near it is to the roofline."""
    from brrr.roofline.device_model import known_here, model_of
    from brrr.timing import measure

    busy_s = measure(example.launch).busy_s
    if busy_s is None:
        return "not timed"
    seconds, model = busy_s.median, model_of(known_here(CUDA))
    share = units.percent(model.roof_s(example.flop, example.nbytes, example.dtype) / seconds)
    rates = f"{units.quantity(example.nbytes / seconds, 'B/s')}, {units.quantity(example.flop / seconds, 'FLOP/s')}"
    return f"{units.seconds(seconds)}, {rates}: {share} of the roofline (bandwidth of a copy, {model.origin})"
