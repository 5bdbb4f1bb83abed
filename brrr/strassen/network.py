"""`StrassenMLP` and `StrassenLinear`: torch's modules, their products made in the fastest way for the accuracy asked.

>>> model = StrassenMLP(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8), level=1, inner="sgemm")
>>> model(torch.randn(5, 32)).shape, list(model.state_dict())[:2]
(torch.Size([5, 8]), ['0.weight', '0.bias'])

The weights' part of each product is made once, and again after they have changed. A layer that no level helps is one
call of torch's, with bias and ReLU in the product, or on a GPU the fastest product and one kernel behind it, whichever
is faster; that is tried at the first call for a number of rows. Under autocast and transforms (`torch.func`), and for
gradients that are torch's anyway, torch's own modules run as they are.
"""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.cublas_lt import capturing
from brrr.strassen.accuracy import PLAIN, Inners
from brrr.strassen.choosing import ProductPlan
from brrr.strassen.fastest_layer import by_libraries, one_call
from brrr.strassen.layers import (
    Chain,
    Formatted,
    Layer,
    Limits,
    check_chain,
    hooked,
    is_linear,
    layers_of,
    parts_of,
    planned,
)
from brrr.strassen.multiply import packed, product
from brrr.strassen.operands import operand_name
from brrr.strassen.running import ChainRun, trained
from brrr.strassen.ways import Way


