"""Compiles a kernel's emulation (`tests/*_host.cpp`, which includes the kernel's source) for the CPU, by g++."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
GXX = shutil.which("g++")
FLAGS = ("-std=c++17", "-O1", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing")
HEADERS = "algorithm cmath cstdint cstdio cstring deque functional map memory random ucontext.h vector"
needs_gxx = pytest.mark.skipif(GXX is None, reason="the emulation is compiled by g++")
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not here")


def by_nvcc(source: Path, folder: Path, *options: str) -> tuple[bytes, str]:
    """A kernel's source compiled with these options, and what the assembler says of registers; else AssertionError."""
    out = folder / "out.cubin"
    command = [str(NVCC), "-std=c++17", "-cubin", "-Xptxas", "-v", *options, "-o", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_bytes(), done.stderr


@functools.cache
def _headers() -> Path:
    """A header of all headers, compiled once for this process: they are most of what an emulation costs."""
    header = Path(FOLDER.name) / "all.hpp"
    header.write_text("".join(f"#include <{name}>\n" for name in HEADERS.split()))
    subprocess.run([str(GXX), *FLAGS, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True, timeout=120)
    return header


FOLDER = tempfile.TemporaryDirectory(prefix="brrr-headers-")


def hosted(emulation: str, library: Path, *options: str) -> ctypes.CDLL:
    """`tests/<emulation>` with these options as a library, compiled unless it is there.

    What is defined is so behind the compiled header: g++ leaves that aside where a name in it was defined before.
    """
    if not library.exists():
        defines = library.with_suffix(".hpp")
        names = (option.removeprefix("-D").partition("=") for option in options if option.startswith("-D"))
        defines.write_text("".join(f"#define {name} {value or 1}\n" for name, _, value in names), encoding="utf-8")
        others = [option for option in options if not option.startswith("-D")]
        included = ["-include", str(_headers()), "-include", str(defines)]
        command = [str(GXX), *FLAGS, "-shared", *included, *others, "-o", str(library), str(HERE / emulation)]
        subprocess.run(command, check=True, timeout=300)
    return ctypes.CDLL(str(library))
