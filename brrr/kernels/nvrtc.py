"""CUDA C++ compiled at run time and launched on torch's current stream, by NVIDIA's own cuda-bindings.

cuda-bindings and NVRTC come with every CUDA build of torch from 2.11 on, so this needs no compiler on the machine.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

from brrr.errors import UnavailableError

U32, U64, I64, PTR = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p
I32, F32 = ctypes.c_int32, ctypes.c_float


class Kernel:
    """A compiled kernel: call it with grid, block and `(value, ctype)` pairs.

    >>> spin = probe_kernel("brrr_spin")                              # doctest: +SKIP
    >>> spin((1, 1, 1), (1, 1, 1), (1000, U64), (out.data_ptr(), PTR))    # doctest: +SKIP
    """

    def __init__(self, handle: Any, name: str) -> None:
        self._handle, self.name = handle, name

    def __call__(self, grid: tuple[int, int, int], block: tuple[int, int, int], *args: tuple[float, Any]) -> None:
        import torch
        from cuda.bindings import driver

        values = (tuple(value for value, _ in args), tuple(kind for _, kind in args))
        stream = torch.cuda.current_stream().cuda_stream
        check(driver.cuLaunchKernel(self._handle, *grid, *block, 0, stream, values if args else 0, 0), self.name)


def check(answer: tuple[Any, ...], what: str) -> Any:
    """The values of a cuda-bindings call, or UnavailableError with the driver's own name for what went wrong."""
    status, *values = answer
    if int(status) != 0:
        raise UnavailableError(f"CUDA refused {what}: {status!r}")
    return values[0] if len(values) == 1 else tuple(values)


def compile_cubin(source: str, name: str, arch: str, options: tuple[str, ...] = ()) -> bytes:
    """Machine code for `arch` (as `sm_90`) from CUDA C++; UnavailableError with the compiler's log if it fails."""
    from cuda.bindings import nvrtc

    program = check(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []), "NVRTC")
    flags = [option.encode() for option in (f"--gpu-architecture={arch}", "--std=c++17", *options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(status) != 0:
        log = b" " * check(nvrtc.nvrtcGetProgramLogSize(program), "NVRTC's log")
        nvrtc.nvrtcGetProgramLog(program, log)
        raise UnavailableError(f"NVRTC could not compile {name} for {arch}:\n{log.decode(errors='replace')}")
    code = b" " * check(nvrtc.nvrtcGetCUBINSize(program), "NVRTC's code")
    check(nvrtc.nvrtcGetCUBIN(program, code), "NVRTC's code")
    return bytes(code)


@lru_cache(maxsize=32)
def load(source_name: str, device_index: int) -> Any:
    """The module of a `.cu` file beside this one, compiled for the device and loaded into torch's context."""
    import torch
    from cuda.bindings import driver

    torch.zeros(1, device=f"cuda:{device_index}")  # makes torch's primary context current in this thread
    return check(driver.cuModuleLoadData(compiled_for(source_name, device_index)), f"loading {source_name}")


def compiled_for(source_name: str, device_index: int) -> bytes:
    """The machine code of a `.cu` file beside this one for a device."""
    import torch

    major, minor = torch.cuda.get_device_capability(device_index)
    source = (Path(__file__).parent / source_name).read_text(encoding="utf-8")
    return compile_cubin(source, source_name, f"sm_{major}{minor}")


@lru_cache(maxsize=128)
def kernel(source_name: str, name: str, device_index: int) -> Kernel:
    """One kernel of a `.cu` file beside this one."""
    from cuda.bindings import driver

    module = load(source_name, device_index)
    return Kernel(check(driver.cuModuleGetFunction(module, name.encode()), name), name)


def probe_kernel(name: str) -> Kernel:
    """A kernel of `probe.cu` on torch's current device."""
    import torch

    return kernel("probe.cu", name, torch.cuda.current_device())
