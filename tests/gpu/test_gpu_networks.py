"""The network's ways and kernels on a real GPU: right in every type, captured, closed, on torch's stream."""

import gc
import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from brrr.core.errors import BrrrError, UnavailableError
from brrr.networks import IMPLEMENTATIONS, Network, Weights, best
from brrr.networks.prepared import Prepared
from tests.strassen_on_gpu import error

PYCUDA = importlib.util.find_spec("pycuda") is not None
NVMATH = importlib.util.find_spec("nvmath") is not None
needs_pycuda = pytest.mark.skipif(not PYCUDA, reason="PyCUDA is not here")
needs_nvmath = pytest.mark.skipif(not NVMATH, reason="nvmath-python is not here")

QUICK = [name for name, way in IMPLEMENTATIONS.items() if not way.slow_to_build]
SIZES = [(1, 1, 1), (3, 17, 100), (8, 16, 256), (4, 65, 513), (2, 2048, 2048)]
NETWORKS = [
    *(Network(*size) for size in SIZES),
    Network(8, 16, 256, tf32=True),
    Network(3, 17, 100, "bfloat16"),
    Network(8, 16, 256, "float16"),
]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("BRRR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def few_tilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tiling takes most of a second to compile, and the interpreter proves it correct: try one of each kind."""
    linear_relu = pytest.importorskip("brrr.kernels.linear_relu", reason="Triton is not here")
    every = linear_relu.tilings
    monkeypatch.setattr(linear_relu, "tilings", lambda *network: (every(*network)[0], every(*network)[-1]))


def built(name: str, weights: Weights) -> Prepared:
    """The way, ready to run; what kernels of ours do not take, or a library that is not here, skips the test."""
    try:
        return IMPLEMENTATIONS[name].build(weights)
    except BrrrError as refusal:
        if "launched" not in IMPLEMENTATIONS[name].maker:
            raise
        pytest.skip(str(refusal))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("name", QUICK)
def test_each_way_is_right(name: str, network: Network) -> None:
    weights = Weights.random(network, "cuda")
    with built(name, weights) as prepared:
        assert weights.error(prepared.run()) <= weights.tolerance
        weights.x.copy_(torch.randn_like(weights.x))
        given = weights.x.clone()
        assert weights.error(prepared.run()) <= weights.tolerance, "it must read x anew"
        assert torch.equal(weights.x, given), "the input is not overwritten"
        for _ in range(20):
            last = prepared.run()
        assert weights.error(last) <= weights.tolerance, "calls without waiting between them"


@pytest.mark.parametrize("name", ["compile", "max-autotune"])
def test_the_compiled_ways_are_right(name: str) -> None:
    for hidden in (128, 96):
        network = Network(2, 4, hidden)
        weights = Weights.random(network, "cuda")
        with built(name, weights) as prepared:
            for _ in range(3):
                weights.x.copy_(torch.randn_like(weights.x))
                assert weights.error(prepared.run()) <= weights.tolerance


@pytest.fixture
def allowed(own_precision: None) -> Callable[[bool], None]:
    """What lets torch multiply float32 in TF32, by its older switch, until the test is over."""
    return lambda value: setattr(torch.backends.cuda.matmul, "allow_tf32", value)


@pytest.mark.parametrize("name", QUICK)
def test_float32_is_float32_whatever_torch_is_set_to(name: str, allowed: Callable[[bool], None]) -> None:
    network = Network(2, 32, 512)
    weights = Weights.random(network, "cuda")
    allowed(True)
    with built(name, weights) as prepared:
        assert weights.error(prepared.run()) <= weights.tolerance
    assert torch.backends.cuda.matmul.allow_tf32 is True, "the setting is the user's"


@pytest.mark.parametrize("name", ["module", "graph", "pycuda", "pycuda-graph", "epilogue", "triton"])
def test_tf32_is_used_where_it_is_asked_for(name: str) -> None:
    """Its error lies between float32's and what passes; on a GPU without TF32 the two are the same."""
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this GPU has no TF32")
    network = Network(2, 128, 1024, tf32=True)
    weights = Weights.random(network, "cuda")
    with built(name, weights) as prepared:
        assert 2e-5 < weights.error(prepared.run()) <= weights.tolerance
    assert torch.backends.cuda.matmul.allow_tf32 is False


@pytest.mark.parametrize("name", QUICK)
def test_closing_gives_the_memory_back(name: str) -> None:
    network = Network(2, 64, 1024)
    weights = Weights.random(network, "cuda")

    def once() -> None:
        built(name, weights).close()

    once()  # handles, workspaces and compiled code are kept
    before = held()
    for _ in range(3):
        once()
    assert held() <= before + 2**20


def held() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_allocated())


def launches(network: Network, name: str) -> int | None:
    from brrr.timing.graph_times import launches as counted

    weights = Weights.random(network, "cuda")
    with built(name, weights) as prepared:
        return counted(prepared.run)


def test_one_kernel_a_layer_and_one_for_all() -> None:
    network = Network(4, 16, 256)
    assert launches(network, "triton") == 4
    separate, fused = launches(network, "functional"), launches(network, "epilogue")
    assert separate is not None and fused is not None
    assert fused == separate - 4, "cuBLASLt must take ReLU into the product"


def test_the_megakernel_is_one_kernel() -> None:
    network = Network(4, 16, 256)
    assert launches(network, "megakernel") == 1


