"""The same product by cuBLASLt, and the fastest of what both libraries offer for a shape, found by trying.

>>> product = fastest_product(blas_on(0, 0), x, w, out)    # doctest: +SKIP
>>> product()                                             # doctest: +SKIP

cuBLAS chooses among its kernels by a rule of its own, which for few rows can be several times off the best, and chooses
others where it has no workspace; cuBLASLt names its candidates, in the order in which it would choose. Here each is
timed once for a shape.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.heavy import torch
from brrr.gpu.cublas import DATA_TYPES, WORKSPACE_BYTES, Blas, bindings
from brrr.gpu.launching import fastest

CANDIDATES, TRIES, LAUNCHES, HEAD_START_CYCLES = 8, 3, 24, 1_000_000
"""What cuBLASLt is asked for, with its workspace and once more without; how often each is timed, by so many launches in
a row, behind a wait of so many cycles in which the host issues them."""

HOPELESS = 1.5
"""A candidate that takes so many times the best one's time at the first try gets no other."""

LEAST_GAIN = 0.97
"""A candidate that is not faster by that much is no reason to leave the first."""

ALIGNMENT = 256
"""Bytes that cuBLASLt assumes to divide every address, where it is not told otherwise."""

MAX_WORKSPACE, TRANSPOSE_A = 1, 3
"""CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_DESC_TRANSA."""

Key = tuple[int, int, int, int, str, bool]
Algorithm = Any


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t; the first field is cublasLtMatmulAlgo_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Lt:
    """A cuBLASLt handle beside a handle of cuBLAS, on its stream and with its workspace."""

    def __init__(self, blas: Blas) -> None:
        self._lt, self._types, self.blas = lt_bindings(), bindings().ComputeType, blas
        try:
            self._handle = self._lt.create()
        except Exception as error:  # nothing is given to it: it is the library that cannot be loaded, or has no room
            raise UnavailableError(f"cuBLASLt makes no handle ({type(error).__name__}: {error})") from error
        self._described: dict[Key, tuple[int, ...]] = {}
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def product(self, key: Key, algorithm: Algorithm, x: int, w: int, out: int) -> Callable[[], None]:
        """A function of no arguments that issues the product of matrices at three addresses."""
        desc, weights, rows, result = self._describe(key)
        one, zero = ctypes.addressof(self._one), ctypes.addressof(self._zero)
        operands = (desc, one, w, weights, x, rows, zero, out, result, out, result)
        room = (self.blas.workspace_address, WORKSPACE_BYTES)
        call = partial(self._lt.matmul, self._handle, *operands, ctypes.addressof(algorithm), *room, self.blas.stream)
        return Keeping(call, algorithm)

    def candidates(self, key: Key) -> list[Algorithm]:
        """What cuBLASLt offers for a shape, its own choice first, each once; none where it has nothing.

        Kernels that need no workspace may come too late in its order to be named; so they are asked for by themselves.
        """
        offered = self._offered(key, WORKSPACE_BYTES) + self._offered(key, 0)
        return list({tuple(each): each for each in offered}.values())

    def _offered(self, key: Key, workspace_bytes: int) -> list[Algorithm]:
        desc, weights, rows, result = self._describe(key)
        found, count, most = (Heuristic * CANDIDATES)(), ctypes.c_int(0), ctypes.c_size_t(workspace_bytes)
        preference = self._lt.matmul_preference_create()
        try:
            self._lt.matmul_preference_set_attribute(preference, MAX_WORKSPACE, ctypes.addressof(most), 8)
            asked = (desc, weights, rows, result, result, preference, CANDIDATES)
            answer = (ctypes.addressof(found), ctypes.addressof(count))
            self._lt.matmul_algo_get_heuristic(self._handle, *asked, *answer)
        finally:
            self._lt.matmul_preference_destroy(preference)
        return [type(each.algorithm)(*each.algorithm) for each in found[: count.value] if each.status == 0]

    def _describe(self, key: Key) -> tuple[int, ...]:
        """The operation, w, x^T and out^T as cuBLASLt's descriptions: columns, as `cublas` explains. Made once."""
        if key not in self._described:
            _, m, n, k, kind, tf32 = key
            code, how = DATA_TYPES[kind], self._types.COMPUTE_32F_FAST_TF32 if tf32 else self._types.COMPUTE_32F
            desc, transposed = self._lt.matmul_desc_create(int(how), DATA_TYPES["float32"]), ctypes.c_int32(1)
            self._lt.matmul_desc_set_attribute(desc, TRANSPOSE_A, ctypes.addressof(transposed), 4)
            layouts = (self._lt.matrix_layout_create(code, *size) for size in ((k, n, k), (k, m, k), (n, m, n)))
            self._described[key] = (desc, *layouts)
        return self._described[key]

    def close(self) -> None:
        """Give everything back; no product of it may be used afterwards."""
        while self._described:
            _, (desc, *layouts) = self._described.popitem()
            self._lt.matmul_desc_destroy(desc)
            for layout in layouts:
                self._lt.matrix_layout_destroy(layout)
        if self._handle:
            handle, self._handle = self._handle, 0
            self._lt.destroy(handle)


