"""cuDNN's recurrent layers, as the kernels that run on a GPU.

All steps' inputs are one product for each layer. Then a step waits for the one before it: a product of the state with
its weight, and a kernel that does the cell. A layer's step runs beside the next layer's step before it, and both
directions side by side (J. Appleyard et al., Optimizing Performance of Recurrent Neural Networks on GPUs, 2016). Where
torch asks for it, one persistent kernel goes through all steps (G. Diamos et al., Persistent RNNs, 2016). Backward, the
steps' products find the gradients of the states, and products of all steps those of the weights and the inputs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.corrections import kernel_time
from brrr.roofline.decoding import CLOCK_HZ
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import memory_s
from brrr.roofline.gemm_families import bytes_of, operator_of
from brrr.roofline.persistent import Step, persistent_s
from brrr.roofline.terms import OperatorTime, cache_rate

GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
CALL, ALL, STEP, SMALL, CHUNKED = "call", "all steps", "step", "small", "chunks"
"""Forms: a layer's call, and the kernels that it launches; of a step without a product the cell."""
CALLS = {False: 15.0, True: 40.0}
"""Relus that the host takes for a call beside its launches, forward and backward: descriptors, whether the weights lie
in one piece, and a buffer of their gradients, which is zeroed and handed out."""
LAUNCHED = 0.9
"""Relus that the host takes to launch one of cuDNN's kernels, with the events around it."""
EVENT_S, EVENT_BEFORE_S = 0.9e-6, 3e-6
"""Between kernels of a stream beside a usual gap, and before ASYNC: events order them, as several streams may run."""
EXPOSED = 0.7
"""Of kernels side by side, the share of the shorter ones that the longest does not hide."""
CHOICE, FEW = 1.25, 16
"""A step's product of more than FEW rows over torch's own, since cuDNN 8: it does not look for the best kernel."""
AHEAD_S, ASYNC = 33e-9, (8, 0)
"""For each number of the state: before this compute capability no copy is asynchronous, so that a block fetches one
stage ahead and waits for the memory at each."""
BOUND = (7, 0)
"""Before this one what is told here is a lower bound: cuDNN 6 took up to eight times as long on a P100."""
LATENCY_S, SM_BYTES = 0.2e-6, 80.0
"""Of a block that goes through the steps by itself: a step's barriers, and the bytes of weights it reads a cycle."""
CHUNKS = {GATES["lstm"]: (16, 2.0e-6, 128, 0.0)}
CHUNK, AGAIN_S = (8, 1.3e-6, 24, 0.8e-6), 2e-6
"""Where all blocks hold the weights: so many samples are exchanged at once, in so long, as far as so many, since more
run beside; what a step takes besides; and what the gradients' exchange takes beyond that."""


def way_of(each: OperatorCost, model: DeviceModel) -> str:
    """Which algorithm torch asks cuDNN for (its `native/cudnn/RNN.cpp`): "steps", or one kernel for all.

    SMALL has a sample's state in a block, CHUNKED the weights over all blocks.
    """
    cell, *marks = each.form.name.split(", ")
    steps, hidden, batch, first = each.form.lines, each.form.length, each.form.over, each.matmuls[0]
    capability, gated = _capability(model), cell in ("lstm", "gru")
    if {"packed", "projected"} & {*marks} or each.dtype == "float64":
        return "steps"
    if hidden <= (256 if each.backward else 384) // (1 + gated):
        return SMALL
    whole = batch % 8 == 0 and hidden <= 1024 and hidden % 128 == 0 and min(first.n, first.k) % 128 == 0
    if each.dtype != "float16" or each.form.window > 1 or not whole or batch > 128:
        return "steps"
    if capability < ASYNC:
        fits = capability < (7, 5) and (batch == 8 or (batch % 16 == 0 and batch not in (80, 112)))
        return CHUNKED if fits and steps >= (10 if batch <= 32 else 20 if batch <= 96 else 40) else "steps"
    refused = cell == "gru" or (not gated and batch >= 96 and hidden >= 896)
    return "steps" if refused or capability[1] == 6 or (model.sm_count or 0) < 98 else CHUNKED


def _capability(model: DeviceModel) -> tuple[int, int]:
    return (model.hardware and model.hardware.compute_capability) or (9, 0)


def lowered(kernels: Sequence[OperatorCost], model: DeviceModel) -> list[OperatorCost]:
    """Each recurrent layer by its call and its kernels, all else as it is."""
    return [one for each in kernels for one in (_kernels(each, model) if _is_layer(each) and model.is_gpu else [each])]


def _is_layer(each: OperatorCost) -> bool:
    return each.kind == "recurrent" and each.form.name.startswith(tuple(GATES))


def is_call(each: OperatorCost) -> bool:
    """Whether it is the call of a layer without its kernels, as `lowered` puts it before them."""
    return each.kind == "recurrent" and each.form.name == CALL


def is_launch(each: OperatorCost) -> bool:
    """Whether it is one of the kernels that `lowered` makes, which cuDNN launches past torch."""
    return each.kind == "recurrent" and each.form.name in (ALL, STEP, SMALL, CHUNKED)


