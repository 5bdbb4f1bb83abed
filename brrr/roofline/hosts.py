"""Which measured host cost counts for an operator: that of its own call where there is one, else that of its class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brrr.counting.cost import OperatorCost
from brrr.roofline.basis import Basis

WHOLE = "whole"
"""The kind of a cost that does not tell its operators."""

CLASS: Mapping[str, str] = {
    "view": "view", "copy": "copy", "pointwise": "pointwise", "reduction": "reduction", "softmax": "softmax",
    "norm": "norm", "matmul": "matmul", "fused": "pointwise",
    "scan": "reduction", "loss": "reduction", "pooling": "reduction", "index": "pointwise", "random": "pointwise",
    "convolution": "matmul", "attention": "matmul", "recurrent": "matmul", "unknown": "pointwise",
}  # fmt: skip
"""Which measured class counts for which kind of operator."""

OWN: Mapping[str, str] = {
    "aten.relu": "relu", "aten.clamp": "relu", "aten.clamp_min": "relu", "aten.addmm": "addmm", "aten.clone": "clone",
    "aten.t": "transpose", "aten.transpose": "transpose", "aten.select": "select", "aten.slice": "select",
    "aten._to_copy": "cast", "aten.native_batch_norm": "batch-norm", "aten._fused_rms_norm": "rms-norm",
}  # fmt: skip
"""Operators whose own host cost is measured; a bound of relu is a number, which Python hands over at a price."""


def host_class(each: OperatorCost, basis: Basis) -> str:
    """The name, behind `host.`, of the figure that counts; a class that stands in for another one becomes a note."""
    for name in _nearest(each):
        if basis.has(f"host.{name}"):
            return name
    found = CLASS.get(each.kind, "pointwise")
    if found != each.kind and each.kind not in ("fused", WHOLE):
        basis.note(f"issuing {each.kind} operators counts as issuing {found} ones")
    return found


def behind_transpose_s(each: OperatorCost, before: str, basis: Basis) -> float | None:
    """What a product costs right behind a transpose: both are one call of `F.linear`, which was measured as a module.

    None where that is not so, or was not measured.
    """
    needed = ("host.linear", "host.module", "host.transpose")
    if (before, each.name) != ("aten.t", "aten.mm") or not all(map(basis.has, needed)):
        return None
    linear, module, transpose = map(basis.value, needed)
    return max(0.0, linear - module - transpose)


def _nearest(each: OperatorCost) -> Iterator[str]:
    """Figures nearer to a call than that of its class: a number in place of a tensor, in place, one tensor alone."""
    if each.name in OWN:
        yield OWN[each.name]
    if each.kind == "pointwise" and each.name.endswith("_"):
        yield "in-place-scalar" if each.form.name == "scalar" else "in-place"
        yield "in-place"
    if each.form.name == "scalar":
        yield "scalar"
    if each.kind == "pointwise" and len(each.shapes) == 1 and each.shapes[0] and each.form.name == "":
        yield "unary"
    if each.kind == "reduction" and each.form.name in ("rows", "columns"):
        yield "reduction-rows"
    if each.name == "aten.view" and each.shapes and len(each.shapes[0]) == 1:
        yield "view-shape"
