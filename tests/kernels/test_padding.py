"""`padded_matmul`: when it pads, the copy's kernel run as C++, products and gradients through it, what it refuses."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hosted import hosted, needs_gxx

from brrr.core.errors import ArgumentError
from brrr.core.files import PACKAGE
from brrr.core.measurement import Estimate, Measurement
from brrr.counting.cost import Matmul
from brrr.kernels import padding
from brrr.kernels.padding import THREADS, padded_matmul, paddings
from brrr.roofline.gemm_families import Products
from brrr.roofline.shapes import LAYOUTS

SHORT = (torch.bfloat16, torch.float16)
ODD_SHAPES = [(1, 1), (1, 7), (7, 1), (3, 8), (5, 9), (16, 15), (33, 257), (64, 64), (2, 2051)]


# --- when it pads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["h200", "NVIDIA H200", "datasheet:a100", "a GPU that nobody knows"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_odd_rows_are_padded_to_whole_16_bytes(layout: tuple[bool, bool], dtype: str, device: str) -> None:
    plain, least, *wider = paddings(2049, 2051, 1025, dtype, layout, device)
    assert plain == (2049, 2051, 1025), "torch.mm itself is tried, too"
    m, k, n = least
    assert m == (2056 if layout[0] else 2049), "a that lies row by row needs no more rows"
    assert k == (2051 if layout == (True, False) else 2056), "there neither matrix lies along k"
    assert n == 1032 and wider == [(m, k, each) for each in (1040, 1056, 1088, 1152)]
    for m, k, n in (least, *wider):
        assert Products.of([Matmul(m, n, k, dtype=dtype, transposed=layout)]).alignment == 16


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "k", "n", "dtype", "device"), [
    (2048, 2048, 1024, "bfloat16", "h200"), (2048, 2048, 1032, "float16", "h200"),  # they begin at 16 bytes
    *((2049, 2051, 1025, dtype, "h200") for dtype in ("float64", "complex64", "int32")),
    *((*sizes, "bfloat16", "h200") for sizes in ((0, 9, 9), (9, 0, 9), (9, 9, 0))),
    *((2048, 2048, 1025, dtype, "gtx-1070") for dtype in ("bfloat16", "float16", "float32")),  # no tensor cores
])  # fmt: skip
def test_what_is_left_to_torch(m: int, k: int, n: int, dtype: str, device: str, layout: tuple[bool, bool]) -> None:
    assert paddings(m, k, n, dtype, layout, device) == ((m, k, n),)


def test_few_columns_are_not_made_many() -> None:
    assert [n for *_, n in paddings(4096, 4096, 57, "bfloat16", (False, False), "h200")] == [57, 64]
    assert [n for *_, n in paddings(4096, 4096, 65, "bfloat16", (False, False), "h200")] == [65, 72, 80]


def test_it_pads_only_where_that_is_predicted_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paddings(33, 33, 1, "bfloat16", (False, False), "h200") == ((33, 33, 1),)
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(padding, "copy_s", lambda count, dtype, device: asked.append((count, dtype)) or 0.125)
    monkeypatch.setattr(padding, "product_time_s", lambda p, device: 0.7 if p.n % 8 == 0 else 1.0)
    assert paddings(16, 8, 9, "float16", (False, False), "made up 1")[1:] == ((16, 8, 16),)
    assert asked == [(8 * 16, "float16")], "only b grows, and the copy writes all of it"
    asked.clear()
    assert paddings(16, 9, 9, "float16", (False, False), "made up 1")[1:] == (), "two copies: 0.95 of the time without"
    assert asked == [(16 * 16, "float16"), (16 * 16, "float16")]


# --- padding.cu -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The very source that the GPU gets, compiled for the CPU."""
    library = tmp_path_factory.mktemp("padding") / "padding.so"
    return hosted("padding_host.cpp", library, f'-DSOURCE="{PACKAGE / "kernels/padding.cu"}"')


