"""Kernels that begin with the large libraries loaded: one process loads them, and forks for each kernel.

Each kernel is a process of its own, with its own memory and environment; nothing of the course is loaded before it.
Run as a script, this is what a kernelspec starts: it asks for a kernel, passes signals on to it, and ends with it.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

LARGE = ("torch", "sympy", "matplotlib.backends.backend_agg", "PIL.Image", "ipywidgets", "ipykernel.ipkernel",
         "ipykernel.zmqshell", "ipykernel.kernelapp", "matplotlib_inline.backend_inline")  # fmt: skip
"""Not torch._dynamo: it loads triton, which a lesson may first tell to interpret."""


@contextlib.contextmanager
def warm_kernels(home: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment in which Jupyter's kernel of Python is one of these; they end with the block."""
    spec, door = home / "jupyter" / "kernels" / "python3", home / "kernels"  # the socket's path must be short
    spec.mkdir(parents=True)
    argv = [sys.executable, "-I", "-S", __file__, str(door), "{connection_file}"]
    spec.joinpath("kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )
    log = (home / "kernels.txt").open("wb")
    with log, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(door))
        listening.listen()
        serve = f"import warm; warm.serve({listening.fileno()})"
        path = os.pathsep.join((str(Path(__file__).parent), environment.get("PYTHONPATH", "")))
        process = subprocess.Popen([sys.executable, "-c", serve], env={**environment, "PYTHONPATH": path},
                                   pass_fds=[listening.fileno()], stdout=log, stderr=log)  # fmt: skip
        try:
            yield {**environment, "JUPYTER_PATH": str(home / "jupyter")}
        finally:
            process.terminate()
            process.wait(20)


def serve(number: int) -> None:
    """Load what is large, then fork for each who asks at that socket."""
    for name in LARGE:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=number) as listening:
        while True:
            asking, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _be_a_kernel(asking)
            asking.close()


def _be_a_kernel(asking: socket.socket) -> None:
    """Run a kernel as one who asks wants it, until it is shut down or who asked is gone."""
    from ipykernel.kernelapp import IPKernelApp

    asked = json.loads(asking.makefile().readline())
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[:] = [each for each in sys.path if each not in ("", str(Path(__file__).parent))]
    asking.sendall(f"{os.getpid()}\n".encode())
    threading.Thread(target=lambda: asking.recv(1) or os._exit(0), daemon=True).start()
    try:
        IPKernelApp.launch_instance(argv=["-f", asked["connection"]])
    finally:
        os._exit(0)


def _ask(door: str, connection: str) -> None:
    """Ask for a kernel and stand in for it: signals reach it, and when it ends, so does this process."""
    asked: dict[str, Any] = {"connection": connection, "folder": os.getcwd(), "environment": dict(os.environ)}
    asked["environment"].pop("JPY_PARENT_PID", None)  # it looks at this socket instead
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(door)
        asking.sendall(f"{json.dumps(asked)}\n".encode())
        kernel = int(asking.makefile().readline())
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda number, _: os.kill(kernel, number))
        while asking.recv(1):
            pass


if __name__ == "__main__":
    _ask(*sys.argv[1:])
