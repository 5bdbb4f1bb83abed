"""Measured sweeps against the models: by which factor a product, or an operator, takes longer than its model says.

A product or an operator that is in the sweep takes what it took there; any other one is corrected by what its
neighbours took, in sizes, alignment and waves. Operators are corrected by those of the same name and form; an operator
that was not measured, by those of its class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from brrr.counting.cost import Form, Matmul, OperatorCost
from brrr.counting.description import ITEMSIZE
from brrr.peaks.peaks import Peaks
from brrr.peaks.sweep import Sweep
from brrr.roofline.families import family_name
from brrr.roofline.nearby import Nearby, Spread
from brrr.roofline.tiles import Speeds, best_tiling, misalignment

LIMIT = math.log(2.5)
"""A product further off than this factor is an exception, and no more than this is told to its neighbours."""
FEW = 3
"""Fewer neighbours than this tell nothing."""
PRODUCTS = Spread((8.0, 3.0, 3.5, 4.0, 2.0, 2.0, 0.7, 6.0, 3.0, 2.0), size=0.17, noise=0.09, mean=0.05)
"""Of products: by rows, columns, k, batch, both misalignments, rounded waves, waves, transposition, the tile's area."""
CLASSES = Spread((8.0, 4.0, 3.0, 1.0), size=0.5, noise=0.2, mean=1.0)
"""Of a class of operators: by elements, length of a line, bytes of an element, alignment of the lines."""
OPERATORS = Spread((5.0, 3.0, 3.0, 0.7), size=0.4, noise=0.05, mean=0.5)
"""Of one operator beyond its class, by the same."""

Point = tuple[float, ...]


@dataclass
class Group:
    """Residuals of what is alike: exactly those that were measured, and what they say of others.

    `within` is a wider group, whose word counts first: only what it leaves is this group's own.
    """

    spread: Spread
    within: Group | None = None
    exact: dict[object, float] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    _nearby: Nearby | None = None

    def add(self, key: object, point: Point, residual: float, limit: float = math.inf) -> None:
        """One measured call."""
        self.exact[key] = residual
        self.points.append(point)
        self.residuals.append(max(-limit, min(limit, residual)))

    def factor(self, key: object, point: Point) -> float | None:
        """Measured over modelled time; None where too few were measured."""
        if key in self.exact:
            return math.exp(self.exact[key])
        return math.exp(self.at(point)) if len(self.points) >= FEW else None

    def at(self, point: Point) -> float:
        """The residual to expect at a point: the wider group's, and what is known here beyond it."""
        wider = self.within.at(point) if self.within is not None else 0.0
        if self._nearby is None:
            beyond = [
                residual - self._wider(place) for place, residual in zip(self.points, self.residuals, strict=True)
            ]
            self._nearby = Nearby(self.points, beyond, self.spread)
        return wider + self._nearby.at(point)

    def _wider(self, point: Point) -> float:
        return self.within.at(point) if self.within is not None else 0.0


@dataclass(frozen=True)
class Corrections:
    """The groups of a device's sweeps, ready to be asked: operators by name and form, and by class and form."""

    products: Mapping[str, Group]
    operators: Mapping[tuple[str, str], Group]
    classes: Mapping[tuple[str, str], Group]

    def of_product(self, product: Matmul, speeds: Speeds) -> float | None:
        """The factor of a product that is computed as its `dtype` says ("tf32" for TF32); None without a sweep."""
        group = self.products.get(family_name(product))
        return None if group is None else group.factor(product, product_point(product, speeds))

    def of_operator(self, each: OperatorCost) -> tuple[float, bool] | None:
        """The factor of an operator, and whether the operator itself was measured, not only its class."""
        key, point = _call(each), operator_point(each)
        for name in (each.name, _out_of_place(each.name)):
            own = self.operators.get((name, each.form.name))
            found = None if own is None else own.factor(key, point)
            if found is not None:
                return found, True
        wider = self.classes.get((each.kind, each.form.name))
        found = None if wider is None else wider.factor(key, point)
        return None if found is None else (found, False)


