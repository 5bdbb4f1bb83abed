"""The two hours of docs/teaching.md, squeezed: students move the plan's explorers, and wait for what nobody measured.

python -m tools.class_hours --students 30 --minutes 8 --workers 2

It starts `brrr class serve --cpu` in a folder of its own. Each student opens each explorer when its turn comes, all
within a few seconds, then moves its sliders a few times. The last line is JSON.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brrr_course.classroom.store import Store
from brrr_course.classroom.tokens import issue
from brrr_course.lessons.cells import Cells
from brrr_course.view.explorer import Explorer
from tools.class_load import ask

PLAN = {"00_start_here": 10, "01_async_timing": 30, "03_overhead": 35, "04_memory_bound": 35}
"""Minutes of each lesson."""
MOVES, OPENED_WITHIN_S = 4, 10.0


def explorers() -> list[tuple[float, Explorer]]:
    """The plan's explorers as a laptop's notebook has them, each with the share of the two hours at which it opens."""
    os.environ |= {"BRRR_SOURCE": "cpu", "BRRR_STATIC": ""}
    found: list[tuple[float, Explorer]] = []
    began = 0
    for name, minutes in PLAN.items():
        shown: list[Any] = []
        cells = Cells(name, shown.append, lambda _: None)
        with cells.on_stage():
            for cell in json.loads(Path(f"notebooks/{name}.ipynb").read_text("utf-8"))["cells"]:
                if cell["cell_type"] == "code" and not {"your-turn", "claims"} & set(cell["metadata"]["tags"]):
                    cells.run("".join(cell["source"]))
        here = [each for each in shown if isinstance(each, Explorer) and each.scene.on]
        found += [(began + minutes * n / len(here), each) for n, each in enumerate(here)]
        began += minutes
    return [(at / began, each) for at, each in found]


async def student(options: argparse.Namespace, number: int, token: str, plan: list[tuple[float, Explorer]],
                  waits: dict[str, list[Any]]) -> None:  # fmt: skip
    """One student: each explorer when its turn comes, then some moves; `waits` takes seconds, and what went wrong."""
    dice, began = random.Random(number), time.monotonic()
    for share, explorer in plan:
        scene = explorer.scene
        at = dict(scene.point)
        await asyncio.sleep(began + share * options.minutes * 60 + dice.uniform(0, OPENED_WITHIN_S) - time.monotonic())
        for move in range(1 + MOVES):
            if move:
                await asyncio.sleep(dice.uniform(1, 10))
                axis = dice.choice(explorer.slider_names or [scene.view.x])
                at[axis] = dice.choice(scene.values[axis])
            lines = [scene.experiment.line(name).variant for name in scene.on]
            variants = [name for name in dict.fromkeys(lines) if scene.experiment.has(name, at)]
            if not variants:
                continue
            content = {"experiment": scene.experiment.name, "variants": variants, "point": at}
            asked, kind = time.perf_counter(), "moved" if move else "opened"
            try:
                told = await ask(options.port, token, "POST", "/measure", content)
                kind = "known" if told["state"] == "done" else kind
                while told["state"] != "done":
                    told = await ask(options.port, token, "GET", f"/requests/{told['id']}?wait=5")
                waits[kind].append(time.perf_counter() - asked)
                waits["unanswered"] += [each["reason"] for each in told["answers"].values() if "cells" not in each]
            except (OSError, RuntimeError, ValueError) as error:
                kind = "refused" if " 422 " in str(error) else "unanswered"  # refused: longer than a class waits
                waits[kind].append(f"{type(error).__name__}: {error}")


def main(argv: Sequence[str]) -> int:
    """`python -m tools.class_hours`: 0 when every point was answered."""
    parser = argparse.ArgumentParser(prog="python -m tools.class_hours", description=(__doc__ or "").partition("\n")[0])
    for name, usual in (("--students", 30), ("--minutes", 8), ("--workers", 2), ("--port", 8651)):
        parser.add_argument(name, type=int, default=usual)
    options, plan = parser.parse_args(argv), explorers()
    waits: dict[str, list[Any]] = {"opened": [], "moved": [], "known": [], "refused": [], "unanswered": []}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(path := Path(folder) / "class.db")
        tokens = [issue(store, f"student {number}") for number in range(options.students)]
        command = [sys.executable, "-m", "brrr", "class", "serve", "--cache", str(path), "--port", str(options.port),
                   "--cpu", "--workers", str(options.workers)]  # fmt: skip
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            print(server.stdout.readline().strip() if server.stdout else "", f"{len(plan)} explorers", flush=True)

            async def whole_class() -> None:
                await asyncio.gather(*(student(options, n, token, plan, waits) for n, token in enumerate(tokens)))

            asyncio.run(whole_class())
        finally:
            server.terminate()
            server.wait(30)
        ((points,),) = store.read("SELECT COUNT(DISTINCT experiment || point) FROM point")
    told: dict[str, Any] = {"students": options.students, "points": points, "load": os.getloadavg()}
    for kind in ("opened", "moved", "known"):
        every = sorted(waits[kind])
        told[kind] = {"requests": len(every)} | {
            f"p{p}_s": round(every[p * (len(every) - 1) // 100], 3) for p in (50, 95, 100) if every
        }
    told |= {kind: len(waits[kind]) for kind in ("refused", "unanswered")}
    print(json.dumps({**told, "first": waits["unanswered"][:3]}))
    return 1 if waits["unanswered"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
