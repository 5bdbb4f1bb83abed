"""A chain of layers run by Strassen products, the passes between two of them fused: buffers and launches made once.

>>> from brrr.strassen.layers import Layer
>>> chain = (Layer(torch.randn(16, 16), torch.randn(16)), Layer(torch.randn(8, 16), None, relu=False))
>>> x, how = torch.randn(4, 16), Implementation("sgemm", 1, "strassen", prepared=True)
>>> rights = [prepare_right(Right(layer.weight, True), how) for layer in chain]
>>> run = ChainRun(chain, (how, how), rights, x)
>>> expected = chain[1].plain(chain[0].plain(x))
>>> torch.allclose(run(x), expected, atol=1e-4)
True

Between two layers with levels lies one pass over memory: the sums of products, bias, ReLU, and the sums of blocks that
the next products need. It is what makes Strassen's additions nearly free in a network.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from brrr.gpu.cublas_lt import capturing
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.block_products import product_step
from brrr.strassen.cost import rounded, workspace_bytes
from brrr.strassen.execution import prepare_right, steps
from brrr.strassen.implementations import Implementation
from brrr.strassen.launcher import Run, run_all
from brrr.strassen.layers import Chain, Limits, activate
from brrr.strassen.operands import Arena, Right, operand_name
from brrr.strassen.passes.launch import post_add_step, pre_add_step, prepared
from brrr.strassen.passes.sums import assembled_work, layer_works
from brrr.strassen.problem import Problem
from brrr.strassen.product import product


class ChainRun:
    """One chain, ways and number of rows: a call makes the launches that depend on where x and the result lie.

    ways: one a layer, prepared; rights: each layer's weights, ready for its way. `kept`: tensors (m, n) that also get
    each layer's output, for training; None keeps none.
    """

    def __init__(
        self, chain: Chain, implementations: Sequence[Implementation], rights: Sequence[Right], x: torch.Tensor, *,
        kept: Sequence[torch.Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.chain, self.implementations, self.rights = chain, tuple(implementations), tuple(rights)
        self.rows, self.dtype = x.shape[0], x.dtype
        self._arena = Arena(self._needed(operand_name(x)), x.device)
        self._left, self._products = self._buffers()
        self._outputs = [self._output(place, x, kept) for place in self._places[:-1]]
        self._made: dict[tuple[str, int], list[Run]] = {}

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The chain's result for x, (rows, k), in `out` or a new tensor."""
        if out is None:
            out = x.new_empty(self.rows, self.chain[-1].n)
        run_all(self.steps(x, out))
        return out

    def steps(self, x: torch.Tensor, out: torch.Tensor) -> list[Run]:
        """Every launch of the chain, in order, from x into `out`; they hold all tensors that they know by address.

        Those that know neither x nor `out` are made once.
        """
        sources, targets = [x, *self._outputs], [*self._outputs, out]
        made: list[Run] = []
        for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if self._alone(place):
                inner = 0 < place < len(self.chain) - 1
                make = partial(self._library, place, source, target)
                made += self._once("library", place, make) if inner else make()
            else:
                made += self._leveled(place, source, target)
        return made

    def _once(self, kind: str, place: int, make: Callable[[], list[Run]]) -> list[Run]:
        if (kind, place) in self._made:
            return self._made[kind, place]
        made = make()
        if not capturing():  # what could not be tried now may be tried later
            self._made[kind, place] = made
        return made

    def _output(self, place: int, x: torch.Tensor, kept: Sequence[torch.Tensor] | None) -> torch.Tensor | None:
        """Where a layer's output goes; None where nobody needs it, since only the next layer's factors are written."""
        if kept is not None:
            return kept[place]
        return None if self._fused(place) else x.new_empty(self.rows, self.chain[place].n)

    def _alone(self, place: int) -> bool:
        """Whether a layer's product has no pass to share with its neighbours."""
        how = self.implementations[place]
        return not how.level or how.kind.split

    def _fused(self, place: int) -> bool:
        """Whether the pass behind a layer makes the next one's factors too."""
        inside = 0 <= place < len(self.chain) - 1
        return inside and not self._alone(place) and not self._alone(place + 1)

    def _leveled(self, place: int, source: torch.Tensor | None, target: torch.Tensor | None) -> list[Run]:
        """A layer with levels: the pass before its products, unless the layer before has made it; and that behind."""
        how, layer = self.implementations[place], self.chain[place]
        made = self._once("product", place, partial(self._product, place))
        if not self._fused(place - 1):
            assert source is not None
            made = [pre_add_step(source, "left", how, self._left[place]), *made]
        if self._fused(place):
            return [*made, *self._once("between", place, partial(self._between, place))]
        assert target is not None
        return [*made, post_add_step(self._products[place], how, target, bias=layer.bias, relu=layer.relu)]

    def _library(self, place: int, source: torch.Tensor | None, target: torch.Tensor | None) -> list[Run]:
        """A product that stands alone; bias and ReLU behind it, or by torch what torch has itself."""
        assert source is not None and target is not None
        layer, how, right = self.chain[place], self.implementations[place], self.rights[place]
        if how.classical and how.inner in (PLAIN[operand_name(source)], "tf32"):
            return [partial(layer.into, source, target, tf32=how.inner == "tf32")]
        with self._arena.mark():
            made = steps(how, source, right, target, self._arena, whole=True)
        return [*made, partial(activate, target, layer.bias, layer.relu)]

    def _product(self, place: int) -> list[Run]:
        how, right, left = self.implementations[place], self.rights[place], self._left[place]
        lying = right.made_transposed
        return [product_step(how.kind, left, right.factors[0], self._products[place], right_transposed=lying)]

    def _between(self, place: int) -> list[Run]:
        layer, how, shape = self.chain[place], self.implementations[place], (self.rows, self.chain[place].n)
        given = self._products[place], how.form, how.level, shape, layer.bias, layer.relu, self._outputs[place]
        works = layer_works(assembled_work(*given), self.implementations[place + 1], self._left[place + 1])
        return [prepared(each) for each in works]

    def _buffers(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Each layer's left factors and products: all of them in the same two pieces of memory."""
        lefts, products = ([self._shape(place, kind) for place in self._places] for kind in (0, 1))
        made = []
        for shapes in (lefts, products):
            sizes = [_size(*each) for each in shapes]
            whole = self._arena.take((max(sizes, default=0),), torch.uint8)
            parts = [whole[:n].view(dtype).view(shape) for n, (shape, dtype) in zip(sizes, shapes, strict=True)]
            made.append(parts)
        return made[0], made[1]

    @property
    def _places(self) -> range:
        return range(len(self.chain))

    def _shape(self, place: int, kind: int) -> tuple[tuple[int, ...], torch.dtype]:
        """A layer's left factors (0) or products (1); nothing for a classical one."""
        how, layer = self.implementations[place], self.chain[place]
        if self._alone(place):
            return (0,), torch.uint8
        if kind == 0:
            return buffer_shape(self.rows, layer.k, "left", how.level), getattr(torch, how.dtype)
        dtype = Problem(how, self.rows, layer.n, layer.k, operand_name(layer.weight)).product_dtype
        return products_shape(self.rows, layer.n, how.level), getattr(torch, dtype)

    def _needed(self, operand: str) -> int:
        """Bytes of the two buffers, and of what the products that stand alone take."""
        shared = sum(max((rounded(_size(*self._shape(p, kind))) for p in self._places), default=0) for kind in (0, 1))
        alone = [
            workspace_bytes(Problem(self.implementations[p], self.rows, self.chain[p].n, self.chain[p].k, operand))
            for p in self._places
            if self._alone(p)
        ]
        return shared + max(alone, default=0)


def _size(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return math.prod(shape) * dtype.itemsize


# ---------------------------------------------------------------------------------------------------------------------
# A chain's training step: the forward pass keeps each layer's output, the backward pass multiplies in the same ways.


def outputs_of(chain: Chain, x: torch.Tensor, implementations: Sequence[Implementation]) -> list[torch.Tensor]:
    """Each layer's output."""
    outputs = [x.new_empty(x.shape[0], layer.n) for layer in chain]
    pairs = zip(chain, implementations, strict=True)
    rights = [prepare_right(Right(layer.weight, True), how, once=False) for layer, how in pairs]
    ChainRun(chain, implementations, rights, x, kept=outputs)(x, outputs[-1])
    return outputs


def gradients(
    chain: Chain, x: torch.Tensor, outputs: Sequence[torch.Tensor], gradient: torch.Tensor, wanted: Sequence[bool],
    limits: Limits,
) -> list[torch.Tensor | None]:  # fmt: skip
    """Of x, and of weights and biases in the order of `flat`; None for what is not wanted."""
    inputs, left, found = [x, *outputs[:-1]], list(wanted), list[torch.Tensor | None]()
    for layer, given, output in reversed(list(zip(chain, inputs, outputs, strict=True))):
        if layer.relu:
            gradient = torch.where(output > 0, gradient, 0)
        if layer.bias is not None:
            found.insert(0, gradient.sum(0) if left.pop() else None)
        found.insert(0, product(gradient.t(), given, limits) if left.pop() else None)
        if any(left):
            gradient = product(gradient, layer.weight, limits)
    return [gradient if left[0] else None, *found]
