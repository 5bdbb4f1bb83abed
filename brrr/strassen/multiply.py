"""`matmul`: a product of two matrices in the way that is fastest for the accuracy asked for.

>>> a, b = torch.randn(100, 80), torch.randn(80, 60)
>>> torch.allclose(matmul(a, b, level=1), a @ b, atol=1e-4)
True
>>> explain(a, b, level=1, form="strassen", inner="sgemm").way.name
'sgemm-strassen-1'
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch

from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.gpu import is_gpu
from brrr.gpu.precision import in_full_precision
from brrr.strassen import schedules
from brrr.strassen.accuracy import PLAIN, Constraints, Inners, checked
from brrr.strassen.algebra.scaling import STEPS, Scaling
from brrr.strassen.choosing import ProductPlan, plan_of
from brrr.strassen.execution import prepare_right, run_all, steps
from brrr.strassen.operands import Arena, Right, check_operands, check_out, operand_name
from brrr.strassen.peeling import Sizes, copied
from brrr.strassen.schedules import run_depth_first
from brrr.strassen.ways import Way

Asked = tuple[float | str | None, int | None, str | None, Inners, int | None]
"""accuracy, level, form, inner, workspace_bytes."""

RESERVED = 64 * 2**20
"""Bytes of a GPU's free memory that are left alone: libraries take workspaces of their own."""


def matmul(
    a: torch.Tensor, b: torch.Tensor | Right, *, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, out: torch.Tensor | None = None,
    workspace_bytes: int | None = None, scaling: str | None = None,
) -> torch.Tensor:  # fmt: skip
    """a @ b, in the fastest way that is predicted to be as exact as asked for; `explain` says which, and why.

    >>> a, b = torch.randn(64, 64), torch.randn(64, 64)
    >>> y = matmul(a, b, accuracy=1e-5)
    >>> torch.allclose(y, a @ b, atol=1e-4)
    True

    a: (m, k), b: (k, n), both float64, float32, float16 or bfloat16, any strides; also `w.t()` of Linear's weights,
        which is read as it lies, and what `prepare` made of b.
    accuracy: a relative error (Frobenius, against float64), or "fp32", "tf32", "bf16", "fp16", "fp8", "fp64": as good
        as the classical product of that type. None: as good as that of the operands' own type. It is a prediction for
        numbers of mean 0 that are alike in size, not a bound.
    level, form, inner: only ways with so many Strassen levels (0 is classical), of that form, with that inner product
        (a name in `INNERS`, or several). A level that is asked for is taken whether it pays or not; its accuracy is
        what the levels make of the inner product's.
    out: (m, n), of a's type; may be strided; shares no memory with the operands.
    workspace_bytes: no more memory is taken than that (on a CPU with half types, the sums take more); levels then go
        depth first. None: what is free.
    scaling: a way of `Scaling.of`, for badly scaled matrices; it costs two passes and a copy of each.

    Where a kernel that was chosen cannot be built here, a warning says so and the library's product is taken; where it
    was asked for, that is an UnavailableError. Gradients flow to both operands, by products of the same kind.
    ArgumentError for shapes, types and limits that do not fit, DeviceMemoryError, naming the bytes, where the device
    has too little memory. Under torch.compile and torch.export it is an operator of torch, `brrr::matmul`.
    """
    if torch.compiler.is_compiling() and not isinstance(b, Right):
        asked = {"accuracy": accuracy, "level": level, "form": form, "inner": inner, "workspace_bytes": workspace_bytes}
        made: torch.Tensor = product(a, b, packed({**asked, "scaling": scaling}))
        return made if out is None else out.copy_(made)
    limits = (accuracy, level, form, inner, workspace_bytes)
    key = _key(a, b) if (limits, out, scaling) == ((None,) * 5, None, None) else None
    if _PLAIN.get(key) and (a.dtype != torch.float32 or in_full_precision()):
        return torch.mm(a, b)  # type: ignore[arg-type]
    right = b if isinstance(b, Right) else None
    check_operands("matmul", a, b if right is None else right.matrix)
    other = b if right is None else right.source
    assert isinstance(other, torch.Tensor)
    if torch.is_grad_enabled() and (a.requires_grad or other.requires_grad):
        if out is not None or right is not None:
            name, found = ("out", "a tensor") if out is not None else ("b", "prepared")
            raise ArgumentError("matmul", name, found, "None where gradients are wanted", "Use torch.no_grad()")
        result: torch.Tensor = _Product.apply(a, b, limits, scaling)  # type: ignore[no-untyped-call]
        return result
    result = _product(a, right or Right.of(other), limits, out, scaling)
    if key is not None and key not in _PLAIN:
        if len(_PLAIN) >= MOST_PLAIN:
            _PLAIN.clear()
        _PLAIN[key] = _is_plain(a, Right.of(other))
    return result


MOST_PLAIN = 4096
_PLAIN: dict[object, bool] = {}
"""Calls that asked for nothing, and whether torch's own product is all that they are: short ones wait for the host."""


