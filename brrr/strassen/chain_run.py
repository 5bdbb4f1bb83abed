"""A chain of layers run by Strassen products, the passes between two of them fused: buffers and launches made once.

>>> from brrr.strassen.layers import Layer
>>> chain = (Layer(torch.randn(16, 16), torch.randn(16)), Layer(torch.randn(8, 16), None, relu=False))
>>> x, how = torch.randn(4, 16), Implementation("sgemm", 1, "strassen", prepared=True)
>>> rights = [prepare_right(Right(layer.weight, True), how) for layer in chain]
>>> run = ChainRun(chain, (how, how), rights, x)
>>> expected = chain[1].plain(chain[0].plain(x))
>>> torch.allclose(run(x), expected, atol=1e-4)
True

Between two layers with as many levels lies one pass over memory: the sums of products, bias, ReLU, and the sums of
blocks that the next products need. It is what makes Strassen's additions nearly free in a network.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from brrr.strassen.accuracy import PLAIN
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.block_products import product_step
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import prepare_right, steps
from brrr.strassen.implementations import Implementation, Problem
from brrr.strassen.launcher import Run, run_all
from brrr.strassen.layers import Chain, activate
from brrr.strassen.operands import Arena, Right, operand_name
from brrr.strassen.passes.launch import post_add_step, pre_add_step, prepared
from brrr.strassen.passes.sums import assembled_work


class ChainRun:
    """One chain, ways and number of rows: a call makes the launches that depend on where x and the result lie.

    implementations: one a layer, prepared; rights: each layer's weights, ready for its own. `kept`: tensors (m, n) that
    also get each layer's output, for training; None keeps none. Launches hold all tensors that they know by address.
    """

    def __init__(
        self, chain: Chain, implementations: Sequence[Implementation], rights: Sequence[Right], x: torch.Tensor, *,
        kept: Sequence[torch.Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.chain, self.implementations, self.rights, self.rows = chain, tuple(implementations), rights, x.shape[0]
        pairs, operand, places = zip(implementations, chain, strict=True), operand_name(x), range(len(chain))
        problems = [Problem(how, self.rows, layer.n, layer.k, operand) for how, layer in pairs]
        # Level 0: no pass to share with a neighbour. Fused: the pass behind a layer makes the next one's factors too.
        self._levels = levels = [0 if how.kind.split else how.level for how in implementations]
        self._fused = [one > 0 and one == other for one, other in pairwise([*levels, 0])]
        self._arena = Arena(max(0 if levels[i] else workspace_bytes(p) for i, p in enumerate(problems)), x.device)
        leveled = [p if level else replace(p, m=0) for p, level in zip(problems, levels, strict=True)]  # no buffers
        lefts = [buffer_shape(p.m, p.k, "left", level) for p, level in zip(leveled, levels, strict=True)]
        products = [products_shape(p.m, p.n, level) for p, level in zip(leveled, levels, strict=True)]
        self._left = _overlaid(lefts, [how.dtype for how in implementations], x.device)
        self._products = _overlaid(products, [p.product_dtype for p in problems], x.device)
        self._outputs: list[Any] = list(kept or ())[:-1] or [
            None if self._fused[p] else x.new_empty(self.rows, chain[p].n) for p in places[:-1]
        ]
        self._fixed = [self._without_x(place) for place in places]
        self._inner = {p: self._layer(p, self._outputs[p - 1], self._outputs[p]) for p in places[1:-1]}

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The chain's result for x, (rows, k), in `out` or a new tensor."""
        if out is None:
            out = x.new_empty(self.rows, self.chain[-1].n)
        run_all(self.steps(x, out))
        return out

    def steps(self, x: torch.Tensor, out: torch.Tensor) -> list[Run]:
        """Every launch of the chain, in order, from x into `out`."""
        made: list[Run] = []
        for place, (source, target) in enumerate(zip([x, *self._outputs], [*self._outputs, out], strict=True)):
            made += self._inner[place] if place in self._inner else self._layer(place, source, target)
        return made

    def _without_x(self, place: int) -> list[Run]:
        """A layer's launches that know neither x nor the result: products, and the pass to the next ones."""
        if not self._levels[place]:
            return []
        how, layer, right = self.implementations[place], self.chain[place], self.rights[place]
        products, turned = self._products[place], right.made_transposed
        made = [product_step(how.kind, self._left[place], right.factors[0], products, right_transposed=turned)]
        if self._fused[place]:
            given = how.form, how.level, (self.rows, layer.n), layer.bias, layer.relu, self._outputs[place]
            behind, left = str(self.implementations[place + 1].form), self._left[place + 1]
            made.append(prepared(replace(assembled_work(products, *given), spread=behind, high=left)))
        return made

    def _layer(self, place: int, source: torch.Tensor, target: torch.Tensor) -> list[Run]:
        """All launches of a layer, but for passes that its neighbours share."""
        how, layer, right, made = self.implementations[place], self.chain[place], self.rights[place], self._fixed[place]
        if self._levels[place]:
            before = [] if self._fused[place - 1] else [pre_add_step(source, "left", how, self._left[place])]
            if self._fused[place]:
                return [*before, *made]
            return [*before, *made, post_add_step(self._products[place], how, target, layer.bias, layer.relu)]
        if how.classical and how.inner in (PLAIN[operand_name(source)], "tf32"):  # torch has bias and ReLU itself
            return [partial(layer.into, source, target, tf32=how.inner == "tf32")]
        with self._arena.mark():
            made = steps(how, source, right, target, self._arena, whole=True)
        return [*made, partial(activate, target, layer.bias, layer.relu)]


def _overlaid(shapes: Iterable[tuple[int, ...]], dtypes: Iterable[str], device: torch.device) -> list[torch.Tensor]:
    """A buffer for each layer, all of them in the same memory."""
    typed = [(shape, getattr(torch, dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)]
    arena, made = Arena(max(math.prod(shape) * dtype.itemsize for shape, dtype in typed), device), []
    for shape, dtype in typed:
        with arena.mark():
            made.append(arena.take(shape, dtype))
    return made


# ---------------------------------------------------------------------------------------------------------------------
# A chain's training step: the forward pass keeps each layer's output, for gradients to be made of.


def outputs_of(chain: Chain, x: torch.Tensor, implementations: Sequence[Implementation]) -> list[torch.Tensor]:
    """Each layer's output."""
    outputs = [x.new_empty(x.shape[0], layer.n) for layer in chain]
    pairs = zip(chain, implementations, strict=True)
    rights = [prepare_right(Right(layer.weight, True), how, once=False) for layer, how in pairs]
    ChainRun(chain, implementations, rights, x, kept=outputs)(x, outputs[-1])
    return outputs
