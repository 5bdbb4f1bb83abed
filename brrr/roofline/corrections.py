"""One GPU's long sweep, carried over to every other GPU.

What the terms of a call leave out (how a library's kernels really go through its sizes) was measured once, in the long
sweep of the reference. On another device the terms hold its own rates. Where the reference was faster than its terms,
the other one is by the same share; what it took beyond its terms waits for neither memory nor tensor cores, and takes
the other device as many cycles of its multiprocessors. A device's own measured calls then correct what is alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from brrr.counting.cost import ABOVE, COPIED, ITEMSIZE, Form, OperatorCost
from brrr.roofline.decoding import is_decoding
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import WHOLE, without_host
from brrr.roofline.gemm_families import Products, Speeds, family_name, operator_of
from brrr.roofline.lowering import name_on_gpu
from brrr.roofline.own_kernels import own_kernel
from brrr.roofline.peak import SweptCalls
from brrr.roofline.peaks import Peaks
from brrr.roofline.sweeps import BY_FLOP, Corrections, swept_operators, swept_products
from brrr.roofline.terms import OperatorTime, cache_rate, dtype_of, kernel_of, matrix_dtype, modelled_time

ADDED = ("aten.addmm", "aten._addmm_activation")
"""Products to which a row is added in the same kernel."""
THREADS = 2048
"""Of a full multiprocessor: a call with fewer results than all have threads does not gain by more multiprocessors."""
SHRUNK = 5.0, 4.0, 4.0
"""So many measured calls count as much as nothing measured does, or as much as the level above: of all calls of a
device, of those of a group, and of those of one name in it."""
MOST = 0.5
"""No single call moves a correction by more, as a logarithm: a library may have chosen another kernel."""


def operator_time(
    each: OperatorCost, model: DeviceModel, working_set: float, *, host_s: float | None = None
) -> OperatorTime:
    """The times of one operator; `host_s` replaces the host cost of its class.

    On a GPU its time on the device is that of its terms, corrected by the reference's sweep, and by the device's own.
    What its bytes and its FLOP take alone does not grow where a kernel was slower than its terms: something else held
    it up.
    """
    above = each.form.name.endswith(ABOVE)
    each = replace(each, form=replace(each.form, name=each.form.name.removesuffix(ABOVE))) if above else each
    made = modelled_time(each, model, working_set, host_s=host_s)
    again = replace(each, recent=None)  # as in the sweep, again and again alone; on a CPU with its host's part
    swept = modelled_time(again, model, each.bytes, host_s=host_s if model.is_gpu else None)
    found = None if swept.device_s is None else _carried(each, swept.device_s, model)
    if found is None or not made.device_s or not swept.device_s:
        return made
    seconds, own = found[0] + made.device_s - swept.device_s, found[1]
    if model.peaks is not None and model.peaks is not model.reference:
        seconds *= math.exp(_beyond(without_host(model.peaks), *alike(each)))
    seconds = max(made.device_s, seconds - _turned_s(each, model)) if above else seconds
    alone = min(1.0, seconds / made.device_s)
    memory_s, compute_s = made.memory_s * alone, made.compute_s * alone
    return replace(made, memory_s=memory_s, compute_s=compute_s, device_s=seconds, known=made.known or own)


def _turned_s(each: OperatorCost, model: DeviceModel) -> float:
    """What the reference's gradients of convolutions with channels last began with, as calibrated ones do: a copy of
    the gradient from above, which lay channel by channel. In a network it mostly lies as its image does.
    """
    dtype, lines, images = "bfloat16" if dtype_of(each) == "tf32" else each.dtype, each.form.lines, each.form.over
    elements = int(max(0.0, each.read_bytes - each.written_bytes)) // ITEMSIZE.get(each.dtype, 4)
    size = float(elements * ITEMSIZE.get(dtype, 4))
    turned = Form("strided", lines, max(1, elements // max(1, lines)), images, lines // max(1, images))
    copied = OperatorCost("aten.clone", 0.0, size, size, dtype, (), "copy", (), turned)
    return kernel_time(copied, model).device_s or 0.0


def kernel_time(each: OperatorCost, model: DeviceModel, *, touched: float = 0.0) -> OperatorTime:
    """The times of an operator by itself, in work that touches so much; on a GPU without the host, as in a graph."""
    return operator_time(each, model, max(each.bytes, touched), host_s=0.0 if model.is_gpu else None)


# ---------------------------------------------------------------------------------------------------------------------
# What the reference's sweep says.


def _carried(each: OperatorCost, here_s: float, model: DeviceModel) -> tuple[float, bool] | None:
    """What a call takes whose terms take `here_s`, and whether the sweep holds that very operator.

    None where no sweep tells of it. Notes say so.
    """
    own = model.is_gpu and (is_decoding(each) or own_kernel(each))  # as many queries as keys were swept, no fewer bits
    other = each.kind in (WHOLE, "fused") or own
    if model.reference is None or each.form.name.startswith(COPIED) or other:
        return None
    if dtype_of(each) == "tf32" and each.kind in BY_FLOP:
        return _in_tf32(each, here_s, model)
    corrections = corrections_of(without_host(model.reference))
    if each.kind == "matmul" and len(each.matmuls) == 1 and (model.sm_count is not None or not model.is_gpu):
        factor, own = corrections.of_product(each.matmuls[0], each.name in ADDED), False
    elif each.matmuls and each.kind not in BY_FLOP:
        return None
    else:
        factor, own = corrections.of_operator(each) or (None, False)
    if factor is None or ((each.kind == "recurrent" or (model.is_gpu and kernel_of(each))) and not own):
        return None
    _say(each, model, model.reference, own)
    return _over(each, here_s, factor, model), own


def _say(each: OperatorCost, model: DeviceModel, reference: Peaks, own: bool) -> None:
    what = "products" if each.kind == "matmul" else "operators"
    there = "" if model.peaks is reference else f" of an {reference.device}"
    model.note(f"{what} corrected by a measured sweep{there} of {len(reference.sweeps[what])}")
    if not own and what == "operators":
        model.note(f"{each.name} was not in the sweep: corrected as other {each.kind} operators")


def _over(each: OperatorCost, here_s: float, factor: float, model: DeviceModel) -> float:
    """What a call takes here that took `factor` times its terms on the reference.

    >>> from brrr.roofline.device_model import model_of
    >>> each = OperatorCost("aten.relu", 0.0, 4e8, 4e8, "float32", ((10**8,),), "pointwise")
    >>> _over(each, 2e-4, 0.9, model_of("datasheet:h100"))
    0.00018
    """
    if factor <= 1 or model.peaks is model.reference:
        return here_s * factor
    assert model.reference is not None
    there = DeviceModel.measured(model.reference)
    there_s = modelled_time(each, there, each.bytes, host_s=0.0).device_s or 0.0
    return here_s + (factor - 1) * there_s * _slower(each, model, there)


def _slower(each: OperatorCost, model: DeviceModel, there: DeviceModel) -> float:
    """How much longer the same cycles take, of all multiprocessors where a call fills them."""
    by = there.clock_hz / model.clock_hz if there.clock_hz and model.clock_hz else 1.0
    fills = each.written_bytes / ITEMSIZE.get(each.dtype, 4) >= THREADS * (there.sm_count or 0)
    return by * there.sm_count / model.sm_count if fills and there.sm_count and model.sm_count else by


def _in_tf32(each: OperatorCost, here_s: float, model: DeviceModel) -> tuple[float, bool] | None:
    """A layer in TF32, which no sweep holds: as in bfloat16, with its own terms; never slower than in float32.

    So what the library does beside, as turning images around, counts once.
    """
    model.note("layers in TF32 were not swept: they count as in bfloat16, and what their bytes and FLOP take longer")
    aside = replace(model, used={}, notes=[])
    short, plain = (
        replace(each, matmuls=tuple(replace(one, dtype=dtype) for one in each.matmuls))
        for dtype in ("bfloat16", "float32")
    )
    moved = each.read_bytes / 2, each.written_bytes / 2
    short = replace(short, dtype="bfloat16", read_bytes=moved[0], written_bytes=moved[1])
    times = [modelled_time(one, aside, one.bytes, host_s=0.0).device_s or 0.0 for one in (short, plain)]
    as_short, as_plain = (_carried(one, time_s, aside) for one, time_s in zip((short, plain), times, strict=True))
    if as_short is None or as_plain is None:
        return None
    return min(as_plain[0], as_short[0] + here_s - times[0]), False


@lru_cache(maxsize=4)
def corrections_of(peaks: Peaks) -> Corrections:
    """What the sweeps of these peaks say against the models that rest on them; no cost of the host counts here."""
    model = DeviceModel.measured(peaks)

    def operator_s(each: OperatorCost) -> float:
        return modelled_time(each, model, 0.0, host_s=0.0 if model.is_gpu else None).device_s or 0.0

    def speeds(products: Products) -> Speeds:
        import numpy as np

        dtypes, places = np.unique(products.dtype, return_inverse=True)
        rates = [model.value(f"matmul.{matrix_dtype(str(dtype))}") for dtype in dtypes]
        return Speeds(np.array(rates, np.float64)[places], cache_rate(model), model.sm_count or 1)

    return Corrections(peaks, lambda product: operator_s(operator_of(product)), speeds, operator_s, model.sm_count or 1)


# ---------------------------------------------------------------------------------------------------------------------
# What the device's own measured calls say beyond that: of all, of a group, of a name, each held to the one before.


def _beyond(peaks: Peaks, group: str, name: str) -> float:
    """The logarithm of what calls like these take over what is carried over.

    0 where nothing was measured; where few were, near to what all calls of the device take.
    """
    found, sums = 0.0, _residuals(peaks)
    for level, held in zip(_levels(group, name), SHRUNK, strict=True):
        total, count = sums.get(level, (0.0, 0))
        found = (total + held * found) / (count + held)
    return found


def alike(each: OperatorCost) -> tuple[str, str]:
    """The group of a call, and its name within it: of a product the library's kernels, and whether a row is added."""
    if each.kind == "matmul" and len(each.matmuls) == 1:
        return family_name(each.matmuls[0]), "and a row" * (each.name in ADDED)
    return f"{each.kind}/{each.form.name}", name_on_gpu(each)


