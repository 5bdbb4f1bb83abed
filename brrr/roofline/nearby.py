"""What a sweep says near a point: Gaussian process regression of log(measured / modelled).

The model has the physics; what is left of it is smooth where the same kernel runs, so that neighbours tell. Far from
all of them, the regression comes back to their mean. Kernel and constants: Rasmussen and Williams, Gaussian Processes
for Machine Learning, 2006, equations 2.25 and 4.17 (Matern, 3/2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Spread:
    """How a residual varies: over `scales` (one a feature) by `size`; `noise` of its own; `mean` of all together."""

    scales: tuple[float, ...]
    size: float
    noise: float
    mean: float


class Nearby:
    """Residuals at points, and what they say elsewhere.

    >>> nearby = Nearby([(0.0,), (10.0,)], [0.5, -0.5], Spread((1.0,), size=0.5, noise=0.01, mean=0.1))
    >>> round(nearby.at((0.0,)), 2), round(nearby.at((10.0,)), 2), abs(round(nearby.at((5.0,)), 1))
    (0.5, -0.5, 0.0)

    With `names` and `own`, a residual is the sum of one that all share and one that only those of its name share, and
    both are found together.
    """

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        residuals: Sequence[float],
        spread: Spread,
        names: Sequence[str] | None = None,
        own: Spread | None = None,
    ) -> None:
        import numpy as np

        self._spread, self._own = spread, own
        self._names = np.asarray(names if names is not None else [""] * len(points))
        self._points = np.asarray(points, dtype=np.float64)
        among = self._among(self._points, self._names) + spread.noise**2 * np.eye(len(points))
        self._weights = np.linalg.solve(among, np.asarray(residuals, dtype=np.float64))

    def at(self, point: Sequence[float], name: str = "") -> float:
        """The residual to expect there, of something of that name."""
        import numpy as np

        return float(self._among(np.asarray([point], dtype=np.float64), np.asarray([name]))[0] @ self._weights)

    def _among(self, others: Array, names: Any) -> Array:
        """The covariance of others with the points."""
        found = _covariance(others, self._points, self._spread)
        if self._own is None:
            return found
        alike = names[:, None] == self._names[None, :]
        both: Array = found + alike * _covariance(others, self._points, self._own)
        return both


def _covariance(others: Array, points: Array, spread: Spread) -> Array:
    import numpy as np

    one, two = others / np.asarray(spread.scales), points / np.asarray(spread.scales)
    squares = (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T
    distance = math.sqrt(3) * np.sqrt(np.maximum(squares, 0.0))
    found: Array = spread.size**2 * (1 + distance) * np.exp(-distance) + spread.mean**2
    return found
