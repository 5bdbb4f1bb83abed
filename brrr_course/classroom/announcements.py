"""What `brrr class serve` tells the teacher: where to go, what students paste, and as it goes on who waits for what."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brrr_course.classroom.turns import Turns

EVERY_S = 10.0
"""How often it looks for news."""


def welcome(device: str, workers: int, address: str, cache: Path, *, hub: bool = False) -> str:
    """What the teacher needs when the class begins.

    >>> print(welcome("NVIDIA H200", 1, "https://class.example.org", Path("class.db")))
    NVIDIA H200, workers: 1; answers are kept in class.db
    Students, each with a file of `brrr class token NAME --out tokens`, paste this (after pip install: `brrr lab`):
        BRRR_SOURCE=remote:https://class.example.org BRRR_TOKEN_FILE=~/NAME.token make lab
    For the projector, with a token of `brrr class token YOU --teacher`: guess, reveal, discuss
        https://class.example.org/teacher
    """
    joins = f"""\
Students, each with a file of `brrr class token NAME --out tokens`, paste this (after pip install: `brrr lab`):
    BRRR_SOURCE=remote:{address} BRRR_TOKEN_FILE=~/NAME.token make lab"""
    return f"""\
{device}, workers: {workers}; answers are kept in {cache}
{"Students open a lesson on the hub, and need nothing more." if hub else joins}
For the projector, with a token of `brrr class token YOU --teacher`: guess, reveal, discuss
    {address}/teacher"""


def news(overview: Mapping[str, Any]) -> str:
    """What runs and who waits, on one line.

    >>> job = {"user": "ada", "experiment": "matmul", "point": {"size": 64}}
    >>> news({"measured": 3, "running": [job], "waiting": [{**job, "user": "bob"}] * 2, "trouble": ""})
    'measured: 3; now: matmul size=64 for ada; waiting: bob 2'
    """
    now = []
    for job in overview["running"]:
        point = " ".join(f"{name}={value}" for name, value in job["point"].items())
        now.append(f"{job['experiment']} {point} for {job['user']}")
    waiting = [f"{user} {count}" for user, count in Counter(job["user"] for job in overview["waiting"]).items()]
    parts = {"measured": [str(overview["measured"])], "now": now, "waiting": waiting, "trouble": [overview["trouble"]]}
    return "; ".join(f"{name}: {', '.join(told)}" for name, told in parts.items() if any(told))


async def tell(turns: Turns, say: Callable[[str], object]) -> None:
    """Say what is new, every `EVERY_S` seconds at most, until it is cancelled."""
    before = news(turns.overview())
    while True:
        await asyncio.sleep(EVERY_S)
        if (now := news(turns.overview())) != before:
            say(f"{time.strftime('%H:%M:%S')} {now}")
            before = now