def launched(host: ctypes.CDLL) -> Callable[..., None]:
    """What `kernel("kernels/padding.cu", "brrr_pad")` gives, on the CPU: all threads in turn."""

    def launch(grid: tuple[int, int, int], block: tuple[int, int, int], *args: tuple[int, Any]) -> None:
        assert grid[1:] == block[1:] == (1, 1) and block[0] % 32 == 0
        host.run_pad(*(kind(value) for value, kind in args), grid[0], block[0])

    return launch


class OnGpu(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = property(lambda self: True)  # type: ignore[assignment]


@pytest.fixture
def gpu(host: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An H200, played: the copy's kernel runs on the CPU; the list tells which kernels were asked for."""
    asked: list[str] = []

    def kernel(path: str, name: str, index: int | None) -> Callable[..., None]:
        asked.append(f"{path} {name}")
        return launched(host)

    monkeypatch.setattr("brrr.gpu.nvrtc.kernel", kernel)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "h200")
    monkeypatch.setattr(padding, "_CHOSEN", {})
    monkeypatch.setattr(padding, "_TORCHS", set())
    monkeypatch.setattr(padding, "SHORT", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(padding, "_fastest", lambda a, b, ways: ways[min(1, len(ways) - 1)])
    return asked


def on_gpu(rows: int, columns: int, dtype: torch.dtype, *, transposed: bool = False) -> torch.Tensor:
    shape = (columns, rows) if transposed else (rows, columns)
    made = torch.randn(*shape).to(dtype)
    return (made.t() if transposed else made).as_subclass(OnGpu)


@needs_gxx
@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("shape", ODD_SHAPES)
def test_the_copy_is_exact_with_zeros_behind_and_writes_nowhere_else(
    host: ctypes.CDLL, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    rows, columns = shape
    for more_rows, wide, pitch in ((0, 8, columns), (3, 8, columns), (8, 24, columns + 5)):
        padded_rows, padded_columns = rows + more_rows, -(-columns // 8) * 8 + wide - 8
        source = torch.full((rows * pitch + 8,), 9.0, dtype=dtype)  # what lies between rows and behind must not come
        matrix = source[: rows * pitch].view(rows, pitch)[:, :columns]
        matrix.copy_(torch.randn(rows, columns))
        guarded = torch.full((16 + padded_rows * padded_columns,), 7.0, dtype=dtype)
        out = guarded[8:-8].view(padded_rows, padded_columns)
        assert out.data_ptr() % 16 == 0
        vectors = padded_columns // 8
        host.run_pad(
            ctypes.c_void_p(matrix.data_ptr()), ctypes.c_void_p(out.data_ptr()),
            *map(ctypes.c_longlong, (rows, columns, pitch, padded_rows, vectors)),
            -(-padded_rows * vectors // THREADS), THREADS,
        )  # fmt: skip
        assert torch.equal(out[:rows, :columns], matrix)
        assert not out[rows:].any() and not out[:, columns:].any()
        assert (guarded[:8] == 7).all() and (guarded[-8:] == 7).all(), "it wrote beyond the copy"


# --- the copy and the product -----------------------------------------------------------------------------------------


@needs_gxx
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", SHORT)
def test_a_grown_copy_lies_as_the_matrix_does(gpu: list[str], dtype: torch.dtype, transposed: bool) -> None:
    matrix = on_gpu(5, 9, dtype, transposed=transposed)
    rows, columns = (8, 9) if transposed else (5, 16)  # what lies together is whole 16 bytes
    made = padding._grown(matrix, rows, columns)
    assert tuple(made.shape) == (rows, columns) and padding._transposed(made) == transposed
    assert torch.equal(made[:5, :9], matrix) and made.count_nonzero() == matrix.count_nonzero()
    assert gpu == ["kernels/padding.cu brrr_pad"]
    assert padding._grown(matrix, 5, 9) is matrix, "nothing to grow, nothing to copy"


@needs_gxx
def test_a_part_of_a_wider_matrix_is_copied_by_its_own_rows(gpu: list[str]) -> None:
    wide = on_gpu(6, 40, torch.bfloat16)
    part = wide[1:5, 3:12]
    made = padding._grown(part, 4, 16)
    assert gpu and torch.equal(made[:, :9], part) and not made[:, 9:].any()


@pytest.mark.parametrize(
    "matrix",
    [torch.randn(5, 9), torch.randn(5, 9).bfloat16(), torch.randn(5, 9).as_subclass(OnGpu),
     torch.randn(5, 18).bfloat16()[:, ::2].as_subclass(OnGpu),
     torch.randn(5, 9, requires_grad=True).half().as_subclass(OnGpu)],
    ids=["float32", "on a CPU", "four bytes", "every other number", "with a gradient"],
)  # fmt: skip
def test_what_the_kernel_cannot_copy_torch_pads(monkeypatch: pytest.MonkeyPatch, matrix: torch.Tensor) -> None:
    monkeypatch.setattr("brrr.gpu.nvrtc.kernel", None)  # to call it would raise
    made = padding._grown(matrix, 8, 16)
    assert torch.equal(made[:5, :9], matrix) and not made[5:].any() and not made[:, 9:].any()
    assert made.requires_grad == matrix.requires_grad


@needs_gxx
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("shape", [(9, 5, 7), (1, 33, 17), (16, 9, 24), (13, 1, 3)])
def test_a_padded_product_is_the_product(
    gpu: list[str], dtype: torch.dtype, shape: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    m, k, n = shape
    a, b = on_gpu(m, k, dtype, transposed=layout[0]), on_gpu(k, n, dtype, transposed=layout[1])
    exact = (a.double() @ b.double()).to(dtype).as_subclass(torch.Tensor)
    up = [-(-size // 8) * 8 for size in shape]
    for wider in (0, 8, 24):
        found = padding._padded(a, b, (up[0], up[1], up[2] + wider))
        torch.testing.assert_close(found.as_subclass(torch.Tensor), exact, rtol=2e-2, atol=2e-2)
        assert found.stride() == (up[2] + wider, 1), "a view of the padded result"
    assert torch.equal(padding._padded(a, b, shape), torch.mm(a, b))


@needs_gxx
def test_a_shapes_first_call_tries_and_later_ones_take_the_fastest(
    gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[Any, ...]] = []

    def fastest(a: torch.Tensor, b: torch.Tensor, ways: tuple[Any, ...]) -> Any:
        tried.append(ways)
        assert not a.requires_grad and not b.requires_grad, "trying must not keep anything for a gradient"
        return ways[-1]

    monkeypatch.setattr(padding, "_fastest", fastest)
    a, b = on_gpu(256, 320, torch.bfloat16), on_gpu(320, 1025, torch.bfloat16)
    monkeypatch.setattr(padding, "product_time_s", lambda p, device: 1.0 if Products.of([p]).alignment == 16 else 9.0)
    paddings.cache_clear()
    found = [padded_matmul(a, b) for _ in range(3)]
    assert tried == [((256, 320, 1025), *((256, 320, n) for n in (1032, 1040, 1056, 1088, 1152)))]
    assert all(each.stride() == (1152, 1) and tuple(each.shape) == (256, 1025) for each in found)
    assert len(gpu) == 3, "x is copied in each call"
    padded_matmul(a, b.t().contiguous().t())
    padded_matmul(a.half(), b.half())
    assert len(tried) == 3, "another layout and another type are tried for themselves"
    paddings.cache_clear()


@needs_gxx
def test_inside_a_capture_nothing_is_tried(gpu: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(padding, "paddings", lambda *_: ((4, 8, 9), (4, 8, 16), (4, 8, 32)))
    monkeypatch.setattr(padding, "_fastest", None)  # to call it would raise
    a, b = on_gpu(4, 8, torch.bfloat16), on_gpu(8, 9, torch.bfloat16)
    assert padded_matmul(a, b).stride() == (16, 1) and padding._CHOSEN == {}


@pytest.mark.parametrize(("loop_s", "waiting_s", "wide"), [
    ((3.0, 1.0, 2.0), (3.0, 1.0, 2.0), 16), ((0.5, 1.0, 2.0), (0.5, 1.0, 2.0), 9),
    ((3.0, 4.0, 3.5), (9.0, 1.0, 2.0), 9),  # the GPU would gain, the host's launches take longer
    ((3.0, 1.0, 2.0), (3.0, 4.0, 2.5), 32),  # no caller is slower than with torch.mm itself
])  # fmt: skip
def test_what_gains_in_a_loop_and_for_who_waits_is_taken(
    loop_s: Sequence[float], waiting_s: Sequence[float], wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = torch.randn(4, 8), torch.randn(8, 9)
    ways = ((4, 8, 9), (4, 8, 16), (4, 8, 32))

    def measured(functions: Sequence[Callable[[], torch.Tensor]], *, budget_s: float) -> list[Measurement]:
        assert [each().stride(0) for each in functions] == [9, 16, 32]
        times = zip(loop_s, waiting_s, strict=True)
        return [Measurement(period_s=Estimate(p, p, p, 9), latency_s=Estimate(w, w, w, 9)) for p, w in times]

    monkeypatch.setattr("brrr.timing.measure_together", measured)
    assert padding._fastest(a, b, ways) == (4, 8, wide)
    assert padding._fastest(a, b, ways[1:2]) == (4, 8, 16), "nothing is to be tried"


@pytest.mark.parametrize(
    "shapes", [((64, 1000), (1000, 4001)), ((4001, 1000), (1000, 64)), ((2048, 2064), (2064, 1024))]
)
def test_few_elements_and_whole_rows_are_torchs_at_once(shapes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (on_gpu(*shape, torch.bfloat16) for shape in shapes)
    monkeypatch.setattr(padding, "paddings", None)  # to call it would raise
    assert torch.equal(padded_matmul(a, b), torch.mm(a, b))
    with pytest.raises(ArgumentError):
        padded_matmul(a, b[1:])


@needs_gxx
def test_gradients_pass_through_the_padding(gpu: list[str]) -> None:
    a, b = (torch.randn(*shape).half().requires_grad_() for shape in ((2049, 251), (251, 1025)))
    found = padding._padded(a.as_subclass(OnGpu), b.as_subclass(OnGpu), (2049, 256, 1032))
    assert gpu == [], "torch's own padding, which knows its gradient"
    dy = torch.randn(2049, 1025).half()
    found.backward(dy)
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(a.grad.float(), dy.float() @ b.detach().float().t(), rtol=1e-2, atol=0.2)
    torch.testing.assert_close(b.grad.float(), a.detach().float().t() @ dy.float(), rtol=1e-2, atol=0.2)
    with torch.no_grad():
        padding._padded(a.as_subclass(OnGpu), b.as_subclass(OnGpu), (2049, 256, 1032))
    assert len(gpu) == 2, "where none is wanted the kernel copies"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_on_a_cpu_it_is_torchs_product(dtype: torch.dtype) -> None:
    for m, k, n in ((1, 1, 1), (5, 7, 9), (0, 3, 2), (4, 0, 3)):
        a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype).t()
        assert torch.equal(padded_matmul(a, b), torch.mm(a, b))


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (torch.ones(3), torch.ones(3, 2), r"a, b is '\(3,\) and \(3, 2\)'; expected matrices \(M, K\) and \(K, N\)"),
        (torch.ones(2, 3), torch.ones(4, 2), r"\(2, 3\) and \(4, 2\)"),
        (torch.ones(2, 3), torch.ones(3, 2).half(), r"torch.float32 on cpu and torch.float16 on cpu.*one type on one"),
        (torch.ones(300, 301), torch.ones(301, 302, device="meta"), "on cpu and torch.float32 on meta"),
    ],
)
def test_what_is_no_product_is_refused(a: torch.Tensor, b: torch.Tensor, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        padded_matmul(a, b)
