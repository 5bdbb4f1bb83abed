"""`brrr class serve`: the workers, the turns and the gateway in one process tree, until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from brrr.core.errors import UnavailableError
from brrr.core.files import is_own
from brrr_course.classroom.announcements import tell, welcome
from brrr_course.classroom.engine import Dask
from brrr_course.classroom.gateway import Gateway
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.tokens import issue, of_class, of_hub, revoke
from brrr_course.classroom.turns import Turns

PORT = 8642
EVERYWHERE = ("0.0.0.0", "")
SELF = "brrr class serve"
"""Whose token `brrr class status` uses."""
SERVING = '{"url": "'
"""How the file begins that says how the gateway is reached."""
TIMES = 4.0
"""A point is stopped after so many times what was the most that it might be predicted to take."""


def gpus_here() -> tuple[str, ...]:
    """The numbers of the GPUs that torch sees, asked in another process: this one shall hold no GPU."""
    count = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-P", "-c", count], capture_output=True, text=True, check=False)
    return tuple(map(str, range(int(done.stdout or 0))))


async def serve(
    cache: Path, gpus: Sequence[str] = (), *, workers: int = 1, host: str = "127.0.0.1", port: int = PORT,
    scheduler: str = "", dashboard: int | None = None, longest_s: float = 60.0, hub: str = "",
    public: str = "", say: Callable[[str], object] = print,
) -> None:  # fmt: skip
    """Serve until a signal ends it; what is asked for and not measured then is measured when it is started again.

    >>> asyncio.run(serve(Path("class.db"), ["0"]))  # doctest: +SKIP
    NVIDIA H200 (...), workers: 1; answers are kept in class.db
    ...

    No `gpus` is the CPU's queue; `public` is where students reach it, through a proxy. UnavailableError where another
    gateway measures on this machine with the same file, no worker answers, or the port is taken.
    """
    import uvicorn

    from brrr_course.classroom.connections import SilenceLimited, most_connections, say_little

    asyncio.get_running_loop().set_exception_handler(say_little)
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise UnavailableError(f"--host {host} --port {port}: cannot listen there ({error})") from None
    store = ClassStore(cache)
    if not scheduler and not store.hold("workers"):
        raise UnavailableError(
            f"{cache}: another `brrr class serve` measures here with workers of its own. Two gateways can "
            "share them: start the workers by dask's commands, and both gateways with --scheduler (docs/classroom.md)"
        )
    limit_s = TIMES * longest_s
    if scheduler:
        engine = await Dask.joined(scheduler, "cuda" if gpus else "cpu", limit_s)
    else:
        engine = await Dask.embedded(gpus, workers=workers, limit_s=limit_s, dashboard=dashboard)
    turns = Turns(store, engine)
    try:
        await turns.open()
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/") if hub else "/"
        gateway = Gateway(turns, of_hub(store, hub) if hub else of_class(store), longest_s=longest_s,
                          prefix=prefix, serving=serving_file(cache))  # fmt: skip
        config = uvicorn.Config(gateway.app, log_level="error", lifespan="off", ws="none", http=SilenceLimited,
                                backlog=128, limit_concurrency=most_connections(), server_header=False,
                                proxy_headers=False)  # fmt: skip
        address = f"http://{'127.0.0.1' if host in EVERYWHERE else host}:{port}"
        _tell_own(serving_file(cache), f"{address}{prefix.rstrip('/')}", store)
        reached = f"{(public or f'http://{_reached(host)}:{port}').rstrip('/')}{prefix.rstrip('/')}"
        say(welcome(turns.device, len(turns.workers), reached, cache, hub=bool(hub)))
        telling = asyncio.create_task(tell(turns, say))
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn ends at them, and raises them again when it has
            signal.signal(number, lambda *_: None)
        await uvicorn.Server(config).serve([listening])
        telling.cancel()
        say("Stopped; what is asked for and not measured is kept for the next start.")
    finally:
        _forget_own(serving_file(cache))
        revoke(store, SELF)
        await turns.close()
        await engine.close()
        store.close()


def _reached(host: str) -> str:
    """The host that students reach: where all are listened to, the address that this machine's packets leave from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards, suppress(OSError):
        if host in EVERYWHERE:
            towards.connect(("192.0.2.1", 9))  # nothing is sent
            return str(towards.getsockname()[0])
    return socket.gethostname() if host in EVERYWHERE else host


def serving_file(cache: Path) -> Path:
    """Where a gateway that runs says how `brrr class status` reaches it; only its user can read it."""
    return cache.with_name(cache.name + ".serving")


def _forget_own(path: Path) -> None:
    if is_own(path, SERVING):
        path.unlink(missing_ok=True)


def _tell_own(path: Path, address: str, store: ClassStore) -> None:
    revoke(store, SELF)
    content = json.dumps({"url": address, "token": issue(store, SELF, teacher=True, days=366)})
    if not is_own(path, SERVING):
        raise UnavailableError(f"{path}: is there, and no gateway wrote it; one would say there how it is reached")
    _forget_own(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
