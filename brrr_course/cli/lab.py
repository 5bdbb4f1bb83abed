"""`brrr lab`: the student's copies of the lessons, opened in JupyterLab."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from types import FrameType

from brrr.core import recordings
from brrr.core.errors import ArgumentError, BrrrError, UnavailableError
from brrr.core.files import is_own
from brrr_course.lessons.course import copy_lessons, default_work, older_copies, set_aside
from brrr_course.nouns.places import COURSE, share
from brrr_course.sources.remote import TOKEN_FILE

FIRST_LESSON = "00_start_here.ipynb"
FIRST_PORT = 8888
PORTS_TRIED = 50
START_S = 90.0
STOP_S = 10.0
PAGE = ".open-"  # how the page's name begins that a browser opens, and its text
LEADS = '<!doctype html><meta http-equiv="refresh" content="0; url='
LAB_CONFIG = COURSE / "jupyter"  # defaults for JupyterLab's settings, under the student's own
# JupyterLab, until the pipe that is its input closes: whatever ends `brrr lab`, kill -9 too, ends it as a signal does.
# It says on its output where it listens, which is how we tell it from somebody else on its port. The secret of its
# cookies is made inside it: a browser sends them to every port of this machine, so none may open the next lab.
WHILE_HEARD = """import os, secrets, signal, sys, threading, time
out = os.dup(1)
os.dup2(2, 1)
def end():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # STOP_S; what hangs then is stopped with all that it started
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=end, daemon=True).start()
from jupyterlab.labapp import main
from tornado.tcpserver import TCPServer
def add_sockets(self, sockets, add=TCPServer.add_sockets):
    add(self, sockets)
    os.write(out, f"{[each.getsockname() for each in sockets]}\\n".encode())
TCPServer.add_sockets = add_sockets
sys.exit(main([*sys.argv[1:], "--ServerApp.cookie_secret=" + secrets.token_hex()]))"""


def main(argv: Sequence[str]) -> int:
    """Copy the lessons that are missing, open them, and stay until Ctrl-C; the exit status.

    Example: `main(["--fresh", "01", "--no-browser"])`.
    """
    options = _parser().parse_args(list(argv))
    work = options.work or default_work()
    try:
        for name in options.fresh:
            aside = set_aside(name, work)
            print(f"Your copy of {name} is kept as {aside.name}." if aside else f"There was no copy of {name} yet.")
        copied = copy_lessons(share("notebooks"), work)
        if copied:
            print(f"New in {work}: {', '.join(path.name for path in copied)}")
        if older := older_copies(share("notebooks"), work):
            fresh = " ".join(f"--fresh {name.partition('_')[0]}" for name in older)
            print(f"Older than the course, and yours to keep: {', '.join(older)}.")
            print(f"For new ones beside them: brrr lab {fresh}")
        return serve(work, port=options.port, browser=not options.no_browser and can_show_browser(os.environ))
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr lab", description="Open the lessons in JupyterLab.")
    parser.add_argument(
        "--fresh", action="extend", nargs="+", default=[], metavar="LESSON",
        help="set your copy of LESSON (say, 01) aside, copy anew",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=FIRST_PORT, help="the first port to try (%(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--work", type=Path, metavar="DIR", help="the folder for your copies (default: work)")
    return parser


def serve(work: Path, *, port: int = FIRST_PORT, browser: bool = True) -> int:
    """Run JupyterLab in `work` until it ends or Ctrl-C; print its address once it answers."""
    token = secrets.token_hex(24)
    with _signals_as_interrupt():
        for free in free_ports(port):
            server = _start(work, free, token)
            try:
                if not _wait_until_up(server, free):
                    continue  # somebody took the port between our look and the server's
                with _announced(work, free, token, browser):
                    return server.wait()
            except KeyboardInterrupt:
                print("\nStopping JupyterLab; what you saved is in", work)
                return 0
            finally:
                _stop(server)
    raise UnavailableError(f"brrr lab: JupyterLab did not start on any of {PORTS_TRIED} ports from {port} on.")


def free_ports(first: int) -> Iterator[int]:
    """The ports from `first` on that nobody listens on, as far as a short look can tell."""
    if not 0 < first <= 65535:
        raise ArgumentError("brrr lab", "--port", first, "a number from 1 to 65535")
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            if os.name == "posix":  # else a port in its TIME_WAIT would look taken
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def server_command(work: Path, port: int, *, root: bool) -> list[str]:
    """The command that runs JupyterLab with this Python, on the first lesson, asking nothing of the internet."""
    command = [sys.executable, "-P", "-c", WHILE_HEARD, "--no-browser", f"--port={port}", "--log-level=ERROR"]
    command += ["--ServerApp.port_retries=0", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={work}"]
    command += [f"--LabApp.default_url=/lab/tree/{FIRST_LESSON}"]
    command += [
        "--LabApp.log_level=ERROR",  # which has its own
        "--LabApp.news_url=None",  # no news; that nobody is asked about them, see LAB_CONFIG
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",  # the other one asks a package index
        "--MultiKernelManager.default_kernel_name=python3",
    ]
    if _can_encrypt():  # other users of this machine cannot listen in
        command.append("--KernelManager.transport_encryption=auto")
    return [*command, "--allow-root"] if root else command


def _can_encrypt() -> bool:
    """Whether the pipe between the server and a kernel can be encrypted here."""
    import zmq
    from jupyter_client.manager import KernelManager

    return bool(zmq.has("curve")) and KernelManager.class_traits().get("transport_encryption") is not None


def _start(work: Path, port: int, token: str) -> subprocess.Popen[bytes]:
    root = os.name == "posix" and os.geteuid() == 0
    # The token goes through the environment, where other users cannot read it; the kernel is this Python's own.
    config = os.pathsep.join(filter(None, [os.environ.get("JUPYTER_CONFIG_PATH"), str(LAB_CONFIG)]))
    environment = {
        **jupyter_folders(work),
        "PYTHONSTARTUP": str(COURSE / "view" / "restarted.py"),
        **os.environ,
        **whole_paths(os.environ),
        "JUPYTER_TOKEN": token,
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_CONFIG_PATH": config,
    }
    return subprocess.Popen(
        server_command(work, port, root=root),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C comes to us alone; the server would ask back
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
    )


def jupyter_folders(work: Path) -> dict[str, str]:
    """Where Jupyter and matplotlib keep their files if the home folder cannot be written to: beside the lessons."""
    if os.access(os.path.expanduser("~"), os.W_OK):
        return {}
    names = "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR", "HOME"
    return {name: str(Path(work, ".home", name.lower()).absolute()) for name in names}


def whole_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that name files of the student's, as whole paths: a kernel runs in another folder than `brrr lab`.

    >>> whole_paths({"BRRR_TOKEN_FILE": "ada.token"}) == {"BRRR_TOKEN_FILE": str(Path.cwd() / "ada.token")}
    True
    """
    found = {TOKEN_FILE: [environment.get(TOKEN_FILE, "")]}
    found[recordings.VARIABLE] = environment.get(recordings.VARIABLE, "").split(os.pathsep)
    whole = {name: [str(Path(each).expanduser().absolute()) for each in found[name] if each] for name in found}
    return {name: os.pathsep.join(paths) for name, paths in whole.items() if paths}


