"""One pass over memory between two products, described by its tensors: what the kernels and torch's version both do.

>>> from brrr.strassen.algebra.forms import STRASSEN
>>> x, out = torch.ones(2, 16), torch.empty(7, 1, 8)
>>> run_in_torch(Work(1, x, False, (2, 16), (1, 8), spread=STRASSEN, high=out))
>>> out[:, 0, 0]
tensor([2., 2., 1., 1., 2., 0., 0.])
"""

from dataclasses import dataclass

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra import reference
from brrr.strassen.algebra.forms import STRASSEN, BilinearForm, form_of
from brrr.strassen.algebra.reference import signs_of
from brrr.strassen.passes.jobs import Job, Table, edge_of

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
    collect: BilinearForm | None = None
    spread: BilinearForm | None = None
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


def spread_table(form: BilinearForm | None, side: str) -> Table:
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


def _table(form: BilinearForm | None) -> Table:
    return () if form is None else tuple(tuple(row) for row in form.result.tolist())


# ---------------------------------------------------------------------------------------------------------------------
# The work of one pass, by what it reads and writes: buffers and products as `buffer_shape` and `products_shape` say.

Shape = tuple[int, int]


def factors_work(
    x: torch.Tensor, side: str, form: str | None, level: int, transposed: bool, high: torch.Tensor,
    low: torch.Tensor | None = None, exponents: torch.Tensor | None = None,
) -> Work:  # fmt: skip
    """All products' factors of one operand: x is (m, k) on the left, (k, n) on the right, or (n, k) `transposed`.

    x: any strides, any sizes. `low` and `exponents`, one for each row of a block, where numbers become two terms.
    """
    return Work(
        level, x, False, (x.shape[0], x.shape[1]), (high.shape[1], high.shape[2]), spread=chosen_form(form),
        side="transposed" if transposed else side, high=high, low=low, exponents=exponents,
    )  # fmt: skip


def assembled_work(
    products: torch.Tensor, form: str | None, level: int, shape: Shape, bias: torch.Tensor | None, relu: bool,
    out: torch.Tensor | None,
) -> Work:  # fmt: skip
    """The result of size `shape` from all products, then bias (n,) and ReLU, into `out`, of any strides.

    `out` may be missing where a step adds its buffers.
    """
    if bias is not None and not bias.is_contiguous():
        raise ArgumentError("post_add", "bias", f"strides {bias.stride()}", "contiguous", "Use .contiguous()")
    block = (products.shape[1], products.shape[2])
    return Work(level, products, True, shape, block, collect=chosen_form(form), bias=bias, relu=relu, matrix=out)


def chosen_form(form: str | None) -> BilinearForm:
    """The form; any where there is no level, for none is used."""
    return STRASSEN if form is None else form_of(form)
