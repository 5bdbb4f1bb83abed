"""Measured sweeps against the models: by which factor a product, or an operator, takes longer than its model says.

A product or an operator that is in the sweep takes what it took there; any other one is corrected by what its
neighbours took, in sizes, alignment and waves. Operators are corrected by those of the same name and form; an operator
that was not measured, by those of its class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from brrr.core.heavy import np
from brrr.core.one_core import one_core
from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.gpu import is_cpu
from brrr.roofline.gemm_families import Family, Products, Speeds, families, family_name, tilings
from brrr.roofline.lowering import name_on_gpu
from brrr.roofline.peak import SweptCalls
from brrr.roofline.peaks import Peaks

if TYPE_CHECKING:
    from brrr.roofline.gemm_families import Array

# ---------------------------------------------------------------------------------------------------------------------
# What a sweep says near a point: Gaussian process regression of log(measured / modelled).


@dataclass(frozen=True)
class Hyperparameters:
    """Of a Matern 3/2 kernel: length scales, one a feature; standard deviations of the signal, the noise, the mean."""

    scales: tuple[float, ...]
    size: float
    noise: float
    mean: float


class GaussianProcess:
    """Regression: the residuals measured at some points tell what to expect at others.

    >>> import numpy as np
    >>> short = Hyperparameters((1.0,), size=0.5, noise=0.01, mean=0.1)
    >>> process = GaussianProcess(np.array([[0.0], [10.0]]), short)
    >>> [round(process.at(np.array([place]), [0.5, -0.5].__getitem__), 2) for place in (0.0, 10.0)]
    [0.5, -0.5]

    `points`: an array of points by features. With `names` and `own`, a residual is the sum of two: one shared by all,
    and one by those of its own name. Only the NEAREST points count, by their covariance with the one that is asked for,
    and only their residuals are asked for (R. B. Gramacy and D. W. Apley, Local Gaussian Process Approximation for
    Large Computer Experiments, 2015).
    """

    def __init__(
        self, points: Array, shared: Hyperparameters, names: Sequence[str] | None = None,
        own: Hyperparameters | None = None,
    ) -> None:  # fmt: skip
        self._parts = [shared] if own is None else [shared, own]
        self._points = [points / np.asarray(each.scales) for each in self._parts]
        names = names or [""] * len(points)
        self._codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
        self._names = np.asarray([self._codes[name] for name in names])

    def at(self, point: Array, residual: Callable[[int], float], name: str = "") -> float:
        """What to expect at a point, of something of that name; `residual` tells that of each measured point."""
        one = [point[None] / np.asarray(each.scales) for each in self._parts]
        with one_core():
            every = self._covariance(one, np.asarray([self._codes.get(name, -1)]), self._points, self._names)[0]
            near = np.argsort(-every)[:NEAREST]
            points, names = [each[near] for each in self._points], self._names[near]
            among = self._covariance(points, names, points, names) + self._parts[0].noise ** 2 * np.eye(len(near))
            residuals = np.array([residual(int(each)) for each in near])
            return float(every[near] @ np.linalg.solve(among, residuals))

    def _covariance(self, ones: Sequence[Array], their: Any, others: Sequence[Array], names: Any) -> Array:
        """What is shared, and what those of one name have beyond it; points are in units of their scales."""
        found = _matern(self._parts[0], ones[0], others[0])
        if len(self._parts) > 1:
            found += (their[:, None] == names[None, :]) * _matern(self._parts[1], ones[1], others[1])
        return found


def _matern(part: Hyperparameters, ones: Array, others: Array) -> Array:
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
UNFITTED = 12.0, 1.0, 0.06, 3.0
"""Scales, size, noise and mean of what a sweep's groups share, where they were not fitted to it: on a CPU."""
UNFITTED_OWN = 12.0, 0.8, 0.0, 0.7
"""The same of what calls of one name have beyond their group."""
BY_FLOP = ("convolution", "attention")
"""Kernels with tiles of their own: they count by bytes, and by FLOP at the best rate, where a sweep corrects that."""
VECTOR, WIDE = 4, 8
"""Elements that torch's norms and reductions load at once, where lines are a multiple of them; and tensor cores."""
TILES = 64, 128
"""Queries of one head that a kernel of attention takes at once."""