def _key(a: torch.Tensor, b: torch.Tensor | Right) -> object:
    """What a call that asks for nothing is decided by; None where that is not to be remembered."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return None
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return None
    return a.shape, b.shape, a.dtype, b.dtype, a.get_device(), b.get_device()


def _is_plain(a: torch.Tensor, right: Right) -> bool:
    """Whether the library's product of the operands as they lie is all of it."""
    way, operand = _plan(a, right, (None,) * 5, known=True).way, operand_name(a)
    copies = a.is_cuda and copied(way, a.shape[0], right.n, right.k, operand).any
    return way.name == PLAIN[operand] and not copies


def prepare(
    b: torch.Tensor, *, rows: int, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, workspace_bytes: int | None = None,
) -> Right:  # fmt: skip
    """A right operand made ready for products with left operands of so many rows: its sums are made here, once.

    >>> w = prepare(torch.ones(32, 16), rows=64, level=1, inner="sgemm")
    >>> matmul(torch.ones(64, 32), w)[0, 0]
    tensor(32.)

    Other arguments as for `matmul`; products of another number of rows use what was chosen here.
    """
    check_operands("prepare", b.t(), b)
    right = Right.of(b)
    limits = checked(rows, right.n, right.k, operand_name(b), accuracy, level, form, inner, workspace_bytes, True)
    way = plan_of(limits, b.device.type).way
    return prepare_right(right, way, peeled=True) if way.prepared else right


def explain(
    a: torch.Tensor, b: torch.Tensor | Right, *, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, workspace_bytes: int | None = None,
) -> ProductPlan:  # fmt: skip
    """What `matmul` would do with these operands, and why; nothing is multiplied.

    >>> explain(torch.ones(4, 4), torch.ones(4, 4)).way.level
    0
    """
    check_operands("explain", a, b.matrix if isinstance(b, Right) else b)
    right = b if isinstance(b, Right) else Right.of(b)
    return _plan(a, right, (accuracy, level, form, inner, workspace_bytes))


_HAD: dict[torch.device, int] = {}
"""On each GPU, the largest workspace that was there."""


def _plan(a: torch.Tensor, right: Right, limits: Asked, *, known: bool = False) -> ProductPlan:
    """The plan within what is free. known: as much memory as was had before is taken to be there, and not asked for.

    Asking a GPU, and torch's allocator, for what is free takes the host longer than a short product.
    """
    given = (plan_of, (a.shape[0], right.n, right.k), a.dtype, right.way, a.device.type, *limits)
    try:
        made, chosen = _planned(*given)
    except TypeError:  # a list of inners cannot be remembered
        made, chosen = _planned.__wrapped__(*given)
    if chosen.workspace_bytes <= RESERVED or (known and chosen.workspace_bytes <= _HAD.get(a.device, 0)):
        return chosen
    free = free_bytes(a.device)
    if free is None or chosen.workspace_bytes <= free:
        return chosen
    return plan_of(_within(made, free), a.device.type)


@lru_cache(maxsize=4096, typed=True)
def _planned(
    planner: Callable[[Constraints, str], ProductPlan], sizes: Sizes, dtype: torch.dtype, way: Way | None, kind: str,
    accuracy: float | str | None, level: int | None, form: str | None, inner: Inners, workspace_bytes: int | None,
) -> tuple[Constraints, ProductPlan]:  # fmt: skip
    """The request and its plan, whatever is free; `way`: for which the right operand is prepared."""
    if way is not None:
        level, form, inner = way.level, way.form, way.inner
    operand = str(dtype).removeprefix("torch.")
    made = checked(*sizes, operand, accuracy, level, form, inner, workspace_bytes, way is not None, eager=True)
    return made, planner(made, kind)


def _within(limits: Any, free: int) -> Any:
    """The limits on a device with so much free memory, rounded down so that plans are found again."""
    from dataclasses import replace

    return replace(limits, free_bytes=free >> 24 << 24)


def free_bytes(device: torch.device) -> int | None:
    """What can be taken on a GPU, torch's own reserve with it; None for a CPU, which has no sharp end."""
    if not is_gpu(device):
        return None
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(0, int(free + held - RESERVED))


def _product(
    a: torch.Tensor, right: Right, limits: Asked, out: torch.Tensor | None, scaling: str | None
) -> torch.Tensor:
    if scaling is not None:
        return _scaled(a, right, limits, out, scaling)
    if out is None:
        out = _empty(a, right.n)
    else:
        check_out("matmul", out, a, right.n, right.source)
    chosen = _plan(a, right, limits, known=True)
    if chosen.way.kind.split and out.stride(-1) != 1:  # its kernel writes rows
        return out.copy_(_product(a, right, limits, None, None))
    if chosen.way.level and a.stride(1) != 1 and limits[-1] is None:
        a = a.contiguous()  # the sums would read columns number by number
    try:
        _run_known(chosen, a, right, out, limits)
    except UnavailableError as missing:
        accuracy, level, form, inner, workspace_bytes = limits
        if inner is not None or right.way is not None:
            raise
        warnings.warn(f"matmul: {missing}; the library's product is taken instead", stacklevel=3)
        return _product(a, right, (accuracy, level, form, PLAIN[operand_name(a)], workspace_bytes), out, None)
    return out


