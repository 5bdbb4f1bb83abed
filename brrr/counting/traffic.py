"""Which bytes each operator reads and writes when it runs as a kernel of its own.

Each different region of its arguments is read once, each result written once; an argument changed in place is read and
written. A broadcast dimension counts once, a view nothing. What differs from that stands in the tables here:
operators that overwrite without reading, that read only the rows their index names, that read an input twice because
it does not fit in a cache between two passes, and that take an argument for its shape alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from brrr.core.intervals import Interval, length, union
from brrr.counting.call import Call
from brrr.counting.conventions import formulas, indexed_elements, looked_up
from brrr.counting.matmuls import ATTENTION
from brrr.counting.reductions import trains, wanted

_OVERWRITES = {
    "copy", "fill", "zero", "normal", "uniform", "bernoulli", "exponential", "random", "log_normal", "cauchy",
    "geometric", "_foreach_copy", "_foreach_zero", "resize", "set", "index_put", "_index_put_impl", "index_copy",
    "index_fill", "scatter",
}  # fmt: skip
_MADE_ALIKE = (
    "zeros_like ones_like full_like rand_like randn_like randint_like empty_like new_empty new_empty_strided "
    "new_zeros new_ones new_full nll_loss_backward nll_loss2d_backward"
)
_SHAPE_ONLY = {**dict.fromkeys(_MADE_ALIKE.split(), "self"), "log_sigmoid_backward": "buffer"}  # which a CPU alone has
_ALLOCATES = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize", "set",
}  # fmt: skip
_BATCH_NORM_BACKWARD = ("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward")
_RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of one region of one storage; fewer than the region's where an index picks some; `picked` says by which."""

    storage: int
    region: Region
    bytes: int
    picked: Any = None


@dataclass(frozen=True, slots=True)
class CallTraffic:
    """What one call reads and writes; `again_bytes` is what a second pass reads once more."""

    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    again_bytes: int = 0


def amount(accesses: Iterable[Access]) -> int:
    """The bytes of accesses together, those of several to one region counted once."""
    by_storage: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        by_storage[access.storage].append(access)
    return sum(_amount_of_one(found) for found in by_storage.values())


def _amount_of_one(accesses: list[Access]) -> int:
    """Of one storage: whole regions, and each different picking, never more than the picked regions themselves."""
    whole = {access.region for access in accesses if access.picked is None}
    picked = {(a.region, a.picked): a.bytes for a in accesses if a.picked is not None and a.region not in whole}
    regions = whole | {region for region, _ in picked}
    return min(union_bytes(whole) + sum(picked.values()), union_bytes(regions))


def storage_key(tensor: torch.Tensor) -> int:
    """One number for all tensors that share a storage, good while that storage lives."""
    return int(tensor.untyped_storage()._cdata)


def traffic_of(call: Call) -> CallTraffic:
    """What a call reads and writes, by the rules above."""
    if is_view(call):
        return CallTraffic()
    name = call.name.removeprefix("aten.")
    reads = [_read(call, name, argument, t) for argument, t in call.each_argument() if _is_read(call, name, argument)]
    writes = [_whole(t) for t in _results(call, name)]
    changed = [(each, t) for each in _changed(call, name) for t in call.tensors(each)]
    writes += [_whole(t) if each in call.targets else _write(call, name, t) for each, t in changed]
    again = sum(union_bytes([region_of(t)]) for t in _read_twice(call, name) if t.numel())
    return CallTraffic(tuple(filter(None, reads)), tuple(filter(None, writes)), again)


def is_view(call: Call) -> bool:
    """Whether nothing runs on the device: every result is a view of an argument, or only asked is what a tensor is."""
    if call.only_view or call.name == "aten.record_stream":
        return True
    if call.written or not call.outputs:
        return not call.written and call.name not in formulas()
    sources = {storage_key(tensor) for _, tensor in call.each_argument()}
    return all(storage_key(out) in sources for out in call.outputs)


