"""What would help the device's work: fusion, a shorter type, padding, tensors that lie as the hardware likes it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from brrr.core import units
from brrr.counting.cost import ITEMSIZE, OperatorCost
from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.calls import turns
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.diagnosis.host_remedies import inside, own_steps
from brrr.roofline.lowering import in_tf32
from brrr.roofline.peaks import short
from brrr.roofline.shapes import whole
from brrr.roofline.terms import dtype_of
from brrr.tracing.events import Event

SHORT_TYPES = ("bfloat16", "float16")
"""The first that the device has tensor cores for."""
SECTOR = 32
"""Bytes that a GPU moves at least."""
LEFT_ALONE = ("norm", "softmax", "loss", "scan", "index")
"""Kinds that autocast computes in float32, or in the type of the rows that they fetch; but for batch norms."""
SKINNY = 4
"""Where a product's least size is less than the next by this, it is taken for the batch."""
WITHOUT_CHANNELS_LAST = ("native_group_norm", "group_norm")
"""What torch computes on contiguous tensors alone, and turns others around for."""


def precision(found: Evidence) -> Remedy | None:
    """Products of float32 on the tensor cores, as autocast puts them there, and what works on their results with them.

    Autocast leaves alone what it is told to compute in float32 (norms, softmax, losses), what gathers and scatters
    rows, and the optimiser; and it casts each weight, and its gradient back.
    """
    wide = [each for each in found.calls if _type(each) in ("float32", "float64")]
    products = [each for each in found.calls if multiplies(each.call.cost)]
    here = [each for each in wide if multiplies(each.call.cost)]
    if 2 * sum(each.work_s for each in here) < sum(each.work_s for each in products) or not here:
        return None
    kept = {id(each) for each in inside(found, own_steps(found))}
    cast = [each for each in wide if id(each) not in kept and (multiplies(each.call.cost) or _follows(each))]
    what = "of the time computes in float32 or float64, products of matrices too"
    return _changed(found, cast, _shortened(found), "tensor cores", what, _cast_weights)


def in_one_setting(found: Evidence) -> Remedy | None:
    """The same products in TF32, one setting of torch's; in memory all tensors stay as they are."""
    here = [each for each in found.calls if (cost := each.call.cost) and cost.matmuls and dtype_of(cost) == "float32"]
    return _changed(found, here, in_tf32, "tf32", "of the time multiplies in float32, stored as it is")


def _follows(each: Assessed) -> bool:
    """Whether it computes in the type that it is given, under autocast."""
    cost = each.call.cost
    return cost is not None and (cost.kind not in LEFT_ALONE or "batch_norm" in cost.name)


def _cast_weights(cost: OperatorCost) -> tuple[OperatorCost, ...]:
    """The casts of each product's weights, or of their gradient: of its sides the one that the batch is not in.

    The batch is the least size of a skinny product, and the greatest of others.
    """
    sizes = [sorted((each.m, each.n, each.k)) for each in cost.matmuls if each.batch == 1]
    weights = sum(middle * (most if SKINNY * least <= middle else least) for least, middle, most in sizes)
    made = OperatorCost("aten._to_copy", 0.0, 4 * weights, 2 * weights, "float32", ((weights,),), "copy")
    return (made,) if weights else ()


def halving(found: Evidence) -> Remedy | None:
    """Half the bytes in a short type, where no product of matrices gains more from it."""
    wide = [each for each in found.calls if _type(each) in ("float32", "float64") and each.limit == "memory"]
    if any(multiplies(each.call.cost) for each in found.calls):
        return None
    what = "of the time moves float32 or float64 to and from memory"
    return _changed(found, wide, _shortened(found), "lower precision", what)


def padding(found: Evidence) -> Remedy | None:
    odd = [each for each in found.calls if multiplies(each.call.cost) and _padded(each.call.cost) != each.call.cost]
    return _changed(found, odd, _padded, "padding", "of the time is spent on products whose rows begin at odd bytes")


def _changed(
    found: Evidence, calls: Sequence[Assessed], change: Callable[[OperatorCost], OperatorCost], name: str, what: str,
    more: Callable[[OperatorCost], tuple[OperatorCost, ...]] = lambda cost: (),
) -> Remedy | None:  # fmt: skip
    """A remedy that makes other operators of some, and `more` of each: its time goes as the prediction does."""
    if found.model is None or not calls or not found.gpu:
        return None
    saved_s = 0.0
    for each in calls:
        assert each.call.cost is not None
        now_s, then_s = (found.predicted_s([cost]) for cost in (each.call.cost, change(each.call.cost)))
        saved_s += each.work_s * (1 - min(1.0, then_s / now_s)) if 0 < now_s < math.inf else 0.0
        saved_s -= found.predicted_s(more(each.call.cost))
    share = units.percent(found.share * sum(each.work_s for each in calls) / found.wall_s)
    return Remedy(name, found.faster(saved_s), f"{share} {what}.")