def _out_of_place(name: str) -> str:
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _call(each: OperatorCost) -> tuple[object, ...]:
    return each.name, each.form, each.dtype, each.read_bytes, each.written_bytes


def product_point(product: Matmul, speeds: Speeds) -> Point:
    """Where a product lies among others of its family."""
    tiling = best_tiling(product, speeds)
    waves = product.batch * math.ceil(product.m / tiling.rows) * math.ceil(product.n / tiling.columns) * tiling.split
    share = waves / speeds.sm_count
    return (
        math.log2(product.m), math.log2(product.n), math.log2(product.k), math.log2(product.batch),
        *misalignment(product), math.ceil(share) / share if share > 1 else 1.0, math.log2(max(share, 1e-3)),
        2.0 * product.transposed[0] + product.transposed[1], math.log2(tiling.rows * tiling.columns),
    )  # fmt: skip


def operator_point(each: OperatorCost) -> Point:
    """Where an operator's call lies among others of it."""
    itemsize, form = ITEMSIZE.get(each.dtype, 4), each.form
    elements = form.lines * form.length or each.bytes / 2 / itemsize
    aligned = form.length * itemsize % 16 == 0
    return math.log2(max(1.0, elements)), math.log2(max(1, form.length)) if form.name else 0.0, float(itemsize), aligned


ProductModel = Callable[[Matmul], tuple[float, Speeds]]
"""Modelled seconds of a product, and the speeds that they rest on."""


def made_of(peaks: Peaks, product_s: ProductModel, operator_s: Callable[[OperatorCost], float]) -> Corrections:
    """The corrections that a device's sweeps give to the models `product_s` and `operator_s`."""
    products: dict[str, Group] = {}
    for product, time_s in swept_products(peaks.sweeps.get("products")):
        modelled, speeds = product_s(product)
        group = products.setdefault(family_name(product), Group(PRODUCTS))
        group.add(product, product_point(product, speeds), math.log(time_s / modelled), LIMIT)
    operators: dict[tuple[str, str], Group] = {}
    classes: dict[tuple[str, str], Group] = {}
    for each, time_s in swept_operators(peaks.sweeps.get("operators")):
        wider = classes.setdefault((each.kind, each.form.name), Group(CLASSES))
        own = operators.setdefault((each.name, each.form.name), Group(OPERATORS, wider))
        residual = math.log(time_s / operator_s(each))
        for group in (wider, own):
            group.add(_call(each), operator_point(each), residual)
    return Corrections(products, operators, classes)


def swept_products(sweep: Sweep | None) -> list[tuple[Matmul, float]]:
    """The products of a sweep with their seconds; `dtype` is "tf32" for those in TF32."""
    return [
        (
            Matmul(int(row["m"]), int(row["n"]), int(row["k"]), int(row["batch"]), str(row["dtype"]),
                   (str(row["layout"])[0] == "t", str(row["layout"])[1] == "t")),
            time_s,
        )
        for row, time_s in sweep or ()
    ]  # fmt: skip


def swept_operators(sweep: Sweep | None) -> list[tuple[OperatorCost, float]]:
    """The operators of a sweep with their seconds; their FLOP are not in it, for they hardly count."""
    return [
        (
            OperatorCost(str(row["operator"]), 0.0, float(row["read"]), float(row["written"]), str(row["dtype"]), (),
                         str(row["kind"]), (), Form(str(row["form"]), int(row["lines"]), int(row["length"]))),
            time_s,
        )
        for row, time_s in sweep or ()
    ]  # fmt: skip


PRODUCT_COLUMNS = ("dtype", "m", "n", "k", "batch", "layout")
OPERATOR_COLUMNS = ("operator", "kind", "form", "dtype", "lines", "length", "read", "written")