class Keeping:
    """A call that keeps alive what it knows by address."""

    def __init__(self, call: Callable[[], None], *kept: object) -> None:
        self._call, self._kept = call, kept

    def __call__(self) -> None:
        self._call()


Operands = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]
"""x, w and out."""

Preparation = Callable[[Blas, Key, Operands], Callable[[], None]]
"""Prepares one of the calls that make a product: of a handle, a shape and its matrices."""

_CHOSEN: dict[tuple[Key, int], Preparation] = {}


def fastest_product(
    blas: Blas, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, *, tf32: bool = False,
    among: Sequence[torch.Tensor] = (),
) -> Callable[[], None]:  # fmt: skip
    """As `Blas.product`, by the fastest of cuBLAS's choice, with and without a workspace, and cuBLASLt's candidates.

    among: all the weights of this shape that take turns in what the product is for (w itself where none are given):
    with them it is tried, as they may lie in L2 or not. The first call for a shape and a number of them launches each
    candidate a few dozen times, into `out`; while a graph is captured, or for an empty product or an address that 256
    does not divide, it is `Blas.product`.
    """
    plain = blas.product(x, w, out, tf32=tf32)
    (m, k), n = x.shape, w.shape[0]
    key: Key = (blas.device_index, m, n, k, str(x.dtype).removeprefix("torch."), tf32)
    turns = tuple(among) or (w,)
    chosen = key, len(turns)
    misplaced = any(each.data_ptr() % ALIGNMENT for each in (x, out, w, *turns))
    if not m * n * k or misplaced or (chosen not in _CHOSEN and capturing()):
        return plain
    if chosen not in _CHOSEN:
        _CHOSEN[chosen] = _fastest(blas, key, [(x, each, out) for each in turns])
    return _CHOSEN[chosen](blas, key, (x, w, out))


def as_chosen_by_cublas(blas: Blas, key: Key, operands: Operands) -> Callable[[], None]:
    """By cuBLAS's own choice."""
    return blas.product(*operands, tf32=key[-1])


def without_workspace(blas: Blas, key: Key, operands: Operands) -> Callable[[], None]:
    """By cuBLAS's own choice among kernels that need no workspace."""
    return blas.beside(_bare).product(*operands, tf32=key[-1])  # type: ignore[no-any-return]


def _bare(blas: Blas) -> Blas:
    return Blas(blas.device_index, blas.stream, workspace_bytes=0)


def by_lt(algorithm: Algorithm, blas: Blas, key: Key, operands: Operands) -> Callable[[], None]:
    """By one of cuBLASLt's candidates."""
    return blas.beside(Lt).product(key, algorithm, *(each.data_ptr() for each in operands))  # type: ignore[no-any-return]


def _fastest(blas: Blas, key: Key, turns: list[Operands]) -> Preparation:
    """The best of all, or cuBLAS's own choice where that is as good."""

    def taken(way: Preparation, least: float) -> float:
        calls = cycle([way(blas, key, each) for each in turns])
        return seconds(lambda: next(calls)(), blas.stream, blas.device_index, HOPELESS * least)

    ways: list[Preparation] = [as_chosen_by_cublas, without_workspace]
    with suppress(*refusals()):  # no library, or nothing for this shape
        ways += [partial(by_lt, algorithm) for algorithm in blas.beside(Lt).candidates(key)]
    return fastest(ways, taken, LEAST_GAIN, refusals()) or as_chosen_by_cublas


def refusals() -> tuple[type[Exception], ...]:
    """What says that a library has no such kernel, or is not here; any other error is a mistake of this package's.

    nvmath-python has an error type for each library, `cuBLASError` and `cuBLASLtError`, for every status but success.
    """
    found: list[type[Exception]] = [UnavailableError]
    for library, name in ((bindings, "cuBLASError"), (lt_bindings, "cuBLASLtError")):
        with suppress(UnavailableError):
            found.append(getattr(library(), name))
    return tuple(found)


def seconds(run: Callable[[], None], stream: int, device_index: int, limit: float = math.inf) -> float:
    """The device's time for a launch, of many in a row on a stream; the median of a few tries.

    limit: beyond it the first try is enough.
    """
    device = torch.device("cuda", device_index)
    queue = torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
    with torch.cuda.device(device), torch.cuda.stream(queue):
        run()
        first = _once(run, queue)
        return first if first > limit else median([first, *(_once(run, queue) for _ in range(TRIES - 1))])


def _once(run: Callable[[], None], queue: Any) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(HEAD_START_CYCLES)
    begin.record(queue)
    for _ in range(LAUNCHES):
        run()
    end.record(queue)
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3 / LAUNCHES


def capturing() -> bool:
    """Whether a CUDA Graph is being captured, when nothing may be timed."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def lt_bindings() -> Any:
    """nvmath-python's bindings of cuBLASLt; UnavailableError where they cannot be loaded."""
    bindings()  # says what is missing where nvmath-python is not here at all
    try:
        from nvmath.bindings import cublasLt
    except Exception as error:  # a version without it, or a library that it loads is missing
        raise UnavailableError(f"cuBLASLt cannot be called directly ({type(error).__name__}: {error})") from None
    return cublasLt