def _wait_until_up(server: subprocess.Popen[bytes], port: int) -> bool:
    """Whether the server listens; False if it ended because the port was taken after all.

    It says so itself, and nothing is sent to the port: all users see its number, and may have been there first.
    """
    deadline, late = time.monotonic() + START_S, threading.Timer(START_S, server.kill)
    late.daemon = True
    late.start()
    assert server.stdout is not None
    listens = any(f"('127.0.0.1', {port})".encode() in line for line in server.stdout)
    late.cancel()
    if listens:
        return True
    server.wait()
    if time.monotonic() >= deadline:
        raise UnavailableError(f"brrr lab: JupyterLab does not listen on port {port} after {START_S:.0f} s.")
    if port not in free_ports(port):
        print(f"Somebody else took port {port} meanwhile.", flush=True)
        return False
    raise UnavailableError(
        f"brrr lab: JupyterLab ended with status {server.returncode}; its own message stands above. "
        f"Try: {sys.executable} -m jupyterlab --version"
    )


@contextmanager
def _announced(work: Path, port: int, token: str, browser: bool) -> Iterator[None]:
    """Say where the lessons are, and within it keep what a browser opens: a page of the student's own that leads there.

    The token never stands among a program's arguments, which all users see. The address is the one that the server
    listens on: somebody else may listen on what a browser makes of `localhost`.
    """
    address = f"http://127.0.0.1:{port}/lab/tree/{FIRST_LESSON}?token={token}"
    print(f"\nThe lessons are open at\n\n    {address}\n", flush=True)
    if "SSH_CONNECTION" in os.environ:
        print(ssh_hint(port, os.environ), flush=True)
    try:
        opened = browser and _open(address, work)
        print(f"{'' if opened else 'Open it in your browser. '}Ctrl-C here ends JupyterLab.", flush=True)
        yield
    finally:
        for page in work.glob(f"{PAGE}*.html"):  # also what a `kill -9` left, whose token opens nothing any more
            if is_own(page, LEADS):
                page.unlink(missing_ok=True)


def _open(address: str, work: Path) -> bool:
    """Whether a browser opened a page that leads to the address; beside the lessons, where every browser may read."""
    there = escape(address)
    try:
        handle, name = tempfile.mkstemp(dir=work, prefix=PAGE, suffix=".html")  # its owner's alone from the start
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'{LEADS}{there}"><a href="{there}">brrr</a>')
    except OSError:  # the disk is full, say: the address stands above
        return False
    return webbrowser.open(Path(name).absolute().as_uri())


def ssh_hint(port: int, environment: Mapping[str, str]) -> str:
    """How to reach the server from the machine that one sits at.

    >>> print(ssh_hint(8888, {"SSH_CONNECTION": "10.0.0.2 5000 10.0.0.7 22", "USER": "ada"}))
    You are here over ssh. On your own machine, run
    <BLANKLINE>
        ssh -L 8888:127.0.0.1:8888 ada@10.0.0.7
    <BLANKLINE>
    and then open the address above there.
    """
    parts = environment["SSH_CONNECTION"].split()
    host, ssh_port = (parts[2], parts[3]) if len(parts) == 4 else ("THIS_MACHINE", "22")
    user = environment.get("USER") or environment.get("LOGNAME") or "USER"
    other_port = "" if ssh_port == "22" else f"-p {ssh_port} "
    command = f"ssh {other_port}-L {port}:127.0.0.1:{port} {user}@{host}"
    return f"You are here over ssh. On your own machine, run\n\n    {command}\n\nand then open the address above there."


def can_show_browser(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a browser that we open would show on the screen that one sits at.

    >>> can_show_browser({"DISPLAY": ":0"}, "linux"), can_show_browser({}, "linux"), can_show_browser({}, "darwin")
    (True, False, True)
    """
    if "SSH_CONNECTION" in environment:
        return False
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return not platform.startswith("linux") or any(environment.get(name) for name in screens)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels, gently first."""
    if server.poll() is not None:
        return
    server.terminate()
    try:
        server.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """A closed terminal or a `kill` ends the server as Ctrl-C does, instead of leaving it behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
