"""The kernels behind the network's ways, without a GPU: CUDA C++ run as C++, cuBLAS played."""

from __future__ import annotations

import ctypes
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hosted import GXX, hosted
from played_blas import played

from brrr.core.errors import UnavailableError
from brrr.core.files import PACKAGE
from brrr.gpu import cublas, launching, nvrtc
from brrr.gpu.launching import pycuda_driver
from brrr.kernels import bias_relu
from tests.refusals import refused

OPERATIONS = ("bias", "relu", "bias_relu")


# --- bias_relu.cu -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host_kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The very source that the GPU gets, compiled for the CPU."""
    if GXX is None:
        pytest.skip("g++ is not here")
    library = tmp_path_factory.mktemp("bias_relu") / "bias_relu.so"
    return hosted("bias_relu_host.cpp", library, f'-DSOURCE="{PACKAGE / "kernels/bias_relu.cu"}"')


def on_host(kernels: ctypes.CDLL, operation: str, y: torch.Tensor, b: torch.Tensor) -> None:
    """One launch as `prepared` makes it, all its threads in turn."""
    name = f"run_{operation}_{str(y.dtype).removeprefix('torch.')}"
    rows, width = y.shape
    (across, down), (threads, _, _) = bias_relu.launch_of(rows, width)
    words = bias_relu.in_words(width, y.element_size(), y.data_ptr(), b.data_ptr())
    getattr(kernels, name)(
        ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(b.data_ptr()), ctypes.c_longlong(rows), width, int(words),
        across, down, threads,
    )  # fmt: skip


def reference(operation: str, y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = y.double() + b.double() if "bias" in operation else y.double()
    return total.relu() if "relu" in operation else total


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 128), (16, 256), (2, 1028), (33, 1030), (1, 4099)])
def test_the_cuda_kernel_gives_what_float64_gives(
    host_kernels: ctypes.CDLL, operation: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    rows, width = shape
    guarded = torch.full((rows * width + 16,), 7.0, dtype=dtype)
    y = guarded[8 : 8 + rows * width].view(rows, width)
    y.copy_(torch.randn(rows, width))
    b = torch.randn(width).to(dtype)
    wanted = reference(operation, y, b)
    on_host(host_kernels, operation, y, b)
    exact = wanted.to(dtype) if dtype == torch.bfloat16 else wanted.float()
    # Sums of two float32 are rounded once, as torch rounds them; of bfloat16 the sum is exact in float32 or nearly so.
    torch.testing.assert_close(y, exact, rtol=1e-6 if dtype == torch.float32 else 8e-3, atol=0)
    assert (guarded[:8] == 7).all() and (guarded[-8:] == 7).all(), "it wrote beyond its rows"


def test_the_cuda_kernel_rounds_as_torch_does(host_kernels: ctypes.CDLL) -> None:
    y, b = torch.randn(64, 64).bfloat16(), torch.randn(64).bfloat16()
    wanted = y + b
    on_host(host_kernels, "bias", y, b)
    assert torch.equal(y, wanted)


@pytest.mark.parametrize("width", [5, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_nan_stays_one(host_kernels: ctypes.CDLL, dtype: torch.dtype, width: int) -> None:
    y, b = torch.ones(2, width, dtype=dtype), torch.zeros(width, dtype=dtype)
    y[1, 2], y[0, 1] = math.nan, -math.inf
    on_host(host_kernels, "bias_relu", y, b)
    assert y.isnan().nonzero().tolist() == [[1, 2]] and y[0, 1] == 0


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (2, 128), (128, 4096), (70_000, 3), (7, 2**20 + 3)])
def test_a_launch_covers_every_element_and_fits(rows: int, width: int) -> None:
    (across, down), (threads, _, _) = bias_relu.launch_of(rows, width)
    assert across * threads * bias_relu.PER_THREAD >= width
    assert (across - 1) * threads * bias_relu.PER_THREAD < width
    assert 1 <= down <= 65535 and threads % 32 == 0 and threads <= 1024


@pytest.mark.parametrize(("operation", "y", "b", "argument"), [
    ("relu", [1.0], None, "y"), ("bias", torch.ones(2, 3, dtype=torch.float16), torch.ones(3), "y"),
    ("bias", torch.ones(3), torch.ones(3), "y"), ("relu", torch.ones(3, 2).t(), None, "y"),
    ("relu", torch.ones(2, 3), None, "y"), ("gelu", torch.ones(2, 3), None, "operation"),
])  # fmt: skip
def test_what_the_bias_kernel_refuses(operation: Any, y: Any, b: Any, argument: str) -> None:
    with refused(argument):
        bias_relu.prepared(operation, y, b)
    for wrong in (None, torch.ones(3, device="meta"), torch.ones(3).bfloat16(), torch.ones(4), torch.ones(6)[::2]):
        with refused("b"):
            bias_relu.check("bias", torch.ones(2, 3), wrong)


# --- cuBLAS -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 3, 5), (16, 7, 4), (5, 64, 33)])
def test_the_product_is_asked_for_by_columns(
    monkeypatch: pytest.MonkeyPatch, m: int, k: int, n: int, tf32: bool
) -> None:
    blas, library = played(monkeypatch)
    x, w, out = torch.randn(m, k), torch.randn(n, k), torch.full((m, n), math.nan)
    blas.product(x, w, out, tf32=tf32)()
    torch.testing.assert_close(out, x @ w.t(), rtol=1e-5, atol=1e-5)
    assert library.calls == ["gemm_ex" if tf32 else "sgemm"], "true float32 must not go through TF32"
    assert library.asked == ((0, 0, 0, 77, -1) if tf32 else ())


def test_bfloat16_sums_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    blas, library = played(monkeypatch)
    x, w, out = (torch.ones(2, 2, dtype=torch.bfloat16) for _ in range(3))
    blas.product(x, w, out)()
    assert library.asked == (14, 14, 14, 68, -1)


def test_empty_products(monkeypatch: pytest.MonkeyPatch) -> None:
    blas, library = played(monkeypatch)
    blas.product(torch.ones(0, 3), torch.ones(2, 3), torch.ones(0, 2))()
    out = torch.full((2, 4), math.nan)
    blas.product(torch.ones(2, 0), torch.ones(4, 0), out)()
    assert (out == 0).all() and library.calls == []


@pytest.mark.parametrize(
    "x", [torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(3)], ids=str
)
def test_what_the_product_refuses(x: torch.Tensor) -> None:
    """A type without a product, a CPU, gaps, no matrix."""
    with refused("x"):
        cublas.check_product(x, torch.ones(4, 3), torch.ones(2, 4), 0)


def test_without_nvmath_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvmath", None)
    with pytest.raises(UnavailableError, match="nvmath-python is not here"):
        cublas.bindings()


def test_handles_are_kept_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Fake:
        def __init__(self, device: int, stream: int) -> None:
            made.append(self)
            self.closed = False

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(cublas, "Blas", Fake)
    monkeypatch.setattr(cublas, "_KEPT", {})
    assert cublas.blas_on(0, 5) is cublas.blas_on(0, 5) and cublas.blas_on(0, 6) is made[1]
    cublas.release()
    assert len(made) == 2 and all(each.closed for each in made)


# --- PyCUDA and the kept code -----------------------------------------------------------------------------------------


def test_a_launch_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packing: list[Any] = []
    launches: list[Any] = []
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace())
    monkeypatch.setitem(
        sys.modules, "pycuda._pvt_struct", SimpleNamespace(pack=lambda *args: packing.append(args) or b"packed")
    )
    function = SimpleNamespace(arg_format="PPq", _launch_kernel=lambda *args: launches.append(args))
    call = launching.packed_launch(function, (2, 3), (64, 1, 1), (10, 20, 30), None)
    call()
    call()
    assert packing == [("PPq", 10, 20, 30)] and launches == [((2, 3), (64, 1, 1), b"packed", 0, None)] * 2


