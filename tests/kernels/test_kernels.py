"""CUDA C++ compiles for the oldest and the newest GPU of the course, by nvcc or NVRTC; no GPU is needed."""

import importlib.util
from pathlib import Path

import pytest
from hosted import NVCC, by_nvcc

from brrr.core.errors import UnavailableError
from brrr.core.files import PACKAGE

SOURCES = sorted(source for source in PACKAGE.rglob("*.cu") if "strassen" not in source.parts)
"""Those of Strassen's are compiled with what chooses them, in tests/strassen."""
GIVEN = {
    "megakernel.cu": "HIDDEN=128 WIDTH=128 CLUSTER=8 ROWS=4 TILE_ROWS=4 TILE_QUADS=1 K_WARPS=1 DEPTH=128 SLOTS=8 "
    "BLOCKS=1 WIDE=0",
    "recurrent.cu": "HIDDEN=1024 KIND=0 TYPE=0 SPLIT=0 BACKWARD=0 TRAIN=0 WARPS=8 CHUNKS=4 SHARED_CHUNKS=0 LANE_ROWS=8 "
    "SAMPLES=2 GROUP_BLOCKS=32 GROUP_BATCH=16 WATCH=0",
    "recurrent_cell.cu": "KIND=2 TYPE=0",
}
"""What a plan gives a kernel that is compiled for each shape."""
ARCHES = ("sm_75", "sm_90")
NVRTC = importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None
needs_compiler = pytest.mark.skipif(not (NVCC or NVRTC), reason="neither nvcc nor NVRTC is here")


def compiled(source: Path, arch: str, folder: Path) -> bytes:
    given = [f"-D{each}" for each in GIVEN.get(source.name, "").split()]
    if NVCC is None:
        from brrr.gpu.nvrtc import compile_cubin, source_text

        return compile_cubin(source_text(str(source)), source.name, arch, tuple(given))
    try:
        return by_nvcc(source, folder, f"-arch={arch}", "--Werror", "all-warnings", *given)[0]
    except AssertionError as error:
        raise UnavailableError(str(error)) from error


@needs_compiler
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_every_kernel_compiles(source: Path, arch: str, tmp_path: Path) -> None:
    code = compiled(source, arch, tmp_path)
    assert code.startswith(b"\x7fELF")
    for line in source.read_text(encoding="utf-8").splitlines():
        if "__global__" in line:
            name = line.split("void ")[1].split("(")[0]
            assert name.encode() in code, f"{name} is not in the compiled code"
