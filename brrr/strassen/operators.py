"""How a module's chains of layers are run: plans, weights made ready, launches kept; and as one operator of torch.

>>> from brrr.strassen.layers import Layer
>>> runners = Runners(Limits(level=1, form="strassen", inner="sgemm"))
>>> runners(0, (Layer(torch.ones(2, 3)),), torch.ones(1, 3))
tensor([[3., 3.]])

What traces a program (`torch.compile`, `torch.export`) sees one operator a chain. A call that is run at once does
without: an operator costs the host more.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, count
from typing import Any
from weakref import WeakValueDictionary

import torch

from brrr.core.errors import UnavailableError
from brrr.gpu.cublas_lt import capturing
from brrr.gpu.precision import in_full_precision
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.chain_run import ChainRun, outputs_of
from brrr.strassen.implementations import Implementation
from brrr.strassen.layers import Chain, Formatted, chain_of, flat, planned
from brrr.strassen.multiply import checked_product
from brrr.strassen.operands import in_memory, operand_name
from brrr.strassen.planner import ProductPlan
from brrr.strassen.product import PlainCalls, exact
from brrr.strassen.request import SCHEMA, Limits


class Runners:
    """How a module runs its chains; a copy of the module begins anew.

    Each chain's weights made ready, and its launches for the last numbers of rows, in ways by powers of two of them.
    """

    KEPT = 4
    """Numbers of rows whose buffers are kept for a chain."""

    def __init__(self, limits: Limits, graphs: bool = False) -> None:
        self.limits, self.graphs, self.number = limits, graphs, next(_NUMBERS)
        self._plain_calls, self._all_plain = PlainCalls(), False
        self._formatted, self._runs = Formatted(), dict[int, OrderedDict[tuple[Any, ...], ChainRun]]()
        self._captured: list[ChainRun] = []  # a graph knows their buffers by address, so they stay
        _ALL[self.number] = self

    def through(
        self, x: torch.Tensor, plain: Callable[[torch.Tensor], torch.Tensor],
        parts: Callable[[], Sequence[Chain | torch.nn.Module]],
    ) -> torch.Tensor:  # fmt: skip
        """What a module's parts make of x; `plain(x)` where each chain was found to be torch's for inputs like it."""
        compiling, y = torch.compiler.is_compiling(), x
        if not compiling and _kind(x) in self._plain_calls and exact(x):
            return plain(x)
        self._all_plain = not compiling
        for place, part in enumerate(parts()):
            y = part(y) if isinstance(part, torch.nn.Module) else self(place, part, y)
        if self._all_plain:
            self._plain_calls.note(_kind(x))
        return y

    def __call__(self, place: int, chain: Chain, x: torch.Tensor) -> torch.Tensor:
        """The result of the chain at a place for x, (..., k)."""
        if not _fits(chain, x) or torch.is_autocast_enabled(x.device.type):
            return by_torch(chain, x)[-1]
        tensors, layout = flat(chain)
        learning = torch.is_grad_enabled() and any(each.requires_grad for each in (x, *tensors))
        rows, compiling, chosen = x.reshape(-1, x.shape[-1]), torch.compiler.is_compiling(), None
        if not compiling and all(map(in_memory, (x, *tensors))):
            chosen = self.chosen(chain, rows, learning)
            self._all_plain &= chosen is None
        else:  # also inside torch.vmap, torch.func.grad and the like
            self._all_plain = False
        if chosen is None and not compiling:
            return by_torch(chain, x)[-1]
        if compiling or learning:
            asked = (*self.limits.typed, self.graphs, self.number, place, learning)
            made = operator(rows, tensors, layout, *asked)
        else:
            made = self.run(place, chain, rows, chosen)
        return torch.reshape(made[-1], (*x.shape[:-1], chain[-1].n))

    def plans(self, chain: Chain, rows: int, prepared: bool = True) -> tuple[ProductPlan, ...]:
        """Each layer's, its weights' part made beforehand or not, for the power of two that is no more than rows."""
        weight, shapes = chain[0].weight, tuple((layer.n, layer.k) for layer in chain)
        power_of_two = 1 << max(0, rows.bit_length() - 1)
        asked = shapes, power_of_two, operand_name(weight), weight.device.type, self.limits
        return planned(*asked, prepared=prepared, eager=not self.graphs)

    def chosen(self, chain: Chain, x: torch.Tensor, learning: bool) -> list[Implementation] | None:
        """Each layer's; None where all are torch's own."""
        if not x.numel():
            return None
        chosen, operand = [plan.implementation for plan in self.plans(chain, x.shape[0], not learning)], operand_name(x)
        plain = learning or operand != "float32" or in_full_precision()
        return None if plain and all(how == Implementation(PLAIN[operand]) for how in chosen) else chosen

    def run(
        self, place: int, chain: Chain, x: torch.Tensor, chosen: list[Implementation] | None, learning: bool = False
    ) -> list[torch.Tensor]:
        """The chain's result for x, (rows, k), in these ways; behind each layer's output before it where `learning`."""
        if chosen is None:
            return by_torch(chain, x)
        try:
            if learning:
                return outputs_of(chain, x, chosen)
            with torch.inference_mode(False), torch.no_grad():  # buffers that any later call may write to
                run = self._run(place, chain, x, chosen)
            with torch.no_grad():
                return [run(x)]
        except UnavailableError as missing:
            if self.limits.inners:
                raise
            warnings.warn(f"StrassenMLP: {missing}; torch's own modules run instead", stacklevel=4)
            return by_torch(chain, x)

    def _run(self, place: int, chain: Chain, x: torch.Tensor, chosen: Sequence[Implementation]) -> ChainRun:
        """The launches for these ways and so many rows; those of the last few sizes are kept."""
        runs, pairs = self._runs.setdefault(place, OrderedDict()), zip(chain, chosen, strict=True)
        rights = [self._formatted((place, number), *each) for number, each in enumerate(pairs)]
        biases = (0 if layer.bias is None else layer.bias.data_ptr() for layer in chain)
        stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0  # launches are made for one
        key = x.shape[0], x.dtype, x.device, stream, *chosen, *map(id, rights), *biases
        run = runs[key] = runs.pop(key) if key in runs else ChainRun(chain, chosen, rights, x)
        if x.is_cuda and capturing() and run not in self._captured:
            self._captured.append(run)
        while len(runs) > self.KEPT:
            runs.popitem(last=False)
        return run

    def __reduce__(self) -> tuple[Any, ...]:
        return Runners, (self.limits, self.graphs)


def by_torch(chain: Chain, x: torch.Tensor) -> list[torch.Tensor]:
    """Each layer's output by torch's own operators."""
    return list(accumulate(chain, lambda given, layer: layer.plain(given), initial=x))[1:]


def _kind(x: torch.Tensor) -> tuple[Any, ...]:
    autocast = torch.is_autocast_enabled(x.device.type)
    return x.shape, x.dtype, x.device, x.requires_grad, torch.is_grad_enabled(), autocast


_NUMBERS = count()
_ALL: WeakValueDictionary[int, Runners] = WeakValueDictionary()
"""The modules' runners that there are, by number: an operator is given no objects."""


