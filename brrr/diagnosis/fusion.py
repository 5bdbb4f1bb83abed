"""Fusion and rematerialisation: neighbours in one kernel, and what their gradients read computed again in it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from brrr.core import units
from brrr.counting.cost import ITEMSIZE, Form, OperatorCost
from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.evidence import WORTH, Evidence, Remedy
from brrr.roofline.lowering import LAST, MERGED, chains, merged, recomputing, spared


def fusing(found: Evidence) -> Remedy | None:
    """Neighbours of a step become one kernel, which moves less; what is held up by something else is left out.

    Of a training step, the compiler that fuses also computes again what the backward pass would read: it is named where
    that alone is worth it.
    """
    if found.model is None or not found.calls:
        return None
    took_s, then_s, spared_s, nbytes = map(sum, zip(*(_of_step(found, step) for step in found.by_step), strict=True))
    if not then_s < took_s:
        return None
    gain, share = found.faster(took_s - then_s), units.percent(then_s / took_s)
    why = f"Fused, the operators move less: their work is predicted to take {share} of the time."
    if gain < WORTH * found.faster(took_s - then_s - spared_s):
        return Remedy("fusion", gain, why)
    again = f"The backward pass computes {units.nbytes(nbytes / found.steps)} a step again in place of reading them"
    return Remedy("rematerialisation", gain, f"{why} {again}, and nobody writes them: torch.compile does both.")


def _of_step(found: Evidence, step: Sequence[Assessed]) -> tuple[float, float, float, float]:
    """Seconds now and fused, and what of the gain, in seconds and bytes, is due to computing again."""
    took_s = then_s = spared_s = nbytes = 0.0
    forward, backward = [], []  # type: list[Chain], list[Chain]
    moving = [each for each in step if each.limit != "unknown" and not (found.gpu and each.limit == "under-filled")]
    for _, group in groupby(moving, key=_lane):
        for part in _attention_apart(list(group)):
            costs = [each.call.cost for each in part if each.call.cost is not None]
            part_s, now_s = sum(each.work_s for each in part), found.predicted_s(costs)
            took_s += part_s
            if _is_attention(part):
                then_s += found.predicted_s([_attention(costs[0], costs[-1])])
            elif 0.0 < now_s < math.inf:  # what is slower than predicted stays so
                kernels = chains(costs)
                then_s += part_s * min(1.0, found.predicted_s(map(merged, kernels)) / now_s)
                kept = [(each, part_s / now_s) for each in kernels if _can_run_again(each)]
                if part[0].call.phase == "backward":
                    backward += kept
                elif not backward:  # what follows the backward pass is the optimiser's
                    forward += kept
            else:
                then_s += part_s
    for (before, _), (behind, slower) in zip(reversed(forward), backward, strict=False):
        saved = spared(before, behind)
        writes = replace(merged(before), written_bytes=merged(before).written_bytes + saved)
        again_s = found.predicted_s([merged(before), recomputing(before, behind)])
        saved_s = found.predicted_s([writes, merged(behind)])
        if again_s < saved_s:
            then_s += slower * (again_s - found.predicted_s([merged(before), merged(behind)]))
            spared_s += slower * (saved_s - again_s)
            nbytes += saved
    return took_s, then_s, spared_s, nbytes


Chain = tuple[list[OperatorCost], float]
"""The operators of a fused kernel, and how many times as long as predicted they took."""


def _lane(each: Assessed) -> tuple[object, ...]:
    """What neighbours have in common that can become one kernel."""
    return each.call.phase, each.call.cost is None, {(one.device, one.stream) for one in each.call.kernels}


def _can_run_again(chain: Sequence[OperatorCost]) -> bool:
    """Whether a chain's work is done for each number: no product, no kernel of a compiler that has chosen already."""
    return not any(each.matmuls or each.kind == "fused" for each in chain) and chain[0].kind in MERGED - LAST


BETWEEN = 2
"""So many kernels stand between the products of attention: a scale or a mask, and the softmax."""


def _attention_apart(calls: list[Assessed]) -> Iterator[list[Assessed]]:
    """Runs of calls, with each attention by hand (a product, a softmax, a product) as a run of its own."""
    begun = at = 0
    while at < len(calls):
        length = next((n for n in range(3, BETWEEN + 3) if _is_attention(calls[at : at + n])), 0)
        if length:
            yield from ([calls[begun:at], calls[at : at + length]] if at > begun else [calls[at : at + length]])
            begun = at = at + length
        else:
            at += 1
    if calls[begun:]:
        yield calls[begun:]


def _is_attention(calls: Sequence[Assessed]) -> bool:
    first, last = calls[0].call.cost, calls[-1].call.cost
    between = calls[1:-1]
    if not (multiplies(first) and multiplies(last)) or any(multiplies(each.call.cost) for each in between):
        return False
    return any("softmax" in each.call.name for each in between)


def _attention(scores: OperatorCost, out: OperatorCost) -> OperatorCost:
    """One kernel for the scores of queries and keys, their softmax, and its product with the values."""
    products = (*scores.matmuls, *out.matmuls)
    last = products[-1]
    values = float(last.batch * last.k * last.n * ITEMSIZE.get(out.dtype, 4))
    return OperatorCost(
        "attention", (scores.flop or 0.0) + (out.flop or 0.0), scores.read_bytes + values, out.written_bytes, out.dtype,
        out.shapes, "attention", products, Form("all", last.batch * last.m, last.n),
    )  # fmt: skip