class _Runner:
    """How one chain is run: plans by number of rows, weights made ready once, and launches kept for the last sizes."""

    KEPT = 4
    """Numbers of rows whose buffers are kept."""

    PLANNED = 1024
    """Numbers of rows whose plans are kept."""

    def __init__(self, limits: Limits, graphs: bool = False) -> None:
        self.limits, self.graphs = limits, graphs
        self._formatted, self._plans = Formatted(), dict[tuple[Any, ...], list[ProductPlan]]()
        self._runs: OrderedDict[tuple[Any, ...], ChainRun] = OrderedDict()
        self._captured: list[ChainRun] = []  # a graph knows their buffers by address, so they stay
        self.options, self.number = packed(limits.options), number_of(self)

    def plans(self, chain: Chain, rows: int, *, prepared: bool = True) -> list[ProductPlan]:
        """Each layer's, its weights' part made beforehand or not; asked for once for each number of rows."""
        weight, shapes = chain[0].weight, tuple((layer.n, layer.k) for layer in chain)
        key = shapes, rows, operand_name(weight), weight.device.type
        if (found := self._plans.get((*key, prepared))) is None:
            if len(self._plans) >= self.PLANNED:
                self._plans.clear()
            found = self._plans[(*key, prepared)] = planned(*key, self.limits, prepared=prepared, eager=not self.graphs)
        return found

    def run(self, chain: Chain, x: torch.Tensor) -> torch.Tensor | None:
        """The chain's result, by operators where torch traces a function; None where torch's own modules shall run."""
        if not _fits(chain, x):
            return None
        if torch.compiler.is_compiling():
            return None if torch.is_autocast_enabled(x.device.type) else traced(chain, x, self.options, self.number)
        return self(chain, x)

    def __call__(self, chain: Chain, x: torch.Tensor) -> torch.Tensor | None:
        """The chain's result; None where torch's own modules do as well."""
        flat = x.reshape(-1, x.shape[-1])
        if not flat.numel() or torch.is_autocast_enabled(x.device.type) or _transformed():
            return None
        learning = torch.is_grad_enabled() and (x.requires_grad or any(_learns(layer) for layer in chain))
        ways, operand = [plan.way for plan in self.plans(chain, flat.shape[0], prepared=not learning)], operand_name(x)
        if learning and all(way.classical and way.inner == PLAIN[operand] for way in ways):
            return None
        if not learning and all(one_call(way, operand) for way in ways):
            return by_libraries(chain, flat, ways, eager=not self.graphs).reshape(*x.shape[:-1], chain[-1].n)
        try:
            y = trained(chain, flat, ways, self.limits) if learning else self._inferred(chain, flat, ways)
        except UnavailableError as missing:
            if self.limits.inner is not None:
                raise
            warnings.warn(f"StrassenMLP: {missing}; torch's own modules run instead", stacklevel=4)
            return None
        return y.reshape(*x.shape[:-1], chain[-1].n)

    def _inferred(self, chain: Chain, x: torch.Tensor, ways: Sequence[Way]) -> torch.Tensor:
        with torch.inference_mode(False), torch.no_grad():  # buffers that any later call may write to
            run = self._run(chain, x, ways)
        with torch.no_grad():
            return run(x)

    def _run(self, chain: Chain, x: torch.Tensor, ways: Sequence[Way]) -> ChainRun:
        """The launches for these ways and so many rows; those of the last few sizes are kept."""
        rights = [
            self._formatted(place, layer, way) for place, (layer, way) in enumerate(zip(chain, ways, strict=True))
        ]
        key = (x.shape[0], x.dtype, x.device, _stream(x), *ways, *(id(each) for each in rights), *map(_bias, chain))
        run = self._runs.pop(key, None) or ChainRun(chain, ways, rights, x, eager=not self.graphs)
        self._runs[key] = run
        if x.is_cuda and capturing() and run not in self._captured:
            self._captured.append(run)
        while len(self._runs) > self.KEPT:
            self._runs.popitem(last=False)
        return run

    def __deepcopy__(self, memo: dict[int, Any]) -> _Runner:
        return _Runner(self.limits, self.graphs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Runner, (self.limits, self.graphs)


class StrassenMLP(nn.Sequential):
    """A Sequential whose runs of Linear and ReLU are made by Strassen products where they pay; a drop-in for it.

    >>> mlp = StrassenMLP.of([torch.ones(4, 8), torch.ones(2, 4)], [None, None])
    >>> mlp(torch.ones(1, 8))
    tensor([[32., 32.]])

    modules: any; Linear and ReLU are made by products as `matmul` chooses them, each with the accuracy, level, form and
    inner asked for; others run as they are. Names and parameters are those of a Sequential of the same modules: so
    state_dict, `.to()`, optimizers and copies work as with one. Rows may differ from call to call, sizes may be odd.
    graphs: calls will be captured in a CUDA Graph, so that what the host takes for several launches a layer does not
    count; without it, layers too short for that are left to torch. The calls before the capture must be on the stream
    that is captured, as `brrr.capture` makes them: inside it nothing can be tried.

    Gradients flow, once (a gradient of a gradient needs torch's own modules).
    """

    def __init__(
        self, *modules: Any, accuracy: float | str | None = None, level: int | None = None, form: str | None = None,
        inner: Inners = None, graphs: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(*modules)
        self.limits, self.graphs = Limits(accuracy, level, form, inner), graphs
        self._runners = {place: _Runner(self.limits, graphs) for place in range(len(self))}

    @classmethod
    def of(
        cls, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None], *, relu_last: bool = True,
        **options: Any,
    ) -> StrassenMLP:  # fmt: skip
        """A network of these very weights (n, k) and biases (n,), with ReLU behind each layer; nothing is copied."""
        if len(weights) != len(biases) or not weights:
            raise ArgumentError("StrassenMLP.of", "biases", f"{len(biases)} of them", f"{len(weights)}, one a layer")
        check_chain("StrassenMLP.of", tuple(map(Layer, weights, biases)))
        modules: list[nn.Module] = []
        for weight, bias in zip(weights, biases, strict=True):
            modules += [_linear(weight, bias), nn.ReLU()]
        return cls(*(modules if relu_last else modules[:-1]), **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The result for input (..., k)."""
        y = input
        for place, part in enumerate(parts_of(self)):
            y = part(y) if isinstance(part, nn.Module) else self._chain(place, part, y)
        return y

    def explain(self, rows: int) -> list[ProductPlan]:
        """How each Linear would be made for so many rows, and why; nothing is run.

        >>> model = StrassenMLP(nn.Linear(16, 16), level=1, form="strassen", inner="sgemm")
        >>> [plan.way.name for plan in model.explain(64)]
        ['sgemm-strassen-1-prepared']
        """
        chains = (layers_of(part) for part in parts_of(self) if not isinstance(part, nn.Module))
        return [plan for chain in chains for plan in _Runner(self.limits, self.graphs).plans(chain, rows)]

    def _chain(self, place: int, modules: tuple[nn.Module, ...], x: torch.Tensor) -> torch.Tensor:
        chain = layers_of(modules)
        if place not in self._runners:
            self._runners[place] = _Runner(self.limits, self.graphs)
        made = self._runners[place].run(chain, x)
        if made is not None:
            return made
        for module in modules:
            x = module(x)
        return x


class StrassenLinear(nn.Linear):
    """A Linear whose product is a Strassen product where that pays; `fuse` makes them of single ones.

    >>> StrassenLinear.like(nn.Linear(8, 4), Limits(level=1))(torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """

    limits: Limits
    _runner: _Runner

    @classmethod
    def like(cls, linear: nn.Linear, limits: Limits, graphs: bool = False) -> StrassenLinear:
        """With the same parameters, which are shared."""
        made = cls(linear.in_features, linear.out_features, bias=False, device="meta")
        made.weight, made.bias, made.training = linear.weight, linear.bias, linear.training
        made.limits, made._runner = limits, _Runner(limits, graphs)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The result for input (..., k)."""
        chain = (Layer(self.weight, self.bias, relu=False),)
        made = self._runner.run(chain, input)
        return super().forward(input) if made is None else made


def _fits(chain: Chain, x: torch.Tensor) -> bool:
    """Whether x is of the chain's type and device; where it is not, torch says what is wrong with it."""
    weight = chain[0].weight
    return (
        x.dim() >= 1
        and (x.dtype, x.device, x.shape[-1]) == (weight.dtype, weight.device, chain[0].k)
        and (operand_name(x) in PLAIN)
    )


def _transformed() -> bool:
    """Whether the call is inside torch.vmap, torch.func.grad or the like, which know few operators by name."""
    return torch._C._are_functorch_transforms_active()


def _bias(layer: Layer) -> int:
    """Where a layer's bias lies."""
    return 0 if layer.bias is None else layer.bias.data_ptr()


def _learns(layer: Layer) -> bool:
    return layer.weight.requires_grad or (layer.bias is not None and layer.bias.requires_grad)


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = _parameter(weight)
    if bias is not None:
        linear.bias = _parameter(bias)
    return linear


def _parameter(tensor: torch.Tensor) -> nn.Parameter:
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, requires_grad=tensor.requires_grad)


def _stream(x: torch.Tensor) -> int:
    """Launches are made for one stream."""
    return int(torch.cuda.current_stream(x.device).cuda_stream) if x.is_cuda else 0


# ---------------------------------------------------------------------------------------------------------------------
# Layers as an operator of torch, for functions that it traces.


_NUMBERS = count()
_RUNNERS: WeakValueDictionary[int, _Runner] = WeakValueDictionary()


def number_of(runner: _Runner) -> int:
    """The number by which an operator finds what a module keeps: its weights made ready, its plans."""
    number = next(_NUMBERS)
    _RUNNERS[number] = runner
    return number


Biases = Sequence[torch.Tensor | None]


def _run_layers(
    x: torch.Tensor, weights: Sequence[torch.Tensor], biases: Biases, relus: str, options: str, number: int
) -> torch.Tensor:
    layers = tuple(Layer(w, b, relu == "1") for w, b, relu in zip(weights, biases, relus, strict=True))
    runner = _RUNNERS.get(number)
    if (
        runner is None or runner.options != options
    ):  # a program that another process exported brings a number of its own
        runner = _Runner(Limits(**json.loads(options)))
    with torch.no_grad():
        made = runner(layers, x)
        for layer in layers if made is None else ():
            x = layer.plain(x)
    return x if made is None else made


def _layers_shape(
    x: torch.Tensor, weights: Sequence[torch.Tensor], biases: Biases, relus: str, options: str, number: int
) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], weights[-1].shape[0])


