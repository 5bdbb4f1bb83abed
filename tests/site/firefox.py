"""Debian's Firefox, led over a socket by its own Marionette protocol: no driver, no package."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
PATIENCE_S = 240
"""A busy machine may take long to start a browser; what hangs is to end all the same."""
_PREFERENCES = {
    "marionette.port": 0,  # any free one, told in the profile
    "browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False, "network.captive-portal-service.enabled": False, "browser.startup.page": 0,
}  # fmt: skip
Found = TypeVar("Found")


class Firefox:
    """A started Firefox: `call` sends one command of WebDriver, `run` runs a script in the page."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        self._number = 0
        self._read()  # it says hello
        self.call("NewSession")

    def call(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, f"WebDriver:{command}", parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, found = self._read()
        assert error is None, error
        return found.get("value", found) if isinstance(found, dict) else found

    def run(self, script: str) -> Any:
        return self.call("ExecuteScript", script=script, args=[])

    def _read(self) -> Any:
        length = b""
        while (character := self._stream.read(1)) != b":":
            assert character, "Firefox has closed the connection"
            length += character
        return json.loads(self._stream.read(int(length)))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def waited(look: Callable[[], Found | None]) -> Found:
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.1)
    return found


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """Firefox without a window, with a profile of its own, until the end of the block."""
    profile.mkdir(parents=True)
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
    port = profile / "MarionetteActivePort"
    assert FIREFOX is not None
    process = subprocess.Popen(
        [FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", str(profile)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(profile)},
    )  # fmt: skip
    try:
        started = Firefox(int(waited(lambda: port.exists() and port.read_text().strip())))
        yield started
        started.close()
    finally:
        process.terminate()
        process.wait()
