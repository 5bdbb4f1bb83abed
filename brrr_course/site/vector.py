"""matplotlib's own drawing as pieces of SVG: texts untouched, coordinates rounded, what recurs stored once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from io import StringIO
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "brrr"}  # salted ids are made of the content alone
_GEOMETRY = ("d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points")  # attributes of numbers alone
_DROPPED = ("font-family", "xmlns")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
measured = lru_cache(maxsize=4096)(text_to_path.get_text_width_height_descent)
"""How large a text is, kept from one picture to the next."""
_plain: Any = patch.object(Text, "get_path_effects", lambda _: [])
"""A seam around letters would make outlines of them."""


class Pieces:
    """The pieces of one page's drawings, each kept once and found by its number; `defs` is what they refer to.

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

    def draw(self, figure: Figure | None, **told: str) -> dict[str, Any]:
        """The numbers of a figure's pieces in the order of drawing, as `still`; its `height`; and what is told."""
        assert figure is not None  # it was made within `kept_figures`
        stream = StringIO()
        with rc_context(_SVG), _plain, patch.object(RendererSVG, measured.__name__, lambda _, *text: measured(*text)):
            figure.savefig(stream, format="svg", metadata={"Date": None})
        root = ElementTree.fromstring(stream.getvalue())
        for element in root.iter():
            _clean(element)
        self._take_defs(root)
        height = round(float(root.attrib["viewBox"].split()[3]), 2)
        return {"still": [self.add(text) for text in _apart(root)], "height": height, **told}

    def _take_defs(self, root: ElementTree.Element) -> None:
        """Take what others refer to out of the drawing, under an id made of its content."""
        ids: dict[str, str] = {}
        for parent in list(root.iter()):
            for defs in parent.findall("defs"):
                for each in defs:
                    old, text = each.attrib.pop("id", ""), _text(each)
                    ids[old] = new = f"s{sha256(text.encode()).hexdigest()[:8]}"
                    self.defs[new] = text.replace(f"<{each.tag}", f'<{each.tag} id="{new}"', 1)
                parent.remove(defs)
        for element in root.iter():
            for key, value in element.attrib.items():
                if "#" in value:
                    element.set(key, re.sub(r"#(\w+)", lambda found: f"#{ids.get(found[1], found[1])}", value))


def _apart(element: ElementTree.Element) -> Iterator[str]:
    """The pieces of an element one by one; a group that changes nothing is dissolved."""
    for child in element:
        child.attrib.pop("id", None)
        if child.tag == "g" and not child.attrib:
            yield from _apart(child)
        else:
            yield _text(child)


def _text(element: ElementTree.Element) -> str:
    """An element as text, without its ids but those that others refer to."""
    for group in element.iter("g"):
        group.attrib.pop("id", None)
    return ElementTree.tostring(element, "unicode")


def _clean(element: ElementTree.Element) -> None:
    """Leave what says nothing out: namespaces, fonts' names, spaces; round the numbers where they are geometry."""
    element.tag, element.tail = element.tag.rpartition("}")[2], None
    if element.tag not in ("text", "tspan"):
        element.text = None
    given = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    styles = (each.partition(":") for each in given.pop("style", "").split(";"))
    given |= {key.strip(): value.strip() for key, colon, value in styles if colon}
    element.attrib = {key: _rounded(key, value) for key, value in given.items()
                      if key not in _DROPPED and not re.fullmatch(r"rotate\(-?0 .*\)", value)}  # fmt: skip


@lru_cache(maxsize=65536)
def _rounded(key: str, value: str) -> str:
    if key in _GEOMETRY or (key == "transform" and "matrix" not in value and "scale" not in value):
        value = _NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", value).strip() if key == "d" else value
