"""`brrr class serve`: the workers, the turns and the gateway in one process tree, until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brrr.classroom.engine import Dask
from brrr.classroom.gateway import Gateway
from brrr.classroom.store import Store
from brrr.classroom.tokens import issue, of_class, of_hub, revoke
from brrr.classroom.turns import Turns
from brrr.core.errors import UnavailableError

PORT = 8642
SELF = "brrr class serve"
"""Whose token `brrr class status` uses."""
TIMES = 4.0
"""A point is stopped after so many times what was the most that it might be predicted to take."""


@dataclass(frozen=True)
class Options:
    """What `brrr class serve` was told; no GPUs is the CPU's queue."""

    cache: Path
    gpus: tuple[str, ...] = ()
    workers: int = 1
    host: str = "127.0.0.1"
    port: int = PORT
    scheduler: str = ""
    dashboard: int | None = None
    longest_s: float = 60.0
    hub: str = ""


def gpus_here() -> tuple[str, ...]:
    """The numbers of the GPUs that torch sees, asked in another process: this one shall hold no GPU."""
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(map(str, range(int(done.stdout or 0))))


async def serve(options: Options, say: Any = print) -> None:
    """Serve until a signal ends it; what is asked for and not measured then is measured when it is started again.

    UnavailableError where another gateway measures on this machine with the same file, or no worker answers.
    """
    import uvicorn

    try:
        listening = socket.create_server((options.host, options.port))
    except OSError as error:
        raise UnavailableError(f"--host {options.host} --port {options.port}: cannot listen there ({error})") from None
    store = Store(options.cache)
    if not options.scheduler and not store.hold("workers"):
        raise UnavailableError(
            f"{options.cache}: another `brrr class serve` measures here with workers of its own. Two gateways can "
            "share them: start the workers by dask's commands, and both gateways with --scheduler (docs/classroom.md)"
        )
    engine = await _engine(options)
    turns = Turns(store, engine)
    await turns.open()
    assert turns.machine is not None
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/") if options.hub else "/"
    gateway = Gateway(turns, of_hub(options.hub) if options.hub else of_class(store), longest_s=options.longest_s,
                      prefix=prefix)  # fmt: skip
    config = uvicorn.Config(gateway.app, log_level="warning", lifespan="off", ws="none",
                            limit_concurrency=4000, server_header=False, proxy_headers=False)  # fmt: skip
    address = f"http://{options.host}:{options.port}"
    beside = serving_file(options.cache)
    try:
        _tell_own(beside, f"{address}{prefix.rstrip('/')}", store)
        say(
            f"{turns.machine.describe()}, workers: {len(turns.workers)}; "
            f"students ask {address}, answers are kept in {options.cache}"
        )
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn raises again what ended it
        await uvicorn.Server(config).serve([listening])
    except KeyboardInterrupt:
        say("Stopped; what is asked for and not measured is kept for the next start.")
    finally:
        beside.unlink(missing_ok=True)
        revoke(store, SELF)
        await turns.close()
        await engine.close()
        store.close()


async def _engine(options: Options) -> Dask:
    limit_s = TIMES * options.longest_s
    if options.scheduler:
        return await Dask.joined(options.scheduler, "cuda" if options.gpus else "cpu", limit_s)
    return await Dask.embedded(options.gpus, workers=options.workers, limit_s=limit_s, dashboard=options.dashboard)


def serving_file(cache: Path) -> Path:
    """Where a gateway that runs says how `brrr class status` reaches it; only its user can read it."""
    return cache.with_name(cache.name + ".serving")


def _tell_own(path: Path, address: str, store: Store) -> None:
    revoke(store, SELF)
    content = json.dumps({"url": address, "token": issue(store, SELF, teacher=True, days=366)})
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)


def split(text: str) -> Sequence[str]:
    """`0,1` as its parts."""
    return [part.strip() for part in text.split(",") if part.strip()]
