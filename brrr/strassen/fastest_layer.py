"""A classical layer on a GPU by the faster of two: torch's one call, or the fastest product and one kernel behind it.

>>> layers = (Layer(torch.ones(4, 8), torch.ones(4)), Layer(torch.ones(2, 4), None, relu=False))
>>> by_libraries(layers, torch.ones(3, 8), [Way("sgemm")] * 2)[0]
tensor([36., 36.])
>>> Times(one_call=38e-6, product=17e-6).product_pays(eager=False)
True

Torch's one call has bias and ReLU in the product, but cuBLASLt's first choice of kernel, which for some shapes takes
twice the time of its best. The other way has the best of both libraries' kernels, and one launch more. Both are tried
once for a shape, on the layers' own tensors; whatever cannot be tried is torch's. In bfloat16 and float16 the second
way rounds once more, before the bias is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isfinite
from typing import NamedTuple

import torch

from brrr.core.errors import UnavailableError
from brrr.gpu.cublas import DATA_TYPES
from brrr.gpu.cublas_lt import ALIGNMENT, InTurn, Keeping, capturing
from brrr.gpu.precision import float32_products
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.execution import run_all
from brrr.strassen.gemm.products import seconds_of
from brrr.strassen.layers import Chain, Layer
from brrr.strassen.operands import operand_name
from brrr.strassen.passes.launch import Run
from brrr.strassen.ways import Way

LEAST_GAIN = 0.95
"""A product with a kernel behind it is no reason to leave torch's one call unless it takes less than so much of it."""

MOST_S = 1e-3
"""A layer that takes so long gains nothing from a better kernel that is worth the trying of all."""

HOST_S, EAGER_WEIGHTS = 40e-6, 2**22
"""Launched one by one, the second way costs the host more than torch's call: it is taken where the GPU needs so long
for it that the host does not decide; a layer of fewer weights is not even tried."""

BY_KERNEL = (torch.float32, torch.bfloat16)
"""Types that the kernel for bias and ReLU takes; others get torch's operators behind the product."""


class Shape(NamedTuple):
    """What a choice is made for; turns: how many layers of the chain are such ones, each with weights of its own."""

    device_index: int
    rows: int
    n: int
    k: int
    operand: str
    tf32: bool
    bias: bool
    relu: bool
    turns: int


class Times(NamedTuple):
    """The GPU's seconds for a layer in both ways; infinite where one was not tried."""

    one_call: float
    product: float

    def product_pays(self, eager: bool) -> bool:
        """Whether product and kernel are the faster way, by enough.

        >>> Times(5e-6, 3e-6).product_pays(eager=True), Times(5e-6, 4.9e-6).product_pays(eager=False)
        (False, False)
        """
        return self.product < LEAST_GAIN * self.one_call and (not eager or self.product >= HOST_S)


TIMES: dict[Shape, Times] = {}
_HERE: dict[tuple[Shape, int], bool] = {}
"""Whether the second way was made ready, by shape and stream: a handle or a kernel cannot be made inside a capture."""


def forget() -> None:
    """Empties the memory, so that each shape is tried again."""
    TIMES.clear()
    _HERE.clear()


def by_libraries(chain: Chain, x: torch.Tensor, ways: Sequence[Way], *, eager: bool = True) -> torch.Tensor:
    """The chain's result for x, (rows, k), each layer in the faster way; `ways` say which are multiplied in TF32.

    eager: launches are issued one by one, so that what they cost the host counts. Results between layers are torch's to
    place: its allocator takes no time on the GPU, and inside a captured graph they belong to that graph.
    """
    y = x
    for layer, way in zip(chain, ways, strict=True):
        y = _result(y, layer, chain, way.inner == "tf32", eager)
    return y


def _result(x: torch.Tensor, layer: Layer, chain: Chain, tf32: bool, eager: bool) -> torch.Tensor:
    if not _worth_trying(x, layer, eager):
        return linear(x, layer, tf32=tf32)
    out = x.new_empty(x.shape[0], layer.n)
    layer_step(x, layer, out, tf32=tf32, among=chain, eager=eager)()
    return out


def layer_step(
    x: torch.Tensor, layer: Layer, out: torch.Tensor, *, tf32: bool = False, among: Sequence[Layer] = (),
    eager: bool = True,
) -> Run:  # fmt: skip
    """A layer into `out`, on torch's current stream as it is now, in the faster way; it holds its tensors.

    among: the layers that take turns in what this one is for, so that weights lie in L2 while it is tried as they will.
    The first call for a shape tries both ways, into `out`; while a graph is captured nothing is tried or made ready,
    and what is new then is torch's one call.
    """
    one_call = partial(linear, x, layer, out, tf32=tf32)
    if not (_worth_trying(x, layer, eager) and _takes(x, layer, out)):
        return one_call
    turns = alike(layer, among)
    shape, stream = _shape(x, layer, tf32, len(turns)), _stream(x)
    if (shape, stream) not in _HERE:
        if capturing():
            return one_call
        _HERE[shape, stream] = _tried(shape, x, turns, out)
    pays = _HERE[shape, stream] and TIMES[shape].product_pays(eager)
    return product_and_kernel(x, layer, out, tf32, turns) if pays else one_call