def _fits(chain: Chain, x: torch.Tensor) -> bool:
    """Whether x and all layers fit each other; where they do not, torch says what is wrong."""
    wide = x.shape[-1] if x.dim() else None
    for layer in chain:
        if (layer.weight.dtype, layer.weight.device, layer.k) != (x.dtype, x.device, wide):
            return False
        wide = layer.n
    return operand_name(x) in PLAIN


# ---------------------------------------------------------------------------------------------------------------------
# A chain as an operator of torch; its gradients are products of `matmul`.


@torch.library.custom_op(
    "brrr::layers",
    mutates_args=(),
    schema=f"(Tensor x, Tensor[] tensors, str layout, {SCHEMA}, bool graphs, int number, int place, bool learning)"
    " -> Tensor[]",
)
def operator(x: torch.Tensor, tensors: Sequence[torch.Tensor], layout: str, *asked: Any) -> list[torch.Tensor]:
    """The chain's result for x, (rows, k), with each layer's output before it where `learning`.

    tensors, layout: the chain as `flat` has it. Then its limits as `Limits.typed` has them, and graphs. number, place:
    whose `Runners` keep what was made for it; where there are none with the same limits, as in a program that was
    exported and loaded, nothing is kept.
    """
    *limits, graphs, number, place, learning = asked
    made, runner, chain = Limits.of_typed(*limits), _ALL.get(number), chain_of(tensors, layout)
    if runner is None or (runner.limits, runner.graphs) != (made, graphs):
        runner = Runners(made)
    with torch.autocast(x.device.type, enabled=False), torch.no_grad():
        made_of = runner.run(place, chain, x, runner.chosen(chain, x, learning), learning)
    return made_of if learning else made_of[-1:]


@operator.register_fake
def _(x: torch.Tensor, tensors: Sequence[torch.Tensor], layout: str, *asked: Any) -> list[torch.Tensor]:
    chain = chain_of(tensors, layout)
    return [x.new_empty(x.shape[0], layer.weight.shape[0]) for layer in (chain if asked[-1] else chain[-1:])]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Sequence[torch.Tensor]) -> None:
    x, tensors, ctx.layout, *asked = inputs
    ctx.limits, ctx.count, ctx.given = Limits.of_typed(*asked[:-4]), len(tensors), len(inputs)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, *tensors, *output)


def _gradients(ctx: Any, incoming: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
    """Of x, of weights and of biases, by those of the outputs: of the last alone, but for gradients of gradients."""
    x, *rest = ctx.saved_tensors
    chain, outputs, gradient = chain_of(rest[: ctx.count], ctx.layout), rest[ctx.count :], None
    left, found = [ctx.needs_input_grad[0], *ctx.needs_input_grad[1]], list[torch.Tensor | None]()
    with torch.autocast(x.device.type, enabled=False):
        for layer, given, output, own in reversed(list(zip(chain, [x, *outputs], outputs, incoming, strict=False))):
            if not any(left):
                break
            flows = [each for each in (gradient, own) if each is not None]
            gradient = reduce(torch.add, flows) if flows else torch.zeros_like(output)
            if layer.relu:
                gradient = torch.where(output > 0, gradient, 0)
            if layer.bias is not None:
                found.insert(0, gradient.sum(0) if left.pop() else None)
            found.insert(0, checked_product(gradient.t(), given, ctx.limits) if left.pop() else None)
            gradient = checked_product(gradient, layer.weight, ctx.limits) if any(left) else None
    return gradient, [None] * (ctx.count - len(found)) + found, *(None for _ in range(ctx.given - 2))


operator.register_autograd(_gradients, setup_context=_remember)
