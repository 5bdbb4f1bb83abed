"""CUDA C++ compiled at run time and launched on torch's current stream, by NVIDIA's own cuda-bindings.

cuda-bindings and NVRTC come with every CUDA build of torch from 2.11 on, so this needs no compiler on the machine.
"""

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from brrr.core.errors import RecordingError, UnavailableError
from brrr.core.files import PACKAGE, digest, kept, write_atomically
from brrr.core.heavy import driver, torch
from brrr.core.private import private_folder

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


@lru_cache(maxsize=512)
def function(
    source_name: str, name: str, device_index: int, options: tuple[str, ...] = (), head: str = "", suffix: str = ""
) -> Any:
    """A kernel of a `.cu` file of this package, compiled for a device and loaded into torch's context.

    options: NVRTC's, such as "-DROWS=4"; head: text in front of the file's; suffix: the "a" of sm_90a.
    """
    module = _module(source_name, device_index, options, head, suffix)
    return check(driver.cuModuleGetFunction(module, name.encode()), name)


@lru_cache(maxsize=512)
def _module(source_name: str, device_index: int, options: tuple[str, ...], head: str, suffix: str) -> Any:
    code = machine_code(source_name, make_current(device_index) + suffix, options, head)
    return check(driver.cuModuleLoadData(code), f"loading {source_name}")


def make_current(device_index: int) -> str:
    """Make torch's primary context current in this thread; returns the GPU's architecture, such as "sm_90"."""
    torch.zeros(1, device=f"cuda:{device_index}")  # torch makes the context, with its own settings
    major, minor = torch.cuda.get_device_capability(device_index)
    return f"sm_{major}{minor}"


@lru_cache(maxsize=128)
def kernel(source_name: str, name: str, device_index: int) -> Kernel:
    """One kernel of a `.cu` file of this package."""
    return Kernel(function(source_name, name, device_index), name)


def prepared(
    source_name: str, name: str, device_index: int, blocks: int, threads: int, *args: tuple[float, Any]
) -> Callable[[], None]:
    """A function of no arguments that launches such a kernel in one dimension."""
    return partial(kernel(source_name, name, device_index), (blocks, 1, 1), (threads, 1, 1), *args)


def probe_kernel(name: str) -> Kernel:
    """A kernel of `probe.cu` on torch's current device."""
    return kernel("gpu/probe.cu", name, torch.cuda.current_device())


# ---------------------------------------------------------------------------------------------------------------------
# Compiled kernels kept on the disk, so that a second process need not compile them again.

ELF = b"\x7fELF"


def machine_code(source_name: str, arch: str, options: tuple[str, ...] = (), head: str = "") -> bytes:
    """The machine code of a `.cu` file of this package, such as for "sm_90": from the cache, else compiled and kept.

    A file of the cache is named by a hash of the text, what it includes, the architecture, the options and the
    compiler's version, so that an old one is never taken for a new one.
    """
    source = head + source_text(source_name)
    name = f"{Path(source_name).stem}-{digest(repr((source, arch, compiler(), *options)))}.cubin"
    path = private_folder("kernels") / name
    found = kept(path)
    if found is not None and found.startswith(ELF):
        return found
    code = compile_cubin(source, source_name, arch, options)
    with suppress(RecordingError):  # a disk that refuses costs nothing but the keeping
        write_atomically(path, code)
    return code


def source_text(source_name: str) -> str:
    """A file of this package with those that it includes put in their places."""
    folder = Path(source_name).parent
    include = re.compile(r'^#include "(.+)"$', re.MULTILINE)
    text = (PACKAGE / source_name).read_text(encoding="utf-8")
    return include.sub(lambda found: source_text(str(folder / found[1])), text)


def missing() -> str:
    """Why NVRTC cannot be used here, "" where it can: a library that is missing raises errors of its own."""
    try:
        compiler()
    except Exception as error:
        return str(error)
    return ""


def compiler() -> str:
    """NVRTC's version, such as "NVRTC 13.0"."""
    from cuda.bindings import nvrtc

    major, minor = check(nvrtc.nvrtcVersion(), "NVRTC's version")
    return f"NVRTC {major}.{minor}"