@dataclass
class Group:
    """Calls that are alike: exactly those that were measured, and what they say of others.

    A residual, log(measured / modelled), has two parts: what the group shares, and what calls of one name have beyond
    it. `fit` holds the hyperparameters of both, as a sweep's `fits` do; without it they are the same for all groups.
    Residuals are computed when they are asked for. `held`: whether beyond the sweep's range its end counts; not of what
    counts by FLOP, whose model holds there.
    """

    calls: Sequence[Any]
    keys: Sequence[object]
    """What tells one call from another."""
    names: Sequence[str]
    points: Array
    seconds: Sequence[float]
    modelled_s: Callable[[Any], float]
    """Of a call."""
    fit: Sequence[float] | None = None
    held: bool = True
    _residuals: dict[int, float] = field(default_factory=dict, init=False)
    _factors: dict[tuple[object, str], float] = field(default_factory=dict, init=False)

    def residual(self, place: int) -> float:
        """Of the measured call at that place."""
        if place not in self._residuals:
            self._residuals[place] = math.log(self.seconds[place] / self.modelled_s(self.calls[place]))
        return self._residuals[place]

    def factor(self, key: object, point: Array, name: str) -> float | None:
        """Measured over modelled time; None where too few were measured."""
        if key in self._places:
            return math.exp(self.residual(self._places[key]))
        if len(self.calls) < FEW:
            return None
        if (key, name) not in self._factors:  # a network calls the same again and again
            self._factors[key, name] = math.exp(self.at(point, name))
        return self._factors[key, name]

    def at(self, point: Array, name: str) -> float:
        """The residual to expect at a point, of a call of that name."""
        return self._process.at(point.clip(*self._range) if self.held else point, self.residual, name)

    @cached_property
    def most_bytes(self) -> Mapping[str, float]:
        """Of operators, by name."""
        pairs = sorted((call.bytes, name) for call, name in zip(self.calls, self.names, strict=True))
        return {name: nbytes for nbytes, name in pairs}

    @cached_property
    def _places(self) -> Mapping[object, int]:
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def _process(self) -> GaussianProcess:
        shared, own = parts_of(self.fit, self.points.shape[1])
        return GaussianProcess(self.points, shared, self.names, own)

    @cached_property
    def _range(self) -> tuple[Array, Array]:
        return self.points.min(0), self.points.max(0)


def parts_of(fit: Sequence[float] | None, features: int) -> tuple[Hyperparameters, Hyperparameters]:
    """What a group shares, and what a name has of its own: scales, size, noise and mean of each, one after the other.

    >>> shared, own = parts_of(None, 2)
    >>> shared.scales, own.size
    ((12.0, 12.0), 0.8)
    """
    if fit is None or len(fit) != 2 * (features + 3):
        fit = [value for scale, *rest in (UNFITTED, UNFITTED_OWN) for value in (*[scale] * features, *rest)]
    shared, own = fit[: features + 3], fit[features + 3 :]
    return Hyperparameters(tuple(shared[:-3]), *shared[-3:]), Hyperparameters(tuple(own[:-3]), *own[-3:])


