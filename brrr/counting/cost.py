"""What a piece of work costs before anything runs: floating-point operations and bytes."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, NamedTuple

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.counting.by_module import ByModule, by_module

ITEMSIZE = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "complex128": 16, "complex64": 8,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of an element, by torch's name of its type."""


TURNED = ", turned"
"""Ends the name of a form whose operator first copies what it takes, which lies in another order."""
ABOVE = ", and above"
"""Behind the form of a convolution's gradient with channels last: the gradient from above lies so, too."""
EACH, IN_TURN = "each", "in turn"
"""The forms of operators that have a thread for each element; and a kernel for each of so many (`window`) parts."""
COPIED = "copy"
"""How the names of forms begin whose bytes go over the link between the host's memory and a GPU's."""


@dataclass(frozen=True, slots=True)
class Matmul:
    """`batch` products of an (m, k) by a (k, n) matrix; a convolution counts as the product it amounts to.

    `transposed` tells of each of the two whether it lies column by column.

    >>> Matmul(m=128, n=512, k=512, dtype="float32").flop
    67108864.0
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float32"
    transposed: tuple[bool, bool] = (False, False)

    @property
    def flop(self) -> float:
        """2mnk for each of the batch; an added bias is not in it."""
        return 2.0 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Form:
    """How an operator goes over its tensors: `lines` of `length` elements each; names in `brrr.counting.forms`.

    `over` how many images they are spread, or among how many rows of a table they lie. `window`: the elements of a
    convolution's window, the groups of a grouped one, or the elements of a channel of an image that is normed. Of what
    is strided, `window` is how many elements apart those of a line are read, and `over` as many times as lines go into
    it: a transposed matrix of r rows and c columns is c lines of r, c apart.
    """

    name: str = ""
    lines: int = 1
    length: int = 0
    over: int = 1
    window: int = 1


Recent = tuple[tuple[float, float], ...] | None


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """What one call of one operator costs when it runs as a kernel of its own.

    `kind` is the operator's class: view (or an allocation: nothing runs on the device), copy, pointwise, reduction,
    scan, softmax, norm, loss, pooling, index, random, matmul, convolution, attention, recurrent or unknown. `flop` is
    None where no formula is known. `shapes` are those of the tensors it takes, of those it makes where it takes none.
    `backward`: whether autograd called it for a gradient. `recent`: of how many of its bytes it is known how many bytes
    were touched since they were, in pairs; all others the work touches for the first time. None where that was not
    counted. `module`: in which module it ran, "" for none. `counted`: its FLOP by convention, where `flop` became what
    its special functions really do. Two calls that differ in nothing else are equal.
    """

    name: str
    flop: float | None
    read_bytes: float
    written_bytes: float
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    kind: str = "pointwise"
    matmuls: tuple[Matmul, ...] = ()
    form: Form = Form()
    backward: bool = field(default=False, compare=False)
    recent: Recent = field(default=None, compare=False)
    module: str = field(default="", compare=False)
    counted: float | None = field(default=None, compare=False)

    @property
    def counted_flop(self) -> float:
        """Its FLOP as conventions count them; 0 where no formula is known."""
        return (self.flop if self.counted is None else self.counted) or 0.0

    @property
    def bytes(self) -> float:
        """What it reads and writes together."""
        return self.read_bytes + self.written_bytes


class Life(NamedTuple):
    """A storage: its bytes, from which operator (by number, -1: before all) until before which it is, and for what."""

    nbytes: int
    born: int
    died: int
    part: str


@dataclass(frozen=True, slots=True)
class Cost(Carded):
    """How many floating-point operations a piece of work does, and how many bytes it moves.

    >>> work = Cost(flop=67.1e6, bytes=537e6)
    >>> work
    67.1 MFLOP, 537 MB, 0.125 FLOP/B
    >>> round(work.arithmetic_intensity, 3)
    0.125

    `cost` returns it, and `predict` takes it. An FMA (fused multiply-add) counts as 2 FLOP.

    Attributes
    ----------
    flop : float
        Floating-point operations.
    bytes : float
        The compulsory bytes: each input read once, each output written once. Even a perfectly fused kernel moves them.
    eager_bytes : float
        What the operators move if each runs as a kernel of its own. By default `bytes`.
    working_set_bytes : float
        The memory touched: inputs, results, and the intermediates that exist at the same time. By default `bytes`.
    operators : tuple of OperatorCost
        The operators one by one, in the order in which they run.
    gradients : int
        How many tensors autograd computes gradients for.
    lines : int
        How many lines of Python the callable ran besides its operators; each costs host time.
    lives : tuple of Life
        The storages of a call that is not the first, with what the one before it left; `Prediction.memory` adds up.
    """

    flop: float
    bytes: float
    eager_bytes: float = -1.0
    working_set_bytes: float = -1.0
    operators: tuple[OperatorCost, ...] = ()
    gradients: int = 0
    lines: int = field(default=0, compare=False)
    lives: tuple[Life, ...] = field(default=(), compare=False, repr=False)
    _more: ClassVar[tuple[str, ...]] = ("arithmetic_intensity", "unknown")

    def __post_init__(self) -> None:
        for name in ("eager_bytes", "working_set_bytes"):
            if getattr(self, name) < 0:
                object.__setattr__(self, name, self.bytes)

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per compulsory byte; infinite for work that moves nothing."""
        return self.flop / self.bytes if self.bytes else float("inf")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the operators whose FLOP no formula gives; `flop` leaves them out."""
        return tuple(dict.fromkeys(each.name for each in self.operators if each.flop is None))

    @property
    def random(self) -> tuple[str, ...]:
        """The names of the operators that draw random numbers, which count as 0 FLOP."""
        return tuple(dict.fromkeys(each.name for each in self.operators if each.kind == "random"))

    @property
    def matmuls(self) -> tuple[Matmul, ...]:
        """All matrix multiplications, in order."""
        return tuple(product for each in self.operators for product in each.matmuls)

    def by_module(self) -> ByModule:
        """FLOP and bytes of each module, as a tree; bytes are those of each operator by itself.

        >>> import torch, brrr
        >>> brrr.cost(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), brrr.array((2, 8))).by_module()
        module        FLOP      share   eager bytes
        (all)         144 FLOP  100 %   304 B
          Sequential  144 FLOP  100 %   304 B
            0         136 FLOP  94.4 %  240 B
            1         8 FLOP    5.56 %  64 B
        """
        return by_module(self.operators)

    def _card(self) -> Card:
        once, eager, touched = map(units.nbytes, (self.bytes, self.eager_bytes, self.working_set_bytes))
        moved = f"Operator by operator it moves {eager}, fused {once}; it takes {touched} of memory."
        moving = Counter(each for each in self.operators if each.kind != "view")
        rows = [_HEAD, *(_line(each, calls) for each, calls in moving.items())] if self.operators else []
        return Card(repr(self), [moved * (self.eager_bytes > self.bytes)], more=[rows, *_notes(self)])

    def __repr__(self) -> str:
        flop, intensity = units.quantity(self.flop, "FLOP"), units.quantity(self.arithmetic_intensity, "FLOP/B")
        if self.unknown:
            flop = f"at least {flop} (unknown: {', '.join(self.unknown)})"
            intensity = f"at least {intensity}"
        return f"{flop}, {units.quantity(self.bytes, 'B')}, {intensity}"


def matmul_cost(m: int, k: int, n: int, itemsize: int) -> Cost:
    """The cost of an (m, k) by (k, n) product with `itemsize` bytes an element: 2mkn FLOP, three matrices moved once.

    >>> matmul_cost(1024, 1024, 1024, 4)
    2.15 GFLOP, 12.6 MB, 171 FLOP/B
    """
    return Cost(flop=2.0 * m * k * n, bytes=float(itemsize) * (m * k + k * n + m * n))


# ---------------------------------------------------------------------------------------------------------------------
# A cost as a table of its operators.

_HEAD = ("calls", "operator", "kind", "dtype", "shapes", "FLOP", "read", "written")


def _line(each: OperatorCost, calls: int) -> tuple[str, ...]:
    flop = "unknown" if each.flop is None else units.quantity(calls * each.flop, "FLOP")
    read, written = (units.quantity(calls * moved, "B") for moved in (each.read_bytes, each.written_bytes))
    return str(calls), each.name, each.kind, each.dtype, _shapes(each), flop, read, written


def _shapes(each: OperatorCost) -> str:
    """Its shapes, equal ones after each other as one with their number."""
    runs = [(shape, len(list(same))) for shape, same in groupby(each.shapes)]
    return " ".join(f"{count} x {shape}" if count > 2 else " ".join([str(shape)] * count) for shape, count in runs)


def _notes(cost: Cost) -> list[str]:
    views = sum(each.kind == "view" for each in cost.operators)
    seen = f"and {views} view{'s' * (views > 1)} or allocation{'s' * (views > 1)}: 0 FLOP, 0 B" * bool(views)
    drawn = f"random numbers count 0 FLOP: {', '.join(cost.random)}" * bool(cost.random)
    return [seen, drawn, f"FLOP unknown, not in the sum: {', '.join(cost.unknown)}" * bool(cost.unknown)]
