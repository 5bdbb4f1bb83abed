"""How a result shows itself in a notebook: small HTML tables, the same as text, and what has sliders or a cover."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from brrr.core.cards import boxed
from brrr.core.errors import ArgumentError

if TYPE_CHECKING:
    from brrr.drawing.style import Picture

ACCENT = {"right": "#009E73", "wrong": "#D55E00", "open": "#0072B2"}
"""Okabe-Ito colours of the bar beside a message; the word beside it says the same, for who cannot tell them apart."""


def static() -> bool:
    """Whether `BRRR_STATIC=1` asks for pictures and text only: no widgets, nothing covered, for reading."""
    return os.environ.get("BRRR_STATIC", "") not in ("", "0")


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, so that widgets can be shown."""
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")


def this_cell() -> int | None:
    """The number of the run of a notebook's cell; None outside a notebook."""
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "execution_count", None)


_stage: list[Callable[[object], None]] = []


@contextmanager
def on_stage(show: Callable[[object], None]) -> Iterator[None]:
    """Within it, `show` takes what would ask a reader something in a notebook: for who makes pages of a lesson."""
    _stage.append(show)
    try:
        yield
    finally:
        _stage.pop()


def staged(value: object) -> bool:
    """Hand a value to what takes it in place of a notebook; False where there is nothing such."""
    if _stage:
        _stage[-1](value)
    return bool(_stage)


def message_html(kind: str, title: str, lines: Sequence[str] = (), first: str = "") -> str:
    """A message with a coloured bar: a title in bold and lines of text below it, before them perhaps HTML.

    >>> "<b>Right</b>" in message_html("right", "Right")
    True
    """
    body = first + "".join(f"<div style='white-space:pre-wrap'>{_with_code(line)}</div>" for line in lines)
    return boxed(ACCENT[kind], f"<b>{signed(title)}</b>{body}", "role='status' aria-live='polite' ")


def _with_code(text: str) -> str:
    """The text as HTML, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", signed(text))


def folded_html(summary: str, body: str) -> str:
    """What is there for who wants to know."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def signed(text: str) -> str:
    """Text as HTML, in which a factor has its sign.

    >>> signed("2.5x < 3x")
    '2.5× &lt; 3×'
    """
    return re.sub(r"(?<=\d)x(?!\w)", "×", escape(text))


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    groups: Sequence[tuple[str, int]] = (),
    shades: Mapping[tuple[int, int], str] = MappingProxyType({}),
) -> str:
    """A plain table: text to the left, and the caption (the badge, say) below it.

    >>> table_html(["a"], [["<1>"]]).count("&lt;1&gt;")
    1

    With `groups`, titles over so many columns each, it is a close table of numbers with its caption above; `shades` are
    backgrounds of cells by row and column.
    """
    cell = "padding:1px 5px;text-align:right" if groups else "text-align:left;padding:2px 14px 2px 0"
    head = "".join(f"<th scope='col' style='{cell}'>{escape(title)}</th>" for title in header)
    above = "".join(
        f"<th scope='colgroup' colspan='{wide}' style='text-align:center'>{escape(title)}</th>"
        for title, wide in groups
    )
    looks = {at: f"{cell};background:{shade}" for at, shade in shades.items()}
    body = "".join(
        f"<tr>{''.join(cells)}</tr>"
        for y, row in enumerate(rows)
        for cells in [[f"<td style='{looks.get((y, x), cell)}'>{signed(text)}</td>" for x, text in enumerate(row)]]
    )
    close = "border-collapse:collapse;font-size:85%;font-variant-numeric:tabular-nums;" if groups else ""
    top = f"<tr>{above}</tr>" if groups else ""
    table = f"<table style='{close}margin:4px 0'><thead>{top}<tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{caption_html(caption)}{table}</div>" if groups else table + caption_html(caption)


def side_by_side_html(parts: Sequence[str]) -> str:
    """The parts beside each other where there is room."""
    return f"<div style='display:flex;flex-wrap:wrap;gap:1.2em 2em;overflow-x:auto'>{''.join(parts)}</div>"


def caption_html(text: str) -> str:
    """A small line, for a badge; nothing for no text."""
    return f"<div style='opacity:.75;font-size:90%'>{escape(text)}</div>" if text else ""


