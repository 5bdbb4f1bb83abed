"""A recording's folder as an older version of brrr wrote it."""

from __future__ import annotations

import json
from pathlib import Path

from brrr.core.files import digest
from brrr.core.measurement import FIELDS


def make_older(folder: Path, peaks: object = ()) -> dict[str, str]:
    """The folder as format 3 had it: one `n` in a row, the seals and the peaks in machine.json. Returns the seals."""
    seals = {}
    for path in folder.glob("*.csv"):
        header, *rows = cells_of(path)
        names = [name for name in header if not name.endswith("_s_n")]
        names.insert(names.index("kernels"), "n")
        lines = [names]
        for cells in rows:
            row = dict(zip(header, cells, strict=True))
            row["n"] = str(min(int(row[f"{name}_n"]) for name in FIELDS if row[name]))
            lines.append([row[name] for name in names])
        path.write_text("".join(",".join(cells) + "\n" for cells in lines))
        seals[path.stem] = [digest(path.read_text())]
    machine = folder / "machine.json"
    content = {**json.loads(machine.read_text()), "format": 3, "peaks": dict(peaks), "seals": seals}  # type: ignore[call-overload]
    del content["checksum"]
    machine.write_text(json.dumps({**content, "checksum": digest(json.dumps(content, sort_keys=True))}))
    return {name: seal for name, (seal,) in seals.items()}


def cells_of(path: Path) -> list[list[str]]:
    """The header and the rows, without the seal."""
    return [line.split(",") for line in path.read_text().splitlines()[:-1]]