def _whole(tensor: torch.Tensor) -> Access | None:
    if not tensor.numel():
        return None
    region = region_of(tensor)
    return Access(storage_key(tensor), region, region.bytes)


def _part(tensor: torch.Tensor, elements: int, picked: Any) -> Access | None:
    """Some elements of a tensor, at most all of them."""
    whole = _whole(tensor)
    if whole is None or elements * tensor.element_size() >= whole.bytes:
        return whole
    return Access(whole.storage, whole.region, elements * tensor.element_size(), picked)


def _results(call: Call, name: str) -> list[torch.Tensor]:
    """The results that are written: not those of `empty`, not the arguments returned, not attention's bookkeeping."""
    if name in _ALLOCATES:
        return []
    sources = {storage_key(tensor) for _, tensor in call.each_argument()}
    results = call.outputs[: {"log_sigmoid_forward": 1}.get(name, 2 if call.name in ATTENTION else None)]
    return [out for out in results if storage_key(out) not in sources]


def _changed(call: Call, name: str) -> tuple[str, ...]:
    """The arguments written, those included that a schema forgets: a training batch norm's running statistics."""
    if name in ("native_batch_norm", "cudnn_batch_norm"):
        return tuple(each for each in _RUNNING if trains(call) and call.has(each))
    if name.startswith("_fused_") and not call.has("grad_scale"):  # by which an optimizer divides its gradients
        return tuple(each for each in call.written if each != "grads")
    return call.written if name not in _ALLOCATES else ()


def _is_read(call: Call, name: str, argument: str) -> bool:
    if argument in call.targets or argument == _SHAPE_ONLY.get(name):
        return False
    if argument in call.written and name in _OVERWRITES:
        return bool(call.args.get("accumulate") or call.args.get("reduce"))
    if name == "convolution_backward":
        to_input, to_weight, _ = call.args["output_mask"]
        return bool({"input": to_weight, "weight": to_input}.get(argument, True))
    if name in _BATCH_NORM_BACKWARD:
        return not (argument in _RUNNING and trains(call))
    return True


_PICKS: dict[str, tuple[str, str, Callable[[Call], int]]] = {name: (source, by, count) for names, source, by, count in (
    ("embedding", "weight", "indices", lambda call: call.output.numel()),
    ("gather index_select take", "self", "index", lambda call: call.output.numel()),
    ("index _unsafe_index", "self", "indices", lambda call: call.output.numel()),
    ("_embedding_bag _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward", "weight", "indices",
     looked_up),
    ("nll_loss_forward nll_loss2d_forward", "self", "target", lambda call: call.tensor("target").numel()),
) for name in names.split()}  # fmt: skip
"""Of which argument an operator takes only some elements, by which index, and how many."""


def _read(call: Call, name: str, argument: str, tensor: torch.Tensor) -> Access | None:
    """All of a tensor, or what an index picks from it; what is changed in part is read in part."""
    if name in _PICKS and argument == _PICKS[name][0]:
        _, by, count = _PICKS[name]
        return _part(tensor, count(call), _names_of(call, by))
    return _write(call, name, tensor) if argument in call.written else _whole(tensor)


def _names_of(call: Call, argument: str) -> tuple[Any, ...]:
    """The index tensors of an access: two accesses with the same ones touch the same elements."""
    tensors = [tensor for tensor in call.tensors(argument) if tensor.numel()]
    return tuple((storage_key(tensor), region_of(tensor)) for tensor in tensors)


