"""One notebook open in the browser: run it, move its sliders, read its text lines, take its picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from server import ARTIFACTS, PHOTOGRAPHS

HARMLESS = (
    # A browser asks for the icon of an address by itself.
    r"favicon\.ico",
    # Chromium says so about JupyterLab's own canvases when it runs without a graphics card.
    r"GPU stall due to ReadPixels",
)
KERNEL = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
_IDLE = """name => {
  const {shell} = window.jupyterapp, mine = [...shell.widgets('main')].find(each => each.context?.path === name);
  if (mine && shell.currentWidget !== mine) shell.activateById(mine.id);
  return mine && shell.currentWidget === mine && mine.sessionContext?.session?.kernel?.status === 'idle';
}"""
"""Whether the notebook stands in front with an idle kernel; JupyterLab's launcher may come late, in front of it."""
_RAISED = """() => [...window.jupyterapp.shell.currentWidget.model.cells].flatMap(
  cell => cell.type === 'code' ? cell.outputs.toJSON() : []
).filter(output => output.output_type === 'error').map(output => output.ename + ': ' + output.evalue)"""
POLL_MS = 20
"""How often a page is asked for what is awaited: at each frame, it would draw frames for that alone."""
_TEXT = "[...root.querySelectorAll('.brrr-said, .say, .more')].map(each => each.textContent).join('\\n')"
"""The text line and, of a figure, its sentence and the details, open or not."""
_PICTURE = "(root.querySelector('img.brrr-figure')?.src ?? root.querySelector('.plot svg')?.innerHTML)"
_CLOSE = """async () => {
  const shown = window.jupyterapp.shell.currentWidget;
  void shown.sessionContext.shutdown();  // the next notebook need not wait for it
  shown.dispose();
}"""


