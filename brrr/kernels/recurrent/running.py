"""The persistent kernel launched: a layer's steps forward, or its gradients backward, on torch's current stream.

>>> y, cells, last = run_forward(made, weight_hh, gates, None, None)    # doctest: +SKIP
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import torch

from brrr.core.errors import UnavailableError
from brrr.gpu.launching import PreparedLaunch, active_blocks, allow_shared, fastest, raw_stream, typed
from brrr.gpu.nvrtc import function as function_of
from brrr.gpu.nvrtc import machine_code, make_current
from brrr.kernels.recurrent.plan import Chip, RecurrentPlan, shortlist

Tensor = torch.Tensor
Given = Tensor | None
SOURCE, KERNEL = "kernels/recurrent/recurrent.cu", "brrr_recurrent"
ARGUMENTS = "P" * 9 + "iiP"
WATCH = 1 << 22
"""Polls after which a block of a debug build gives up."""
STEPS, TRIALS = 128, 3
"""Of a layer that is run to choose a plan, and how often."""
LOCK = threading.Lock()
"""A prepared launch is one object: its arguments are set and launched by one thread at a time."""


def chosen(cell: str, hidden: int, batch: int, dtype: str, device_index: int, backward: bool = False) -> RecurrentPlan:
    """The fastest plan of a layer, kept: the first call tries a few, inside a capture the one expected to be fastest.

    The trial compiles several kernels side by side, a few seconds where they are not in the cache on the disk.
    ArgumentError where the layer does not fit on the GPU.
    """
    key = (cell, hidden, batch, dtype, device_index, backward)
    if key not in _CHOSEN:
        listed = shortlist(cell, hidden, batch, dtype, chip_of(device_index), backward)
        if torch.cuda.is_current_stream_capturing():
            return listed[0]
        _CHOSEN[key] = _tried(listed, device_index)
    return _CHOSEN[key]


_CHOSEN: dict[object, RecurrentPlan] = {}


def _tried(listed: tuple[RecurrentPlan, ...], device_index: int) -> RecurrentPlan:
    arch = make_current(device_index)
    with ThreadPoolExecutor() as pool:  # into the cache, from which a launch takes them
        list(pool.map(lambda made: machine_code(SOURCE, arch, made.defines()), listed))
    first = listed[0]
    options: dict[str, Any] = {"dtype": getattr(torch, first.dtype), "device": f"cuda:{device_index}"}
    rows = first.hidden * (1 if first.backward else first.gates)
    weight = torch.zeros(rows, first.columns, **options)
    inputs = torch.zeros(STEPS, first.batch, rows, **options)
    cells = torch.zeros(STEPS, first.batch, first.hidden, device=options["device"]) if first.gates == 4 else None
    saved = torch.zeros(STEPS, first.batch, first.columns, **options)

    def run(made: RecurrentPlan) -> None:
        if made.backward:
            run_backward(made, weight, inputs, saved, cells, None, None)
        else:
            run_forward(made, weight, inputs, None, None)

    return fastest(listed, lambda made, _: event_ms(lambda: run(made)), refusals=(UnavailableError,)) or first


def event_ms(run: Callable[[], object]) -> float:
    """The least milliseconds that a call takes between two events, of TRIALS."""
    times = []
    for _ in range(TRIALS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(min(times))


def run_forward(
    made: RecurrentPlan, weight: Tensor, gates: Tensor, state: Given, cell: Given, train: bool = False,
    debug: bool = False,
) -> tuple[Tensor, Given, Given]:  # fmt: skip
    """A layer's results (steps, batch, hidden), an LSTM's cells after each step (with train) and its last cells.

    weight: (gates * hidden, hidden); gates: (steps, batch, gates * hidden), the input's products with the biases, which
    an LSTM's `train` overwrites with the gates; state, cell: (batch, hidden), the cell in float32, or None for zeros.
    """
    steps, batch = gates.shape[:2]
    y = empty(gates, (steps, batch, made.hidden))
    lstm = made.gates == 4
    cells = gates.new_empty((steps, batch, made.hidden), dtype=torch.float32) if lstm and train else None
    last = gates.new_empty((batch, made.hidden), dtype=torch.float32) if lstm else None
    launch(made, train, debug, (weight, y, state, gates, None, cells, cell, None, last), steps, batch)
    return y, cells, last


def run_backward(
    made: RecurrentPlan, weight_transposed: Tensor, grads: Tensor, saved: Tensor, cells: Given, cell: Given,
    cell_grad: Given, debug: bool = False,
) -> tuple[Tensor, Given]:  # fmt: skip
    """The gradients in front of the activations (steps, batch, gates * hidden), and of the first cells.

    weight_transposed: (hidden, gates * hidden); grads: of the results, (steps, batch, hidden); saved: the results, or
    an LSTM's gates; cells and cell: of the forward pass; cell_grad: of the last cells, float32, or None for zeros.
    """
    steps, batch = grads.shape[:2]
    found = empty(grads, (steps, batch, made.columns))
    first = grads.new_empty((batch, made.hidden), dtype=torch.float32) if made.gates == 4 else None
    tensors = weight_transposed, found, None, grads, saved, cells, cell, cell_grad, first
    launch(made, False, debug, tensors, steps, batch)
    return found, first


def empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor full of the pattern that no result has, all bits set: what the kernel polls for."""
    made = torch.empty(shape, dtype=like.dtype, device=like.device)
    made.view(torch.int32).fill_(-1)
    return made