layers_operator: Any = torch.library.custom_op(
    "brrr::layers", _run_layers, mutates_args=(),
    schema="(Tensor x, Tensor[] weights, Tensor?[] biases, str relus, str options, int number) -> Tensor",
)  # fmt: skip
"""x (..., k) through Linear layers, with ReLU where `relus` has a 1, without gradients."""
layers_operator.register_fake(_layers_shape)


def traced(layers: Sequence[Layer], x: torch.Tensor, options: str, number: int) -> torch.Tensor:
    """The layers inside a traced function: one operator, or, where gradients are wanted, a product for each."""
    learning = [each for layer in layers for each in (layer.weight, layer.bias) if each is not None]
    if not torch.is_grad_enabled() or not any(each.requires_grad for each in (x, *learning)):
        relus = "".join("01"[layer.relu] for layer in layers)
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        result: torch.Tensor = layers_operator(x, weights, biases, relus, options, number)
        return result
    shape, x = x.shape[:-1], x.reshape(-1, x.shape[-1])
    for layer in layers:
        x = product(x, layer.weight.t(), options)
        x = x if layer.bias is None else x + layer.bias
        x = torch.relu(x) if layer.relu else x
    return x.reshape(*shape, x.shape[-1])


# ---------------------------------------------------------------------------------------------------------------------
# `fuse`: a model's Linear layers, and the ReLU behind them, made by Strassen products where they pay.


