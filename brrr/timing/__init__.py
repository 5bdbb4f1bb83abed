"""`measure`: the six times of a function, each with its interval, and the conditions they hold under.

>>> m = measure(lambda: sorted(range(1000)), device="cpu", budget_s=0.05)
>>> m.period_s.median > 0
True
"""

import gc
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

from brrr.core.callables import refuse_shared, require_callable
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Cache, Measurement
from brrr.gpu import gpu_here, is_cpu, is_cuda
from brrr.timing.cpu_queue import CpuQueue, Place
from brrr.timing.plan import Plan
from brrr.timing.sampler import Sampler


def measure(
    fn: Callable[..., Any], *args: Any, device: Place | None = None, cache: Cache = "hot", budget_s: float = 0.2,
    **kwargs: Any,
) -> Measurement:  # fmt: skip
    """Time a function on the host and on the GPU: six times, each with its 95 % interval.

    >>> m = measure(lambda: sorted(range(1000)), device="cpu", budget_s=0.05)
    >>> m.period_s > 0, m.kernel_s is None
    (True, True)
    >>> measure(sorted, [3, 1, 2], reverse=True, device="cpu", budget_s=0.05).period_s < 1e-3
    True

    On a GPU, ``print(m)`` says for example ``11 µs on the host, 1 µs of GPU work: host-bound``.

    Parameters
    ----------
    fn : callable
        The function to measure. It is called many times, and warmed up before.
    *args, **kwargs
        Its arguments. If `fn` itself takes a keyword of `measure`, bind it with ``functools.partial``.
    device : {"cuda", "rocm", "mps", "xpu", "cpu"} or CpuQueue, optional
        Where it runs: torch's current GPU and stream, the CPU, or a `CpuQueue`, whose worker thread stands in for a
        GPU. By default the accelerator that torch uses, if it is loaded and has one, else the CPU.
    cache : {"hot", "cold"}
        "cold" empties the L2 cache before each call (CUDA). Only `kernel_s`, `busy_s` and `span_s` are measured then.
    budget_s : float
        About how many seconds to measure. It ends earlier if all intervals are within 0.5 % (on a CPU 5 %), and later
        if a few calls take longer than that.

    Returns
    -------
    Measurement
        The six times in seconds, each a median with its 95 % interval; `Measurement` defines them. `flags` warn:
        "host-bound"; "syncs" (`fn` waits for the GPU, so there is no span); "unstable" (the times drifted, also when
        measured again); "thermal" or "power-capped" (the GPU lowered its clock); "shared-gpu" (another program computes
        there); "busy-cpu" (other programs left hardly a core idle); "no-profiler" (`kernel_s` is estimated from a CUDA
        graph); "queue-full" (the launch queue was full); "single-call" (only one call was measured); "nan" (the result
        holds NaN). `notes` mention a first call that took far longer than the others (it may have compiled, cached, or
        changed its input), and a result that may be computed only later.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, for example a function whose arguments are missing.
    DeviceMemoryError
        If `fn` runs out of the device's memory.
    UnavailableError
        If a GPU is asked for and there is none. What `fn` itself raises passes through.

    See Also
    --------
    compare_calls : which of several functions is faster.
    measure_together : several functions interleaved, so that drift affects them all alike.
    predict : how long it should take.

    Notes
    -----
    docs/timer.md explains how each time is measured, and how far it is off. On an accelerator without CUDA the host's
    clock tells `host_s`, `latency_s`, and `period_s` as the slope over the number of calls; `kernel_s` and `busy_s`
    only where torch's profiler sees the device (ROCm, XPU); `span_s` is None, since no gate can hold its queue.
    """
    return measured(measure, [fn], args, kwargs, device=device, cache=cache, budget_s=budget_s)[0]


