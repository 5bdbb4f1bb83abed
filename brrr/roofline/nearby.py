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
    """

    def __init__(self, points: Sequence[Sequence[float]], residuals: Sequence[float], spread: Spread) -> None:
        import numpy as np

        self._spread = spread
        self._points = self._scaled(points)
        among = self._covariance(self._points) + spread.noise**2 * np.eye(len(points))
        self._weights = np.linalg.solve(among, np.asarray(residuals, dtype=np.float64))

    def at(self, point: Sequence[float]) -> float:
        """The residual to expect there."""
        return float(self._covariance(self._scaled([point]))[0] @ self._weights)

    def _scaled(self, points: Sequence[Sequence[float]]) -> Array:
        import numpy as np

        scaled: Array = np.asarray(points, dtype=np.float64) / np.asarray(self._spread.scales)
        return scaled

    def _covariance(self, others: Array) -> Array:
        import numpy as np

        squares = (others**2).sum(1)[:, None] + (self._points**2).sum(1)[None, :] - 2 * others @ self._points.T
        distance = math.sqrt(3) * np.sqrt(np.maximum(squares, 0.0))
        found: Array = self._spread.size**2 * (1 + distance) * np.exp(-distance) + self._spread.mean**2
        return found