def _levels(group: str, name: str) -> Iterator[tuple[str, ...]]:
    yield from ((), (group,), (group, name))


@lru_cache(maxsize=8)
def _residuals(peaks: Peaks) -> Mapping[tuple[str, ...], tuple[float, int]]:
    """The sum of the residuals of the device's measured calls, and their number, at each level."""
    sums = defaultdict[tuple[str, ...], tuple[float, int]](lambda: (0.0, 0))
    for name, sweep in peaks.sweeps.items():
        carried = sweep.columns.get("carried", (0,) * len(sweep))
        for (each, seconds), nanoseconds in zip(measured_calls({name: sweep}), carried, strict=True):
            beyond = math.log(seconds * 1e9 / int(nanoseconds)) if nanoseconds else math.nan
            for level in _levels(*alike(each)) if nanoseconds else ():
                total, count = sums[level]
                sums[level] = total + max(-MOST, min(MOST, beyond)), count + 1
    return sums


def carried_s(each: OperatorCost, model: DeviceModel) -> float | None:
    """What the reference's sweep says of a call on this device; None where it tells nothing."""
    made = modelled_time(each, model, each.bytes, host_s=0.0).device_s
    found = _carried(each, made, model) if made else None
    return None if found is None else found[0]


def measured_calls(sweeps: Mapping[str, SweptCalls]) -> Iterator[tuple[OperatorCost, float]]:
    """The calls of a device's sweeps with their seconds, products first."""
    products, added, seconds = swept_products(sweeps.get("products"))
    for product, with_row, time_s in zip(products, added, seconds, strict=True):
        yield replace(operator_of(product), name=ADDED[0] if with_row else "aten.mm"), float(time_s)
    yield from swept_operators(sweeps.get("operators"))
