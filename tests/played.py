"""A played accelerator: torch's device `played`, of no hardware, whose calls return before their work ends.

Every operator is computed at once, on the CPU and in memory that both see, so results and errors are the CPU's. When
it *ends* is played: each stream is busy for as long as its operators take by `Device`, and what waits, waits so long.

A backend stays with its process, which therefore is one of its own: `tests/on_played.py` starts it.
"""

import ctypes
import functools
import math
import os
import sys
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

NAME = "played"
FAULTS = {
    "negative events": "the later event lies before the earlier one",
    "zero events": "no time passes between events",
    "no events": "events tell no time",
    "hang": "what waits never returns, until `DEVICE.released` is set",
    "failing": "what waits raises",
    "no memory": "free memory is not told",
    "no streams": "there are none",
    "no float64": "it has no such numbers, as Apple's",
}
"""What is known of devices in the field; played where `DEVICE.faults` names it, or PLAYED_FAULTS, by commas."""


@dataclass
class Device:
    """How long operators take, how much memory there is, what is broken; and what is under way."""

    launch_s: float = 200e-6
    bytes_per_s: float = 2e9
    flop_per_s: float = 10e9
    memory_bytes: int = 2**30
    faults: set[str] = field(default_factory=lambda: set(filter(None, os.getenv("PLAYED_FAULTS", "").split(","))))
    released: threading.Event = field(default_factory=threading.Event)
    allocated_bytes: int = 0
    peak_bytes: int = 0
    busy_until_s: float = 0.0
    stream: Any = None

    def refuse(self, fault: str, error: type[Exception] = RuntimeError) -> None:
        if fault in self.faults:
            raise error(f"{NAME}: {FAULTS[fault]}")


DEVICE = Device()


@contextmanager
def as_new(**settings: Any) -> Any:
    """A device with these settings, idle; afterwards all is as it was, but for the memory that is still held."""
    was, new = {**vars(DEVICE)}, Device(**settings, stream=Stream.__new__(Stream))
    vars(DEVICE).update(vars(new), allocated_bytes=DEVICE.allocated_bytes)
    try:
        yield DEVICE
    finally:
        DEVICE.released.set()
        vars(DEVICE).update(was, allocated_bytes=DEVICE.allocated_bytes)


# ---- the clock ----


def enqueue(seconds: float) -> None:
    """The current stream works for so long, from when it is free; the host goes on."""
    stream = DEVICE.stream
    stream.busy_until_s = max(time.perf_counter(), stream.busy_until_s) + seconds
    DEVICE.busy_until_s = max(DEVICE.busy_until_s, stream.busy_until_s)


def wait_until(end_s: float) -> None:
    DEVICE.refuse("failing")
    if "hang" in DEVICE.faults:
        DEVICE.released.wait()
    while (left_s := end_s - time.perf_counter()) > 0:
        time.sleep(max(0.0, left_s - 1e-3))  # the last millisecond is spun


class Stream(torch.Stream):
    """Work in order; that of another stream runs beside it."""

    busy_until_s = 0.0
    before: tuple[Any, ...] = ()

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        DEVICE.refuse("no streams")

    stream_id = property(id)
    __eq__, __hash__ = object.__eq__, object.__hash__

    def query(self) -> bool:
        return self.busy_until_s <= time.perf_counter()

    def synchronize(self) -> None:
        wait_until(self.busy_until_s)

    def wait_event(self, event: Any) -> None:
        self.busy_until_s = max(self.busy_until_s, event.at_s)

    def wait_stream(self, other: Any) -> None:
        self.wait_event(other.record_event())

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> "Stream":
        self.before, DEVICE.stream = (*self.before, DEVICE.stream), self
        return self

    def __exit__(self, *_: object) -> None:
        *self.before, DEVICE.stream = self.before


