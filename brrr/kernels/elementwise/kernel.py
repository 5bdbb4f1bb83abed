"""`elementwise`: one line of CUDA C++ as a function of torch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Any

from brrr.core.errors import ArgumentError, UnavailableError, extras
from brrr.core.heavy import driver, torch
from brrr.gpu import is_cpu, is_gpu
from brrr.gpu.nvrtc import F32, PTR, Kernel, check, compile_cubin, make_current, missing
from brrr.kernels.elementwise import generate as code
from brrr.kernels.elementwise.parse import checked_line, from_log, output_name, used_names

Input = Any  # a tensor or a number


class Elementwise:
    """A line made into a kernel for inputs of certain shapes and types; call it for the result.

    >>> import torch
    >>> double = elementwise("y = 2 * x", x=torch.tensor([1.0, 2.0]))
    >>> double()
    tensor([2., 4.])
    >>> double(x=torch.tensor([5.0, 7.0]))
    tensor([10., 14.])

    `source` is the whole kernel in CUDA C++; `bytes` is what it must move; `emulated` says whether torch on the CPU
    stands in for the kernel.
    """

    def __init__(self, line: str, inputs: Mapping[str, Input]) -> None:
        self.line = checked_line(line)
        self.output, declared = output_name(self.line)
        _check_names(self.line, self.output, inputs)
        self._inputs = dict(inputs)
        self._tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        self._numbers = {name: value for name, value in inputs.items() if name not in self._tensors}
        for name, value in self._numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ArgumentError("elementwise", name, type(value).__name__, "a tensor or a number")
        self.device = _common_device(self._tensors)
        self.shape = _common_shape(self._tensors)
        self.dtype = _common_type(self._tensors)
        self._plan = self._planned(declared)
        self.source = code.source(self._plan)
        if self.emulated:
            self()  # a line that the emulation does not understand fails here, as one that does not compile would
        elif self._plan.count:
            self._function = _compiled(self.source, self.line, self.device.index)

    @property
    def emulated(self) -> bool:
        """Whether the inputs are on the CPU, so that torch evaluates the line."""
        return is_cpu(self.device)

    @property
    def bytes(self) -> int:
        """The compulsory bytes: each input read once, and the result written once."""
        read = sum(each.numel() * each.element_size() for each in self._tensors.values())
        return int(read + self._plan.count * self.dtype.itemsize)

    def __call__(self, **others: Input) -> torch.Tensor:
        """The result, a new tensor without a gradient, on torch's current stream; `others` replace inputs."""
        if others:
            return Elementwise(self.line, {**self._inputs, **others})()
        return self._by_torch() if self.emulated else self._launched()

    def __repr__(self) -> str:
        how = "through torch on the CPU" if self.emulated else f"one kernel on {self.device}"
        return f'elementwise("{self.line}"): {self._plan.dtype} {tuple(self.shape)}, {how}'

    def _planned(self, declared: bool) -> code.KernelPlan:
        tensors, count = self._tensors, self.shape.numel()
        laid = {name: code.layout(each, self.shape) for name, each in tensors.items()}
        arrays = tuple(code.Array(name, _short(each.dtype), laid[name]) for name, each in tensors.items())
        aligned = all(each.data_ptr() % code.WORD_BYTES == 0 for each in tensors.values())
        numbers, dtype = tuple(self._numbers), _short(self.dtype)
        return code.KernelPlan(self.line, self.output, declared, arrays, numbers, dtype, count, aligned)

    def _by_torch(self) -> torch.Tensor:
        from brrr.kernels.elementwise.emulate import emulate

        with torch.no_grad():
            result = emulate(self.line, self.output, self._inputs).to(self.dtype)
            return result.expand(self.shape).contiguous().clone()

    def _launched(self) -> torch.Tensor:
        result = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        if not self._plan.count:
            return result
        pointers = [(each.data_ptr(), PTR) for each in (*self._tensors.values(), result)]
        kind = ctypes.c_double if self.dtype == torch.float64 else F32
        numbers = [(float(value), kind) for value in self._numbers.values()]
        with torch.cuda.device(self.device):
            grid = min(self._plan.tiles, code.MOST_BLOCKS), 1, 1
            self._function(grid, (code.THREADS, 1, 1), *pointers, *numbers)
        return result


