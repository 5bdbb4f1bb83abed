"""CUDA C++ compiled at run time and launched on torch's current stream, by NVIDIA's own cuda-bindings.

cuda-bindings and NVRTC come with every CUDA build of torch from 2.11 on, so this needs no compiler on the machine.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.paths import PACKAGE, cache_folder, keep, kept

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
    """The module of a `.cu` file of this package, compiled for the device and loaded into torch's context."""
    import torch
    from cuda.bindings import driver

    torch.zeros(1, device=f"cuda:{device_index}")  # makes torch's primary context current in this thread
    return check(driver.cuModuleLoadData(compiled_for(source_name, device_index)), f"loading {source_name}")


def compiled_for(source_name: str, device_index: int) -> bytes:
    """The machine code of a `.cu` file of this package for a device."""
    import torch

    major, minor = torch.cuda.get_device_capability(device_index)
    source = (PACKAGE / source_name).read_text(encoding="utf-8")
    return compile_cubin(source, source_name, f"sm_{major}{minor}")


@lru_cache(maxsize=128)
def kernel(source_name: str, name: str, device_index: int) -> Kernel:
    """One kernel of a `.cu` file of this package."""
    from cuda.bindings import driver

    module = load(source_name, device_index)
    return Kernel(check(driver.cuModuleGetFunction(module, name.encode()), name), name)


def probe_kernel(name: str) -> Kernel:
    """A kernel of `probe.cu` on torch's current device."""
    import torch

    return kernel("gpu/probe.cu", name, torch.cuda.current_device())


# ---------------------------------------------------------------------------------------------------------------------
# Compiled kernels kept on the disk, so that a second process need not compile them again.

ELF = b"\x7fELF"


def kept_cubin(source_name: str, arch: str) -> bytes:
    """The machine code of a `.cu` file of this package, such as for "sm_90": from the cache, else compiled and kept.

    A file of the cache is named by a hash of the source, the architecture and the compiler's version, so that an old
    one is never taken for a new one. Sources must include no other file.
    """
    source = (PACKAGE / source_name).read_text(encoding="utf-8")
    path = cache_folder() / "kernels" / f"{Path(source_name).stem}-{fingerprint(source, arch, compiler())}.cubin"
    found = kept(path)
    if found is not None and found.startswith(ELF):
        return found
    code = compile_cubin(source, source_name, arch)
    keep(path, code)
    return code


def fingerprint(*parts: str) -> str:
    """What tells one compilation from another, in 20 letters.

    >>> fingerprint("a", "bc") == fingerprint("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:20]


def compiler() -> str:
    """NVRTC's version, such as "NVRTC 13.0"."""
    from cuda.bindings import nvrtc

    major, minor = check(nvrtc.nvrtcVersion(), "NVRTC's version")
    return f"NVRTC {major}.{minor}"


def kept_for(source_name: str, device_index: int) -> bytes:
    """`kept_cubin` for a GPU, by torch's index."""
    import torch

    major, minor = torch.cuda.get_device_capability(device_index)
    return kept_cubin(source_name, f"sm_{major}{minor}")
