"""Where the names of markers stand, so that none lies on another name, on a marker or outside the axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""

RINGS = (12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 90.0, 110.0, 135.0, 165.0)
DIRECTIONS = 16


@dataclass(frozen=True)
class Spot:
    """A marker's place and its radius, and the room that its name takes, in pixels."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 7.0


def placed(
    spots: Sequence[Spot], frame: Box, lines: Sequence[Box] = (), others: Sequence[Spot] = ()
) -> list[tuple[float, float]]:
    """The left end and the middle height of each name, the first ones nearest to their markers.

    >>> placed([Spot(50.0, 50.0, 20.0, 10.0)], (0.0, 0.0, 100.0, 100.0))
    [(60.0, 50.0)]

    `lines` are boxes that names keep off where they can, `others` markers without a name. Where no place is free the
    one that overlaps least is taken.
    """
    markers = [(s.x - s.radius, s.y - s.radius, s.x + s.radius, s.y + s.radius) for s in (*spots, *others)]
    taken: list[Box] = []
    found = []
    for spot in spots:
        box = min(_tried(spot), key=lambda tried: _cost(tried[0], tried[1], [*markers, *taken], lines, frame))[0]
        taken.append(box)
        found.append((box[0], (box[1] + box[3]) / 2))
    return found


def _tried(spot: Spot) -> Iterator[tuple[Box, float]]:
    """Boxes around a marker with their distances: beside it first, then on rings ever further out."""
    for ring in RINGS:
        for turn in range(DIRECTIONS):
            angle = 2 * pi * turn / DIRECTIONS
            yield _beside(spot, ring, angle), ring + 2 * abs(sin(angle)) + (1.0 if cos(angle) < -0.1 else 0.0)


def _beside(spot: Spot, ring: float, angle: float) -> Box:
    """A box whose nearest edge is `ring` away in a direction, of a marker of the usual radius."""
    across, up = cos(angle), sin(angle)
    away = ring + spot.radius - 7
    x = spot.x + (away - 2) * across + (across - 1) / 2 * spot.width
    y = spot.y + away * up
    return x, y - spot.height / 2, x + spot.width, y + spot.height / 2


def _cost(box: Box, distance: float, taken: Sequence[Box], lines: Sequence[Box], frame: Box) -> float:
    """Pixels covered that may not be, which nothing outweighs; then the way from the marker, and lines crossed."""
    outside = _area(box) - _overlap(box, frame)
    crossed = sum(_overlap(box, line) for line in lines)
    return 100 * (sum(_overlap(box, other) for other in taken) + 4 * outside) + distance + 0.6 * crossed


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
