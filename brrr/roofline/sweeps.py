"""Measured sweeps against the models: by which factor a product, or an operator, takes longer than its model says.

A product or an operator that is in the sweep takes what it took there; any other one is corrected by what its
neighbours took, in sizes, alignment and waves. Operators are corrected by those of the same name and form; an operator
that was not measured, by those of its class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.lowering import name_on_gpu
from brrr.roofline.peak import Sweep
from brrr.roofline.peaks import Peaks
from brrr.roofline.products import Speeds, TiledProduct, best_tiling, family_name, misalignment, tilings

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

    With `names` and `own`, a residual is the sum of two: one shared by all, and one by those of its own name. Only the
    NEAREST points count, by their covariance with the one that is asked for (R. B. Gramacy and D. W. Apley, Local
    Gaussian Process Approximation for Large Computer Experiments, 2015).
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

        self._parts = [shared] if own is None else [shared, own]
        self._points = [np.asarray(points, dtype=np.float64) / np.asarray(each.scales) for each in self._parts]
        places = {name: place for place, name in enumerate(dict.fromkeys(names or ()))}
        self._places, self._names = places, np.asarray([places[name] for name in names or ()])
        self._residuals = np.asarray(residuals, dtype=np.float64)

    def at(self, point: Sequence[float], name: str = "") -> float:
        """The residual to expect there, of something of that name."""
        import numpy as np

        one = [np.asarray([point], dtype=np.float64) / np.asarray(each.scales) for each in self._parts]
        every = self._covariance(one, np.asarray([self._places.get(name, -1)]), self._points, self._names)[0]
        near = np.argsort(-every)[:NEAREST]
        points, names = [each[near] for each in self._points], self._names[near] if self._places else self._names
        among = self._covariance(points, names, points, names) + self._parts[0].noise ** 2 * np.eye(len(near))
        return float(every[near] @ np.linalg.solve(among, self._residuals[near]))

    def _covariance(self, ones: Sequence[Array], their: Any, others: Sequence[Array], names: Any) -> Array:
        """What is shared, and what those of one name have beyond it; points are in units of their scales."""
        found = _matern(self._parts[0], ones[0], others[0])
        if len(self._parts) > 1:
            found += (their[:, None] == names[None, :]) * _matern(self._parts[1], ones[1], others[1])
        return found


def _matern(part: Hyperparameters, ones: Array, others: Array) -> Array:
    import numpy as np

    distance: Array = (ones**2).sum(1)[:, None] + (others**2).sum(1)[None, :] - 2 * ones @ others.T
    np.sqrt(3 * np.maximum(distance, 0.0, out=distance), out=distance)  # in place: they are large
    found = np.exp(-distance)
    distance += 1
    found *= distance
    found *= part.size**2
    found += part.mean**2
    return found


NEAREST = 200
"""Points that count in a regression."""
FEW = 3
"""Fewer neighbours than this tell nothing."""
_PRODUCTS = 2.0, 2.3, 1.2, 1.6, 1.6, 0.6, 0.14, 1.4, 0.8, 0.8
PRODUCTS = (*_PRODUCTS, 0.3, 0.09, 0.2, *_PRODUCTS, 0.2, 0.0, 0.1)
"""Of bare products: by rows, columns, k, batch, misalignments, rounded waves, waves, transposition, the tile's area.

They are not fitted: the model of tiles is close, and scales that a sweep makes likely carry a few products too far.
"""
ADDED = " and a row"
"""Behind a family's name: its products to which a row is added. The library has other kernels for them."""
FEW_ROWS, SMALL_VOLUME = 16, 2**21
"""Up to so many rows, and below so many multiply-adds, the library adds a row to a product in other ways."""
UNFITTED = 5.0, 0.6, 0.06, 3.0
"""Scales, size, noise and mean of what a sweep's groups share, where they were not fitted to it."""
UNFITTED_OWN = 5.0, 0.4, 0.0, 0.7
"""The same of what calls of one name have beyond their group."""
BY_FLOP = ("convolution", "attention")
"""Kernels with tiles of their own: they count by bytes, and by FLOP at the best rate, where a sweep corrects that."""
VECTOR, WIDE = 4, 8
"""Elements that torch's norms and reductions load at once, where lines are a multiple of them; and tensor cores."""

Features = tuple[float, ...]
ProductModel = Callable[[Matmul], tuple[float, Speeds]]
"""Modelled seconds of a product, and the speeds that they rest on."""


