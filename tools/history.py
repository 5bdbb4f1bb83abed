"""The verdicts of each claim on every recording that was committed, and how old the rows are that it rests on.

`python -m tools.history` adds to data/history.csv what today's claims say of the commits that it does not know yet, and
of what stands here; and writes data/ages.csv anew. Run it when a recording or a claim was committed, and commit both.
What stands in the history is kept; without the file, every commit is judged that today's reader reads (the lines of
before 22 Nov 2026 were made from converted files, by this tool as it was first committed). A line that ends in *anew*
tells of a claim that was changed, or its judge: the recording is one that was judged before.
`python -m tools.history --ages` shows how many rows are older than the code that they measured: the experiment's, the
modules of brrr that this imports, and brrr/timing; then the claims with such rows by experiment.
"""

import csv
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns.ledger import past
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded
from tools import ledger

ROOT = Path(__file__).resolve().parent.parent
HISTORY, AGES, RECORDINGS = (ROOT / "data" / name for name in ("history.csv", "ages.csv", "recordings"))
KNOWN = "# up to "
"""How the last line of the history begins: the newest commit that it knows."""
ANEW = "anew"
STATEMENT = r"^[ \t]+((return|raise|yield|if|elif|for|while|with) |[A-Za-z_][A-Za-z0-9_., ]* [-+*/]?= |[a-z_.]+\()"
"""A line that does something: a commit that changes none (it moves a file, or mends a text) leaves what is measured."""


def git(*asked: str) -> str:
    """What git says of this repository, with times that can be compared with a run's id: both are UTC."""
    made = ("git", "-C", str(ROOT), "-c", "log.date=format-local:%Y%m%d-%H%M%S", *asked)
    told = subprocess.run(made, env={**os.environ, "TZ": "UTC"}, stdout=subprocess.PIPE, check=True).stdout
    return told.decode(errors="replace")


def log(*asked: str) -> Iterator[tuple[list[str], list[str]]]:
    """The commits, parents first: short name, day and second; and the lines of what else is asked of each."""
    for block in git("log", "--reverse", "--date-order", "--format=%x00%h %cs %cd", *asked).split("\0")[1:]:
        head, *lines = block.splitlines()
        yield head.split(), lines


def history(known: str) -> Iterator[list[str]]:
    """What is known, with the verdicts on newer commits: a line where one differs from the one before."""
    found, newest = {key: list(lines) for key, lines in past(HISTORY).items()}, dict[tuple[str, str], list[str]]()
    unknown = git("log", "--format=%h", f"{known}..HEAD" if known else "HEAD").split()

    def note(root: Path, pairs: Iterable[tuple[str, str]], anew: str = "") -> None:
        for device, name in pairs:
            evidence = Evidence(experiment(name), Recorded(device, root))
            try:
                said = {each.entry.id: each.verdict(evidence) for each in experiment(name).claims}
            except BrrrError as error:
                print(f"not judged: {error}", file=sys.stderr)
                continue
            for claim, verdict in said.items():
                lines = found.setdefault((claim, device), [])
                new = [verdict.status, "" if verdict.status == "not measured" else verdict.figure]
                if verdict.status != "retired" and new != (lines[-1][2:4] if lines else ["not measured", ""]):
                    lines.append([*newest[device, name], *new, anew])

    for (commit, day, _), paths in log("-c", "--name-only", "--diff-filter=AMR", "--", "data/recordings/*.csv"):
        parts = (re.fullmatch(r"data/recordings/([^/]+)/(\w+)\.csv", path) for path in paths)
        pairs = [(part[1], part[2]) for part in parts if part and part[2] in NAMES]
        newest |= {pair: [day, commit] for pair in pairs}
        if commit in unknown and pairs:
            with tempfile.TemporaryDirectory() as folder:
                git("archive", "-o", f"{folder}/files.tar", commit, "data/recordings")
                with tarfile.open(f"{folder}/files.tar") as files:
                    files.extractall(folder, filter="data")
                note(Path(folder, "data", "recordings"), pairs)
    here = [(device, name) for device, name in newest if (RECORDINGS / device / f"{name}.csv").is_file()]
    note(RECORDINGS, here, ANEW)
    yield from ([*key, *line] for key, lines in sorted(found.items()) for line in lines)
    yield [f"{KNOWN}{git('log', '-1', '--format=%h').strip()}"]