class Window:
    """A browser's window with JupyterLab in it, loaded once: the notebooks are opened and closed there in turn."""

    def __init__(self, page: Any, lab: Any) -> None:
        self.page, self.lab = page, lab
        self.shown: NotebookPage | None = None
        page.on("console", lambda message: self._note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.goto(f"{lab.url}/lab?token={lab.token}&reset", wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp?.shell", timeout=60_000)
        page.evaluate("async () => { await window.jupyterapp.restored; }")
        self.command("application:toggle-left-area")

    def _note(self, text: str) -> None:
        if self.shown and not any(re.search(pattern, text) for pattern in HARMLESS):
            self.shown.errors.append(text)

    def command(self, name: str, **arguments: object) -> None:
        """Run one of JupyterLab's commands and wait for it."""
        self.page.evaluate("async ([name, args]) => { await window.jupyterapp.commands.execute(name, args); }",
                           [name, arguments])  # fmt: skip

    @contextmanager
    def ran(self, name: str, *cells: str) -> Iterator[NotebookPage]:
        """A notebook of these cells, run; in the end it had no error and is closed."""
        page = self.open(self.lab.write(name, *cells))
        page.run_all()
        yield page
        assert page.errors == [], page.errors
        page.close()

    def open(self, name: str) -> NotebookPage:
        """Show that notebook of the lab's folder, with a kernel of its own, in place of the one shown."""
        if self.shown:
            self.shown.close()
        self.shown = NotebookPage(self, name)
        return self.shown


class NotebookPage:
    """A notebook in JupyterLab; `errors` keeps what the console complained about."""

    def __init__(self, window: Window, name: str) -> None:
        self.window, self.page, self.command, self.name = window, window.page, window.command, name
        self.errors: list[str] = []
        self.command("docmanager:open", path=name, factory="Notebook")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        self._wait_for_the_kernel(180)

    def _wait_for_the_kernel(self, seconds: float) -> None:
        """Until it is idle; where it never is, the test tells its state and what JupyterLab said last."""
        from playwright.sync_api import TimeoutError as Expired

        try:
            self.page.wait_for_function(_IDLE, arg=self.name, timeout=1000 * seconds, polling=POLL_MS)
        except Expired:
            state = self.page.evaluate(f"() => `${{{KERNEL}?.status}}, ${{{KERNEL}?.connectionStatus}}`")
            pytest.fail(f"the kernel is {state} after {seconds} s; JupyterLab:\n{self.window.lab.said()}")

    def run_all(self, seconds: float = 120) -> None:
        """Run every cell; fails the test if a cell raised."""
        self.command("notebook:run-all-cells")
        self._wait_for_the_kernel(seconds)
        raised = self.page.evaluate(_RAISED)
        assert raised == [], raised

    def explorer(self, number: int = 0) -> Explorer:
        """The explorer of that number on the page, uncovered."""
        root = self.page.locator(".brrr-explorer").nth(number)
        root.locator(".brrr-said, .say").first.wait_for(state="attached", timeout=30_000)
        return Explorer(self, root)

    def answer_all(self) -> None:
        """Fill in every guess that is open, and press its button."""
        button = self.page.locator(".jp-Notebook button:visible", has_text="This is my guess")
        while open_now := button.count():
            form = button.first.locator("xpath=ancestor::*[contains(@class,'widget-vbox')][1]")
            for text in form.locator(".widget-text input").all():
                text.fill("3x" if "factor" in (text.get_attribute("placeholder") or "") else "1 ms")
            for radio in form.locator("input[type=radio]").all()[:1]:
                radio.check()
            for item in form.locator(".widget-hbox button").all():  # an order
                item.click()
            button.first.click()
            self.page.wait_for_function(
                """n => [...document.querySelectorAll('.jp-Notebook button')].filter(
                  b => b.textContent === 'This is my guess' && b.offsetParent !== null).length < n""",
                arg=open_now,
                timeout=15_000,
                polling=POLL_MS,
            )

    def photograph(self, name: str, of: Any = None) -> None:
        """With BRRR_PHOTOGRAPHS=1, screenshots in the light and in the dark theme."""
        for theme in ("dark", "light") if PHOTOGRAPHS else ():
            self.command("apputils:change-theme", theme=f"JupyterLab {theme.capitalize()}")
            self.page.wait_for_selector(
                f"body[data-jp-theme-light='{str(theme == 'light').lower()}']", state="attached"
            )
            self.page.wait_for_timeout(300)
            (of or self.page).screenshot(path=str(ARTIFACTS / f"{name}-{theme}.png"))

    def close(self) -> None:
        """Shut the kernel down and close the notebook, unless that was done."""
        if self.window.shown is self:
            self.page.evaluate(_CLOSE)
            self.window.shown = None


class Explorer:
    """One explorer on the page."""

    def __init__(self, notebook: NotebookPage, root: Any) -> None:
        self.notebook, self.root, self.page = notebook, root, notebook.page

    @property
    def text(self) -> str:
        """The text line and the details."""
        return self._evaluated(_TEXT)

    @property
    def picture(self) -> str:
        """What is drawn now: the address of a picture, or a figure's own elements."""
        return self._evaluated(_PICTURE)

    def _evaluated(self, script: str) -> str:
        found = self.page.evaluate(f"root => {script}", self.root.element_handle())
        return str(found).replace("\u00a0", " ")

    def handles(self) -> list[Any]:
        """The handles of the sliders that are shown and can move: not of one with a single value."""
        shown = [
            each for each in self.root.locator(".noUi-handle, .scene input[type=range]").all() if each.is_visible()
        ]
        return [each for each in shown if len(set(self._ends(each)[1:])) > 1]

    def _ends(self, handle: Any) -> tuple[float, float, float]:
        """Where a slider stands, and its two ends."""
        script = """each => ['now', 'min', 'max'].map(part =>
          +(each.matches('input') ? each[part === 'now' ? 'value' : part] : each.getAttribute(`aria-value${part}`)))"""
        now, least, most = handle.evaluate(script)
        return now, least, most

    def press(self, handle: Any, key: str) -> None:
        """Press a key on a slider and wait until text and picture have changed."""
        text, picture = self.text, self.picture
        handle.focus()
        self.page.keyboard.press(key)
        self.wait_for_change(text, picture)

    def move_alone(self, handle: Any, key: str) -> None:
        """Press a key on a figure's slider, which needs no kernel to move."""
        text = self.text
        handle.focus()
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            f"([root, text]) => ({_TEXT}).replaceAll('\\u00a0', ' ') !== text",
            arg=[self.root.element_handle(), text], timeout=5_000, polling=POLL_MS,
        )  # fmt: skip

    def inward(self, handle: Any) -> str:
        """The arrow key that can move the slider: left, but right from its left half."""
        now, least, most = self._ends(handle)
        return "ArrowRight" if now - least < (most - least) / 2 else "ArrowLeft"

    def away(self, handle: Any) -> float:
        """A share of the track that lies in its other half, where the slider has another value."""
        now, least, most = self._ends(handle)
        return 0.9 if now - least < (most - least) / 2 else 0.1

    def drag(self, handle: Any, share: float) -> None:
        """Drag a handle with the mouse to a share of its track's width."""
        text, picture = self.text, self.picture
        handle.scroll_into_view_if_needed()
        track = handle.locator("xpath=ancestor-or-self::*[contains(@class,'noUi-base') or self::input]").bounding_box()
        start = self._thumb(handle, track)
        middle = track["y"] + track["height"] / 2
        self.page.mouse.move(start, middle)
        self.page.mouse.down()
        self.page.mouse.move(track["x"] + share * track["width"], middle, steps=4)
        self.page.mouse.up()
        self.wait_for_change(text, picture)

    def _thumb(self, handle: Any, track: Any) -> float:
        """Where along the page a handle is to be taken."""
        now, least, most = self._ends(handle)
        if handle.evaluate("each => each.matches('input')"):
            return float(track["x"] + 8 + (track["width"] - 16) * (now - least) / (most - least))
        box = handle.bounding_box()
        return float(box["x"] + box["width"] / 2)

    def wait_for_change(self, text: str, picture: str) -> None:
        """Until text and picture are other ones, at rest, and the kernel sends nothing behind them."""
        self.page.wait_for_function(
            """([root, text, picture]) => {
              const plain = words => words.replaceAll('\u00a0', ' '), said = plain(TEXT), drawn = plain(PICTURE);
              const image = root.querySelector('img.brrr-figure'), before = root.waited;
              if (said === text || drawn === picture) return false;
              if (image && !(image.complete && image.naturalWidth)) return false;
              root.waited = said + drawn;
              return KERNEL?.status !== 'busy' && root.waited === before;
            }""".replace("TEXT", _TEXT)
            .replace("PICTURE", _PICTURE)
            .replace("KERNEL", KERNEL),
            arg=[self.root.element_handle(), text, picture],
            timeout=15_000,
            polling=POLL_MS,
        )

    def wait_for_words(self, words: str, there: bool = True, seconds: float = 60) -> None:
        """Until the text line holds these words, or no longer does."""
        self.page.wait_for_function(
            f"([root, words, there]) => ({_TEXT}).replaceAll('\\u00a0', ' ').includes(words) === there",
            arg=[self.root.element_handle(), words, there],
            timeout=1000 * seconds,
            polling=POLL_MS,
        )

    def click(self, button: str) -> None:
        """Click the button of exactly that name."""
        self.root.get_by_role("button", name=button, exact=True).click()
