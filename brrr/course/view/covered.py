"""What waits for a guess: a figure that shows a cover until the answer is given."""

from __future__ import annotations

from typing import Any, Protocol

COVERED = "Covered: give your guess above to uncover."


class Lock(Protocol):
    """What `unlock=` takes: a guess, which knows whether it was answered and calls back when it is."""

    @property
    def answered(self) -> bool:
        """Whether the answer was given."""

    def on_answer(self, call: Any, /) -> None:
        """Call `call(guess)` once the answer is given."""


class Covered:
    """Base of what `unlock=` covers; a subclass has a `panel`, whose `root` is the widget that the cover turns into."""

    def __init__(self, unlock: Lock | None) -> None:
        self._unlock = unlock
        self._panel: Any = None
        self._root: Any = None

    @property
    def panel(self) -> Any:
        """The widgets, made when first asked for."""
        raise NotImplementedError

    @property
    def covered(self) -> bool:
        """Whether it waits for a guess."""
        return self._unlock is not None and not self._unlock.answered

    def _shown(self) -> Any:
        """The root widget: the panel, or the cover that turns into it. While covered, no data is in any widget."""
        if self._root is None:
            if self.covered and self._unlock is not None:
                from brrr.course.view.panel import cover

                self._root = cover()
                self._unlock.on_answer(lambda *_: self._uncover())
            else:
                self._root = self.panel.root
        return self._root

    def _uncover(self) -> None:
        if self._root is not None:
            self._root.children = (self.panel.root,)
