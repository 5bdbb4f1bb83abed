"""What the works of several experiments share: room for them, checks in float64, compilation."""

from __future__ import annotations

import gc
import logging
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

from brrr.core import units
from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr.core.private import keep_compiled_code_private
from brrr.gpu import free_bytes, is_cuda, is_gpu, synchronize
from brrr_course.experiments.lazily import name_of, torch
from brrr_course.nouns.experiment import Function, Run, Variant, Workload, accelerator


class PointInputs:
    """What the variants of a point share: made for the first of them, and kept as long as one of them holds it."""

    _alive: ClassVar[WeakValueDictionary[tuple[Any, ...], Any]] = WeakValueDictionary()

    @classmethod
    def of(cls, *key: Any) -> Self:
        """What another variant of the point holds, or made anew."""
        make: Callable[..., Self] = cls
        found: Self | None = cls._alive.get((cls, *key))
        if found is None:
            if cls._alive:  # the last point's workloads, where they are in cycles, hold gigabytes of pinned memory
                gc.collect()
            found = cls._alive[cls, *key] = make(*key)
        return found


def must_fit(nbytes: int, device: str, what: str, checked: int = 0, wide: int = 4) -> None:
    """DeviceMemoryError before anything is allocated, with what is needed and what is free.

    checked: how many numbers `error_against` will look at, for which it takes `wide` float64 arrays of a part of them.
    """
    needed = nbytes + 8 * wide * min(checked, CHUNK)
    free = needed if is_cuda(device) and not torch.cuda.is_initialized() else free_bytes(device)
    if needed > free:
        raise DeviceMemoryError(
            f"{what} needs {units.nbytes(needed)} and {units.nbytes(free)} is free on the "
            f"{'GPU' if is_gpu(device) else 'CPU'}; choose a smaller size"
        )


def drawn_on(device: str) -> str:
    """Where random numbers for a device are drawn fast: on the GPU, for a CPU too where CUDA is in use already."""
    return accelerator() if is_gpu(device) or torch.cuda.is_initialized() else "cpu"


# ---- operators one by one, and fused ----

CHUNK = 2**22
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}
"""float32 stays far below, TF32 (3e-4) would be found out; operators one by one round a bfloat16 at each step."""

BLOCK = 2**15
"""Elements of a block on the CPU, for each of its threads: they stay in a core's cache from operator to operator."""

RECOMPILE_LIMIT = 256
"""The widths are compiled one by one; torch gives up, and runs eager without a word, after eight."""


