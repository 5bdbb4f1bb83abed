"""Faults on a real device under `brrr class serve`: what is answered, and whether the device goes on measuring.

python -m tools.class_faults              # on a machine with a GPU: some minutes
python -m tools.class_faults --cpu

A worker killed while it measures; a child that hangs; a GPU whose memory another program holds; the gateway killed with
points in its queue and started again. A line for each; the exit status is the number of those that went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from brrr_course.classroom.store import Store
from brrr_course.classroom.tokens import issue
from tools.class_load import ask, measured

LONGEST_S = 4.0
"""What the gateway is told; a measurement is stopped after four times as much."""
SLOW = {"cpu": 2800, "cuda": 12288}
"""Sizes whose measuring takes a second or more, so that there is time to break something."""
HOG = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - 2**29, dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


class Served:
    """`brrr class serve` in a folder of its own, to be killed and started again."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.path, self.options = folder / "class.db", options
        store = Store(self.path)
        self.token = issue(store, "ada", teacher=True)
        store.close()
        self.start()

    def start(self, *more: str) -> None:
        where = ["--cpu"] if self.options.cpu else ["--gpus", self.options.gpu]
        command = [sys.executable, "-m", "brrr", "class", "serve", "--longest", str(LONGEST_S), *where, *more]
        command += ["--cache", str(self.path), "--port", str(self.options.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        print(self.process.stdout.readline().strip(), flush=True)

    async def answer(self, size: int) -> dict[str, Any]:
        _, told = await measured(self.options.port, self.token, size, [self.options.variant])
        return dict(told["answers"][self.options.variant])

    async def measuring(self) -> psutil.Process:
        """The child, once the gateway says that something runs and it has had time to begin."""
        while not (await ask(self.options.port, self.token, "GET", "/status"))["running"]:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        (child,) = children(self.process.pid)
        return child


def children(pid: int) -> list[psutil.Process]:
    """The processes that measure, below a gateway."""
    every = psutil.Process(pid).children(recursive=True)
    return [each for each in every if each.is_running() and "brrr_course.classroom.child" in each.cmdline()]


async def worker_killed(there: Served) -> bool:
    asked = asyncio.create_task(there.answer(SLOW[there.options.kind]))
    child = await there.measuring()
    worker = child.parent()
    assert worker is not None
    worker.kill()
    return "cells" in await asked and not child.is_running()


async def hang(there: Served) -> bool:
    asked = asyncio.create_task(there.answer(SLOW[there.options.kind] + 1))
    (await there.measuring()).suspend()
    told = await asked
    print(f"  {told.get('reason')}")
    return told.get("error") == "TimedOutError" and "cells" in await there.answer(65)


async def out_of_memory(there: Served) -> bool:
    if there.options.cpu:
        print("  (a GPU only)")
        return True
    hog = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hog.stdout is not None
    hog.stdout.readline()
    told = await there.answer(SLOW["cuda"] + 2)
    print(f"  {told.get('reason')}")
    small = await there.answer(66)
    hog.kill()
    hog.wait()
    there.process.terminate()
    there.process.wait(60)
    there.start("--retry")
    again = await there.answer(SLOW["cuda"] + 2)
    return told.get("error") == "DeviceMemoryError" and "cells" in small and "cells" in again


async def gateway_killed(there: Served) -> bool:
    port, content = there.options.port, {"experiment": "matmul", "variants": [there.options.variant]}
    sizes = range(200, 208)
    for size in sizes:
        await ask(port, there.token, "POST", "/measure", {**content, "point": {"size": size}})
    left = children(there.process.pid)
    there.process.kill()
    there.process.wait()
    await asyncio.sleep(2)
    gone = not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in left)
    there.start()
    told = [await there.answer(size) for size in sizes]
    store = Store(there.path)
    ((rows,),) = store.read("SELECT COUNT(*) FROM point WHERE point LIKE '%, 20_]'")
    ((still_open,),) = store.read("SELECT COUNT(*) FROM request")
    store.close()
    print(f"  {len(told)} answered, {rows} rows, {still_open} still open; no child was left: {gone}")
    return gone and all("cells" in answer for answer in told) and (rows, still_open) == (len(sizes), 0)


FAULTS: tuple[Callable[[Served], Awaitable[bool]], ...] = (worker_killed, hang, out_of_memory, gateway_killed)


def main(argv: Sequence[str]) -> int:
    """`python -m tools.class_faults`: how many faults went wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.class_faults", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--cpu", action="store_true", help="the CPU's queue")
    parser.add_argument("--gpu", default="0", help="the GPU's number (default: 0)")
    parser.add_argument("--port", type=int, default=8651)
    options = parser.parse_args(argv)
    options.kind, options.variant = ("cpu", "cpu") if options.cpu else ("cuda", "gpu")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        there = Served(Path(folder), options)
        try:
            for fault in FAULTS:
                began = time.monotonic()
                fine = asyncio.run(fault(there))
                wrong += not fine
                print(f"{'ok   ' if fine else 'WRONG'} {fault.__name__}, {time.monotonic() - began:.1f} s", flush=True)
        finally:
            there.process.terminate()
            there.process.wait(60)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