def fuse(
    model: nn.Module, *, accuracy: float | str | None = None, level: int | None = None, form: str | None = None,
    inner: Inners = None, graphs: bool = False,
) -> nn.Module:  # fmt: skip
    """The model with each Sequential a StrassenMLP and each other Linear a StrassenLinear.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.rest = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.GELU())
    >>> fused = fuse(Net())
    >>> type(fused.first).__name__, type(fused.rest).__name__
    ('StrassenLinear', 'StrassenMLP')

    Parameters are shared and keep their names. A Sequential or Linear comes back as a new module; any other model is
    changed in place and returned. Subclasses, and modules with hooks or parametrisations, stay as they are. Only direct
    neighbours in a Sequential are fused with each other: what a model's own forward does between is not known.
    accuracy, level, form, inner: of each product, as for `matmul`; graphs: as for `StrassenMLP`. ArgumentError for
    what is no module.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError("fuse", "model", type(model).__name__, "a torch.nn.Module")
    options = {**Limits(accuracy, level, form, inner).options, "graphs": graphs}
    return _fused(model, options, {})


def _fused(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """A module that is used twice becomes one module that is used twice."""
    if id(module) not in seen:
        seen[id(module)] = _made(module, options, seen)
    return seen[id(module)]


def _made(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    if is_linear(module):
        assert isinstance(module, nn.Linear)
        return StrassenLinear.like(
            module,
            Limits(*(options[name] for name in ("accuracy", "level", "form", "inner"))),
            options["graphs"],
        )
    if type(module) is nn.Sequential and not hooked(module):
        inside = OrderedDict((name, _inside(child, options, seen)) for name, child in children(module))
        return StrassenMLP(inside, **options).train(module.training)
    for name, child in children(module):
        replaced = _fused(child, options, seen)
        if replaced is not child:
            setattr(module, name, replaced)
    return module


def children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """A module's children by name; `named_children` leaves out the second name of one that is there twice."""
    return [(name, child) for name, child in module._modules.items() if child is not None]


def _inside(child: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """In a Sequential, a Linear stays one: its neighbours are looked for there."""
    return child if is_linear(child) else _fused(child, options, seen)