def rested() -> Iterator[tuple[str, str, list[str]]]:
    """Each claim and device with the runs of its rows, oldest first; of a claim that only brrr can judge, all rows."""
    claims = tomllib.loads((ROOT / "data" / "claims.toml").read_text(encoding="utf-8"))["claim"]
    for path in sorted(RECORDINGS.glob("*/*.csv")):
        recording = ledger.Recording(path.parent.name, path.stem)
        for claim in (each for each in claims if each["id"].startswith(f"{path.stem}.") and "retired" not in each):
            recording.looked.clear()
            if "value" in claim and claim["id"] not in ledger.ELSEWHERE:
                with suppress(ledger.Missing):
                    ledger.judged(claim, recording)
            elif "not_here" not in claim:
                for variant in recording.rows:
                    recording.chosen(variant)
            if recording.looked:
                yield claim["id"], path.parent.name, sorted(run for run, *_ in recording.looked)


def ages() -> Iterator[list[Any]]:
    """Of each claim and device the first commit, its second, how many of its rows are older, and the oldest.

    A claim begins with its name in the ledger, or before that in its experiment's code.
    """
    first: dict[str, list[str]] = {}
    for (commit, _, second), lines in log("-p", "--unified=0", "--", "*.py", "data/claims.toml", ":!tests"):
        parts: list[str] = []
        for line in lines:
            parts = re.findall(r"/(\w+?)(?:_claims)?(?=[./])", line) if line.startswith("+++ ") else parts
            for name in re.findall(r'"([\w.-]+)"', line) if line.startswith("+") else ():
                for each in (name, *(f"{part}.{name}" for part in parts)):
                    first.setdefault(each, [commit, second])
    for name, device, runs in rested():
        yield [name, device, *first[name], sum(run < first[name][1] for run in runs), len(runs), runs[0]]


@cache
def changed(path: Path) -> str:
    """The second of the last commit that changed what a file does."""
    return git("log", "--follow", f"-G{STATEMENT}", "-1", "--format=%cd", "--", str(path)).strip()


@cache
def code(name: str) -> str:
    """When what an experiment runs was changed last: its folder but for its claims, and what that imports of brrr."""
    folder = ROOT / "brrr_course" / "experiments" / name
    files = list((folder if folder.exists() else ROOT / "tools" / "prediction").glob("[!c]*.py"))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    for module in set(re.findall(r"brrr\.(?:kernels|networks|running|strassen)[\w.]*", text)):
        place = module.replace(".", "/")
        files += [*ROOT.glob(f"{place}.py"), *ROOT.glob(f"{place}/**/*.py"), *ROOT.glob(f"{place}/**/*.cu*")]
    return max(map(changed, files))


def stale() -> Iterator[list[Any]]:
    """Of each claim and device whether any of its rows is older than the code; at last in how many claims of all."""
    timing, counts = max(map(changed, (ROOT / "brrr" / "timing").glob("*.py"))), Counter[tuple[str, ...]]()
    yield ["claim", "device", "oldest row", "code", "timing", "stale"]
    for claim, device, runs in rested():
        made = code(name := claim.partition(".")[0])
        told = "yes" if runs[0] < max(made, timing) else "no"
        counts[name, device, "older than the code" if runs[0] < made else f"older than the timing: {told}"] += 1
        yield [claim, device, runs[0], made, timing, told]
    yield from ([*key, count] for key, count in counts.items())


def main() -> None:
    """Write both tables, or show the ages."""
    known = HISTORY.read_text(encoding="utf-8").rpartition(KNOWN)[2].strip() if HISTORY.exists() else ""
    if "--ages" in sys.argv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(stale())
        return
    for path, head, made in ((HISTORY, "claim,device,date,commit,verdict,value,anew", history(known)),
                             (AGES, "claim,device,commit,committed,older,rows,oldest", ages())):  # fmt: skip
        rows = [head.split(","), *made]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
