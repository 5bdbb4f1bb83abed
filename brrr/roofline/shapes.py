"""`suggest_shape`: what a product of matrices is predicted to take, and which sizes, layouts and types are better."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.core.errors import ArgumentError
from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.corrections import operator_time
from brrr.roofline.device_model import DATASHEET, NOT_THIS_ONE, DeviceModel, Where, model_of
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.terms import matrix_dtype

VECTOR = 16
"""Bytes that a tensor core's kernels load at once."""
TYPES = ("float32", "tf32", "bfloat16", "float16")
STEPS = (8, 16, 32, 64, 128, 256)
"""Sizes near the one asked for are multiples of these."""
LAYOUTS = ((False, False), (False, True), (True, False), (True, True))
WORTH = 1.02
"""Less than this is no gain that a prediction could tell."""


@dataclass(frozen=True)
class Suggestion:
    """A product, what is different in it, its predicted seconds, and how much longer the product asked for takes.

    `gain` compares the work that was asked for: a larger product does it, a smaller one only its share of it.
    """

    what: str
    product: Matmul
    seconds: float
    gain: float

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        one, letters = self.product, "".join("NT"[each] for each in self.product.transposed)
        sizes = f"{one.m} x {one.n} x {one.k}"
        rate = units.quantity(one.flop / self.seconds, "FLOP/s")
        return self.what, sizes, letters, one.dtype, units.seconds(self.seconds), rate, units.ratio(self.gain)

    def __str__(self) -> str:
        return ", ".join(self.cells[1:-1])


@dataclass(frozen=True, repr=False)
class Suggestions(Carded):
    """The product asked for and what is better, the largest gain first; all times are predicted.

    The headline names what gives the same result, unless only a smaller size or another type gains.
    """

    device: str
    asked: Suggestion
    better: tuple[Suggestion, ...]

    def _card(self) -> Card:
        head = ("", "M x N x K", "layout", "type", "time", "rate", "gain")
        rows = [head, *(each.cells for each in (self.asked, *self.better))]
        gains = {each.what: units.ratio(each.gain) for each in reversed(self.better)}
        same = sorted(self.better, key=lambda x: x.what in ("smaller", "in another type"))
        best = (f"Predicted {units.ratio(x.gain)} as fast: {x.what}, {', '.join(x.cells[1:4])}." for x in same)
        title = next(best, "Nothing nearby is predicted to be faster.")
        others = ", ".join(f"{what} {gain}" for what, gain in reversed(gains.items()))
        lines = [f"As asked: {self.asked}.", f"Gains: {others}." * (len(gains) > 1)]
        return Card(title, lines, {}, f"PREDICTED · {self.device}", [rows])


def suggest_shape(
    m: int, n: int, k: int, dtype: str = "bfloat16", *, transposed: tuple[bool, bool] = (False, False),
    change: Collection[str] = ("n",), within: float = 0.1, device: Where = None,
) -> Suggestions:  # fmt: skip
    """Suggest faster shapes, layouts and types near a matmul of (m, k) by (k, n).

    >>> found = suggest_shape(2048, 1025, 2048, "bfloat16", device="h200")
    >>> found.better[0].product.n % 8, found.better[0].gain > 4
    (0, True)

    Nothing runs: all times are `predict`'s, of the matmul's kernel alone.

    Parameters
    ----------
    m, n, k : int
        The sizes; the result is (m, n).
    dtype : {"bfloat16", "float16", "tf32", "float32"}
        The type.
    transposed : tuple of bool
        For each operand, whether it is stored column by column.
    change : collection of {"m", "n", "k"}
        Which sizes may change.
    within : float
        The largest relative change of a size: 0.1 is 10 %.
    device : str, Peaks or Hardware, optional
        As for `predict`.

    Returns
    -------
    Suggestions
        `asked` is the shape that you gave; `better` lists faster ones, the largest gain first, each with the layout in
        which to store the operands. Another data type rounds differently.

    Raises
    ------
    ArgumentError
        If a size, a type or a name is invalid.

    Notes
    -----
    Why shapes matter: NVIDIA, "Matrix Multiplication Background User's Guide" (tile and wave quantisation).
    """
    _check(m, n, k, dtype, change, within)
    model = model_of(device)
    if not model.is_gpu:
        raise ArgumentError("suggest_shape", "device", model.device, "a GPU", 'Name one: device="h200"')
    product = Matmul(m, n, k, dtype=dtype, transposed=transposed)
    asked = Suggestion("as asked", product, _product_s(product, model), 1.0)
    turned = (("transposed", replace(product, transposed=each)) for each in LAYOUTS if each != product.transposed)
    types = (("in another type", replace(product, dtype=each)) for each in TYPES if each != product.dtype)
    made = dict.fromkeys([*_sizes(product, change, within), *turned, *types])
    found = []
    for what, each in made:
        seconds = _product_s(each, model)
        share = min(1.0, each.flop / product.flop)
        found.append(Suggestion(what, each, seconds, share * asked.seconds / seconds))
    where = ", ".join([model.device, *(note for note in model.notes if note in NOT_THIS_ONE)])
    return Suggestions(where, asked, _best(found, product))


