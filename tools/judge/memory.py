"""The memory of twelve programs: predicted first, without a GPU and with one, then measured in fresh processes.

python -m tools.judge.memory FOLDER     # on a GPU, three minutes: FOLDER/memory.csv and batches.csv

A program's peak is the most that torch's allocator had allocated over three steps. A batch is the largest of which two
steps ran where the allocator may take a share of the device's memory, beside the one that was predicted.
"""

import csv
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from brrr.gpu.datasheet import hardware
from brrr.roofline.batch import largest_batch
from brrr.roofline.predicting import predict
from tools.judge.diagnosis import table
from tools.judge.rows import Row
from tools.judge.steps import BATCHES, PROGRAMS

WITHIN, SHARE = 0.1, 1 / 16
"""So near it was wanted; and of the device's memory the allocator gets so much while batches are tried."""


def here() -> str:
    """This machine's GPU, else an H200."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "h200"


def predicted(name: str, on: str) -> dict[str, Any]:
    """What is predicted for this machine's GPU of tensors that lie there."""
    found = predict(PROGRAMS[name](on), device=here()).memory
    assert found is not None
    return {f"predicted_{on}_bytes": found.peak_bytes, f"reserved_{on}_bytes": found.reserved_bytes,
            f"context_{on}_bytes": found.context_bytes, f"parts_{on}": json.dumps(found.parts)}  # fmt: skip


def measured(name: str, on: str) -> dict[str, Any]:
    """What three steps take, in a process that did nothing before."""
    step = PROGRAMS[name](on)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    free, whole = torch.cuda.mem_get_info()
    return {"max_memory_allocated": torch.cuda.max_memory_allocated(),
            "max_memory_reserved": torch.cuda.max_memory_reserved(),
            "context_bytes": whole - free - torch.cuda.memory_reserved(),
            "device": torch.cuda.get_device_name(), "torch": torch.__version__}  # fmt: skip


def allowed_bytes() -> int:
    """What the allocator may take while batches are tried."""
    known = (
        torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else hardware(here()).memory_bytes
    )
    return int(SHARE * (known or 0))


def batch_predicted(name: str, on: str) -> dict[str, Any]:
    """The largest batch, from descriptions alone."""
    return {
        "predicted": largest_batch(lambda rows: BATCHES[name](on, rows), device=here(), memory_bytes=allowed_bytes())
    }


def batch_measured(name: str, first: str) -> dict[str, Any]:
    """The largest batch that runs, sought from the predicted one on."""
    torch.cuda.set_per_process_memory_fraction(SHARE)

    def runs(rows: int) -> bool:
        gc.collect()
        torch.cuda.empty_cache()
        with suppress(torch.cuda.OutOfMemoryError):
            step = BATCHES[name]("cuda", rows)
            for _ in range(2):
                step()  # kept nowhere: no result lies beside the next one's
            return True
        return False

    low, high, rows = 0, 0, int(first)
    while not high or high - low > max(1, int(first) // 50):
        low, high = (rows, high) if runs(rows) else (low, rows)
        rows = (low + high) // 2 if low and high else rows + max(1, rows // 8) * (1 if low else -1)
    return {"measured": low}


WORK = {each.__name__: each for each in (predicted, measured, batch_predicted, batch_measured)}


def started(*asked: str) -> subprocess.Popen[str]:
    """A fresh process for one of them."""
    alone = os.environ | {"OMP_NUM_THREADS": "1"}  # many run side by side
    return subprocess.Popen([sys.executable, "-m", __spec__.name, *asked], stdout=subprocess.PIPE, text=True, env=alone)


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What it found; what failed leaves its cells empty."""
    last = process.communicate()[0].strip().splitlines()[-1:]
    return json.loads(last[0]) if process.returncode == 0 and last else {}


def recorded(folder: Path) -> None:
    """All predictions side by side, before anything runs; then one measurement after the other."""
    ways = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    asked = {name: [started("predicted", name, on) for on in ways] for name in PROGRAMS}
    sought = {name: started("batch_predicted", name, "cpu") for name in BATCHES}
    found = {
        name: {"program": name} | {k: v for each in some for k, v in answer(each).items()}
        for name, some in asked.items()
    }
    batches = {name: {"program": name} | answer(each) for name, each in sought.items()}
    for name, line in found.items():
        line |= answer(started("measured", name, "cuda"))
    for name, line in batches.items():
        line |= answer(started("batch_measured", name, str(line.get("predicted", 8))))
    for stem, lines in (("memory", found), ("batches", batches)):
        with (folder / f"{stem}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(
                file, list(dict.fromkeys(k for line in lines.values() for k in line)), lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(lines.values())


def rows(folder: Path) -> Iterator[Row]:
    """Those of both files, where they are."""
    for stem, by, said, was in (
        ("memory", "the GPU's operators", "predicted_cuda_bytes", "max_memory_allocated"),
        ("memory", "the CPU's operators", "predicted_cpu_bytes", "max_memory_allocated"),
        ("batches", "the CPU's operators", "predicted", "measured"),
    ):
        for line in table(folder / f"{stem}.csv") if (folder / f"{stem}.csv").is_file() else ():
            off = float(line[said]) / float(line[was]) - 1
            yield Row(stem, f"by {by}", line["program"], off)
            yield Row(stem, f"within {WITHIN:.0%}, by {by}", line["program"], abs(off) <= WITHIN)


def main(argv: Sequence[str]) -> int:
    """All of it into a folder, or one piece of it, as JSON."""
    if argv and argv[0] in WORK:
        print(json.dumps(WORK[argv[0]](*argv[1:])))
    else:
        recorded(Path(argv[0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
