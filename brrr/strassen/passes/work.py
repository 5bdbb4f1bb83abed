"""One pass over memory between two products, described by its tensors: what the kernels and torch's version both do.

>>> from brrr.strassen.algebra.forms import STRASSEN
>>> x, out = torch.ones(2, 16), torch.empty(7, 1, 8)
>>> run_in_torch(Work(1, x, False, (2, 16), (1, 8), spread=STRASSEN, high=out))
>>> out[:, 0, 0]
tensor([2., 2., 1., 1., 2., 0., 0.])
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra import reference
from brrr.strassen.algebra.blocks import buffer_shape, level_of, products_shape
from brrr.strassen.algebra.forms import STRASSEN, Form, form_of
from brrr.strassen.passes.plan import Job, Table, edge_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class Work:
    """Blocks from a matrix or from products, a layer's bias and ReLU, and where they go: a matrix, buffers, or both.

    shape: the matrix's, read or written; block: that of a block. collect, spread: the forms whose products make the
    blocks and whose sums they make; side: of the factors, "left", "right" or "transposed". high, low: the buffers; both
    where each number becomes two of float16, scaled by 2^-exponents, one for each row of a block or one for all.
    """

    level: int
    source: torch.Tensor
    from_products: bool
    shape: tuple[int, int]
    block: tuple[int, int]
    collect: Form | None = None
    spread: Form | None = None
    side: str = "left"
    bias: torch.Tensor | None = None
    relu: bool = False
    matrix: torch.Tensor | None = None
    high: torch.Tensor | None = None
    low: torch.Tensor | None = None
    exponents: torch.Tensor | None = None

    @property
    def touched(self) -> torch.Tensor | None:
        """The matrix that is read or written."""
        return self.matrix if self.from_products else self.source

    @property
    def terms(self) -> int:
        """How many buffers are written."""
        return (self.high is not None) + (self.low is not None)

    def job(self, vector: int | None = None) -> Job:
        """What has to be compiled, for so many neighbours a thread; None: as the job would choose."""
        plain = Job(
            level=self.level, source="products" if self.from_products else "matrix",
            to_matrix=self.matrix is not None, terms=self.terms,
            bias=_name(self.bias) if self.bias is not None else None, relu=self.relu, in_type=_name(self.source),
            matrix_type=_name(self.matrix), out_type=_name(self.high),
            spread=spread_table(self.spread, self.side), collect=_table(self.collect),
        )  # fmt: skip
        return plain.ending(self.edge(plain.tuning().vector if vector is None else vector))

    def edge(self, vector: int) -> int:
        """Where the matrix may end; see `edge_of`."""
        touched = self.touched
        if touched is None:
            return edge_of(self.shape, self.block, self.level, vector)
        down, along = touched.stride()
        return edge_of(
            self.shape, self.block, self.level, vector, (down, along), touched.data_ptr(), touched.element_size()
        )


def signs_of(form: Form, side: str) -> torch.Tensor:
    """A form's signs of the blocks, (7, 4), for the left operand, the right, or the right that lies "transposed"."""
    chosen = form.left if side == "left" else form.right if side == "right" else form.right[:, [0, 2, 1, 3]]
    return torch.from_numpy(chosen.copy())


def spread_table(form: Form | None, side: str) -> Table:
    """The same as a table for the kernels; empty without a form."""
    return () if form is None else tuple(tuple(row) for row in signs_of(form, side).tolist())


def run_in_torch(work: Work) -> None:
    """The work by torch's operators, on any device and in any type: sums in float32, or in float64 for that type."""
    wide = torch.float64 if work.source.dtype == torch.float64 else torch.float32
    blocks = _blocks(work, wide)
    if work.matrix is not None:
        work.matrix.copy_(blocks)
    if work.high is None:
        return
    assert work.spread is not None
    side = "left" if work.side == "left" else "right"
    sums = reference.pre_add(blocks, side, work.spread, work.level, transposed=work.side == "transposed")
    if work.low is None:
        work.high.copy_(sums)
        return
    assert work.exponents is not None
    sums = torch.ldexp(sums, -work.exponents.expand(sums.shape[1])[None, :, None])
    work.high.copy_(sums)
    work.low.copy_(sums - work.high.to(wide))


def _blocks(work: Work, wide: torch.dtype) -> torch.Tensor:
    """The matrix, after bias and ReLU."""
    bias = None if work.bias is None else work.bias.to(wide)
    if work.from_products:
        assert work.collect is not None
        source = work.source.to(wide)
        return reference.post_add(source, work.collect, work.level, work.shape, bias=bias, relu=work.relu)
    made = work.source.to(wide)
    made = made if bias is None else made + bias
    return made.clamp_min(0) if work.relu else made


