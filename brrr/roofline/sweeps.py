"""Measured sweeps against the models: by which factor a product, or an operator, takes longer than its model says.

A product or an operator that is in the sweep takes what it took there; any other one is corrected by what its
neighbours took, in sizes, alignment and waves. Operators are corrected by those of the same name and form; an operator
that was not measured, by those of its class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.peak import Sweep
from brrr.roofline.peaks import Peaks
from brrr.roofline.products import Speeds, best_tiling, family_name, misalignment

# ---------------------------------------------------------------------------------------------------------------------
# What a sweep says near a point: Gaussian process regression of log(measured / modelled).

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Hyperparameters:
    """Of a Matern 3/2 kernel: length scales, one a feature; standard deviations of the signal, the noise, the mean."""

    scales: tuple[float, ...]
    size: float
    noise: float
    mean: float


class GaussianProcess:
    """Regression: the residuals measured at some points tell what to expect at others.

    >>> short = Hyperparameters((1.0,), size=0.5, noise=0.01, mean=0.1)
    >>> process = GaussianProcess([(0.0,), (10.0,)], [0.5, -0.5], short)
    >>> round(process.at((0.0,)), 2), round(process.at((10.0,)), 2), abs(round(process.at((5.0,)), 1))
    (0.5, -0.5, 0.0)

    With `names` and `own`, a residual is the sum of two: one shared by all, and one by those of its own name.
    """

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        residuals: Sequence[float],
        shared: Hyperparameters,
        names: Sequence[str] | None = None,
        own: Hyperparameters | None = None,
    ) -> None:
        import numpy as np

        self._shared, self._own = shared, own
        self._names = np.asarray(names if names is not None else [""] * len(points))
        self._points = np.asarray(points, dtype=np.float64)
        among = self._among(self._points, self._names) + shared.noise**2 * np.eye(len(points))
        self._weights = np.linalg.solve(among, np.asarray(residuals, dtype=np.float64))

    def at(self, point: Sequence[float], name: str = "") -> float:
        """The residual to expect there, of something of that name."""
        import numpy as np

        return float(self._among(np.asarray([point], dtype=np.float64), np.asarray([name]))[0] @ self._weights)

    def _among(self, others: Array, names: Any) -> Array:
        """The covariance of others with the points."""
        found = _covariance(others, self._points, self._shared)
        if self._own is None:
            return found
        alike = names[:, None] == self._names[None, :]
        both: Array = found + alike * _covariance(others, self._points, self._own)
        return both


def _covariance(others: Array, points: Array, shared: Hyperparameters) -> Array:
    import numpy as np

    one, two = others / np.asarray(shared.scales), points / np.asarray(shared.scales)
    squares = (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T
    distance = math.sqrt(3) * np.sqrt(np.maximum(squares, 0.0))
    found: Array = shared.size**2 * (1 + distance) * np.exp(-distance) + shared.mean**2
    return found


LIMIT = math.log(2.5)
"""A product further off than this factor is an exception, and no more than this is told to its neighbours."""
FEW = 3
"""Fewer neighbours than this tell nothing."""
PRODUCTS = Hyperparameters((2.0, 2.3, 1.2, 1.6, 1.6, 0.6, 0.14, 1.4, 0.8, 0.8), size=0.3, noise=0.09, mean=0.2)
"""Of products: by rows, columns, k, batch, both misalignments, rounded waves, waves, transposition, the tile's area."""
CLASSES = Hyperparameters((5.0, 4.5, 6.0, 27.0), size=0.36, noise=0.06, mean=3.0)
"""Of a class of operators: by elements, length of a line, bytes of an element, lines of whole vectors."""
OPERATORS = Hyperparameters((10.0, 5.0, 5.0, 1.0), size=0.17, noise=0.0, mean=0.65)
"""Of one operator beyond its class, by the same."""
LAYERS = Hyperparameters((6.0,) * 9, size=0.8, noise=0.06, mean=3.0)
"""Of LAYER_KINDS: by FLOP, bytes, length of a line, lines, channels of a result, bytes of an element, and whether
lines are whole vectors, and lines and channels wide ones."""
LAYER = Hyperparameters((5.0,) * 9, size=0.5, noise=0.0, mean=1.0)
"""Of one operator of these beyond its group, by the same."""
LAYER_KINDS = ("convolution", "attention", "index", "pooling", "loss")
VECTOR, WIDE = 4, 8
"""Elements that torch's norms and reductions load at once, where lines are a multiple of them; and tensor cores."""