def alike(layer: Layer, among: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers of one shape, bias and ReLU that both ways take; the layer itself where it is not among them.

    >>> one, other = Layer(torch.ones(2, 2)), Layer(torch.ones(2, 2), relu=False)
    >>> alike(one, (other,)) == (one,)
    True
    """
    found = [each for each in among if _form(each) == _form(layer) and _weights_lie_well(each)]
    return tuple(found) if any(each is layer for each in found) else (layer,)


def product_and_kernel(x: torch.Tensor, layer: Layer, out: torch.Tensor, tf32: bool, turns: Sequence[Layer]) -> Run:
    """The fastest product of both libraries, and bias and ReLU in one kernel; UnavailableError where one is missing."""
    from brrr.gpu.cublas import blas_on
    from brrr.gpu.cublas_lt import fastest_product

    behind = _behind(out, layer)
    blas, weights = blas_on(int(x.device.index), _stream(x)), [each.weight for each in turns]
    product = fastest_product(blas, x, layer.weight, out, tf32=tf32, among=weights)
    return Keeping(partial(run_all, [product, *behind]), x, layer, out)


def _behind(out: torch.Tensor, layer: Layer) -> list[Callable[[], None]]:
    """What is left to do behind the product: at most one launch, where the kernel takes the type."""
    if layer.bias is None and not layer.relu:
        return []
    if out.dtype not in BY_KERNEL:
        return [partial(activate, out, layer.bias, layer.relu)]
    from brrr.kernels.bias_relu import prepared_here

    if layer.bias is None:
        return [prepared_here("relu", out)]
    return [prepared_here("bias_relu" if layer.relu else "bias", out, layer.bias)]


def _tried(shape: Shape, x: torch.Tensor, turns: Sequence[Layer], out: torch.Tensor) -> bool:
    """Whether the second way is ready on the current stream; both are timed, where the shape is new."""
    try:
        if shape not in TIMES:
            TIMES[shape] = _measured(shape, x, turns, out)
        if isfinite(TIMES[shape].product):
            product_and_kernel(x, turns[0], out, shape.tf32, turns)
    except (UnavailableError, torch.OutOfMemoryError):  # a library is not here, or no room for its workspace
        return False
    return True


def _measured(shape: Shape, x: torch.Tensor, turns: Sequence[Layer], out: torch.Tensor) -> Times:
    calls: list[Run] = [partial(linear, x, each, out, tf32=shape.tf32) for each in turns]
    one_call = seconds_of(InTurn(calls), shape.device_index)
    if one_call > MOST_S:
        return Times(one_call, inf)
    others = [product_and_kernel(x, each, out, shape.tf32, turns) for each in turns]
    return Times(one_call, seconds_of(InTurn(others), shape.device_index))


def _worth_trying(x: torch.Tensor, layer: Layer, eager: bool) -> bool:
    """Whether there may be a second way: for tensors on the current GPU, not for what only stands for one."""
    if not x.is_cuda or (eager and layer.n * layer.k < EAGER_WEIGHTS) or torch.compiler.is_compiling():
        return False
    return type(x) in (torch.Tensor, torch.nn.Parameter) and x.device.index == torch.cuda.current_device()


def _takes(x: torch.Tensor, layer: Layer, out: torch.Tensor) -> bool:
    """Whether the libraries take these tensors by their addresses; what they do not is torch's, complaints with it."""
    same = all((each.dtype, each.device) == (x.dtype, x.device) for each in (layer.weight, out))
    whole = _lies_well(x) and _lies_well(out) and _weights_lie_well(layer)
    return same and whole and operand_name(x) in DATA_TYPES and bool(out.numel() * layer.k)


def _weights_lie_well(layer: Layer) -> bool:
    weight, bias = layer.weight, layer.bias
    if bias is not None and ((bias.dtype, bias.device) != (weight.dtype, weight.device) or not bias.is_contiguous()):
        return False
    return _lies_well(weight)


def _lies_well(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0


def _form(layer: Layer) -> tuple[torch.Size, torch.dtype, torch.device, bool, bool]:
    return layer.weight.shape, layer.weight.dtype, layer.weight.device, layer.bias is not None, layer.relu


def _shape(x: torch.Tensor, layer: Layer, tf32: bool, turns: int) -> Shape:
    sizes = x.shape[0], layer.n, layer.k
    return Shape(int(x.device.index), *sizes, operand_name(x), tf32, layer.bias is not None, layer.relu, turns)


def _stream(x: torch.Tensor) -> int:
    return int(torch.cuda.current_stream(x.device).cuda_stream)


# ---------------------------------------------------------------------------------------------------------------------
# Layers by torch's own operators, as fast as it has them: one call with bias and ReLU in the product.


def one_call(way: Way, operand: str) -> bool:
    """Whether a way on operands of a type is what torch has an operator for, bias and ReLU with it.

    >>> one_call(Way("sgemm"), "float32"), one_call(Way("tf32"), "float32"), one_call(Way("bf16"), "float32")
    (True, True, False)
    """
    return way.classical and (way.inner == PLAIN[operand] or (way.inner, operand) == ("tf32", "float32"))


def linear(x: torch.Tensor, layer: Layer, out: torch.Tensor | None = None, *, tf32: bool = False) -> torch.Tensor:
    """A layer by torch, into `out` or a new tensor, whatever torch's switch for TF32 says; without a bias two calls."""
    weight = layer.weight.t()
    with float32_products(tf32):
        if layer.bias is None:
            y = torch.mm(x, weight, out=out)
            return y.relu_() if layer.relu else y
        multiply = torch._addmm_activation if layer.relu else torch.addmm
        return multiply(layer.bias, x, weight, out=out)


def activate(out: torch.Tensor, bias: torch.Tensor | None, relu: bool) -> None:
    """Bias and ReLU in place.

    >>> y = torch.tensor([[-1.0, 1.0]])
    >>> activate(y, torch.tensor([0.5, 0.5]), relu=True)
    >>> y
    tensor([[0.0000, 1.5000]])
    """
    if bias is not None:
        out.add_(bias)
    if relu:
        out.relu_()