def _name(tensor: torch.Tensor | None) -> str:
    return "float32" if tensor is None else str(tensor.dtype).removeprefix("torch.")


def _table(form: Form | None) -> Table:
    return () if form is None else tuple(tuple(row) for row in form.result.tolist())


# ---------------------------------------------------------------------------------------------------------------------
# What the sums of blocks are given, checked, and made into the work of one pass.

Shape = tuple[int, int]


def factors_work(
    call: str, x: torch.Tensor, side: str, form: str | Form, level: int, transposed: bool,
    high: torch.Tensor, low: torch.Tensor | None, exponents: torch.Tensor | None,
) -> Work:  # fmt: skip
    """The work of pre-additions, checked."""
    check_tensors(call, x=x, out=high, low=low)
    check_matrix(call, "x", x, None, written=False)
    level = level_of(level, call)
    if low is not None and side == "right" and not transposed:
        hint = "Give (n, k), as Linear's weights lie, and transposed=True: a split product's rows lie along k"
        raise ArgumentError(call, "transposed", transposed, "True for a right operand in two terms", hint)
    shape = buffer_shape(x.shape[0], x.shape[1], side, level, transposed)
    for name, each in (("out", high), ("low", low)):
        if each is not None:
            check_buffer(call, name, each, shape)
            if low is not None and each.dtype != torch.float16:
                raise ArgumentError(call, name, str(each.dtype), "float16")
    return Work(
        level, x, False, (x.shape[0], x.shape[1]), (shape[1], shape[2]), spread=chosen_form(form, level, call),
        side="transposed" if transposed else side, high=high, low=low, exponents=exponents,
    )  # fmt: skip


def assembled_work(
    call: str, products: torch.Tensor, form: str | Form, level: int, shape: Shape,
    bias: torch.Tensor | None, relu: bool, out: torch.Tensor | None,
) -> Work:  # fmt: skip
    """The work of post-additions, checked; `out` may be missing where a step adds its buffers."""
    check_tensors(call, products=products, bias=bias, out=out)
    level = level_of(level, call)
    wanted = products_shape(*shape, level)
    check_buffer(call, "products", products, wanted)
    if bias is not None and (tuple(bias.shape) != (shape[1],) or not bias.is_contiguous()):
        found = f"shape {tuple(bias.shape)}, strides {bias.stride()}"
        raise ArgumentError(call, "bias", found, f"shape ({shape[1]},), contiguous")
    if out is not None:
        check_matrix(call, "out", out, shape, written=True)
    collect = chosen_form(form, level, call)
    return Work(level, products, True, shape, wanted[1:], collect=collect, bias=bias, relu=relu, matrix=out)


def chosen_form(form: str | Form, level: int, call: str) -> Form:
    """The form; any where there is no level, for none is used."""
    return form_of(form, call) if level else STRASSEN


def check_tensors(call: str, **tensors: torch.Tensor | None) -> None:
    """ArgumentError for a tensor of a type that no kernel takes, or on another device than the first."""
    first: torch.Tensor | None = None
    for name, each in tensors.items():
        if each is None:
            continue
        if not isinstance(each, torch.Tensor) or not each.dtype.is_floating_point:
            found = str(each.dtype) if isinstance(each, torch.Tensor) else type(each).__name__
            raise ArgumentError(call, name, found, "a tensor of float32, float16 or bfloat16")
        first = each if first is None else first
        if each.device != first.device:
            raise ArgumentError(call, name, str(each.device), f"a tensor on {first.device}, as the others")


def check_buffer(call: str, name: str, given: torch.Tensor, shape: tuple[int, ...]) -> None:
    """ArgumentError for a buffer of another shape, with gaps, or at an address at which no word of 16 bytes starts."""
    if tuple(given.shape) != shape:
        raise ArgumentError(call, name, tuple(given.shape), f"shape {shape}")
    if not given.is_contiguous() or given.data_ptr() % 16:
        found = f"strides {given.stride()} at an address {given.data_ptr() % 16} past a multiple of 16"
        raise ArgumentError(call, name, found, "a contiguous tensor at a multiple of 16 bytes")


def check_matrix(call: str, name: str, given: torch.Tensor, shape: tuple[int, int] | None, written: bool) -> None:
    """ArgumentError for what is no matrix of that shape; a written one must hold each element once."""
    if given.dim() != 2 or (shape is not None and tuple(given.shape) != tuple(shape)):
        expected = "a matrix: a tensor of two dimensions" if shape is None else f"shape {tuple(shape)}"
        raise ArgumentError(call, name, f"shape {tuple(given.shape)}", expected)
    if written and any(step == 0 and size > 1 for step, size in zip(given.stride(), given.shape, strict=True)):
        raise ArgumentError(call, name, f"strides {given.stride()}", "a tensor whose elements lie apart")