SAME_KERNEL = {
    "aten.cudnn_batch_norm": "aten.native_batch_norm", "aten.copy": "aten.clone",
    "aten._fused_rms_norm_backward": "aten.native_layer_norm_backward",
}  # fmt: skip
"""Operators that run what another one runs, whose sweep counts for them."""
Features = tuple[float, ...]
ProductModel = Callable[[Matmul], tuple[float, Speeds]]
"""Modelled seconds of a product, and the speeds that they rest on."""


@dataclass
class Group:
    """Residuals of what is alike: exactly those that were measured, and what they say of others.

    With `own`, a residual has two parts: what the group shares, and what calls of one name have beyond it.
    """

    shared: Hyperparameters
    own: Hyperparameters | None = None
    exact: dict[object, float] = field(default_factory=dict)
    points: list[Features] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    _process: GaussianProcess | None = None

    def add(self, key: object, point: Features, residual: float, limit: float = math.inf, name: str = "") -> None:
        """One measured call."""
        self.exact[key] = residual
        self.points.append(point)
        self.names.append(name)
        self.residuals.append(max(-limit, min(limit, residual)))

    def factor(self, key: object, point: Features, name: str = "") -> float | None:
        """Measured over modelled time; None where too few were measured."""
        if key in self.exact:
            return math.exp(self.exact[key])
        return math.exp(self.at(point, name)) if len(self.points) >= FEW else None

    def at(self, point: Features, name: str = "") -> float:
        """The residual to expect at a point, of a call of that name."""
        if self._process is None:
            self._process = GaussianProcess(self.points, self.residuals, self.shared, self.names, self.own)
        return self._process.at(point, name)


@dataclass
class Corrections:
    """What a device's sweeps say against the models `product_s` and `operator_s`; a group is made when asked for."""

    peaks: Peaks
    product_s: ProductModel
    operator_s: Callable[[OperatorCost], float]
    _groups: dict[object, Group | None] = field(default_factory=dict)

    @cached_property
    def _products(self) -> Mapping[str, list[tuple[Matmul, float]]]:
        found = defaultdict(list)
        for product, added, time_s in swept_products(self.peaks.sweeps.get("products")):
            found[group_name(product, added)].append((product, time_s))
        return found

    @cached_property
    def _operators(self) -> Mapping[tuple[str, str], list[tuple[OperatorCost, float]]]:
        found = defaultdict(list)
        for each, time_s in swept_operators(self.peaks.sweeps.get("operators")):
            found[each.kind, each.form.name].append((each, time_s))
        return found

    def _group_of_products(self, name: str) -> Group | None:
        """The products of a family."""
        if name not in self._groups:
            group = self._groups[name] = Group(PRODUCTS) if name in self._products else None
            for product, time_s in self._products.get(name, ()):
                modelled, speeds = self.product_s(product)
                assert group is not None
                group.add(product, product_point(product, speeds), math.log(time_s / modelled), LIMIT)
        return self._groups[name]

    def _group_of_operators(self, key: tuple[str, str]) -> Group | None:
        """The operators of a class and form."""
        if key not in self._groups:
            prior = (LAYERS, LAYER) if key[0] in LAYER_KINDS else (CLASSES, OPERATORS)
            group = self._groups[key] = Group(*prior) if key in self._operators else None
            for each, time_s in self._operators.get(key, ()):
                assert group is not None
                residual = math.log(time_s / self.operator_s(each))
                group.add(_call(each), operator_point(each), residual, name=name_on_gpu(each))
        return self._groups[key]

    def of_product(self, product: Matmul, speeds: Speeds, added: bool = False) -> float | None:
        """The factor of a product that is computed as its `dtype` says ("tf32" for TF32); None without a sweep.

        `added`: a row is added to it in the same call.
        """
        names = (*((group_name(product, added),) if added else ()), group_name(product), family_name(product))
        groups = map(self._group_of_products, names)
        point = product_point(product, speeds)
        factors = (group.factor(product, point) for group in groups if group is not None)
        return next((factor for factor in factors if factor is not None), None)

    def of_operator(self, each: OperatorCost) -> tuple[float, bool] | None:
        """The factor of an operator, and whether the operator itself was measured, not only its class."""
        names = (each.form.name, each.form.name.partition(",")[0])  # an older sweep has no channels last
        group = next(filter(None, (self._group_of_operators((each.kind, name)) for name in names)), None)
        if group is None:
            return None
        name = each.name if each.name in group.names else name_on_gpu(each)
        found = group.factor(_call(each), operator_point(each), name)
        return None if found is None else (found, name in group.names)


