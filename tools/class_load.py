"""A class played by processes: how `brrr class serve` holds out, and what it costs the measuring.

python -m tools.class_load --students 300 --seconds 60 --cpu --workers 2
python -m tools.class_load --students 30 --seconds 60             # on a machine with a GPU
python -m tools.class_load --cpu --slow 5000                      # beside a student who asks for slow points alone

It starts the real command in a folder of its own, gives each student a token, and lets each ask once in `--every`
seconds, mostly for points that the class knows, sometimes for a new one. Then it has the same points measured through
the gateway and by `Live` in a process alone, and compares their rates and their figures. The last line is JSON.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brrr_course.classroom.store import Store
from brrr_course.classroom.tokens import issue

WARM = tuple(range(16, 336, 16))
"""Sizes that the class knows before the load begins."""
NEW_FROM = 400
LIVE = """
import json, sys, time
from brrr_course.experiments import experiment
from brrr_course.sources.live import Live
kind, variants, sizes, figures = json.loads(sys.argv[1])
source, found, times = Live(kind), experiment("matmul"), {}
source.measure_together(found, variants, {"size": 64})
began = time.perf_counter()
for size in sizes:
    if len(variants) > 1:
        source.measure_together(found, variants, {"size": size})
    got = source.measure(found, variants[0], {"size": size})
    times[size] = {name: getattr(got, name).median for name in figures}
print(json.dumps([time.perf_counter() - began, times]))
"""


@dataclass
class Seen:
    """What the students saw."""

    cached_s: list[float] = field(default_factory=list)
    new_s: list[float] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)


async def ask(port: int, token: str, method: str, path: str, content: object = None) -> Any:
    """One request on a connection of its own, as a notebook makes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b"" if content is None else json.dumps(content).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: class\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    told = json.loads(rest.partition(b"\r\n\r\n")[2])
    if b" 200 " not in status + b" ":
        raise RuntimeError(f"{status.decode()}: {told}")
    return told