def _kernels(each: OperatorCost, model: DeviceModel) -> Iterator[OperatorCost]:
    cell, steps, count = each.form.name.split(", ")[0], each.form.lines, each.form.window
    length = 1 + steps * (1 + ("projected" in each.form.name))
    layers = [each.matmuls[place : place + length] for place in range(0, count * length, length)]
    way, side, gates = way_of(each, model), 1 + ("both ways" in each.form.name), GATES[cell]
    model.note("steps of recurrent layers count by assumed constants, fitted on an H200 (roofline/recurrent.py)")
    yield replace(each, form=Form(CALL), matmuls=())
    each = replace(each, flop=0.0, read_bytes=0.0, written_bytes=0.0)  # of all kernels together: the call has them
    for one in (*(layer[0] for layer in layers), *each.matmuls[count * length :]):
        yield replace(each, form=Form(ALL, one.m), matmuls=(one,))
    if way == "steps":
        yield from _steps(each, layers[0][1:], side, gates)
    else:
        model.note("a layer takes one kernel for all steps, as torch asks cuDNN for (native/cudnn/RNN.cpp)")
        form = Form(way, steps, each.form.length, each.form.over, gates)
        yield from [replace(each, form=form, matmuls=layers[0][1:2])] * (count // (side if way == SMALL else 1))


def _steps(each: OperatorCost, products: Sequence[Matmul], side: int, gates: int) -> Iterator[OperatorCost]:
    """Wave by wave: so many layers, in each direction, do a step side by side. First all products, then all cells."""
    steps, depth = each.form.lines, each.form.window // side
    for place in range(0, len(products) + steps, steps):
        for wave in range(steps + depth - 1):
            beside = side * min(wave + 1, depth, steps, steps + depth - 1 - wave)
            rows = products[min(wave, steps - 1)].m
            of = tuple(replace(one, m=rows) for one in products[place : place + 1])
            yield from [replace(each, form=Form(STEP, rows, each.form.length, beside, gates), matmuls=of)] * beside


def recurrent_time(each: OperatorCost, model: DeviceModel, host_s: float, *, events: bool) -> OperatorTime | None:
    """The times of a layer's call, or of one of its kernels; None of anything else. A CUDA Graph has no `events`."""
    if is_call(each):
        return OperatorTime(each.name, host_s, 0.0, 0.0, None, _capability(model) >= BOUND)
    if not is_launch(each):
        return None
    if each.form.name in (SMALL, CHUNKED):
        return _persistent(each, model, host_s)
    whole, beside = each.form.name == ALL, max(1, each.form.over)
    moving, computing, device = _product(each, model, whole) if each.matmuls else _cell(each, model)
    label = f"product of {ALL if whole else 'a step'}" if each.matmuls else "cell"
    gap = model.value("gap.stream" if events else "gap.graph")
    apart = gap + events * (EVENT_S if _capability(model) >= ASYNC else EVENT_BEFORE_S)
    wave = max(beside * apart, device * (1 + EXPOSED * (beside - 1)), device + apart)
    return OperatorTime(f"{each.name}, {label}", LAUNCHED * host_s, moving, computing, wave / beside - gap)


def _product(each: OperatorCost, model: DeviceModel, whole: bool) -> tuple[float, float, float]:
    """Of memory, of arithmetic, and of all, from the weight as it lies or as it is turned around beforehand."""
    ways = [replace(each.matmuls[0], transposed=(False, turned)) for turned in (False, True)]
    made = min((kernel_time(operator_of(way), model) for way in ways), key=lambda time: time.device_s or 0.0)
    new, device_s = _capability(model) >= ASYNC, made.device_s or 0.0
    device_s *= CHOICE if new and each.form.lines > FEW and not whole else 1.0
    return made.memory_s, made.compute_s, max(device_s, 0.0 if new or whole else AHEAD_S * each.form.length)


def _cell(each: OperatorCost, model: DeviceModel) -> tuple[float, float, float]:
    """All gates and the state read, the state and what the gradients need written."""
    state, gates = float(each.form.lines * each.form.length * ITEMSIZE.get(each.dtype, 4)), 2 * each.form.window + 1
    moving = memory_s(model.for_terms, gates * state, 2 * state, (gates + 2) * state)
    return moving, 0.0, moving + model.value("kernel.pointwise" if model.has("kernel.pointwise") else "kernel.floor")


def _persistent(each: OperatorCost, model: DeviceModel, host_s: float) -> OperatorTime:
    product, cycle = each.matmuls[0], CLOCK_HZ / (model.clock_hz or CLOCK_HZ)
    weights = float(product.n * product.k * bytes_of(product.dtype))
    reading = weights / cache_rate(model.for_terms)
    if each.form.name == SMALL:
        step = Step({"weights": cycle * weights / SM_BYTES / CLOCK_HZ}, cycle * LATENCY_S)
    else:
        samples, exchange_s, most, serial_s = CHUNKS.get(each.form.window, CHUNK)
        exchange_s *= max(1.0, min(each.form.over, most) / samples)
        step = Step({"exchange": cycle * exchange_s}, cycle * (serial_s + AGAIN_S * each.backward))
    device = persistent_s(step, each.form.lines, launch_s=model.value("kernel.floor"))
    return OperatorTime(f"{each.name}, persistent", LAUNCHED * host_s, reading, 0.0, device)
