"""matplotlib's own drawing as pieces of SVG: texts untouched, coordinates rounded, what recurs stored once."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from matplotlib import rc_context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 0.72
"""Points of the drawing in a CSS pixel of the page."""
_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "brrr"}
_GEOMETRY = ("d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points")  # attributes of numbers alone
_DROPPED = ("id", "style", "font-family", "xmlns")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
_NAMED = "piece:"  # how the ids begin that `name` gives


@dataclass
class Drawn:
    """A figure as SVG: `named` the pieces that were given a name, `rest` all others in the order of drawing."""

    height: float
    named: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


class Pieces:
    """The texts and pieces of one page, each kept once and found by its number; `defs` is what they refer to.

    >>> pieces = Pieces()
    >>> pieces.add("a"), pieces.add("b"), pieces.add("a")
    (0, 1, 0)
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.defs: dict[str, str] = {}

    def add(self, piece: str) -> int:
        """The piece's number, a new one where it was not there."""
        return self._numbers.setdefault(piece, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """All pieces, by their numbers."""
        return list(self._numbers)

    def draw(self, figure: Figure) -> Drawn:
        """The figure in pieces."""
        stream = StringIO()
        with rc_context(_SVG):
            figure.savefig(stream, format="svg", metadata={"Date": None})
        root = ElementTree.fromstring(stream.getvalue())
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        self._move_defs(root)
        drawn = Drawn(round(float(root.get("viewBox", "").split()[3]), 2))
        for child in root.find("g") or ():
            _collect(child, drawn)
        return drawn

    def states(self, drawn: Sequence[Sequence[str]]) -> list[list[int]]:
        """Several drawings of one kind as numbers of pieces; what stands side by side in all of them is one piece."""
        return [[self.add(run) for run in each] for each in joined(drawn)]

    def _move_defs(self, root: ElementTree.Element) -> None:
        """Take what others refer to out of the drawing, under a name made of its content."""
        names: dict[str, str] = {}
        for parent in list(root.iter()):
            for defs in parent.findall("defs"):
                for each in defs:
                    if old := each.attrib.pop("id", None):
                        text = serialized(each)
                        names[old] = new = "s" + hashlib.sha256(text.encode()).hexdigest()[:8]
                        self.defs[new] = text.replace(f"<{each.tag}", f'<{each.tag} id="{new}"', 1)
                parent.remove(defs)
        for element in root.iter():
            for key, value in list(element.attrib.items()):
                if "#" in value and (found := re.search(r"#(\w+)", value)) and found[1] in names:
                    element.attrib[key] = value.replace(found[1], names[found[1]])


def name(artist: Any, piece: str) -> Any:
    """Give an artist the name under which `Pieces.draw` keeps its piece; returns the artist."""
    artist.set_gid(_NAMED + piece)
    return artist


def _collect(element: ElementTree.Element, drawn: Drawn) -> None:
    """Sort an element into the named pieces and the others; a group that changes nothing is dissolved."""
    found = element.get("id", "")
    if found.startswith(_NAMED):
        piece = found.removeprefix(_NAMED)
        drawn.named[piece] = drawn.named.get(piece, "") + "".join(map(serialized, element))
    elif element.tag == "g" and not _attributes(element):
        for child in element:
            _collect(child, drawn)
    elif text := serialized(element):
        drawn.rest.append(text)


def serialized(element: ElementTree.Element) -> str:
    """An element as text, without what says nothing: its own ids, its fonts' names, empty groups.

    >>> serialized(ElementTree.fromstring('<text x="1.2345" style="fill: #000000">4.2345 ms</text>'))
    '<text x="1.2" fill="#000000">4.2345 ms</text>'
    """
    text = (element.text or "") if element.tag in ("text", "tspan") else (element.text or "").strip()
    inner = escape(text, quote=False) + "".join(map(serialized, element))
    attributes = "".join(f' {key}="{escape(value)}"' for key, value in _attributes(element).items())
    if element.tag == "g" and not (inner and attributes):
        return inner
    return f"<{element.tag}{attributes}>{inner}</{element.tag}>" if inner else f"<{element.tag}{attributes}/>"


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """The attributes, a style's properties among them, with numbers rounded where they are geometry."""
    given = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    style = [each.partition(":") for each in given.get("style", "").split(";") if ":" in each]
    given |= {key.strip(): value.strip() for key, _, value in style}
    kept = {key: value for key, value in given.items() if key not in _DROPPED}
    if re.fullmatch(r"rotate\(-?0 .*\)", kept.get("transform", "")):
        del kept["transform"]
    return {key: _rounded(key, value) for key, value in kept.items()}


def _rounded(key: str, value: str) -> str:
    if key in _GEOMETRY or (key == "transform" and "matrix" not in value and "scale" not in value):
        value = _NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", value).strip() if key == "d" else value


def joined(drawings: Sequence[Sequence[str]]) -> list[list[str]]:
    """Sequences in which elements that always stand side by side are one.

    >>> joined([["a", "b", "x"], ["a", "b", "y"]])
    [['ab', 'x'], ['ab', 'y']]
    """
    counts, pairs = Counter(each for one in drawings for each in one), Counter(_pairs(drawings))
    together = {pair for pair, count in pairs.items() if count == counts[pair[0]] == counts[pair[1]]}
    return [list(_runs(one, together)) for one in drawings]


def _pairs(drawings: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for one in drawings:
        yield from itertools.pairwise(one)


def _runs(elements: Sequence[str], together: set[tuple[str, str]]) -> Iterator[str]:
    run: list[str] = []
    for each in elements:
        if run and (run[-1], each) not in together:
            yield "".join(run)
            run = []
        run.append(each)
    if run:
        yield "".join(run)
