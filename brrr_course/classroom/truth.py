"""A lesson's guesses and what each is held against: its own cells, run on a source in a process of their own.

`brrr_course.classroom.truth NOTEBOOK SOURCE [SERVING]` prints JSON. SERVING is the file in which a gateway says how to
reach it: SOURCE is then that gateway, which measures what the class has not measured yet.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr_course.lessons.cells import Cells
from brrr_course.lessons.comparison import UNGUESSED
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import Waiting
from brrr_course.sources.remote import ANY_HTTP, HUB_GATEWAY, HUB_TOKEN, TOKEN_FILE

LEFT_OUT = {"explore", "your-turn", "claims"}
"""Tags of the cells that no comparison builds on, and that may measure."""


def truths(notebook: Path) -> list[dict[str, Any]]:
    """The questions of a lesson in order, each with its form, what was measured, and the comparison's table.

    >>> truths(Path("notebooks/01_async_timing.ipynb"))[0]["measured"]  # doctest: +SKIP
    4.2e-06

    `measured` is None, and `said` tells why, where the source lacks it.
    """
    asked: list[Guess] = []
    told: list[dict[str, Any]] = []

    def show(value: object) -> None:
        if isinstance(value, Guess):
            asked.append(value)
            told.append({"question": value.question, "form": type(value.form).__name__, "given": vars(value.form),
                         "measured": None, "said": "", "header": (), "rows": (), "badge": ""})  # fmt: skip
        elif isinstance(value, Waiting) and not (found := told[asked.index(value.guess)])["said"]:
            found |= _compared(value)

    cells = Cells(notebook.stem, show, lambda _: None)
    with cells.on_stage():
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "code" and not LEFT_OUT & set(cell["metadata"].get("tags", [])):
                with suppress(BrrrError, NameError):  # the source lacks something; what builds on it is left out too
                    cells.run("".join(cell["source"]))
    return told


def _compared(waiting: Waiting) -> dict[str, Any]:
    """What a comparison says without a guess, and what it would have held one against."""
    try:
        made = waiting.compared()
    except BrrrError as error:
        return {"said": str(error)}
    said = made.text.replace(UNGUESSED, "")
    return {"measured": made.measured, "said": said, "header": made.header, "rows": made.rows, "badge": made.badge}


def main(argv: Sequence[str]) -> int:
    """Print the truths of a notebook as JSON."""
    notebook, source, *serving = argv
    os.environ |= {"BRRR_STATIC": "", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", TOKEN_FILE: ""}
    for own in (json.loads(Path(path).read_text("utf-8")) for path in serving):
        source = f"remote:{own['url']}"
        os.environ |= {HUB_TOKEN: own["token"], HUB_GATEWAY: own["url"], ANY_HTTP: "1"}  # it is on this machine
    os.environ["BRRR_SOURCE"] = source
    print(json.dumps(truths(Path(notebook))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
