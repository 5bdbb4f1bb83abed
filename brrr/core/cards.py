"""How a result shows itself: a headline, a bar of shares, a few lines; in a notebook as a card with the rest folded.

>>> card = Card("Memory-bound.", ["2.5x as fast in half the bytes."], {"memory": 0.75, "overhead": 0.25}, "LIVE")
>>> print(card.text)
Memory-bound.
memory 75 %, overhead 25 %
2.5x as fast in half the bytes.
LIVE
>>> "2.5× as fast" in card.html()
True
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from typing import Any, ClassVar, cast

from brrr.core import units

GREY = "#999999"
COLOURS = {"overhead": "#D55E00", "memory": "#0072B2", "compute": "#009E73", "under-filled": "#E69F00",
           "GPU busy": "#009E73", "parameters": "#0072B2", "gradients": "#56B4E9", "optimiser": "#009E73",
           "activations": "#E69F00", "temporaries": "#F0E442", "workspace": "#CC79A7", "cache": "#D55E00"}  # fmt: skip
"""Of Okabe and Ito, for what limits, what takes memory, and the parts of a bar; all else is grey."""
_CELL = "text-align:left;white-space:nowrap;padding:2px 14px 2px 0"
_BAR = "display:flex;height:16px;margin:6px 0 2px;print-color-adjust:exact;-webkit-print-color-adjust:exact"


@dataclass(frozen=True)
class Card:
    """What is said first, and `more`: sentences and tables, each table's first row its head. What is empty is left out.

    `shares` are parts of one whole by name, `caption` is the badge, `accent` names the colour at the side.
    """

    title: str
    lines: Sequence[str | Sequence[Sequence[str]]] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    caption: str = ""
    more: Sequence[str | Sequence[Sequence[str]]] = ()
    accent: str = "memory"

    @property
    def text(self) -> str:
        """What stands outside of the fold."""
        shares = ", ".join(f"{name} {units.percent(share)}" for name, share in self.shares.items())
        lines = (each if isinstance(each, str) else "\n".join(units.table(each)) for each in self.lines)
        return "\n".join(filter(None, [self.title, shares, *lines, self.caption]))

    def html(self, beside: str = "", is_open: bool = False) -> str:
        """The card; `beside` is HTML that is folded away with the rest, or not where `is_open`."""
        lines, more = ("".join(map(told, each)) for each in (self.lines, self.more))
        fold = f"<details{' open' * is_open}><summary style='cursor:pointer'>Details</summary>{more}{beside}</details>"
        body = f"<div><b>{shown(self.title)}</b></div>{self._bar()}{lines}{fold * bool(more or beside)}"
        faint = "font-size:90%;color:var(--jp-ui-font-color2,var(--faint,inherit))"
        body += f"<div style='{faint}'>{escape(self.caption)}</div>" * bool(self.caption)
        return boxed(COLOURS.get(self.accent, GREY), f"<div style='break-inside:avoid'>{body}</div>")

    def _bar(self) -> str:
        """The shares side by side, and their names below."""
        bar = named = ""
        for name, share in self.shares.items():
            colour = COLOURS.get(name, GREY)
            bar += f"<div style='width:{100 * share:.2f}%;background-color:{colour}'></div>"
            named += f"<span style='display:inline-block;margin-right:1em'><span style='color:{colour}'>\u25a0</span> "
            named += f"{name} {units.percent(share)}</span>"
        return f"<div style='{_BAR}' aria-hidden='true'>{bar}</div><div>{named}</div>" if bar else ""


class Exported:
    """Base of what a program may take on as a dict or as JSON.

    >>> @dataclass
    ... class Found(Exported):
    ...     seconds: float
    ...     name: str = field(default="", repr=False)
    >>> Found(0.5, "left out").as_dict(), Found(math.inf).as_dict()
    ({'seconds': 0.5}, {'seconds': None})
    """

    __slots__ = ()
    _more: ClassVar[tuple[str, ...]] = ()
    """Properties that stand beside the fields."""

    def as_dict(self) -> dict[str, Any]:
        """Its fields as dicts, lists, numbers and text, in the units of their names; long raw data are left out."""
        names = [each.name for each in fields(cast(Any, self)) if each.repr]
        return {name: plain(getattr(self, name)) for name in (*names, *getattr(self, "_more", ()))}

    def to_json(self) -> str:
        """The same as JSON; null stands for what is infinite or no number."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value as JSON has it: what is none of its types is told as text."""
    if isinstance(value, Exported) or is_dataclass(value):
        return value.as_dict() if isinstance(value, Exported) else Exported.as_dict(cast(Any, value))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)


class Carded(Exported):
    """Base of what shows itself as a card: its headline first, all of it as `details()`."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return units.sayable(self._card().text)

    def _repr_html_(self) -> str:
        return self._card().html()

    def details(self) -> str:
        """All of it as text: the headline, then what is folded away in a notebook."""
        card = self._card()
        told = [[each] if isinstance(each, str) else ["", *units.table(each)] for each in filter(None, card.more)]
        return units.sayable("\n".join([card.text, *(line for lines in told for line in lines)]))


def boxed(colour: str, body: str, attributes: str = "") -> str:
    """HTML behind a coloured line, as all that the course says to its reader."""
    style = f"border-left:4px solid {colour};padding:2px 0 2px 10px;margin:4px 0;max-width:48em;line-height:1.5"
    return f"<div {attributes}style='{style}'>{body}</div>"


def shown(text: str) -> str:
    """Text as HTML: code between backticks, and a sign in place of the letter that multiplies.

    >>> shown("`f` of 2 x 1025 is 2.5x")
    '<code>f</code> of 2 × 1025 is 2.5×'
    """
    signs = re.sub(r"(?<=\d)( ?)x(?= \d|\b)", r"\1×", escape(text))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", signs).replace("  ", "\u2003")


def told(part: str | Sequence[Sequence[str]]) -> str:
    """A sentence or a table as HTML: a table's first row is its head, and one that is too wide scrolls by itself."""
    if isinstance(part, str):
        return f"<div>{shown(part)}</div>" * bool(part)
    made = ""
    for row in part:
        tag = "td" if made else "th"
        made += f"<tr>{''.join(f'<{tag} style={_CELL!r}>{shown(cell)}</{tag}>' for cell in row)}</tr>"
    return f"<div style='overflow-x:auto'><table>{made}</table></div>" * bool(made)