def launch(made: RecurrentPlan, train: bool, debug: bool, tensors: tuple[Given, ...], steps: int, batch: int) -> None:
    """One launch; in a debug build it is waited for, and UnavailableError says where a block gave up."""
    given = tensors[0]
    assert given is not None
    index = given.device.index
    late = given.new_zeros(1, dtype=torch.int32) if debug else None
    prepared = _prepared(made, train, WATCH if debug else 0, index)
    *addresses, watch = (0 if each is None else each.data_ptr() for each in (*tensors, late))
    with LOCK:
        for value, number in zip(prepared.values, (*addresses, steps, batch, watch), strict=True):
            value.value = number
        prepared(raw_stream(index))
    if late is not None and int(late.item()):
        raise UnavailableError(f"PersistentRNN: a block waited {WATCH} times for results that never came ({made})")


@lru_cache(maxsize=256)
def _prepared(made: RecurrentPlan, train: bool, watch: int, device_index: int) -> PreparedLaunch:
    """The kernel compiled for a plan; UnavailableError where its blocks cannot all run at once on this GPU."""
    function = function_of(SOURCE, KERNEL, device_index, made.defines(train, watch))
    allow_shared(function, made.shared_bytes)
    fit = active_blocks(function, made.threads, made.shared_bytes) * chip_of(device_index).multiprocessors
    if made.blocks > fit:
        raise UnavailableError(f"PersistentRNN: {made.blocks} blocks must run at once, {fit} do on cuda:{device_index}")
    grid, block = (made.blocks, 1, 1), (made.threads, 1, 1)
    return PreparedLaunch(function, grid, block, typed(ARGUMENTS, [0] * 12), made.shared_bytes, cooperative=True)


@lru_cache(maxsize=16)
def chip_of(device_index: int) -> Chip:
    """What a plan depends on, asked of the GPU; UnavailableError for one older than the kernel's instructions."""
    properties = torch.cuda.get_device_properties(device_index)
    if properties.major < 7:
        raise UnavailableError(f"PersistentRNN: cuda:{device_index} is older than sm_70; use the module itself")
    return Chip(
        int(properties.multi_processor_count),
        int(properties.shared_memory_per_block_optin),  # type: ignore[attr-defined]
        properties.major >= 8,
    )