@extras("elementwise")
def elementwise(line: str, **inputs: Input) -> Elementwise:
    """Turn one line of CUDA C++ into a GPU kernel that computes it for each element.

    >>> import torch
    >>> cos_cos = elementwise("y = cosf(cosf(x))", x=torch.zeros(3))
    >>> cos_cos()
    tensor([0.5403, 0.5403, 0.5403])
    >>> print(cos_cos.source.splitlines()[0])
    // y = cosf(cosf(x))

    Parameters
    ----------
    line : str
        Assignments, separated by ";". The value of the last one is the result. Numbers given by name are float (double
        with a float64 input); write 0.5f, since 0.5 is a slow double in C.
    **inputs : torch.Tensor or float
        The line's inputs by name: tensors of float32, float16, bfloat16 or float64 on one device, and numbers. Shapes
        are broadcast as in torch. 16-bit types are computed in float32 and rounded once.

    Returns
    -------
    Elementwise
        A call returns the result, whose type follows torch's promotion rules. `source` is the kernel.

    Raises
    ------
    LineError
        If the line does not compile; a caret points at the unknown name.
    ArgumentError
        If the inputs do not fit.
    UnavailableError
        If the tensors are on a GPU and NVRTC is missing.

    Notes
    -----
    CPU tensors are computed by torch, which emulates C's arithmetic and the functions in
    `brrr/kernels/elementwise/emulate.py`.
    """
    return Elementwise(line, inputs)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check_names(line: str, output: str, inputs: Mapping[str, Input]) -> None:
    """Names must stand in the line, and be others than the result's; ArgumentError else."""
    for name in inputs:
        if name == output:
            raise ArgumentError("elementwise", "line", line, f"another name for the result than the input's, {name!r}")
        if name not in used_names(line):
            raise ArgumentError("elementwise", "input", name, f"an input that stands in the line {line!r}")


def _common_device(tensors: Mapping[str, torch.Tensor]) -> torch.device:
    if not tensors:
        raise ArgumentError("elementwise", "inputs", {}, "at least one tensor, as in elementwise(line, x=x)")
    devices = {name: each.device for name, each in tensors.items()}
    first = next(iter(devices.values()))
    if any(device != first for device in devices.values()) or not (is_cpu(first) or is_gpu(first)):
        found = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ArgumentError("elementwise", "inputs", found, "tensors on one GPU, or all on the CPU", "Use .to(device).")
    return first


def _common_shape(tensors: Mapping[str, torch.Tensor]) -> torch.Size:
    try:
        return torch.Size(torch.broadcast_shapes(*(each.shape for each in tensors.values())))
    except RuntimeError:
        found = ", ".join(f"{name} {tuple(each.shape)}" for name, each in tensors.items())
        raise ArgumentError("elementwise", "inputs", found, "shapes that can be broadcast to one") from None


def _common_type(tensors: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The type of the result: the one that all tensors' types promote to."""
    for name, each in tensors.items():
        if _short(each.dtype) not in code.STORED:
            raise ArgumentError("elementwise", name, each.dtype, f"one of {', '.join(code.STORED)}", "Use .float().")
    return reduce(torch.promote_types, (each.dtype for each in tensors.values()))


@lru_cache(maxsize=256)
def _compiled(text: str, line: str, device_index: int) -> Any:
    """The kernel, compiled by NVRTC and loaded into torch's context."""
    if error := missing():
        raise UnavailableError(
            f"elementwise: NVRTC is not here ({error}), so lines of CUDA C++ cannot be compiled for the GPU; only they "
            "are missing. `pip install cuda-bindings` adds it; on CPU tensors the line is evaluated through torch"
        )
    module = check(driver.cuModuleLoadData(machine_code(text, line, make_current(device_index))), "loading your line")
    return Kernel(check(driver.cuModuleGetFunction(module, code.NAME.encode()), code.NAME), code.NAME)


def machine_code(text: str, line: str, arch: str) -> bytes:
    """The machine code of a generated kernel for `arch`; LineError that points at what does not compile."""
    from brrr.kernels.elementwise.emulate import FUNCTIONS

    try:
        return compile_cubin(text, "generated", arch)
    except UnavailableError as refused:
        log = str(refused)
    raise from_log(line, log, (*FUNCTIONS, *used_names(line)))