def measure_together(
    functions: Sequence[Callable[..., Any]], *args: Any, device: Place | None = None, cache: Cache = "hot",
    budget_s: float = 0.2, **kwargs: Any,
) -> list[Measurement]:  # fmt: skip
    """Measure several functions interleaved, so that drift affects them all alike.

    >>> slow, fast = measure_together([lambda: sum(range(9999)), lambda: sum(range(9))], device="cpu", budget_s=0.05)
    >>> (slow.period_s / fast.period_s).median > 1
    True

    Compare two implementations with this or with `compare_calls`, not with two calls of `measure`: between these a GPU
    may change its clock. The ratio of two times on the host's clock is computed round by round; every other round goes
    through the functions backwards.

    Parameters
    ----------
    functions : sequence of callables
        The functions.
    *args, **kwargs
        Their arguments: all functions are called with the same ones.
    device : str or CpuQueue, optional
        As for `measure`.
    cache : {"hot", "cold"}
        As for `measure`.
    budget_s : float
        About how many seconds to measure each function.

    Returns
    -------
    list of Measurement
        One for each function, in their order.

    Raises
    ------
    ArgumentError, DeviceMemoryError, UnavailableError
        As for `measure`.
    """
    if callable(functions) or isinstance(functions, Mapping):
        hint = "compare_calls takes a dict, or several functions one by one"
        raise ArgumentError("measure_together", "functions", functions, "a sequence of functions", hint)
    return measured(measure_together, functions, args, kwargs, device=device, cache=cache, budget_s=budget_s)


def measured(
    public: Callable[..., Any], functions: Sequence[Callable[..., Any]], args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}), how: Mapping[str, Any] = MappingProxyType({}), **options: Any,
) -> list[Measurement]:  # fmt: skip
    """What `measure` and its like return; `public` is the one that was called, `how` is more of a `Plan`."""
    call = public.__name__
    for fn in functions:
        refuse_shared(public, fn, **options)
    place = checked(functions, **options, call=call, args=args, kwargs=kwargs)
    calls = [partial(fn, *args, **kwargs) if args or kwargs else fn for fn in functions]
    fixed = place, options["cache"], options["budget_s"]
    return interleave([Sampler(Plan(each, *fixed, call=call, **how)) for each in calls])


def interleave(samplers: Sequence[Sampler]) -> list[Measurement]:
    """Warm up all functions, then sample them in turn until each is precise or its budget is spent.

    One that drifted meanwhile is measured once more, unless it is compared with its neighbours, which drift alike.
    If it drifts again, its measurement carries the flag.
    """
    with no_collection():
        _sample(samplers)
        drifted = [each for each in samplers if each.readings.drifted and not each.plan.paired]
        _sample(again := [each for each in drifted if each.start_again()])
        first, second = object(), object()
        return [each.finish(second if each in again else first) for each in samplers]


def _sample(samplers: Sequence[Sampler]) -> None:
    for each in samplers:
        each.warm_up()
    turn = 1  # there and back, so that what gets slower meanwhile, or profits of its neighbour, does so for all alike
    while unfinished := [each for each in samplers if not each.done]:
        for each in unfinished[::turn]:
            each.round()
        turn = -turn


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of the samples."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def checked(
    functions: Sequence[Any], device: Any, cache: Any, budget_s: Any, call: str = "measure", args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> Place:  # fmt: skip
    """Where to measure, once all arguments of `call` are found good."""
    for fn in functions:
        require_callable(call, "fn", fn, "a function", "Wrap the call: lambda: f(x)")
        _refuse_arguments(call, fn, args, kwargs)
    if cache not in ("hot", "cold"):
        raise ArgumentError(call, "cache", cache, "'hot' or 'cold'")
    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 0 < budget_s < math.inf:
        raise ArgumentError(call, "budget_s", budget_s, "a positive number of seconds")
    place = _placed(call, device)
    if cache == "cold" and not is_cuda(place):
        raise ArgumentError(call, "cache", cache, "'hot' except on CUDA", "Only an NVIDIA GPU's cache is emptied")
    return place


def _refuse_arguments(call: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    try:
        inspect.signature(fn).bind(*args, **kwargs)
    except ValueError:
        return  # a builtin without a signature: calling it will tell
    except TypeError as error:
        expected = f"a function that takes the arguments given ({error})"
        raise ArgumentError(call, "fn", fn, expected, "Wrap the call: lambda: f(x)") from None


def _placed(call: str, device: Any) -> Place:
    if isinstance(device, CpuQueue):
        return device
    if is_cpu(device) or (device is None and gpu_here() is None):
        return "cpu"
    from brrr.gpu.device import processor_for

    return processor_for(call, device, "device='cpu' measures the CPU; `brrr doctor` names what would help")