def _write(call: Call, name: str, tensor: torch.Tensor) -> Access | None:
    """All of a tensor changed in place, or the part that an index names."""
    if name in ("index_put", "_index_put_impl"):
        return _part(tensor, indexed_elements(call), _names_of(call, "indices"))
    if name == "embedding_renorm":
        return _part(tensor, looked_up(call), _names_of(call, "indices"))
    if name in ("scatter", "scatter_add", "scatter_reduce"):
        return _part(tensor, call.tensor("index").numel(), _names_of(call, "index"))
    if name in ("index_add", "index_copy", "index_fill", "index_reduce"):
        along = tensor.shape[call.args["dim"]] if tensor.dim() else 1
        rows = call.tensor("index").numel()
        return _part(tensor, rows * math.prod(tensor.shape) // max(along, 1), _names_of(call, "index"))
    return _whole(tensor)


def _read_twice(call: Call, name: str) -> list[torch.Tensor]:
    """Inputs that a second pass over the whole tensor reads again: statistics first, then their use."""
    if name == "native_group_norm" or ("batch_norm" in name and "backward" not in name and trains(call)):
        return [call.tensor("input")]
    centred = name in ("native_layer_norm_backward", "_fused_rms_norm_backward") and any(wanted(call)[1:])
    if centred or name == "native_group_norm_backward" or (name in _BATCH_NORM_BACKWARD and trains(call)):
        grad = "grad_output" if "grad_output" in call.args else "grad_out"
        return [call.tensor(grad), call.tensor("input")]
    return []


# ---------------------------------------------------------------------------------------------------------------------
# Which bytes of a storage a tensor covers, and how many a set of such regions covers together.


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of a storage behind a view: from `start`, along `dims` of (stride, size) in elements.

    Transposes, reshapes and broadcasts of one view have one region: dimensions of stride 0 or size 1 are left out, the
    others sorted, and those that run on into each other joined.
    """

    start: int
    dims: tuple[tuple[int, int], ...]
    itemsize: int

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.start + (1 + sum(stride * (size - 1) for stride, size in self.dims)) * self.itemsize

    @property
    def bytes(self) -> int:
        """Its bytes; windows that overlap (`unfold`) count once."""
        return min(math.prod(size for _, size in self.dims) * self.itemsize, self.end - self.start)

    @property
    def dense(self) -> bool:
        """Whether it has no holes."""
        return self.bytes == self.end - self.start


def region_of(tensor: torch.Tensor) -> Region:
    """The region of a tensor with at least one element.

    >>> x = torch.empty(4, 6)
    >>> region_of(x) == region_of(x.t()) == region_of(x.view(24).expand(5, 24))
    True
    >>> region_of(x[:, :3]).bytes, region_of(x.expand(9, 4, 6)).bytes
    (48, 96)
    """
    steps = sorted((int(s), int(n)) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1 and s)
    joined: list[tuple[int, int]] = []
    for stride, size in steps:
        if joined and stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = joined[-1][0], joined[-1][1] * size
        else:
            joined.append((stride, size))
    itemsize = tensor.element_size()
    return Region(int(tensor.storage_offset()) * itemsize, tuple(joined), itemsize)


def union_bytes(regions: Iterable[Region]) -> int:
    """How many bytes different regions of one storage cover together.

    >>> x = torch.empty(10)
    >>> union_bytes([region_of(x[:6]), region_of(x[4:]), region_of(x[2:3])])
    40

    Exact for regions without holes. Of those with holes, equal ones and ones inside a dense one count once; others
    are summed, at most up to what lies between their ends.
    """
    different = set(regions)
    solid = union((each.start, each.end) for each in different if each.dense)
    holed = [each for each in different if not each.dense and not _inside(each, solid)]
    covered = length(solid)
    if not holed:
        return covered
    return min(covered + sum(each.bytes for each in holed), length((each.start, each.end) for each in different))


def covered_by(region: Region, others: Iterable[Region]) -> bool:
    """Whether a region lies within others: the same one, or inside dense ones."""
    known = set(others)
    return region in known or _inside(region, union((each.start, each.end) for each in known if each.dense))


def _inside(region: Region, intervals: list[Interval]) -> bool:
    return any(start <= region.start and region.end <= end for start, end in intervals)
