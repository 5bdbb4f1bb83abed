"""A persistent kernel: many short kernels that wait for each other, in one launch that the package has."""

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise

from brrr.core import units
from brrr.counting.cost import Matmul
from brrr.diagnosis.assess import Assessed
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.diagnosis.operator_cost import TYPES
from brrr.roofline.gemm_families import operator_of

RELU = ("relu", "relu_", "clamp_min", "clamp_min_")
RNN = "_cudnn_rnn"
CELLS = ("rnn_relu", "rnn_tanh", "lstm")
"""cuDNN's recurrent layers by its numbers for them; it has a fourth one, of which there is no persistent kernel."""

Chain = tuple[Sequence[Assessed], float, str]
"""Calls that one launch can replace, the seconds predicted for it, and both in words."""


def persistent(found: Evidence) -> Remedy | None:
    """In place of chains that there is a kernel for, its predicted time; the host issues the rest as before."""
    if not found.gpu or found.model is None or any(each.call.phase != "forward" for each in found.calls):
        return None
    made = [chain for step in found.by_step for chain in (*_stacks(found, step), *_recurrences(found, step))]
    if not made:
        return None
    calls = [each for chain, _, _ in made for each in chain]
    kernels = sum(len(each.call.kernels) for each in calls)
    issuing_s = (found.wall_s - found.device_s) * (1 - kernels / found.shares.kernels)
    others_s = found.device_s - found.share * sum(each.work_s for each in calls)
    left_s = issuing_s + others_s + sum(seconds for _, seconds, _ in made)
    why = f"{round(kernels / found.steps)} kernels a step wait for each other: {made[0][2]}."
    return Remedy("persistent kernel", found.wall_s / left_s, why)


def _stacks(found: Evidence, step: Sequence[Assessed]) -> Iterator[Chain]:
    """Square layers of one size in float32, each with a ReLU, one behind the other."""
    from brrr.networks.network import Network
    from brrr.networks.network_time import megakernel_period

    assert found.model is not None
    layers: list[Matmul | None] = [None] * len(step)
    for at, (before, each) in enumerate(pairwise(step)):
        if each.call.name in RELU:
            layers[at] = layers[at + 1] = _square(before)
    for layer, places in groupby(range(len(step)), key=layers.__getitem__):
        if layer is not None:
            chain = [step[at] for at in places]
            network = Network(len(chain) // 2, layer.m, layer.k)
            seconds, assumed = megakernel_period(network, found.model.peaks or found.model.device)
            by = "by what is assumed of it" if assumed else "by its plans"
            yield chain, seconds, f"a launch of `Megakernel` takes {units.seconds(seconds)} for {network}, {by}"


def _square(each: Assessed) -> Matmul | None:
    products = each.call.cost.matmuls if each.call.cost is not None and each.call.name == "addmm" else ()
    fits = len(products) == 1 and products[0].n == products[0].k and products[0].dtype in ("float32", "tf32")
    return products[0] if fits else None


def _recurrences(found: Evidence, step: Sequence[Assessed]) -> Iterator[Chain]:
    """Layers that cuDNN runs step by step."""
    from brrr.kernels.recurrent.plan import plan, predicted_s

    for each in step:
        inputs = each.call.operator.inputs
        if each.call.name != RNN or inputs is None:
            continue
        with suppress(LookupError, TypeError, ValueError, SyntaxError):  # a layer that the kernel has no plan for
            told = [ast.literal_eval(number) for number in inputs.numbers[6:14]]
            mode, hidden, projected, layers, batch_first, _, _, both_ways = told
            if projected or both_ways:
                continue
            steps, batch, width = inputs.sizes[0]
            steps, batch = (batch, steps) if batch_first else (steps, batch)
            cell, dtype = CELLS[mode], TYPES[inputs.types[0]]
            made = plan(cell, hidden, batch, dtype)
            rows, columns = steps * batch, made.gates * hidden
            inner = [width, *[hidden] * (layers - 1)]
            products = [operator_of(Matmul(rows, columns, k, dtype=dtype)) for k in inner]
            seconds = layers * predicted_s(made, steps) + found.predicted_s(products)
            what = f"{steps} steps of {cell} {hidden}, batch {batch}, {dtype}"
            yield [each], seconds, f"`brrr.PersistentRNN` takes {units.seconds(seconds)} for {what}, by its plan"
