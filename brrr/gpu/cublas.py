"""Products by cuBLAS itself, through nvmath-python's bindings: a layer's `out = x @ w.T`, or many at a time.

>>> product = blas_on(0, 0).product(x, w, out)    # doctest: +SKIP
>>> product()                                    # doctest: +SKIP

cuBLAS thinks in columns. A row-major (rows, columns) matrix is, byte for byte, the column-major (columns, rows) one:
its transpose. So cuBLAS is asked for out^T (n, m) = w (n, k) x^T (k, m). Of these, x^T and out^T are what x and out
already look like to it, and w, which looks like w^T, is the one operand that it is told to transpose.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.heavy import torch

WORKSPACE_BYTES = 32 * 2**20
"""What cuBLAS recommends on Hopper; older GPUs ask for 4 MiB (cuBLAS Library, "cublasSetWorkspace")."""

DATA_TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}
"""cudaDataType_t: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF."""


class Blas:
    """A cuBLAS handle on one stream, with a workspace of its own, so that its products can be captured in a graph.

    workspace_bytes: with 0 it uses only kernels that need none, and so makes other choices.
    """

    def __init__(self, device_index: int, stream: int, workspace_bytes: int = WORKSPACE_BYTES) -> None:
        self._cublas, self.device_index, self.stream = bindings(), device_index, stream
        self._beside: dict[Any, Any] = {}
        room = max(workspace_bytes, 1)  # an address in any case: none stands for the library's own workspace
        self._workspace = torch.empty(room, dtype=torch.uint8, device=f"cuda:{device_index}")
        self._scales = ctypes.c_float(1.0), ctypes.c_float(0.0)
        with torch.cuda.device(device_index):
            self._handle = self._cublas.create()
        try:  # in this order: setting the stream gives the handle its default workspace back
            self._cublas.set_stream(self._handle, stream)
            self._cublas.set_workspace(self._handle, self._workspace.data_ptr(), workspace_bytes)
        except BaseException:
            self.close()
            raise

    def product(self, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, *, tf32: bool = False) -> Callable[[], None]:
        """A function of no arguments that issues `out = x @ w.T`; it must not outlive the tensors.

        x: (m, k), w: (n, k), out: (m, n): float32, float16 or bfloat16, contiguous, on the handle's GPU; sums are
        float32. tf32: float32 products by the matrix units, in TF32. ArgumentError for any others.
        """
        check_product(x, w, out, self.device_index)
        (m, k), n = x.shape, w.shape[0]
        if not out.numel():
            return _nothing
        if not k:  # an empty sum; and cuBLAS refuses a leading dimension of 0
            return partial(_zero, out)
        transpose, as_is = int(self._cublas.Operation.T), int(self._cublas.Operation.N)
        one, zero = (ctypes.addressof(scale) for scale in self._scales)
        a, b, c = w.data_ptr(), x.data_ptr(), out.data_ptr()
        start = (self._handle, transpose, as_is, n, m, k, one)
        kind = str(x.dtype).removeprefix("torch.")
        if kind == "float32" and not tf32:  # true float32: the handle's math mode is the default one
            return partial(self._cublas.sgemm, *start, a, k, b, k, zero, c, n)
        code, types = DATA_TYPES[kind], self._cublas.ComputeType
        how = int(types.COMPUTE_32F_FAST_TF32 if tf32 else types.COMPUTE_32F)
        algorithm = int(self._cublas.GemmAlgo.DEFAULT)
        return partial(self._cublas.gemm_ex, *start, a, code, k, b, code, k, zero, c, code, n, how, algorithm)

    def batched_product(
        self, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool, tf32: bool = False
    ) -> Callable[[], None]:
        """A function of no arguments that issues `out[p] = left[p] @ right[p]`; it must not outlive the tensors.

        left: (p, m, k), right: (p, k, n), or (p, n, k) where right_transposed; out: (p, m, n); contiguous, on the
        handle's GPU. All float32, or left and right both float16 or bfloat16 and out the same or float32; sums are
        float32. `brrr.strassen.block_products` checks them; here only the GPU is. tf32: as for `product`.
        """
        if left.device.type != "cuda" or left.device.index != self.device_index:
            raise ArgumentError("batched_product", "left", str(left.device), f"a tensor on cuda:{self.device_index}")
        (products, m, k), n = left.shape, out.shape[2]
        if not out.numel():
            return _nothing
        if not k:
            return partial(_zero, out)
        transpose, as_is = int(self._cublas.Operation.T), int(self._cublas.Operation.N)
        one, zero = (ctypes.addressof(scale) for scale in self._scales)
        start = (self._handle, transpose if right_transposed else as_is, as_is, n, m, k, one)
        kind, into = (str(each.dtype).removeprefix("torch.") for each in (left, out))
        a, a_row = right.data_ptr(), k if right_transposed else n
        b, c = left.data_ptr(), out.data_ptr()
        if kind == "float32" and not tf32:
            call = self._cublas.sgemm_strided_batched
            return partial(call, *start, a, a_row, n * k, b, k, m * k, zero, c, n, m * n, products)
        code, types = DATA_TYPES[kind], self._cublas.ComputeType
        how = int(types.COMPUTE_32F_FAST_TF32 if tf32 else types.COMPUTE_32F)
        algorithm = int(self._cublas.GemmAlgo.DEFAULT)
        operands = (a, code, a_row, n * k, b, code, k, m * k, zero, c, DATA_TYPES[into], n, m * n)
        return partial(self._cublas.gemm_strided_batched_ex, *start, *operands, products, how, algorithm)

    @property
    def workspace_address(self) -> int:
        """Where its workspace begins, of WORKSPACE_BYTES."""
        return self._workspace.data_ptr()

    def beside(self, make: Callable[[Blas], Any]) -> Any:
        """What `make` makes of this handle, once, and closes with it: another library's handle for the same stream."""
        if make not in self._beside:
            self._beside[make] = make(self)
        return self._beside[make]

    def close(self) -> None:
        """Give the handle back; no product of it may be used afterwards."""
        while self._beside:
            self._beside.popitem()[1].close()
        if self._handle:
            handle, self._handle = self._handle, 0
            self._cublas.destroy(handle)