@dataclass
class Corrections:
    """What a device's sweeps say against the models `product_s` and `operator_s`; a group is made when asked for."""

    peaks: Peaks
    product_s: Callable[[Matmul], float]
    speeds: Callable[[Products], Speeds]
    """Each by its data type."""
    operator_s: Callable[[OperatorCost], float]
    sm_count: int = 1
    _groups: dict[str, Group] = field(default_factory=dict)

    @cached_property
    def products(self) -> Mapping[str, list[int]]:
        """The places of products in their sweep, by group."""
        products, added, _ = self._products
        return _places(np.where(added, np.char.add(products.families, ADDED), products.families).tolist())

    @cached_property
    def operators(self) -> Mapping[str, list[int]]:
        """The places of operators in their sweep, by group."""
        columns = self.peaks.sweeps["operators"].columns if "operators" in self.peaks.sweeps else {}
        return _places(map("{}/{}".format, columns.get("kind", ()), columns.get("form", ())))

    @cached_property
    def _products(self) -> tuple[Products, Array, Array]:
        return swept_products(self.peaks.sweeps.get("products"))

    def group_of_products(self, name: str) -> Group:
        """The products of a family, bare or with a row added."""
        if name not in self._groups:
            (every, _, seconds), places = self._products, self.products.get(name, [])
            products, added, sweep = every.part(places), name.endswith(ADDED), self.peaks.sweeps.get("products")
            fitted = added or is_cpu(self.peaks.kind)
            calls, fit = list(products), sweep.fits.get(name) if fitted and sweep else PRODUCTS
            points, names = self._points(products, name), list(map(kernels_of, calls))
            self._groups[name] = Group(calls, calls, names, points, seconds[places].tolist(), self.product_s, fit)
        return self._groups[name]

    def _points(self, products: Products, group: str) -> Array:
        family = families()[group.removesuffix(ADDED)]
        return product_points(products, family, self.speeds(products), added=group.endswith(ADDED))

    def group_of_operators(self, name: str) -> Group:
        """The operators of a class and form."""
        if name not in self._groups:
            sweep = self.peaks.sweeps["operators"].part(self.operators[name]) if name in self.operators else None
            calls, fit = [call for call, _ in swept_operators(sweep)], sweep.fits.get(name) if sweep else None
            keys, names = list(map(key_of, calls)), list(map(self._name, calls))
            points = operator_points(calls, self.sm_count)
            seconds, held = sweep.seconds if sweep else (), not name.startswith(BY_FLOP)
            self._groups[name] = Group(calls, keys, names, points, seconds, self.operator_s, fit, held)
        return self._groups[name]

    def _name(self, each: OperatorCost) -> str:
        """What calls of one kernel share: of a CPU's, which may have no vectors for short types, with the type."""
        return name_on_gpu(each) + each.dtype * is_cpu(self.peaks.kind)

    def of_product(self, product: Matmul, added: bool = False) -> float | None:
        """The factor of a product that is computed as its `dtype` says ("tf32" for TF32); None without a sweep.

        `added`: a row is added to it in the same call.
        """
        name = family_name(product)
        if added and len(self.products.get(name + ADDED, ())) >= FEW:  # else that of those without a row added
            name += ADDED
        group, own = self.group_of_products(name), kernels_of(product)
        (point,) = self._points(Products.of([product]), name)
        return group.factor(product, point, own if own in group.names else "")

    def of_operator(self, each: OperatorCost) -> tuple[float, bool] | None:
        """The factor of an operator, and whether the operator itself was measured, not only its class."""
        group, name = self.group_of_operators(f"{each.kind}/{each.form.name}"), self._name(each)
        (point,) = operator_points([_within(each, group.most_bytes.get(name, 0.0))], self.sm_count)
        found = group.factor(key_of(each), point, name)
        return None if found is None else (found, name in group.most_bytes)


def _places(names: Iterable[str]) -> Mapping[str, list[int]]:
    found = defaultdict(list)
    for place, name in enumerate(names):
        found[name].append(place)
    return found


def kernels_of(product: Matmul) -> str:
    """Which of a family's kernels: float16 has older ones of its own."""
    return "float16" if product.dtype == "float16" else ""


def key_of(each: OperatorCost) -> tuple[object, ...]:
    """What tells one operator's call from another in a sweep."""
    return name_on_gpu(each), each.form, each.dtype, each.read_bytes, each.written_bytes


def _within(each: OperatorCost, most_bytes: float) -> OperatorCost:
    """More rows or windows than were ever swept count as several times as many as were; they are independent."""
    by, form = each.bytes / most_bytes if most_bytes else 0.0, each.form
    if by <= 1 or not (form.name.startswith("rows") or each.kind == "pooling"):
        return each
    fewer = replace(form, lines=math.ceil(form.lines / by), over=math.ceil(form.over / by))
    return replace(each, form=fewer, read_bytes=each.read_bytes / by, written_bytes=each.written_bytes / by)