def _best(found: list[Suggestion], asked: Matmul) -> tuple[Suggestion, ...]:
    """What gains, the most first; of two sizes the one further away only where it gains more."""
    kept: list[Suggestion] = []
    for each in sorted(found, key=lambda one: abs(one.product.flop / asked.flop - 1)):
        alike = [one.gain for one in kept if each.what in (one.what, "larger" if one.what == "padded" else "")]
        if each.gain > WORTH * max([1.0, *alike]):
            kept.append(each)
    return tuple(sorted(kept, key=lambda one: -one.gain))


def _sizes(product: Matmul, change: Collection[str], within: float) -> Iterator[tuple[str, Matmul]]:
    if (padded := whole(product)) != product:
        yield "padded", padded
    for name in change:
        size = int(getattr(product, name))
        for step in STEPS:
            for near in (size // step * step, _up(size, step)):
                grown: dict[str, Any] = {name: near}
                if 0 < near != size and abs(near - size) <= max(within * size, VECTOR):
                    made = replace(product, **grown)
                    yield "padded" if made == padded else "smaller" if near < size else "larger", made


def _check(m: int, n: int, k: int, dtype: str, change: Collection[str], within: float) -> None:
    for name, size in (("m", m), ("n", n), ("k", k)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError("suggest_shape", name, size, "a positive whole number")
    if dtype not in TYPES:
        raise ArgumentError("suggest_shape", "dtype", dtype, f"one of {', '.join(TYPES)}")
    if unknown := set(change) - {"m", "n", "k"}:
        raise ArgumentError("suggest_shape", "change", ", ".join(sorted(unknown)), "some of m, n and k")
    if not 0 <= within < 1:
        raise ArgumentError("suggest_shape", "within", within, "a share from 0 to below 1")


# ---------------------------------------------------------------------------------------------------------------------
# The predicted times of one product and of a copy.


@lru_cache(maxsize=8)
def _model(device: str) -> DeviceModel:
    """The figures measured for a device, else its datasheet's; of a device that nobody knows, an H200's datasheet."""
    try:
        return model_of(device)
    except ArgumentError:  # anything else, such as a damaged file, is told
        return model_of(f"{DATASHEET}h200")


def product_time_s(product: Matmul, device: str) -> float:
    """Predicted seconds of a product's kernel on a device of that name."""
    return _product_s(product, _model(device))


def has_units(dtype: str, device: str) -> bool:
    """Whether a device has units of its own for products of a type, in place of those for float32."""
    return _model(device).has_units(f"matmul.{matrix_dtype(dtype)}")


def _product_s(product: Matmul, model: DeviceModel) -> float:
    return _device_s(operator_of(product), model)


def copy_s(elements: int, dtype: str, device: str) -> float:
    """Predicted seconds of a copy."""
    nbytes = float(ITEMSIZE.get(dtype, 4) * elements)
    each = OperatorCost("aten.copy_", 0.0, nbytes, nbytes, dtype, (), "copy", form=Form("", 1, elements))
    return _device_s(each, _model(device))


def _device_s(each: OperatorCost, model: DeviceModel) -> float:
    return operator_time(each, model, each.bytes, host_s=0.0).device_s or 0.0


def whole(product: Matmul) -> Matmul:
    """The same product with each size along which a matrix lies rounded up to whole 16 bytes.

    >>> whole(Matmul(7, 1025, 64, dtype="bfloat16")).n
    1032
    """
    each, (left, right) = VECTOR // ITEMSIZE.get(product.dtype, 4), product.transposed
    m = _up(product.m, each) if left else product.m
    k = product.k if left and not right else _up(product.k, each)
    return replace(product, m=m, n=_up(product.n, each), k=k)


def _up(size: int, to: int) -> int:
    return -(-size // to) * to