@dataclass
class Group:
    """Residuals of what is alike: exactly those that were measured, and what they say of others.

    A residual has two parts: what the group shares, and what calls of one name have beyond it. `fit` holds the
    hyperparameters of both, as a sweep's `fits` do; without it they are the same for all groups.
    """

    fit: Sequence[float] | None = None
    exact: dict[object, float] = field(default_factory=dict)
    points: list[Features] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    most_bytes: dict[str, float] = field(default_factory=dict)
    """Of a call of each name."""
    held: bool = True
    """Whether beyond the sweep's range its end counts; not of what counts by FLOP, whose model holds there."""
    _process: GaussianProcess | None = None

    def add(self, key: object, point: Features, residual: float, name: str) -> None:
        """One measured call."""
        self.exact[key] = residual
        self.points.append(point)
        self.names.append(name)
        self.residuals.append(residual)

    def factor(self, key: object, point: Features, name: str) -> float | None:
        """Measured over modelled time; None where too few were measured."""
        if key in self.exact:
            return math.exp(self.exact[key])
        return math.exp(self.at(point, name)) if len(self.points) >= FEW else None

    def at(self, point: Sequence[float], name: str) -> float:
        """The residual to expect at a point, of a call of that name."""
        if self._process is None:
            shared, own = parts_of(self.fit, len(point))
            self._process = GaussianProcess(self.points, self.residuals, shared, self.names, own)
        if self.held:
            point = [max(low, min(high, x)) for x, (low, high) in zip(point, self._range, strict=True)]
        return self._process.at(point, name)

    @cached_property
    def _range(self) -> list[tuple[float, float]]:
        return [(min(each), max(each)) for each in zip(*self.points, strict=True)]


def parts_of(fit: Sequence[float] | None, features: int) -> tuple[Hyperparameters, Hyperparameters]:
    """What a group shares, and what a name has of its own: scales, size, noise and mean of each, one after the other.

    >>> shared, own = parts_of(None, 2)
    >>> shared.scales, own.size
    ((5.0, 5.0), 0.4)
    """
    if fit is None or len(fit) != 2 * (features + 3):
        fit = [value for scale, *rest in (UNFITTED, UNFITTED_OWN) for value in (*[scale] * features, *rest)]
    shared, own = fit[: features + 3], fit[features + 3 :]
    return Hyperparameters(tuple(shared[:-3]), *shared[-3:]), Hyperparameters(tuple(own[:-3]), *own[-3:])


@dataclass
class Corrections:
    """What a device's sweeps say against the models `product_s` and `operator_s`; a group is made when asked for."""

    peaks: Peaks
    product_s: ProductModel
    operator_s: Callable[[OperatorCost], float]
    _groups: dict[str, Group] = field(default_factory=dict)

    @cached_property
    def products(self) -> Mapping[str, list[tuple[Matmul, float]]]:
        """The sweep's products by group, and seconds."""
        found = defaultdict(list)
        for product, added, time_s in swept_products(self.peaks.sweeps.get("products")):
            found[family_name(product) + ADDED * added].append((product, time_s))
        return found

    @cached_property
    def operators(self) -> Mapping[str, list[tuple[OperatorCost, float]]]:
        """The sweep's operators by group, and seconds."""
        found = defaultdict(list)
        for each, time_s in swept_operators(self.peaks.sweeps.get("operators")):
            found[group_name(each)].append((each, time_s))
        return found

    def group_of_products(self, name: str) -> Group:
        """The products of a family, bare or with a row added."""
        if name not in self._groups:
            added, sweep = name.endswith(ADDED), self.peaks.sweeps.get("products")
            group = self._groups[name] = Group(sweep.fits.get(name) if added and sweep else PRODUCTS)
            for product, time_s in self.products.get(name, ()):
                modelled_s, speeds = self.product_s(product)
                point = product_point(product, speeds, added)
                group.add(product, point, math.log(time_s / modelled_s), kernels_of(product))
        return self._groups[name]

    def group_of_operators(self, name: str) -> Group:
        """The operators of a class and form."""
        if name not in self._groups:
            fit = self.peaks.sweeps["operators"].fits.get(name) if name in self.operators else None
            group = self._groups[name] = Group(fit, held=not name.startswith(BY_FLOP))
            for each, time_s in self.operators.get(name, ()):
                residual, own = math.log(time_s / self.operator_s(each)), name_on_gpu(each)
                group.add(_call(each), operator_point(each), residual, own)
                group.most_bytes[own] = max(group.most_bytes.get(own, 0.0), each.bytes)
        return self._groups[name]

    def of_product(self, product: Matmul, speeds: Speeds, added: bool = False) -> float | None:
        """The factor of a product that is computed as its `dtype` says ("tf32" for TF32); None without a sweep.

        `added`: a row is added to it in the same call.
        """
        name = family_name(product) + ADDED * added
        if added and len(self.products.get(name, ())) < FEW:
            return self.of_product(product, speeds)
        group, own = self.group_of_products(name), kernels_of(product)
        return group.factor(product, product_point(product, speeds, added), own if own in group.names else "")

    def of_operator(self, each: OperatorCost) -> tuple[float, bool] | None:
        """The factor of an operator, and whether the operator itself was measured, not only its class."""
        group = self.group_of_operators(group_name(each))
        name = each.name if each.name in group.names else name_on_gpu(each)
        found = group.factor(_call(each), operator_point(_within(each, group.most_bytes.get(name, 0.0))), name)
        return None if found is None else (found, name in group.names)