def group_name(product: Matmul, added: bool = False) -> str:
    """What a product is swept with: its family; float16 has older kernels of its own, which its sweep tells.

    With a row added the library chooses among other kernels.
    """
    name = family_name(product)
    return f"{name}{', float16' if product.dtype == 'float16' else ''}{' and a row' if added else ''}"


def name_on_gpu(each: OperatorCost) -> str:
    """One name for the same operator in place, on a CPU, and in the kernel that a GPU chooses by data type.

    >>> name_on_gpu(OperatorCost("aten.add_", 0, 0, 0, "float32", ()))
    'aten.add'
    """
    name = each.name[:-1] if each.name.endswith("_") and not each.name.endswith("__") else each.name
    if each.kind == "attention":
        return "attention backward" if name.endswith("backward") else "attention"
    return SAME_KERNEL.get(name, name)


def _call(each: OperatorCost) -> tuple[object, ...]:
    return name_on_gpu(each), each.form, each.dtype, each.read_bytes, each.written_bytes


def product_point(product: Matmul, speeds: Speeds) -> Features:
    """Where a product lies among others of its family."""
    tiling = best_tiling(product, speeds)
    waves = product.batch * math.ceil(product.m / tiling.rows) * math.ceil(product.n / tiling.columns) * tiling.split
    share = waves / speeds.sm_count
    return (
        math.log2(product.m), math.log2(product.n), math.log2(product.k), math.log2(product.batch),
        *misalignment(product), math.ceil(share) / share if share > 1 else 1.0, math.log2(max(share, 1e-3)),
        2.0 * product.transposed[0] + product.transposed[1], math.log2(tiling.rows * tiling.columns),
    )  # fmt: skip


def operator_point(each: OperatorCost) -> Features:
    """Where an operator's call lies among others of it."""
    itemsize, form = ITEMSIZE.get(each.dtype, 4), each.form
    whole = form.length % VECTOR == 0
    if each.kind in LAYER_KINDS:
        channels = (each.flop or 0.0) / 2 / max(1, form.lines * form.length)
        sizes = (each.flop or 0.0, each.bytes, form.length, form.lines, channels)
        aligned = (whole, form.length % WIDE == 0, round(channels) % WIDE == 0)
        return *(math.log2(max(1.0, x)) for x in sizes), float(itemsize), *map(float, aligned)
    elements = form.lines * form.length or each.bytes / 2 / itemsize
    return math.log2(max(1.0, elements)), math.log2(max(1, form.length)) if form.name else 0.0, float(itemsize), whole


def swept_products(sweep: Sweep | None) -> list[tuple[Matmul, bool, float]]:
    """The products of a sweep, whether a row is added, and their seconds; `dtype` is "tf32" for those in TF32."""
    return [
        (
            Matmul(int(row["m"]), int(row["n"]), int(row["k"]), int(row["batch"]), str(row["dtype"]),
                   (str(row["layout"])[0] == "t", str(row["layout"])[1] == "t")),
            bool(row.get("added")),
            time_s,
        )
        for row, time_s in sweep or ()
    ]  # fmt: skip


def swept_operators(sweep: Sweep | None) -> list[tuple[OperatorCost, float]]:
    """The operators of a sweep with their seconds; a sweep without FLOP has only such as they hardly count for."""
    return [
        (
            OperatorCost(str(row["operator"]), float(row.get("flop", 0)), float(row["read"]), float(row["written"]),
                         str(row["dtype"]), (), str(row["kind"]), (),
                         Form(str(row["form"]), int(row["lines"]), int(row["length"]))),
            time_s,
        )
        for row, time_s in sweep or ()
    ]  # fmt: skip