_KEPT: dict[tuple[int, int], Blas] = {}


def blas_on(device_index: int, stream: int) -> Blas:
    """The handle of a GPU and of a stream (as torch's `cuda_stream`), made once and kept to the end of the process.

    Making one takes milliseconds. UnavailableError without nvmath-python or cuBLAS.
    """
    key = device_index, stream
    if key not in _KEPT:
        _KEPT[key] = Blas(device_index, stream)
        atexit.unregister(release)
        atexit.register(release)
    return _KEPT[key]


def release() -> None:
    """Close all kept handles."""
    while _KEPT:
        _, blas = _KEPT.popitem()
        blas.close()


def bindings() -> Any:
    """nvmath-python's bindings of cuBLAS; UnavailableError, with the reason, where they cannot be loaded."""
    try:
        from nvmath.bindings import cublas
    except ImportError as error:
        raise UnavailableError(
            f"cuBLAS cannot be called directly: nvmath-python is not here ({error}); only its lines are missing. "
            '`pip install "nvmath-python[cu13]"` adds it'
        ) from None
    except Exception as error:  # a library that it loads is missing or too old
        reason = f"{type(error).__name__}: {error}"
        raise UnavailableError(f"cuBLAS cannot be called directly ({reason}); only its lines are missing") from None
    return cublas


def check_product(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, device_index: int) -> None:
    """ArgumentError for tensors that cannot be multiplied: cuBLAS sees addresses and sizes, and nothing else."""
    for name, tensor in (("x", x), ("w", w), ("out", out)):
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind not in DATA_TYPES or tensor.dtype != x.dtype or tensor.ndim != 2:
            expected = "a matrix of float32, float16 or bfloat16, all three the same"
            raise ArgumentError("product", name, f"{tensor.dtype} {tuple(tensor.shape)}", expected)
        if not tensor.is_contiguous():
            raise ArgumentError("product", name, f"strides {tensor.stride()}", "contiguous", "Use .contiguous()")
        if tensor.device.type != "cuda" or tensor.device.index != device_index:
            raise ArgumentError("product", name, str(tensor.device), f"a tensor on cuda:{device_index}")
    if w.shape[1] != x.shape[1]:
        raise ArgumentError("product", "w", tuple(w.shape), f"shape (n, {x.shape[1]}), as wide as x")
    if out.shape != (x.shape[0], w.shape[0]):
        raise ArgumentError("product", "out", tuple(out.shape), f"shape {(x.shape[0], w.shape[0])}")
    if out.data_ptr() in (x.data_ptr(), w.data_ptr()) and out.numel():
        raise ArgumentError("product", "out", "the memory of x or w", "another tensor")


def _nothing() -> None:
    """An empty product."""


def _zero(out: torch.Tensor) -> None:
    out.zero_()