def product_points(products: Products, family: Family, speeds: Speeds, added: bool = False) -> Array:
    """Where products of one family lie, a row for each: by the features that PRODUCTS names.

    With a row `added`, also by what the library goes by then: few rows, a small volume, and what the best product would
    lose without splitting its sum.
    """
    every = tilings(products, family, speeds)
    best, each = every.seconds.argmin(0), np.arange(len(products.m))
    share, fastest_s = every.blocks[best, each] / speeds.sm_count, every.seconds[best, each]
    features = [
        *map(np.log2, (products.m, products.n, products.k, products.batch)), *products.misalignment,
        np.where(share > 1, np.ceil(share) / share, 1.0), np.log2(np.maximum(share, 1e-3)),
        2.0 * products.left + products.right, np.log2(every.rows[best] * every.columns[best]),
    ]  # fmt: skip
    if added:
        whole_s = every.seconds[every.split == 1].min(0)
        lost = np.where(np.isfinite(whole_s), whole_s, fastest_s) / fastest_s
        volume = 1.0 * products.m * products.n * products.k
        features += [products.m <= FEW_ROWS, volume < SMALL_VOLUME, np.log2(lost)]
    return np.stack(features, 1)


def operator_points(calls: Sequence[OperatorCost], sm_count: int) -> Array:
    """Where calls of operators lie, a row for each: sizes, powers of two that hold them, whole vectors, and how many
    bytes are read for each that is written. Calls of one kind; of attention, also how its tiles fill the device.

    `channels` are the elements of a result that each line of a convolution is summed to, and twice the keys that a
    query meets.
    """
    told = [
        ((each.flop or 0.0) if each.kind in BY_FLOP else 0.0, each.read_bytes, each.written_bytes, each.form.length,
         each.form.lines, each.form.over, each.form.window, ITEMSIZE.get(each.dtype, 4)) for each in calls
    ]  # fmt: skip
    flop, read, written, length, lines, over, window, itemsize = np.array(told, np.float64).reshape(-1, 8).T
    channels = flop / 2 / np.maximum(1, lines * length)
    positions = lines // np.maximum(1, over)
    sizes = np.maximum(1.0, (flop, read + written, length, lines, channels, over, window))
    multiples = (length % 2, length % VECTOR, length % WIDE, channels.round() % WIDE, positions % VECTOR,
                 positions % WIDE)  # fmt: skip
    doubled = (np.frexp(np.maximum(size - 1, 0))[1] for size in (length, lines))
    features = [*np.log2(sizes), *doubled, itemsize, *(rest == 0 for rest in multiples),
                np.log2((read + 1) / (written + 1))]  # fmt: skip
    if calls and calls[0].kind == "attention":
        gradient = np.array(["backward" in each.name for each in calls], bool)
        features += _waves(lines, channels / np.where(gradient, 5, 2), sm_count)
    return np.stack(features, 1)


def _waves(lines: Array, tokens: Array, sm_count: int) -> Sequence[Array]:
    """How the tiles of attention fill the device: full tiles over what is needed, full waves over waves, and waves.

    `tokens` of a head are the keys that each query meets, as its FLOP tell; a gradient has 2.5 times as many FLOP.
    """
    lines, tokens = np.maximum(1, lines), np.maximum(1, tokens.round())
    features: list[Array] = []
    for tile in TILES:
        tiles = np.ceil(tokens / tile)
        waves = lines / tokens * tiles / sm_count
        features += tiles * tile / tokens, np.maximum(1, np.ceil(waves)) / np.maximum(1, waves), np.log2(waves)
    return features


def swept_products(sweep: SweptCalls | None) -> tuple[Products, Array, Array]:
    """The products of a sweep ("tf32" is a `dtype`, too), whether a row is added to each, and their seconds."""
    columns = sweep.columns if sweep else {}
    m, n, k, batch = (np.array(columns.get(size, ()), np.int64) for size in ("m", "n", "k", "batch"))
    left, right = (np.array([str(each)[side] == "t" for each in columns.get("layout", ())], bool) for side in (0, 1))
    added = np.array(columns.get("added", (0,) * len(m)), bool)
    products = Products(m, n, k, batch, left, right, np.array(columns.get("dtype", ()), str))
    return products, added, np.array(sweep.seconds if sweep else ())


def swept_operators(sweep: SweptCalls | None) -> list[tuple[OperatorCost, float]]:
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
