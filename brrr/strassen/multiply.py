"""`matmul`: a product of two matrices in the way that is fastest for the accuracy asked for.

>>> a, b = torch.randn(100, 80), torch.randn(80, 60)
>>> torch.allclose(matmul(a, b, level=1), a @ b, atol=1e-4)
True
>>> explain(a, b, level=1, form="strassen", inner="sgemm").implementation.name
'sgemm-strassen-1'
"""

from typing import Any

import torch
from torch.compiler import is_compiling

from brrr.core.errors import ArgumentError
from brrr.gpu import tensors_on
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.implementations import Implementation
from brrr.strassen.operands import DTYPES, check_operands, check_out, in_memory, operand_name
from brrr.strassen.planner import ProductPlan
from brrr.strassen.product import PlainCalls, exact, plan_for, product
from brrr.strassen.request import NOTHING, SCHEMA, SHORT, Inners, Limits, Request, limits_of


def matmul(
    a: torch.Tensor, b: torch.Tensor, *, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, out: torch.Tensor | None = None, workspace_bytes: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Multiply two matrices by the fastest implementation that is predicted to be accurate enough.

    >>> a, b = torch.randn(64, 64), torch.randn(64, 64)
    >>> y = matmul(a, b, accuracy=1e-5)
    >>> torch.allclose(y, a @ b, atol=1e-4)
    True

    Implementations use Strassen levels, low precision, or split products (a float32 as two float16); `explain` says
    which one is chosen, and why.

    Parameters
    ----------
    a : torch.Tensor
        Of shape (m, k): float64, float32, float16 or bfloat16, with any strides.
    b : torch.Tensor
        Of shape (k, n) and the same type. Also ``w.t()`` of a Linear's weights.
    accuracy : float or str, optional
        The relative error (Frobenius norm, against float64) that is allowed, or a type ("fp32", "tf32", "bf16", "fp16",
        "fp8", "fp64"): as accurate as the classical matmul in it. By default as accurate as in the operands' type.
    level : int, optional
        Use exactly this many Strassen levels (0: none), even if they do not pay.
    form : str, optional
        Use only this form of level, "strassen" or "winograd".
    inner : str or sequence of str, optional
        Use only this inner matmul, or one of several, by the names in `INNERS`.
    out : torch.Tensor, optional
        The tensor to write to, of shape (m, n) and a's type. It may be strided, but not share memory with the operands.
    workspace_bytes : int, optional
        Use at most so much extra memory. By default all that is free.

    Returns
    -------
    torch.Tensor
        ``a @ b``, of shape (m, n).

    Raises
    ------
    ArgumentError
        If shapes, types or limits do not fit.
    DeviceMemoryError
        If the device has too little memory; the message names the bytes.
    UnavailableError
        If a kernel that you asked for cannot be built here. A chosen one is replaced by the library's matmul, with a
        warning.

    Notes
    -----
    The predicted error is no bound: it holds for numbers of mean 0 and similar magnitude. A default call therefore
    takes no levels, and recomputes results that may have lost digits (docs/strassen_details.md). Each level amplifies
    the inner matmul's error. Gradients flow to both operands. Under torch.compile and torch's transforms it is one
    operator. Under autocast operands are cast as torch casts them, unless `accuracy`, `inner` or `out` is given. On a
    CPU, 16-bit types and several levels may take more memory than `workspace_bytes`.

    References
    ----------
    V. Strassen, "Gaussian Elimination is not Optimal" (1969).
    """
    asked = not (accuracy is None and level is None and form is None and inner is None and workspace_bytes is None)
    nothing = not asked and out is None and not is_compiling()
    made = _torchs(a, b) if nothing else None
    if made is not None:
        return made
    made = checked_product(a, b, _limits(accuracy, level, form, inner, workspace_bytes), out)
    if nothing and a.dtype == b.dtype == made.dtype:
        chosen = plan_for(a, b.shape[1], NOTHING, within=False)  # torch's product of the operands as they lie?
        if chosen.implementation == Implementation(PLAIN[operand_name(a)]) and not chosen.workspace_bytes:
            _PLAIN_CALLS.note(_kind(a, b))
    return made


def explain(
    a: torch.Tensor, b: torch.Tensor, *, accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, workspace_bytes: int | None = None,
) -> ProductPlan:  # fmt: skip
    """Tell which implementation `matmul` would choose for these operands, and why, without multiplying.

    >>> explain(torch.ones(4, 4), torch.ones(4, 4)).implementation.level
    0

    Parameters
    ----------
    a, b : torch.Tensor
        The operands, of shape (m, k) and (k, n).
    accuracy, level, form, inner, workspace_bytes
        As for `matmul`.

    Returns
    -------
    ProductPlan
        The implementation with its predicted time (s), error and workspace (bytes); prints as a sentence.

    Raises
    ------
    ArgumentError, DeviceMemoryError, UnavailableError
        As for `matmul`.
    """
    check_operands("explain", a, b)
    return plan_for(a, b.shape[1], _limits(accuracy, level, form, inner, workspace_bytes))


def _limits(*asked: Any) -> Limits:
    return Limits(*asked) if is_compiling() else limits_of(*asked)  # what is traced remembers nothing


_PLAIN_CALLS = PlainCalls()
"""Operands that passed all checks and whose product is torch's own where nothing is asked: shapes, type, device."""


def _kind(a: torch.Tensor, b: torch.Tensor) -> tuple[Any, ...]:
    return a.shape, b.shape, a.dtype, a.device


def _torchs(a: torch.Tensor, b: Any) -> torch.Tensor | None:
    """torch's own product, where it is known to be the one: of a small operand, or like one that was planned.

    A short product waits for each line of this, so nothing is checked: what torch refuses is checked afterwards.
    """
    try:
        if (a.numel() < SHORT or b.numel() < SHORT or _kind(a, b) in _PLAIN_CALLS) and a.dtype in DTYPES and exact(a):
            return a.mm(b)
    except (AttributeError, RuntimeError, TypeError):
        return None
    return None


def checked_product(a: torch.Tensor, b: torch.Tensor, limits: Limits, out: torch.Tensor | None = None) -> torch.Tensor:
    """The product, whatever is given and asked: run at once, or as an operator of torch."""
    a, b = _cast(a, b, limits, out)
    check_operands("matmul", a, b)
    learns = (a.requires_grad or b.requires_grad) and torch.is_grad_enabled()
    if learns and out is not None:
        expected = "None where gradients are wanted"
        raise ArgumentError("matmul", "out", "a tensor", expected, "Use torch.no_grad()")
    here = in_memory(a) and in_memory(b)
    if here and not learns:
        return product(a, b, limits, out)
    if out is not None:
        check_out("matmul", out, a, b.shape[1], b)
    run = operator if here or is_compiling() else _Product.apply
    made: torch.Tensor = run(a, b, *limits.typed)  # type: ignore[no-untyped-call]
    return made if out is None else out.copy_(made)


def _cast(
    a: torch.Tensor, b: torch.Tensor, limits: Limits, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands as autocast has torch's product take them."""
    given = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if not given or out is not None or limits.accuracy is not None or limits.inners:
        return a, b
    kind = tensors_on(a.device)
    if not torch.is_autocast_enabled(kind) or not {a.dtype, b.dtype} <= {torch.float32, torch.float16, torch.bfloat16}:
        return a, b
    dtype = torch.get_autocast_dtype(kind)
    return a.to(dtype), b.to(dtype)


# ---------------------------------------------------------------------------------------------------------------------
# The product as an operator of torch: for gradients, and for what traces a program. Others have less to pass through.


@torch.library.custom_op("brrr::matmul", mutates_args=(), schema=f"(Tensor a, Tensor b, {SCHEMA}) -> Tensor")
def operator(a: torch.Tensor, b: torch.Tensor, *limits: Any) -> torch.Tensor:
    """`matmul` as torch knows it; its limits as `Limits.typed` has them."""
    return product(a, b, Limits.of_typed(*limits))


@operator.register_fake
def _(a: torch.Tensor, b: torch.Tensor, *limits: Any) -> torch.Tensor:
    Request(1, 1, 1, operand_name(a), Limits.of_typed(*limits))
    return a.new_empty(a.shape[0], b.shape[1])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, *ctx.limits = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """g @ b^T and a^T @ g, in ways chosen for their own sizes."""
    a, b = ctx.saved_tensors
    left = operator(gradient, b.t(), *ctx.limits) if ctx.needs_input_grad[0] else None
    right = operator(a.t(), gradient, *ctx.limits) if ctx.needs_input_grad[1] else None
    return left, right, *(None for _ in ctx.limits)


operator.register_autograd(_gradients, setup_context=_remember)


class _Product(torch.autograd.Function):
    """The same inside torch.func.grad and torch.vmap, which take no gradients of operators."""

    generate_vmap_rule = True
    forward = staticmethod(lambda a, b, *limits: operator(a, b, *limits))
    setup_context = staticmethod(_remember)
    backward = staticmethod(_gradients)
