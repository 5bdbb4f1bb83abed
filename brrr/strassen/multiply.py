"""`matmul`: a product of two matrices in the way that is fastest for the accuracy asked for.

>>> a, b = torch.randn(100, 80), torch.randn(80, 60)
>>> torch.allclose(matmul(a, b, level=1), a @ b, atol=1e-4)
True
>>> explain(a, b, level=1, form="strassen", inner="sgemm").way.name
'sgemm-strassen-1'
"""

from __future__ import annotations

from ast import literal_eval
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch
from torch.compiler import is_compiling

from brrr.core.errors import ArgumentError
from brrr.gpu.cublas_lt import capturing
from brrr.strassen.accuracy import PLAIN, Inners, accuracy_limit, checked
from brrr.strassen.choosing import ProductPlan, plan_of
from brrr.strassen.execution import prepare_right
from brrr.strassen.operands import Right, check_operands, check_out, in_memory, operand_name
from brrr.strassen.product import NOTHING, Asked, Torchs, plan_for, product
from brrr.strassen.verifying import verified
from brrr.strassen.ways import Way


def matmul(
    a: torch.Tensor, b: torch.Tensor | Right, *, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, out: torch.Tensor | None = None,
    workspace_bytes: int | None = None, scaling: str | None = None, verify: bool = False,
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
    verify: the result is checked by a few products with vectors in float64 (`verifying.py`). Where a row is wrong by
        much more than was asked for, a warning says so and the classical product takes its place. It waits for the GPU;
        under torch.compile, torch.export, torch.func and in a capture it is an ArgumentError.

    Where a kernel that was chosen cannot be built here, a warning says so and the library's product is taken; where it
    was asked for, that is an UnavailableError. Gradients flow to both operands, by products of the same kind. Under
    `torch.compile` and torch's transforms it is one operator, for which the sums that `prepare` made are made again.
    Under autocast operands are cast as torch's are, unless accuracy, inner or out is given, or b is prepared.
    ArgumentError for shapes, types and limits that do not fit, DeviceMemoryError, naming the bytes, where the device
    has too little memory.
    """
    asked = (accuracy, level, form, inner, workspace_bytes)
    kind, nothing = None, asked == NOTHING and out is None and scaling is None and not verify
    if nothing and isinstance(b, torch.Tensor) and isinstance(a, torch.Tensor) and not is_compiling():
        kind = None if _learns(a, b) else (a.shape, b.shape, a.dtype, b.dtype, a.device, b.device)
        if kind and _TORCHS.has(kind, a):
            with suppress(torch.OutOfMemoryError):  # said below, with the bytes
                return torch.mm(a, b)
    made = _verified(a, b, asked, out, scaling) if verify else _checked(a, b, asked, out, scaling)
    if kind and kind[2] == kind[3] == made.dtype and _is_torchs(a, Right.of(b)):  # type: ignore[arg-type]
        _TORCHS.note(kind)
    return made


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
    return plan_for(a, right, (accuracy, level, form, inner, workspace_bytes))


_TORCHS = Torchs()
"""Operands that passed all checks and whose product is torch's own where nothing is asked: shapes, types, devices."""


def _learns(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.requires_grad or b.requires_grad) and torch.is_grad_enabled()


def _is_torchs(a: torch.Tensor, right: Right) -> bool:
    """Whether the plan is torch's product of the operands as they lie."""
    chosen = plan_for(a, right, NOTHING, known=True)
    return chosen.way == Way(PLAIN[operand_name(a)]) and not chosen.workspace_bytes


def _checked(
    a: torch.Tensor, b: torch.Tensor | Right, asked: Asked, out: torch.Tensor | None, scaling: str | None
) -> torch.Tensor:
    """The product, whatever is given and asked: run at once, or as an operator of torch."""
    if cast := _cast(a, b, asked, out):
        a, b = cast
    right = b if isinstance(b, Right) else None
    check_operands("matmul", a, b if right is None else right.matrix)
    other = b if right is None else right.source
    assert isinstance(other, torch.Tensor)
    if (learns := _learns(a, other)) and (out is not None or right is not None):
        name, found = ("out", "a tensor") if out is not None else ("b", "prepared")
        raise ArgumentError("matmul", name, found, "None where gradients are wanted", "Use torch.no_grad()")
    if not learns and in_memory(a) and in_memory(other):
        return product(a, right or Right.of(other), asked, out, scaling)
    if right is not None and right.way is not None:
        asked = asked[0], right.way.level, right.way.form, right.way.inner, asked[4]
    below = other if right is None else right.matrix
    if out is not None:
        check_out("matmul", out, a, below.shape[1], below)
    run = operator if is_compiling() or (in_memory(a) and in_memory(below)) else _Product.apply
    made: torch.Tensor = run(a, below, repr((*asked, scaling)))  # type: ignore[no-untyped-call]
    return made if out is None else out.copy_(made)


def _verified(
    a: torch.Tensor, b: torch.Tensor | Right, asked: Asked, out: torch.Tensor | None, scaling: str | None
) -> torch.Tensor:
    """The product, or the classical one where it is wrong."""
    made, right = _checked(a, b, asked, out, scaling), b if isinstance(b, Right) else Right.of(b)
    if is_compiling() or not (in_memory(a) and in_memory(right.source)) or (a.is_cuda and capturing()):
        raise ArgumentError("matmul", "verify", True, "False where nothing can be looked at, as in a CUDA Graph")
    if made.dtype != a.dtype or made.dtype != right.source.dtype:  # under autocast
        a, right = a.to(made.dtype), Right.of(right.matrix.to(made.dtype))
    limit = accuracy_limit(asked[0], right.k, operand_name(a))
    limit = max(limit, plan_for(a, right, asked, known=True).predicted_error)
    plain: Asked = (None, 0, None, PLAIN[operand_name(a)], asked[4])
    kept = verified(a, right.matrix, made, limit, lambda: _checked(a, right.matrix, plain, None, None))
    return kept if out is None or kept is out else out.copy_(kept)


def _cast(
    a: torch.Tensor, b: torch.Tensor | Right, asked: Asked, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The operands as autocast has torch's product take them; None where they are taken as they are."""
    given = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if not given or out is not None or (asked[0], asked[3]) != (None, None):
        return None
    assert isinstance(b, torch.Tensor)
    kind = "cuda" if a.is_cuda else "cpu"
    if not torch.is_autocast_enabled(kind) or not {a.dtype, b.dtype} <= {torch.float32, torch.float16, torch.bfloat16}:
        return None
    dtype = torch.get_autocast_dtype(kind)
    return a.to(dtype), b.to(dtype)


# ---------------------------------------------------------------------------------------------------------------------
# The product as an operator of torch: for gradients, and for what traces a program. Others have less to pass through.


@torch.library.custom_op("brrr::matmul", mutates_args=(), schema="(Tensor a, Tensor b, str asked) -> Tensor")
def operator(a: torch.Tensor, b: torch.Tensor, asked: str) -> torch.Tensor:
    """`matmul` as torch knows it; asked: its other arguments, and scaling, as Python writes them."""
    *limits, scaling = _read(asked)
    return product(a, Right.of(b), (limits[0], *limits[1:]), None, scaling)


@lru_cache(maxsize=256)
def _read(asked: str) -> tuple[Any, ...]:
    made: tuple[Any, ...] = literal_eval(asked)
    return made


@operator.register_fake
def _(a: torch.Tensor, b: torch.Tensor, asked: str) -> torch.Tensor:
    checked(1, 1, 1, operand_name(a), *_read(asked)[:-1])
    return a.new_empty(a.shape[0], b.shape[1])


def _remember(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, str], output: torch.Tensor) -> None:
    *operands, ctx.asked = inputs
    ctx.save_for_backward(*operands)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """g @ b^T and a^T @ g, in ways chosen for their own sizes."""
    a, b = ctx.saved_tensors
    left = operator(gradient, b.t(), ctx.asked) if ctx.needs_input_grad[0] else None
    right = operator(a.t(), gradient, ctx.asked) if ctx.needs_input_grad[1] else None
    return left, right, None


operator.register_autograd(_gradients, setup_context=_remember)


class _Product(torch.autograd.Function):
    """The same inside torch.func.grad and torch.vmap, which take no gradients of operators."""

    generate_vmap_rule = True
    forward = staticmethod(lambda a, b, asked: operator(a, b, asked))
    setup_context = staticmethod(_remember)
    backward = staticmethod(_gradients)