def test_pycuda_takes_two_streams_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    current = SimpleNamespace(cuda_stream=0)
    asked: list[int] = []

    class Shared:
        pycuda = SimpleNamespace(handle=77)

        def __call__(self, index: int) -> Shared:
            asked.append(index)
            return self

        def cache_info(self) -> Any:
            return SimpleNamespace(currsize=len(made))

    made: list[int] = []
    monkeypatch.setattr(launching, "shared_stream", Shared())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index=None: current)
    assert launching.pycuda_stream(0) is None
    current.cuda_stream = 77
    with pytest.raises(UnavailableError, match="another one is current"):
        launching.pycuda_stream(0)
    assert asked == [], "no stream is made only to compare with it"
    made.append(1)
    assert launching.pycuda_stream(0) is Shared.pycuda
    current.cuda_stream = 78
    with pytest.raises(UnavailableError, match="another one is current"):
        launching.pycuda_stream(0)


def test_a_handle_that_cannot_be_set_up_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def refuse(*_: int) -> None:
        raise RuntimeError("no workspace")

    library = SimpleNamespace(
        create=lambda: events.append("create") or 5,
        set_stream=lambda handle, stream: events.append(f"stream {stream}"),
        set_workspace=refuse,
        destroy=lambda handle: events.append(f"destroy {handle}"),
    )
    monkeypatch.setattr(cublas, "bindings", lambda: library)
    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, dtype, device: empty(1, dtype=dtype))
    with pytest.raises(RuntimeError, match="no workspace"):
        cublas.Blas(0, 7)
    assert events == ["create", "stream 7", "destroy 5"], "the stream comes before the workspace, which it resets"


def test_code_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled: list[str] = []
    monkeypatch.setenv("BRRR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(nvrtc, "compiler", lambda: "NVRTC 13.0")
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *args: compiled.append(args[2]) or b"\x7fELF code")
    assert nvrtc.machine_code("kernels/bias_relu.cu", "sm_90") == nvrtc.machine_code("kernels/bias_relu.cu", "sm_90")
    assert compiled == ["sm_90"]
    nvrtc.machine_code("kernels/bias_relu.cu", "sm_75")
    assert compiled == ["sm_90", "sm_75"]
    files = list((tmp_path / "cache" / "kernels").iterdir())
    assert len(files) == 2
    for each in files:
        each.write_bytes(b"cut off")
    nvrtc.machine_code("kernels/bias_relu.cu", "sm_90")
    assert compiled == ["sm_90", "sm_75", "sm_90"], "a damaged file is compiled anew"


def test_a_disk_that_refuses_costs_nothing_but_the_keeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("BRRR_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(nvrtc, "compiler", lambda: "NVRTC 13.0")
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *_: b"\x7fELF code")
    assert nvrtc.machine_code("kernels/bias_relu.cu", "sm_90") == b"\x7fELF code"


def test_pycuda_is_refused_outside_of_the_main_thread() -> None:
    """torch runs backward in threads of its own, where PyCUDA has no context."""
    with (
        ThreadPoolExecutor(1, "backward") as pool,
        pytest.raises(UnavailableError, match=r"main thread only.*backward"),
    ):
        pool.submit(pycuda_driver, 0).result()
