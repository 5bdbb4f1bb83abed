"""Generated lines, fused kernels and the experiments on fusion on a real GPU; speed is printed, not asserted."""

import pytest
import torch

from brrr.core.measurement import Value
from brrr.kernels import fused
from brrr.kernels.elementwise.kernel import elementwise
from brrr_course.experiments import experiment
from brrr_course.experiments.remat import saved_arrays
from tests.gpu.measuring import aside

DTYPES = {torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float64: 1e-14}


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(torch.linalg.norm(found.double() - expected) / torch.linalg.norm(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 1023, 100_003, 2**22 + 5])
def test_a_line_against_float64(size: int, dtype: torch.dtype) -> None:
    x, r = (torch.randn(size, device="cuda", dtype=dtype) for _ in range(2))
    cosine = "cos" if dtype == torch.float64 else "cosf"
    found = elementwise(f"y = {cosine}(x) * s + r", x=x, s=1.5, r=r)()
    assert found.dtype == dtype
    product, added = 1.5 * x.double().cos(), r.double()
    error = torch.linalg.norm(found.double() - (product + added))
    assert error <= DTYPES[dtype] * torch.linalg.norm(product.abs() + added.abs())  # the two may cancel


def test_a_float_function_of_a_double_is_one_of_a_float() -> None:
    x = torch.randn(100_003, device="cuda", dtype=torch.float64)
    found = elementwise("y = cosf(x)", x=x)()
    error = (found - x.cos()).abs()
    assert found.dtype == torch.float64 and bool((error <= 2.0**-23 * (1 + x.abs())).all())
    assert float(error.max()) > 1e-9, "cos of doubles would be closer"


@pytest.mark.parametrize("shape", [(33, 8), (33, 7), (1000, 1024), (5, 100_003)])
def test_broadcast_and_strides(shape: tuple[int, int]) -> None:
    x = torch.randn(shape, device="cuda")
    w, c = torch.randn(shape[1], device="cuda"), torch.randn(shape[0], 1, device="cuda", dtype=torch.bfloat16)
    t = torch.randn(shape[::-1], device="cuda").t()
    found = elementwise("y = x * w + c - t", x=x, w=w, c=c, t=t)()
    torch.testing.assert_close(found, x * w + c.float() - t)
    cut = torch.randn(shape[0], shape[1] + 1, device="cuda")[:, 1:]
    torch.testing.assert_close(elementwise("y = 2 * x", x=cut)(), 2 * cut)


def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GB of GPU memory")
    x = torch.ones(2**31 + 5, device="cuda", dtype=torch.bfloat16)
    x[-1] = 3
    y = elementwise("y = 2 * x", x=x)()
    assert float(y[-1]) == 6 and bool((y[:1000] == 2).all()) and bool((y[-1000:-1] == 2).all())
    z = fused.scale_add_relu(x, 2.0, x)
    assert float(z[-1]) == 9 and bool((z[:1000] == 3).all()) and bool((z[-1000:-1] == 3).all())


def test_the_gpu_and_the_emulation_agree() -> None:
    x = torch.randn(10_001)
    for line in ("y = x > 0 ? sqrtf(x) : -x / 3", "y = 1/2 * x + floorf(x)", "y = fmaxf(x, 0.0f) + fmodf(x, 0.3f)"):
        torch.testing.assert_close(
            elementwise(line, x=x.cuda())().cpu(), elementwise(line, x=x)(), rtol=1e-5, atol=1e-5
        )


def test_it_runs_on_the_current_stream_and_in_a_graph() -> None:
    x = torch.randn(2**20, device="cuda")
    kernel = elementwise("y = cosf(x)", x=x)
    with aside():
        found = kernel()
    torch.testing.assert_close(found, x.cos())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel()
    x.fill_(0.0)
    graph.replay()
    torch.cuda.synchronize()
    assert bool((captured == 1).all())


@pytest.mark.parametrize("dtype", list(DTYPES)[:3], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (33, 5000), (70_001, 64), (5, fused.WIDEST)])
def test_the_triton_kernels_against_float64(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, r = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2))
    w, b = (torch.randn(shape[1], device="cuda", dtype=dtype) for _ in range(2))
    wide = x.double()
    normed = torch.nn.functional.layer_norm(wide, shape[1:], w.double(), b.double())
    allowed = 5 * DTYPES[dtype]
    errors = {
        "chain": float((fused.scale_add_relu(x, 1.75, r).double() - (wide * 1.75 + r.double()).relu()).abs().max())
        / 20,
        "bias_relu": float((fused.bias_relu(x, b).double() - (wide + b.double()).relu()).abs().max()) / 20,
        "layer_norm": relative(fused.layer_norm(x, w, b), normed),
        "softmax": relative(fused.softmax(x), wide.softmax(-1)),
    }
    assert all(error <= allowed for error in errors.values()), errors


def test_to_compute_again_takes_less_memory() -> None:
    point: dict[str, Value] = {"activation": "hardswish", "depth": 16, "elements": 2**22}
    remat = experiment("remat")
    ways = ("eager", "checkpoint", "compile-saved", "compile")
    arrays = {way: remat.workload(way, point).others["peak_bytes"]() / (4 * 2**22) for way in ways}
    print(arrays)
    assert arrays["compile"] < arrays["checkpoint"] < arrays["eager"]
    assert arrays["compile-saved"] >= 1 + saved_arrays("compile-saved", 16)