def _run_known(chosen: ProductPlan, a: torch.Tensor, right: Right, out: torch.Tensor, limits: Asked) -> None:
    """The plan; where the memory that was there once is gone, another that needs less."""
    try:
        _run(chosen, a, right, out)
    except DeviceMemoryError:
        if _HAD.pop(a.device, None) is None:
            raise
        again = _plan(a, right, limits)
        if again.workspace_bytes >= chosen.workspace_bytes:
            raise
        _run(again, a, right, out)


def _run(chosen: ProductPlan, a: torch.Tensor, right: Right, out: torch.Tensor) -> None:
    """The plan, its buffers made for it."""
    arena = Arena(chosen.workspace_bytes, a.device)
    if a.device.type in schedules.KINDS and chosen.workspace_bytes > _HAD.get(a.device, 0):
        _HAD[a.device] = chosen.workspace_bytes
    if chosen.depth:
        run_depth_first(chosen.way, chosen.depth, a, right, out, arena)
    else:
        run_all(schedules.kept_steps(steps, chosen.way, a, right, out, arena))


def _empty(a: torch.Tensor, n: int) -> torch.Tensor:
    try:
        return a.new_empty(a.shape[0], n)
    except torch.OutOfMemoryError as error:
        needed = a.shape[0] * n * a.element_size()
        raise DeviceMemoryError(f"matmul: its result needs {needed} bytes on {a.device}, and there are less") from error


def _scaled(a: torch.Tensor, right: Right, limits: Asked, out: torch.Tensor | None, scaling: str) -> torch.Tensor:
    """The product of the scaled matrices, scaled back."""
    if scaling not in STEPS:
        raise ArgumentError("matmul", "scaling", scaling, f"one of {', '.join(STEPS)}")
    if right.made:
        raise ArgumentError("matmul", "scaling", scaling, "None with a prepared right operand")
    found = Scaling.of(a, right.matrix, scaling)
    left, below = found.apply(a, right.matrix)
    made = found.undo(_product(left, Right.of(below), limits, None, None))
    if out is None:
        return made
    check_out("matmul", out, a, right.n, right.source)
    return out.copy_(made)


class _Product(torch.autograd.Function):
    """a @ b with gradients: g @ b^T and a^T @ g, in ways chosen for their own sizes."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, limits: Asked, scaling: str | None) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.limits, ctx.scaling = limits, scaling
        return _product(a, Right.of(b), limits, None, scaling)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        accuracy, level, form, inner, workspace_bytes = ctx.limits
        more: dict[str, Any] = {"accuracy": accuracy, "level": level, "form": form, "inner": inner}
        more |= {"workspace_bytes": workspace_bytes, "scaling": ctx.scaling}
        (gradient,) = gradients
        left = matmul(gradient, b.t(), **more) if ctx.needs_input_grad[0] else None
        right = matmul(a.t(), gradient, **more) if ctx.needs_input_grad[1] else None
        return left, right, None, None


# ---------------------------------------------------------------------------------------------------------------------
# The product as an operator of torch, for torch.compile and torch.export, which cannot look into it. Eager calls go
# past it: an operator written in Python costs the host several times what the rest of a short call does.


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def packed(options: Mapping[str, Any]) -> str:
    """What is asked of a product, as `matmul` takes it, in one string: operators take no dictionaries.

    >>> packed({"accuracy": 1e-5, "level": None, "inner": ("sgemm", "fp16x3")})
    '{"accuracy": 1e-05, "inner": ["sgemm", "fp16x3"]}'
    """
    return json.dumps({name: value for name, value in options.items() if value is not None})


def _traced_product(a: torch.Tensor, b: torch.Tensor, options: str) -> torch.Tensor:
    with torch.no_grad():
        return matmul(a, b, **json.loads(options))


def _traced_shape(a: torch.Tensor, b: torch.Tensor, options: str) -> torch.Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def _keep_operands(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, str], output: torch.Tensor) -> None:
    a, b, ctx.options = inputs
    ctx.save_for_backward(a, b)


def _product_gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    a, b = ctx.saved_tensors
    left = product(gradient, b.t(), ctx.options) if ctx.needs_input_grad[0] else None
    right = product(a.t(), gradient, ctx.options) if ctx.needs_input_grad[1] else None
    return left, right, None


product: Any = torch.library.custom_op(
    "brrr::matmul", _traced_product, mutates_args=(), schema="(Tensor a, Tensor b, str options) -> Tensor"
)
"""a (m, k) @ b (k, n) -> (m, n), by `matmul` with the options of `packed`."""
product.register_fake(_traced_shape)
product.register_autograd(_product_gradients, setup_context=_keep_operands)