class Event(torch.Event):
    """When a stream comes to where it was recorded."""

    at_s: float = 0.0

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **_: bool) -> None:
        self.timed = enable_timing

    event_id = property(id)

    def record(self, stream: Any = None) -> None:
        self.at_s = max(time.perf_counter(), (stream or DEVICE.stream).busy_until_s)

    def wait(self, stream: Any = None) -> None:
        (stream or DEVICE.stream).wait_event(self)

    def query(self) -> bool:
        return self.at_s <= time.perf_counter()

    def synchronize(self) -> None:
        wait_until(self.at_s)

    def elapsed_time(self, end: Any) -> float:
        """In milliseconds."""
        DEVICE.refuse("no events", NotImplementedError)
        if not (self.timed and end.timed and self.at_s and end.at_s):
            raise ValueError("Both events must be created with enable_timing=True, and recorded.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        sign = 0.0 if "zero events" in DEVICE.faults else -1.0 if "negative events" in DEVICE.faults else 1.0
        return float(end.at_s - self.at_s) * 1e3 * sign


class Generator(torch.Generator):
    """The device's random numbers are the CPU's."""

    def __new__(cls, device: Any = "cpu") -> "Generator":
        return super().__new__(cls, "cpu" if torch.device(device).type == NAME else device)


# ---- memory, which the CPU sees too ----

CPU_MEMORY, OWN_MEMORY = 1, 12  # DLPack's names of a device; torch takes the second for a vendor's own
capsule_at = ctypes.pythonapi.PyCapsule_GetPointer
capsule_at.restype, capsule_at.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def seen_by(kind: int, tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, as a tensor of the other device; it is freed when neither needs it."""
    capsule = torch._C._to_dlpack(tensor)
    ctypes.c_int32.from_address(capsule_at(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)).value = kind
    return torch._C._from_dlpack(capsule)


def fits(size_bytes: int) -> None:
    free = DEVICE.memory_bytes - DEVICE.allocated_bytes
    if size_bytes > free:
        raise torch.OutOfMemoryError(f"{NAME} out of memory. Tried to allocate {size_bytes} bytes; {free} are free.")


def own(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that an operator has made on the CPU, as the device's."""
    if tensor.dtype == torch.float64:
        DEVICE.refuse("no float64", TypeError)
    size_bytes = tensor.untyped_storage().nbytes()
    fits(size_bytes)
    made = seen_by(OWN_MEMORY, tensor)
    count(size_bytes)
    weakref.finalize(made.untyped_storage(), count, -size_bytes).atexit = False
    return made


def count(size_bytes: int) -> None:
    DEVICE.allocated_bytes += size_bytes
    DEVICE.peak_bytes = max(DEVICE.peak_bytes, DEVICE.allocated_bytes)


def is_own(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == NAME


# ---- operators ----

aten = torch.ops.aten
WAITS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Operators that cannot return before the device is done: the host needs to know a value."""
ANY_INDEX = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Operators that take indices on the CPU as well."""
VIEWS = """
as_strided view _reshape_alias unfold view_as_real view_as_complex
set_.source_Storage_storage_offset set_.source_Tensor set_.source_Storage
"""
"""They look at no memory: the CPU's are the device's."""


class Operands(dict[int, tuple[torch.Tensor, torch.Tensor]]):
    """The device's tensors beside them as the CPU sees them, by whose `id` they are found."""

    on_cpu = False

    def lent(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [*map(self.lent, value)]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not is_own(value):
            if isinstance(value, torch.Tensor) and value.dim() and not self.on_cpu:
                raise RuntimeError(f"Expected all tensors to be on the same device, {NAME}, and not {value.device}.")
            return value
        # An empty tensor has no memory to share: the operator may give it some.
        seen = seen_by(CPU_MEMORY, value) if value.numel() else torch.empty_like(value, device="cpu")
        self[id(seen)] = seen, value
        return seen

    def given(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.given, value))
        if not isinstance(value, torch.Tensor):
            return value
        seen, owned = self.get(id(value)) or (value, own(value))
        if seen.shape != owned.shape:
            owned.set_(own(seen))
        return owned


def compute(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operator: it takes its launch, and then as long as its arithmetic or its bytes do."""
    packet, operands = op.overloadpacket, Operands()
    operands.on_cpu = packet in ANY_INDEX
    args, kwargs = operands.lent(args), {name: operands.lent(value) for name, value in kwargs.items()}
    result = op(*args, **kwargs)
    given = operands.given(result)
    made = [each for each in (given if isinstance(given, (list, tuple)) else [given]) if is_own(each)]
    tensors = {id(each): each for each in [*(value for _, value in operands.values()), *made]}
    size_bytes = sum(each.numel() * each.element_size() for each in tensors.values())
    flops = flop_registry.get(packet, lambda *_, **__: 0)(*args, **kwargs, out_val=result)
    enqueue(DEVICE.launch_s + max(size_bytes / DEVICE.bytes_per_s, flops / DEVICE.flop_per_s))
    if WAITS & {*op.tags}:
        DEVICE.stream.synchronize()
    return given


def convolution_backward(grad: Any, x: Any, weight: Any, *others: Any) -> Any:
    return compute(aten.convolution_backward.default, grad, x, weight, [weight.shape[0]], *others)


def empty(size: Any, *stride: Any, dtype: Any = None, memory_format: Any = None, **_: Any) -> torch.Tensor:
    kind = {"dtype": dtype or torch.get_default_dtype(), "device": "cpu"}
    fits(math.prod(size) * kind["dtype"].itemsize)
    if stride:
        return own(torch.empty_strided(size, *stride, **kind))
    return own(torch.empty(size, memory_format=memory_format or torch.contiguous_format, **kind))


def resize(self: torch.Tensor, size: Any, **others: Any) -> torch.Tensor:
    if self.shape != torch.Size(size):
        self.set_(own(aten.resize_(seen_by(CPU_MEMORY, self).clone(), size, **others)))
    return self


def copy(source: torch.Tensor, to: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Within the device, or between it and the host, which waits for it unless told not to."""
    seen, read = (seen_by(CPU_MEMORY, each) if is_own(each) else each for each in (to, source))
    if is_own(source) and source.is_conj():  # DLPack knows no such views
        read = read.conj()
    aten.copy_.default(seen, torch._neg_view(read) if is_own(source) and source.is_neg() else read)
    enqueue(DEVICE.launch_s + to.numel() * (to.element_size() + source.element_size()) / DEVICE.bytes_per_s)
    if not non_blocking and not (is_own(to) and is_own(source)):
        DEVICE.stream.synchronize()
    return to


def to_copy(
    self: torch.Tensor, *, dtype: Any = None, device: Any = None, non_blocking: bool = False, **others: Any
) -> torch.Tensor:
    """Torch's own takes pinned memory for what is not waited for, whose allocator only C++ can register."""
    kind = {"dtype": dtype or self.dtype, "device": device or self.device}
    return torch.empty_like(self, **kind, memory_format=others.get("memory_format")).copy_(self, non_blocking)


def pin(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    """Pinned memory is as other memory, but is told from it."""
    pinned = self.clone()
    pinned.untyped_storage().pinned = True
    return pinned


def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    return hasattr(self.untyped_storage(), "pinned")


def no_work(*_: Any) -> None: ...


OPERATORS = {
    "empty.memory_format": empty,
    "empty_strided": empty,
    "resize_": resize,
    "_copy_from": copy,
    "convolution_overrideable": functools.partial(compute, aten.convolution.default),
    "convolution_backward_overrideable": convolution_backward,
    "_to_copy": to_copy,
    "record_stream": no_work,
}
CPU_S = {"_pin_memory": pin, "is_pinned": is_pinned}
RECURRENT = "lstm", "gru"
LOWERED = "linear matmul mm addmm bmm baddbmm conv1d conv2d scaled_dot_product_attention"
"""What autocast computes in its type."""


def recurrent(name: str, *args: Any) -> Any:
    """As operators that there are: torch has its own for a vendor's device, which has to bring them."""
    from torch._decomp import decompositions  # a second's loading

    return getattr(decompositions, f"{name}_impl")(*args)


def lowered(op: Any, *args: Any, **kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype(NAME)
    cast = [each.to(dtype) if is_own(each) and each.dtype == torch.float32 else each for each in args]
    with torch.autocast(NAME, enabled=False):
        return op(*cast, **kwargs)


def storage_clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """For `deepcopy`; a storage is otherwise made by an allocator of the device's, which only C++ can register."""
    if storage.device.type != NAME:
        return cloned(storage)
    return torch.empty(0, dtype=torch.uint8, device=NAME).set_(storage).clone().untyped_storage()


cloned = torch.UntypedStorage.clone

# ---- what torch asks of a device's module, which this is, and of `torch.accelerator` ----


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def get_device_name(device: Any = None) -> str:
    return "Played accelerator"


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(state)


def synchronize(device: Any = None) -> None:
    wait_until(DEVICE.busy_until_s)


def current_stream(device: Any = None) -> Stream:
    DEVICE.refuse("no streams")
    return DEVICE.stream


def set_stream(stream: Stream) -> None:
    DEVICE.stream = stream


def stream(stream: Stream) -> Stream:
    """It is its own context."""
    return stream


def mem_get_info(device: Any = None) -> tuple[int, int]:
    DEVICE.refuse("no memory", NotImplementedError)
    return DEVICE.memory_bytes - DEVICE.allocated_bytes, DEVICE.memory_bytes


def memory_allocated(device: Any = None) -> int:
    return DEVICE.allocated_bytes


def max_memory_allocated(device: Any = None) -> int:
    return DEVICE.peak_bytes


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    DEVICE.peak_bytes = DEVICE.allocated_bytes


is_initialized = is_available
_is_in_bad_fork = set_device = manual_seed = manual_seed_all = empty_cache = no_work


def memory_stats(device: Any = None) -> dict[str, Any]:
    DEVICE.refuse("no memory", NotImplementedError)
    told = {"all": {"current": DEVICE.allocated_bytes, "peak": DEVICE.peak_bytes}}
    return {"allocated_bytes": told, "reserved_bytes": told}


ASKED_BY_TORCH = {
    "synchronizeDevice": synchronize,
    "getStream": current_stream,
    "setStream": set_stream,
    "isAllocatorInitialized": is_initialized,
    "emptyCache": empty_cache,
    "getDeviceStats": memory_stats,
    "resetPeakStats": reset_peak_memory_stats,
    "getMemoryInfo": mem_get_info,
}
"""Behind `torch.accelerator`: torch asks a backend in C++ for these, and knows of none in Python."""


@functools.cache
def start() -> list[torch.library.Library]:
    """This process has the device from now on."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, sys.modules[__name__])
    every, own_s = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(compute, "PrivateUse1")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    for name in VIEWS.split():
        packet, _, overload = name.partition(".")
        op = getattr(getattr(aten, packet), overload or "default")
        own_s.impl(name, functools.partial(op.redispatch, cpu), "PrivateUse1")
    for key, functions in (("PrivateUse1", OPERATORS), ("CPU", CPU_S)):
        for name, function in functions.items():
            own_s.impl(name, function, key)
    for name in RECURRENT:
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            own_s.impl(f"{name}.input", functools.partial(recurrent, name), key)
    for name in LOWERED.split():
        own_s.impl(name, functools.partial(lowered, getattr(aten, name)), "AutocastPrivateUse1")
    for key in ("Conjugate", "Negative"):  # else torch makes a copy first, for which it copies
        own_s.impl("_copy_from", torch.library.fallthrough_kernel, key)
    for name, asked in ASKED_BY_TORCH.items():
        setattr(torch._C, f"_accelerator_{name}", asked)
    torch.Stream, torch.Event, torch.Generator = Stream, Event, Generator
    torch.UntypedStorage.clone = storage_clone
    DEVICE.stream = Stream.__new__(Stream)
    return [every, own_s]