async def measured(port: int, token: str, size: int, variants: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A point from the asking to its answer: what was said at first, and at the end."""
    content = {"experiment": "matmul", "variants": list(variants), "point": {"size": size}}
    first = told = await ask(port, token, "POST", "/measure", content)
    while told["state"] != "done":
        told = await ask(port, token, "GET", f"/requests/{told['id']}?wait=5")
    return first, told


async def student(options: argparse.Namespace, number: int, token: str, seen: Seen, new: list[int]) -> None:
    """One student until the time is over."""
    dice = random.Random(number)
    end = time.monotonic() + options.seconds
    await asyncio.sleep(dice.uniform(0, options.every))
    while time.monotonic() < end:
        began = time.perf_counter()
        fresh = dice.random() < options.new
        size = new.pop() if fresh else dice.choice(WARM)
        try:
            if fresh:
                seen.waiting.add(token)
            others = len(seen.waiting)  # who asked before; who has just been answered may still be counted
            first, told = await measured(options.port, token, size, options.variants[:1])
            if fresh and first["state"] == "waiting":
                seen.places.append((first["place"], others))
            seen.errors += [answer["reason"] for answer in told["answers"].values() if "cells" not in answer]
        except (OSError, RuntimeError, ValueError) as error:
            seen.errors.append(f"{type(error).__name__}: {error}")
        finally:
            seen.waiting.discard(token)
        (seen.new_s if fresh else seen.cached_s).append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, options.every - (time.perf_counter() - began)))


async def slow_student(options: argparse.Namespace, token: str) -> int:
    """One who asks for slow points, four at a time, until the time is over; how many were measured."""
    ended, sizes = asyncio.get_running_loop().time() + options.seconds, iter(range(options.slow, options.slow + 5000))

    async def asks() -> int:
        count = 0
        while (left := ended - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError, RuntimeError):
                await asyncio.wait_for(measured(options.port, token, next(sizes), options.variants[:1]), left)
                count += 1
        return count

    return sum(await asyncio.gather(*(asks() for _ in range(4))))


async def rate(
    options: argparse.Namespace, tokens: Sequence[str], sizes: Sequence[int]
) -> tuple[float, dict[str, dict[str, float]]]:
    """Seconds that the gateway takes for points that many ask for at once, and their figures."""
    began = time.perf_counter()
    every = [measured(options.port, tokens[n % len(tokens)], size, options.variants) for n, size in enumerate(sizes)]
    told = await asyncio.gather(*every)
    seconds = time.perf_counter() - began
    cells = [each[1]["answers"][options.variants[0]]["cells"] for each in told]
    return seconds, {cell["size"]: {name: float(cell[name]) for name in options.figures} for cell in cells}


async def load(options: argparse.Namespace, tokens: Sequence[str], teacher: str) -> dict[str, Any]:
    """The class, then the rate; every figure by name."""
    seen, new = Seen(), list(range(NEW_FROM + 5000, NEW_FROM, -1))
    for size in WARM:
        await measured(options.port, tokens[0], size, options.variants[:1])
    slow = asyncio.create_task(slow_student(options, tokens[-1])) if options.slow else None
    await asyncio.gather(*(student(options, n, token, seen, new) for n, token in enumerate(tokens[: options.students])))
    sizes = [NEW_FROM - 1 - n for n in range(options.points)]
    ratios = []
    shares: dict[str, list[float]] = {name: [] for name in options.figures}
    for turn in range(options.rounds):  # in turns, for the machine's own speed drifts
        part = sizes[turn :: options.rounds]
        through_s, through = await rate(options, tokens[:30], part)
        asked = ["cpu" if options.cpu else "cuda", options.variants, part, options.figures]
        command = [sys.executable, "-c", LIVE, json.dumps(asked)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        live_s, live = json.loads(done.stdout.splitlines()[-1])
        ratios.append(live_s / through_s)
        for name, each in shares.items():
            each += [through[size][name] / live[size][name] - 1 for size in live]
    overview = await ask(options.port, teacher, "GET", "/status")
    cached = sorted(seen.cached_s)
    return {
        "students": options.students, "seconds": options.seconds, "device": overview["device"],
        "workers": len(overview["workers"]), "requests": len(cached) + len(seen.new_s), "errors": len(seen.errors),
        "first_errors": seen.errors[:3],
        "cached_ms": {share: round(1e3 * cached[share * (len(cached) - 1) // 100], 1) for share in (50, 95, 99)},
        "slow": await slow if slow else 0,
        "new": len(seen.new_s), "new_s_median": round(statistics.median(seen.new_s or [0.0]), 2),
        "worst_place": max((place for place, _ in seen.places), default=0),
        "behind_more_than_one_each": sum(place > others for place, others in seen.places),
        "rate_against_live": [round(ratio, 3) for ratio in ratios],
        "figures_off_median": {name: round(statistics.median(map(abs, each)), 4) for name, each in shares.items()},
        "figures_bias": {name: round(statistics.median(each), 4) for name, each in shares.items()},
        "measured": overview["measured"],
    }  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """`python -m tools.class_load`: 0 when no student saw an error and nothing was measured twice."""
    parser = argparse.ArgumentParser(prog="python -m tools.class_load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two requests of a student")
    parser.add_argument("--new", type=float, default=0.03, help="share of requests for a point that nobody measured")
    parser.add_argument(
        "--slow", type=int, default=0, metavar="SIZE", help="and one student with points from that size"
    )
    parser.add_argument("--points", type=int, default=40, help="points for the rate (default: 40)")
    parser.add_argument("--rounds", type=int, default=4, help="so many times in turns with Live (default: 4)")
    parser.add_argument("--cpu", action="store_true", help="the CPU's queue, also where there is a GPU")
    parser.add_argument("--workers", type=int, default=1, help="of the CPU's queue")
    parser.add_argument("--gpus", default="", help="as for brrr class serve")
    parser.add_argument("--port", type=int, default=8650)
    options = parser.parse_args(argv)
    options.variants = ["cpu", "queue"] if options.cpu else ["gpu", "gpu-transfers"]
    options.figures = ["latency_s"] if options.cpu else ["latency_s", "span_s"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "class.db"
        store = Store(path)
        tokens = [issue(store, f"student {number}") for number in range(options.students + 1)]
        teacher = issue(store, "teacher", teacher=True)
        where = ["--cpu", "--workers", str(options.workers)] if options.cpu else ["--gpus", options.gpus or "0"]
        command = [sys.executable, "-m", "brrr", "class", "serve", "--cache", str(path), "--port", str(options.port)]
        server = subprocess.Popen([*command, *where], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            print(server.stdout.readline().strip(), flush=True)
            found = asyncio.run(load(options, tokens, teacher))
        finally:
            server.terminate()
            server.wait(30)
        ((rows,),) = store.read("SELECT COUNT(*) FROM point")
        found["rows"] = rows
    print(json.dumps(found))
    return 0 if not found["errors"] and found["measured"] <= rows else 1  # a slow student may still have asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