# --- PyCUDA and cuBLAS ------------------------------------------------------------------------------------------------


@needs_pycuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("operation", ["bias", "relu", "bias_relu"])
@pytest.mark.parametrize("shape", [(1, 1), (33, 1030), (70_000, 3), (2, 2**20 + 1)])
def test_the_pycuda_kernels(operation: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    from brrr.kernels import bias_relu

    rows, width = shape
    guarded = torch.full((rows * width + 64,), 7.0, dtype=dtype, device="cuda")
    y, b = guarded[32 : 32 + rows * width].view(rows, width), torch.randn(width, device="cuda").to(dtype)
    y.copy_(torch.randn(rows, width, device="cuda"))
    wanted = y.double() + b.double() if "bias" in operation else y.double()
    wanted = wanted.relu() if "relu" in operation else wanted
    bias_relu.prepared(operation, y, b)()  # type: ignore[arg-type]
    torch.testing.assert_close(y, wanted.to(dtype), rtol=1e-6 if dtype == torch.float32 else 8e-3, atol=0)
    assert (guarded[:32] == 7).all() and (guarded[-32:] == 7).all()


@needs_pycuda
def test_an_address_that_no_word_divides() -> None:
    from brrr.kernels import bias_relu

    memory, b = torch.randn(1 + 8 * 64, device="cuda"), torch.randn(64, device="cuda")
    y = memory[1:].view(8, 64)
    wanted = (y + b).relu()
    bias_relu.prepared("bias_relu", y, b)()
    assert torch.equal(y, wanted)


@needs_pycuda
def test_pycuda_follows_torch_to_the_shared_stream_only() -> None:
    from brrr.gpu.launching import shared_stream
    from brrr.kernels import bias_relu

    y, b = torch.ones(4, 8, device="cuda"), torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    shared = shared_stream(0).torch
    with torch.cuda.stream(shared):
        bias_relu.prepared("bias", y, b)()
        doubled = y * 2
    shared.synchronize()
    assert (doubled == 4).all()
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(UnavailableError, match="another one is current"):
        bias_relu.prepared("bias", y, b)


@pytest.fixture
def blas(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A handle of its own on the current stream, closed twice."""
    from brrr.gpu.cublas import Blas

    made = Blas(0, torch.cuda.current_stream().cuda_stream, **getattr(request, "param", {}))
    yield made
    torch.cuda.synchronize()
    made.close()
    made.close()


@needs_nvmath
@pytest.mark.parametrize("blas", [{}, {"workspace_bytes": 0}], indirect=True, ids=str)
@pytest.mark.parametrize(("dtype", "worst"), [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 128, 128), (17, 100, 33), (16, 256, 256), (128, 512, 1024)])
def test_cublas_itself(blas: Any, m: int, k: int, n: int, dtype: torch.dtype, worst: float) -> None:
    x, w = torch.randn(m, k, device="cuda").to(dtype), torch.randn(n, k, device="cuda").to(dtype)
    out = torch.full((m, n), math.nan, dtype=dtype, device="cuda")
    blas.product(x, w, out)()
    assert error(out, x, w.t()) <= worst


@needs_nvmath
@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (17, 100, 33), (16, 256, 256)])
def test_the_fastest_of_cublas_and_cublaslt(m: int, k: int, n: int, tf32: bool) -> None:
    from brrr.gpu.cublas import Blas
    from brrr.gpu.cublas_lt import fastest_product

    stream = torch.cuda.Stream()
    blas = Blas(0, stream.cuda_stream)
    try:
        with torch.cuda.stream(stream):
            x, w = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda")
            out = torch.empty(m, n, device="cuda")
            for among in ((), (), (torch.randn_like(w), w)):  # the second time the choice is known
                run = fastest_product(blas, x, w, out, tf32=tf32, among=among)
                out.fill_(math.nan)
                run()
                assert error(out, x, w.t()) <= (2e-3 if tf32 else 1e-6)
    finally:
        torch.cuda.synchronize()
        blas.close()


@needs_pycuda
@needs_nvmath
def test_the_process_ends_cleanly() -> None:
    """A context still pushed at exit, or a handle destroyed too late, would abort."""
    code = (
        "import torch; from brrr.networks import *; w = Weights.random(Network(2, 4, 64), 'cuda')\n"
        "from brrr.kernels import relu; x = torch.ones(64, device='cuda'); relu.prepared_launch(x, x)()\n"
        "made = [IMPLEMENTATIONS[k].build(w) for k in ('pycuda', 'pycuda-fused', 'pycuda-graph')]\n"
        "print(max(w.error(m.run()) for m in made) <= w.tolerance)"
    )
    quiet = ["-W", "ignore:Synchronization debug mode is a prototype"]  # a mode that is used on purpose
    done = subprocess.run(
        [sys.executable, *quiet, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "True", "")


# --- the best of them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 2, 128), (8, 16, 256), (3, 5, 33)])
def test_best_on_a_gpu(size: tuple[int, int, int]) -> None:
    with best(*size) as network:
        x = torch.randn_like(network.weights.x)
        weights = replace(network.weights, x=x)
        assert weights.error(network(x)) <= weights.tolerance
        assert IMPLEMENTATIONS[network.implementation].why_not(network.network, "cuda") is None and network.why