def table_text(
    header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", groups: Sequence[tuple[str, int]] = ()
) -> str:
    """The same table in a monospaced font.

    >>> print(table_text(["line", "time"], [["CPU", "3 ms"]], "LIVE"))
    line  time
    CPU   3 ms
    LIVE
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    align = str.rjust if groups else str.ljust
    lines = ["  ".join(align(text, width) for text, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    above, first = [], 0
    for title, wide in groups:
        above.append(title.center(sum(widths[first : first + wide]) + 2 * (wide - 1)))
        first += wide
    captioned = [caption, "  ".join(above), *lines] if groups else [*lines, caption]
    return "\n".join(line.rstrip() for line in captioned if line)


# ---------------------------------------------------------------------------------------------------------------------
# What has sliders, and may wait for a guess: a cover stands in its place until the answer is given.

COVERED = "Covered: give your guess above to uncover."
MEASURING = "Your guess is given. Measuring ..."


class Lock(Protocol):
    """What `unlock=` takes: a guess, which knows whether it was answered and calls back when it is."""

    @property
    def answered(self) -> bool:
        """Whether the answer was given."""

    def on_answer(self, call: Any, at_once: Any, /) -> None:
        """Call `call(guess)` once the answer is given, and `at_once(guess)` ahead of all such calls."""


class Shown:
    """Base of what a cell shows: a text line, a picture and a panel of sliders, covered by `unlock=` until the guess.

    A subclass has `_text`, `_picture` and `_make_panel`; it shows itself as the last expression of a cell.
    """

    def __init__(self, unlock: Lock | None) -> None:
        self._unlock = unlock
        self._cell = this_cell()
        self._panel: Any = None
        self._root: Any = None
        shown.add(self)

    def _text(self) -> str:
        """The text line."""
        raise NotImplementedError

    def _picture(self) -> Picture:
        """The picture with its alternative text."""
        raise NotImplementedError

    def _make_panel(self) -> Any:
        """The widgets, a `Panel`."""
        raise NotImplementedError

    def _outputs(self) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """What stands behind the text line in the edition that is read, as data with metadata."""
        yield self.picture()._repr_mimebundle_()

    @property
    def unlock(self) -> Lock | None:
        """The guess that it waits for, or waited for."""
        return self._unlock

    @property
    def covered(self) -> bool:
        """Whether it waits for a guess."""
        return self._unlock is not None and not self._unlock.answered

    @property
    def text(self) -> str:
        """The text line; while covered, only the request for a guess."""
        return COVERED if self.covered else self._text()

    def picture(self) -> Picture:
        """The picture with its alternative text; ArgumentError while covered."""
        if self.covered:
            raise ArgumentError(f"{type(self).__name__}.picture", "unlock", "unanswered guess", "an answered one")
        return self._picture()

    @property
    def panel(self) -> Any:
        """All widgets, made when first asked for."""
        if self._panel is None:
            self._panel = self._make_panel()
            for twin in list(shown):
                if twin._panel not in (None, self._panel) and self._cell == twin._cell is not None:
                    self._panel.lead(twin._panel)
                    twin._panel.lead(self._panel)
        return self._panel

    @property
    def sliders(self) -> dict[str, Any]:
        """The sliders by name."""
        return dict(self.panel.sliders)

    def sweep(self) -> None:
        """Move every slider to both ends and back, and raise what any callback raised: for tests of a notebook."""
        self.panel.sweep()

    def _root_widget(self) -> Any:
        """The panel, or the cover that turns into it. While covered, no data is in any widget."""
        if self._root is None:
            from brrr_course.view.widgets import cover

            def measuring(_: Any) -> None:
                if self._panel is None:
                    self._root.children = cover(MEASURING).children

            if self._unlock is not None:
                self._unlock.on_answer(lambda *_: self._uncover(), measuring)
            self._root = cover() if self.covered else self.panel.root
        return self._root

    def _uncover(self) -> None:
        from brrr_course.view.widgets import cover

        if self._panel is not None:  # another guess
            self._panel.renew()
        try:
            root = self.panel.root
        except Exception as error:  # what an event's callback raises is only logged
            root = cover(escape(f"{type(error).__name__}: {error}"))
        if self._root not in (None, root):
            self._root.children = (root,)

    def _markdown(self) -> str:
        """The text for the edition that is read: its first line, the others folded."""
        first, _, others = self.text.partition("\n")
        return first + f"\n\n<details><summary>Values</summary>\n\n{others}\n\n</details>" * bool(others)

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        if not static():
            publish({**dict(self._root_widget()._repr_mimebundle_()), "text/plain": self.text})
            return
        outputs = [] if self.covered else list(self._outputs())  # for the edition that is read; a cover stays a cover
        publish({"text/plain": self.text, "text/markdown": self._markdown()})
        for data, metadata in outputs:
            publish(data, metadata)


shown: WeakSet[Shown] = WeakSet()
"""All that has sliders in this session, for `sweep_all`."""


def publish(data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Send an output to the notebook, in all its forms."""
    from IPython import display

    send: Any = display.display
    send(dict(data), metadata=dict(metadata or {}), raw=True)


def renew_all(name: str) -> None:
    """Show in the figures of an experiment what was measured since."""
    for each in list(shown):
        if getattr(getattr(each._panel, "experiment", None), "name", "") == name:
            each._panel.renew()


def sweep_all() -> int:
    """Sweep all that has sliders in this session; returns how many there were. A lesson's tests end with it."""
    found = list(shown)
    for each in found:
        each.sweep()
    return len(found)