def kernels_of(product: Matmul) -> str:
    """Which of a family's kernels: float16 has older ones of its own."""
    return "float16" if product.dtype == "float16" else ""


def group_name(each: OperatorCost) -> str:
    """What an operator is swept with: those of its class and form."""
    return f"{each.kind}/{each.form.name}"


def _call(each: OperatorCost) -> tuple[object, ...]:
    return name_on_gpu(each), each.form, each.dtype, each.read_bytes, each.written_bytes


def _within(each: OperatorCost, most_bytes: float) -> OperatorCost:
    """More rows or windows than were ever swept count as several times as many as were; they are independent."""
    by, form = each.bytes / most_bytes if most_bytes else 0.0, each.form
    if by <= 1 or not (form.name.startswith("rows") or each.kind == "pooling"):
        return each
    fewer = replace(form, lines=math.ceil(form.lines / by), over=math.ceil(form.over / by))
    return replace(each, form=fewer, read_bytes=each.read_bytes / by, written_bytes=each.written_bytes / by)


def product_point(product: Matmul, speeds: Speeds, added: bool = False) -> Features:
    """Where a product lies among others of its group; of one to which a row is `added`, also by what it is chosen."""
    tiling = best_tiling(product, speeds)
    waves = product.batch * math.ceil(product.m / tiling.rows) * math.ceil(product.n / tiling.columns) * tiling.split
    share = waves / speeds.sm_count
    return (
        math.log2(product.m), math.log2(product.n), math.log2(product.k), math.log2(product.batch),
        *misalignment(product), math.ceil(share) / share if share > 1 else 1.0, math.log2(max(share, 1e-3)),
        2.0 * product.transposed[0] + product.transposed[1], math.log2(tiling.rows * tiling.columns),
        *(_choice(product, tiling, speeds) if added else ()),
    )  # fmt: skip


def _choice(product: Matmul, best: TiledProduct, speeds: Speeds) -> Features:
    """Few rows, a small volume, and what the best product would lose without splitting its sum."""
    whole_s = min((each.seconds for each in tilings(product, speeds, whole=True)), default=best.seconds)
    volume = product.m * product.n * product.k
    return float(product.m <= FEW_ROWS), float(volume < SMALL_VOLUME), math.log2(whole_s / best.seconds)


def operator_point(each: OperatorCost) -> Features:
    """Where an operator's call lies among others of its group: sizes, powers of two that hold them, whole vectors, and
    how many bytes are read for each that is written.

    `channels` are the elements of a result that each line of a convolution is summed to, and twice the keys that a
    query meets.
    """
    form, flop = each.form, (each.flop or 0.0) if each.kind in BY_FLOP else 0.0
    channels = flop / 2 / max(1, form.lines * form.length)
    positions = form.lines // max(1, form.over)
    sizes = (flop, each.bytes, form.length, form.lines, channels, form.over, form.window)
    aligned = (
        form.length % 2, form.length % VECTOR, form.length % WIDE, round(channels) % WIDE, positions % VECTOR,
        positions % WIDE,
    )  # fmt: skip
    return (
        *(math.log2(max(1.0, size)) for size in sizes), doubled(form.length), doubled(form.lines),
        float(ITEMSIZE.get(each.dtype, 4)), *(float(rest == 0) for rest in aligned),
        math.log2((each.read_bytes + 1) / (each.written_bytes + 1)),
    )  # fmt: skip


def doubled(size: int) -> float:
    """How often 1 is doubled until it is no less than a size: kernels are made for powers of two.

    >>> doubled(64), doubled(65)
    (6.0, 7.0)
    """
    return float(max(0, size - 1).bit_length())


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
                         Form(str(row["form"]), int(row["lines"]), int(row["length"]),
                              int(row.get("over", 1)), int(row.get("window", 1)))),
            time_s,
        )
        for row, time_s in sweep or ()
    ]  # fmt: skip