def error_against(
    function: Function, along: Sequence[torch.Tensor], whole: Sequence[Any] = (), results: int = 1
) -> Callable[[Any], float]:
    """The worst ||y - reference|| / ||reference|| of the results; NaN for another number, shape or type of them.

    >>> x = torch.ones(3)
    >>> error_against(torch.relu, (x,))(x), error_against(torch.relu, (x,))((x, x))
    (0.0, nan)

    The reference is `function` in float64 on parts: of the tensors `along`, cut in their first dimension, and `whole`.
    """
    first = along[0]
    step = max(1, CHUNK // max(1, first[:1].numel()))
    wide = tuple(each.double() if isinstance(each, torch.Tensor) else each for each in whole)

    def error(found: Any) -> float:
        given = found if isinstance(found, tuple) else (found,)
        if len(given) != results or any(not _like(each, first) for each in given):
            return math.nan
        wrong, right = [0.0] * results, [0.0] * results
        with torch.no_grad():
            for start in range(0, len(first), step):
                part = slice(start, start + step)
                expected = function(*(each[part].double() for each in along), *wide)
                for place, each in enumerate(expected if isinstance(expected, tuple) else (expected,)):
                    wrong[place] += float((given[place][part].double() - each).square().sum())
                    right[place] += float(each.square().sum())
        return worst(
            math.sqrt(w / r) if r else (math.nan if w != 0 else 0.0) for w, r in zip(wrong, right, strict=True)
        )

    return error


def sampled_error(function: Function, x: torch.Tensor, most: int) -> Callable[[Any], float]:
    """`error_against` on a sample of an array: both ends are in it, so that a kernel which stops early is found out."""
    places = sampled(x.numel(), most).to(x.device)
    inner = error_against(function, (x[places],))
    return lambda found: inner(found[places]) if _like(found, x) else math.nan


def sampled(count: int, most: int) -> torch.Tensor:
    """The places that are checked: all up to `most`, else the two ends and a random place in each of `most` parts.

    >>> sampled(3, 9).tolist()
    [0, 1, 2]
    """
    if count <= most:
        return torch.arange(count)
    inside = torch.arange(most) * (count // most) + torch.randint(count // most, (most,))
    return torch.cat([torch.tensor([0]), inside, torch.tensor([count - 1])])


def _like(found: Any, first: torch.Tensor) -> bool:
    return isinstance(found, torch.Tensor) and found.shape == first.shape and found.dtype == first.dtype


def worst(errors: Iterable[float]) -> float:
    """The largest; NaN where one is.

    >>> worst([0.0, 0.5]), worst([0.0, math.nan])
    (0.5, nan)
    """
    listed = [*errors]
    return math.nan if any(map(math.isnan, listed)) else max(listed)


def relative(found: Any, expected: torch.Tensor, dtype: torch.dtype) -> float:
    """||found - expected|| / ||expected||; NaN where the shape or the type is another.

    >>> relative(torch.zeros(2), torch.ones(2).double(), torch.float32)
    1.0
    """
    if not isinstance(found, torch.Tensor) or found.shape != expected.shape or found.dtype != dtype:
        return math.nan
    return float((found.double() - expected).norm() / expected.norm())


def compiled(function: Function, **options: Any) -> Function:
    """The function under torch.compile, for one size unless `dynamic`; its code, where torch keeps results, is copied.

    >>> compiled(torch.nn.functional.silu) is not None
    True
    """
    from brrr.networks.torch_implementations import with_own_code

    made: Function = torch.compile(with_own_code(function), **{"dynamic": False, **options})
    return made


def compile_now(run: Callable[[], Any]) -> None:
    """The call that compiles: its seconds belong to no measurement."""
    with quietly(), torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT):
        run()


@contextmanager
def quietly() -> Iterator[None]:
    """No warning of the compiler's: that TF32 is off, that a graph breaks, that it gives up, all of it on purpose.

    >>> with quietly():
    ...     warnings.warn("TF32 is off")
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def has_cpp_compiler() -> bool:
    """Whether torch.compile finds a C++ compiler for the CPU."""
    return any(shutil.which(each) for each in (os.environ.get("CXX", ""), "g++", "clang++", "cl") if each)


def needs_compiler(variant: Variant) -> None:
    """Keep what will be compiled from others; UnavailableError where a CPU's way needs a compiler that is not here."""
    if variant.implementation == "compile" and not variant.on_gpu and not has_cpp_compiler():
        raise UnavailableError("torch.compile needs a C++ compiler on a CPU (g++ or clang++); only its line is missing")
    keep_compiled_code_private()


@contextmanager
def no_garbage() -> Iterator[None]:
    """Python's collector, whose tens of milliseconds would pass for a slow call, waits until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes on one core of a CPU: short work on two waits for whichever others use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def blockwise(function: Function, along: Sequence[torch.Tensor], whole: Sequence[Any]) -> Callable[[], torch.Tensor]:
    """All operators on one block of rows, then on the next: between them the numbers stay in the cache."""
    out = torch.full_like(along[0], float("nan"))
    rows = max(1, BLOCK * torch.get_num_threads() // max(1, along[0][:1].numel()))

    def run() -> torch.Tensor:
        for start in range(0, len(out), rows):
            part = slice(start, start + rows)
            out[part] = function(*(each[part] for each in along), *whole)
        return out

    return run


def held_workload(run: Run, check: Callable[[Any], float], held: Any, dtype: torch.dtype, device: str) -> Workload:
    """A way of working on the point's inputs, which are kept for the other variants as long as this one is there."""

    def error(found: Any, kept: Any = held) -> float:
        return check(found)

    if is_gpu(device):
        compile_now(run)  # loads and compiles: what happens once must not pass for a slow call
        synchronize()
    return Workload(run, error, TOLERANCE[name_of(dtype)])


# ---- the memory of a call ----


def peak_bytes_of(run: Callable[[], Any], device: str) -> Callable[[], int | None]:
    """What measures the most memory that a call takes at once beside its inputs, by CUDA's allocator or the CPU's.

    >>> peak_bytes_of(lambda: torch.zeros(1000), "cpu")()
    4000
    """
    return lambda: _peak_on_gpu(run) if is_cuda(device) else None if is_gpu(device) else _peak_on_cpu(run)


def _peak_on_gpu(run: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - before


def _peak_on_cpu(run: Callable[[], Any]) -> int:
    """The profiler reports what the CPU's allocator gives and takes back; the peak is the largest sum."""
    from torch.profiler import ProfilerActivity, profile

    from brrr.tracing.recording import without_chatter

    with without_chatter(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    assert found.profiler is not None and found.profiler.kineto_results is not None
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