def _shortened(found: Evidence) -> Callable[[OperatorCost], OperatorCost]:
    """How an operator is put into the short type that the device has units for."""
    has = found.model.has_units if found.model is not None else lambda name: False
    dtype = next((each for each in SHORT_TYPES if has(f"matmul.{short(each)}")), SHORT_TYPES[0])

    def change(cost: OperatorCost) -> OperatorCost:
        by = ITEMSIZE[dtype] / ITEMSIZE.get(cost.dtype, 4)
        products = tuple(replace(each, dtype=dtype) for each in cost.matmuls)
        read, written = cost.read_bytes * by, cost.written_bytes * by
        return replace(cost, dtype=dtype, read_bytes=read, written_bytes=written, matmuls=products)

    return change


def _padded(cost: OperatorCost | None) -> OperatorCost:
    assert cost is not None
    return replace(cost, matmuls=tuple(whole(each) if each.batch == 1 else each for each in cost.matmuls))


def multiplying(found: Evidence) -> Remedy | None:
    """Products in split precision or by Strassen's levels, where `brrr.strassen` is predicted to be faster."""
    if found.model is None or not found.gpu:
        return None
    from brrr.strassen import plan

    device, saved_s, spent_s = found.model.peaks or found.model.device, 0.0, 0.0
    for each in found.calls:
        cost = each.call.cost
        if each.limit != "compute" or cost is None or cost.kind != "matmul" or dtype_of(cost) != "float32":
            continue
        if all(product.batch == 1 for product in cost.matmuls):
            plans = [plan(product.m, product.n, product.k, device=device) for product in cost.matmuls]
            then_s = sum(made.predicted_s or math.inf for made in plans)
            saved_s, spent_s = saved_s + max(0.0, each.work_s - then_s), spent_s + each.work_s
    if not saved_s:
        return None
    share = f"{units.percent(found.share * spent_s / found.wall_s)} of the time"
    why = f"{share} multiplies in float32: `brrr.strassen.matmul` is predicted to be faster, and as accurate."
    return Remedy("strassen", found.faster(saved_s), why)


def strided(found: Evidence) -> Remedy | None:
    """A GPU moves whole sectors: of one with gaps between the numbers, what lies in the gaps too."""
    saved_s, share_s = 0.0, 0.0
    for each in found.calls:
        waste = _waste(each.call.operator)
        if waste > 1 and not (found.gpu and each.limit == "under-filled"):
            least_s = max(each.work_s / waste, each.predicted_s or 0.0)
            saved_s, share_s = saved_s + max(0.0, each.work_s - least_s), share_s + each.work_s
    if not saved_s:
        return None
    share = units.percent(found.share * share_s / found.wall_s)
    return Remedy("contiguous", found.faster(saved_s), f"{share} of the time reads tensors with gaps between numbers.")


def _waste(event: Event) -> float:
    """How many times as much is moved as is asked for, by the smallest stride of the largest input."""
    if event.inputs is None:
        return 1.0
    tensors = [
        (size, stride) for size, stride in zip(event.inputs.sizes, event.inputs.strides, strict=True)
        if size and len(size) == len(stride) and all(isinstance(each, int) for each in size)
    ]  # fmt: skip
    if not tensors:
        return 1.0
    size, stride = max(tensors, key=lambda each: math.prod(each[0]))
    apart = min((step for step, length in zip(stride, size, strict=True) if length > 1 and step > 0), default=1)
    return float(min(apart, SECTOR // 4))


def channels(found: Evidence) -> Remedy | None:
    """Copies that a library makes to put the channels last, and back."""
    turned = [each for each in found.events if each.sort == "kernel" and turns(each.name)]
    took_s = sum(each.end_ns - each.start_ns for each in turned) / 1e9
    back = any(each.call.operator.name.rpartition(":")[2].startswith(WITHOUT_CHANNELS_LAST) for each in found.calls)
    if not took_s or back:
        return None
    why = f"The library turns images around in {units.percent(took_s / found.wall_s)} of the time."
    return Remedy("channels last", found.faster(took_s), why)


def _type(each: Assessed) -> str:
    return each.call.cost.dtype if each.call.cost is not None else ""
