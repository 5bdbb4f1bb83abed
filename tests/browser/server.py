"""A JupyterLab of the tests' own: its address, its settings, and the recordings that its notebooks see."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from warm import warm_kernels

from brrr_course.cli.lab import LAB_CONFIG

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "artifacts" / "browser"
PHOTOGRAPHS = os.environ.get("BRRR_PHOTOGRAPHS", "") not in ("", "0")
"""Whether the tests leave pictures of the pages, light and dark, in `ARTIFACTS`, for a person to look at."""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token, and the folder that it shows."""

    url: str
    token: str
    work: Path
    log: Path

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook with these code cells; returns its name."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, self.work / name)
        return name


@contextmanager
def running(home: Path) -> Iterator[Lab]:
    """JupyterLab on a free port, with settings of its own; ended by its process id."""
    work = home / "work"
    work.mkdir()
    _write_settings(home / "settings")
    token, port = secrets.token_hex(16), _free_port()
    url = f"http://127.0.0.1:{port}"
    with warm_kernels(home, _environment(home)) as environment:
        with (home / "log.txt").open("wb") as log:
            process = subprocess.Popen(_command(work, port, token), env=environment, stdout=log, stderr=log)
        try:
            _wait_for(f"{url}/api/status?token={token}", process, home / "log.txt")
            yield Lab(url, token, work, home / "log.txt")
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def _command(work: Path, port: int, token: str) -> list[str]:
    options = {
        "ServerApp.root_dir": work, "ServerApp.port": port, "IdentityProvider.token": token,
        "LabApp.expose_app_in_browser": True, "ServerApp.open_browser": False, "ServerApp.allow_root": True,
    }  # fmt: skip
    return [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]


def _environment(home: Path) -> dict[str, str]:
    """The tests' own settings, and the modules of tests/ within reach of a notebook."""
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BRRR_")}
    return {
        **clean,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_CONFIG_PATH": str(LAB_CONFIG),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def _write_settings(folder: Path) -> None:
    """No question about news, and every cell drawn at once."""
    settings = {
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "notebook-extension/tracker": {"windowingMode": "none"},
    }
    for name, values in settings.items():
        path = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail(f"JupyterLab ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not answer within {seconds} s:\n{log.read_text()[-2000:]}")
