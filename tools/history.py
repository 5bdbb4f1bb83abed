"""The verdict of each claim on every recording that was ever committed, and how old the rows are that it rests on.

`python -m tools.history` adds to data/history.csv what today's claims say of the commits that it does not know yet, and
of what stands here; and writes data/ages.csv anew. Run it when a recording or a claim was committed, and commit both.
What stands in the history is kept; without the file, every commit is judged. A second line of one commit tells of a
claim that was changed, or its judge: no new recording.
`python -m tools.history --ages` shows which rows are older than the code that they measured: their experiment's, the
modules of `brrr` that this imports, and brrr/timing. A commit that only moved a file changed nothing.
"""

import csv
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.files import json_text
from brrr.core.measurement import FIELDS
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns.ledger import Lines, past
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import seal_of
from tools import ledger

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "data" / "recordings"
HEADS = {"history": "claim,device,date,commit,verdict,value", "ages": "claim,device,commit,committed,older,rows,oldest"}
KNOWN = "# up to "
"""How the last line of the history begins: the newest commit that it knows."""


def git(*asked: str) -> bytes:
    """What git says of this repository, with times that can be compared with a run's id: both are UTC."""
    made = ("git", "-c", "log.date=format-local:%Y%m%d-%H%M%S", *asked)
    return subprocess.run(made, cwd=ROOT, env={**os.environ, "TZ": "UTC"}, stdout=subprocess.PIPE, check=True).stdout


def log(*asked: str) -> Iterator[tuple[list[str], list[str]]]:
    """The commits, parents first: short name, day and second; and the lines of what else is asked of each."""
    told = git("log", "--reverse", "--date-order", "--format=%x00%h %cs %cd", *asked).decode(errors="replace")
    for block in told.split("\0")[1:]:
        head, *lines = block.splitlines()
        yield head.split(), [line for line in lines if line]


# ---- verdicts ----


def as_today(folder: Path) -> None:
    """Recordings of before 22 Nov 2026 in today's form: one n stood for all times, a machine's peaks beside it."""
    machine = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
    if machine["format"] >= 4:
        return
    kept = {key: machine[key] for key in machine if key not in ("format", "peaks", "seals", "checksum")}
    (folder / "machine.json").write_text(json_text(4, kept), encoding="utf-8")
    for path in folder.glob("*.csv"):
        table = csv.DictReader(line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#")
        rows = [row | {f"{time}_n": row["n"] if row[time] else "" for time in FIELDS} for row in table]
        out = io.StringIO()
        new = csv.DictWriter(out, [name for name in rows[0] if name != "n"], extrasaction="ignore", lineterminator="\n")
        new.writeheader()
        new.writerows(rows)
        path.write_text(out.getvalue() + seal_of(out.getvalue()), encoding="utf-8")


def judged(root: Path, changed: Iterable[tuple[str, str]]) -> Iterator[list[str]]:
    """Of devices and experiments each claim, the device, the verdict, and the figure that decides it."""
    for device, names in groupby(sorted(changed), key=lambda each: each[0]):
        source = Recorded(device, root)
        for name in (name for _, name in names):
            evidence = Evidence(experiment(name), source)
            try:
                found = [(each.entry, each.verdict(evidence)) for each in experiment(name).claims]
            except BrrrError as error:
                print(f"cannot be read any more: {error}", file=sys.stderr)
                continue
            for entry, verdict in found:
                if not entry.retired:
                    figure = "" if verdict.status == "not measured" else verdict.figure
                    yield [entry.id, device, verdict.status, figure]


def history(found: Lines, known: str) -> Lines:
    """With the verdicts on newer commits, and on what stands here: a line where one differs from the one before."""
    found, newest = {key: list(lines) for key, lines in found.items()}, dict[tuple[str, str], list[str]]()
    unknown = set(git("log", "--format=%h", f"{known}..HEAD" if known else "HEAD").decode().split())

    def note(root: Path, changed: Iterable[tuple[str, str]]) -> None:
        for name, device, *said in judged(root, changed):
            lines = found.get((name, device), [])
            if said != (lines[-1][2:] if lines else ["not measured", ""]):
                found[name, device] = [*lines, [*newest[device, name.partition(".")[0]], *said]]

    for (commit, day, _), paths in log("-c", "--name-only", "--diff-filter=AMR", "--", "data/recordings/*.csv"):
        parts = [path.removesuffix(".csv").split("/")[2:] for path in paths]
        changed = [(part[0], part[1]) for part in parts if part[1] in NAMES]
        newest |= {each: [day, commit] for each in changed}
        if commit in unknown and changed:
            with tempfile.TemporaryDirectory() as folder:
                with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "data/recordings"))) as files:
                    files.extractall(folder, filter="data")
                for place in {Path(folder, "data", "recordings", device) for device, _ in changed}:
                    as_today(place)
                note(Path(folder, "data", "recordings"), changed)
    note(RECORDINGS, [(device, name) for device, name in newest if (RECORDINGS / device / f"{name}.csv").is_file()])
    return found


# ---- ages ----


class Watched(ledger.Recording):
    """A recording that notes which rows a claim looks at: the run, the variant, the point."""

    looked: set[tuple[Any, ...]]

    def chosen(self, variant: str, **where: Any) -> dict[tuple[Any, ...], dict[str, str]]:
        found = super().chosen(variant, **where)
        self.looked |= {(row["run"], variant, *point) for point, row in found.items()}
        return found


def runs(claim: Mapping[str, Any], recording: Watched) -> list[str]:
    """The runs of the rows that a claim rests on, oldest first; of one that only brrr can judge, all rows."""
    recording.looked = set()
    if "value" in claim and claim["id"] not in ledger.ELSEWHERE:
        with suppress(ledger.Missing):
            ledger.judged(claim, recording)
    else:
        for variant in recording.rows:
            recording.chosen(variant)
    return sorted(run for run, *_ in recording.looked)


def begun(ids: set[str]) -> dict[str, list[str]]:
    """The first commit of each claim, and its second: its name in the ledger, before that in its experiment's code."""
    found: dict[str, list[str]] = {}
    for (commit, _, second), lines in log("-p", "--unified=0", "--", "*.py", "data/claims.toml", ":!tests"):
        path = set[str]()
        for line in lines:
            path = set(re.findall(r"/(\w+?)(?:_claims)?(?=[./])", line)) if line.startswith("+++ ") else path
            for name in re.findall(r'"([\w.-]+)"', line) if line.startswith("+") else ():
                for each in {name, *(f"{part}.{name}" for part in path)} & ids:
                    found.setdefault(each, [commit, second])
    return found


def rested() -> Iterator[tuple[str, str, list[str]]]:
    """Each claim and device with the runs of the rows that it rests on, where there are any."""
    claims = tomllib.loads((ROOT / "data" / "claims.toml").read_text(encoding="utf-8"))["claim"]
    for device, name in sorted((path.parent.name, path.stem) for path in RECORDINGS.glob("*/*.csv")):
        recording = Watched(device, name)
        for claim in claims:
            judged_here = claim["id"].startswith(f"{name}.") and not claim.keys() & {"retired", "not_here"}
            if judged_here and (found := runs(claim, recording)):
                yield claim["id"], device, found


def ages() -> Lines:
    """Of each claim and device the first commit, its second, how many rows are older, of how many, and the oldest."""
    told, found = list(rested()), dict[tuple[str, str], list[list[str]]]()
    first = begun({name for name, *_ in told})
    for name, device, its in told:
        older = sum(run < first[name][1] for run in its)
        found[name, device] = [[*first[name], str(older), str(len(its)), its[0]]]
    return found


@cache
def changed(path: Path) -> str:
    """The second of the last commit that changed a file in place, or made it."""
    every = ("log", "--follow", "--diff-filter=AM", "-1", "--format=%cd", "--", str(path.relative_to(ROOT)))
    return git(*every).decode().strip()


@cache
def code(name: str) -> str:
    """When what an experiment runs was changed last: its folder but for its claims, and what that imports of brrr."""
    files = [path for path in (ROOT / "brrr_course" / "experiments" / name).rglob("*.*") if path.name != "claims.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in files if path.suffix == ".py")
    for module in set(re.findall(r"brrr\.(?:kernels|networks|running|strassen)[\w.]*", text)):
        place = ROOT / module.replace(".", "/")
        files += place.rglob("*.*") if place.is_dir() else [place.with_suffix(".py")]
    return max(changed(path) for path in files if path.suffix in (".py", ".cu", ".cuh"))


def stale() -> Iterator[str]:
    """A line a claim and device; then, of each experiment, how many rows are older than its code, and the timers'."""
    timing = max(map(changed, (ROOT / "brrr" / "timing").glob("*.py")))
    yield "claim,device,oldest,code,timing,stale"
    for claim, device, its in rested():
        made = code(claim.partition(".")[0])
        yield f"{claim},{device},{its[0]},{made},{timing},{'yes' if its[0] < max(made, timing) else 'no'}"
    yield "\nexperiment,device,rows,older than its code,older than the timers"
    for device, name in sorted((path.parent.name, path.stem) for path in RECORDINGS.glob("*/*.csv")):
        its = [row["run"] for rows in ledger.Recording(device, name).rows.values() for row in rows.values()]
        yield f"{name},{device},{len(its)},{sum(run < code(name) for run in its)},{sum(run < timing for run in its)}"


def write(name: str, lines: Lines, end: str = "") -> None:
    """One of the tables, sorted by claim and device."""
    with (ROOT / "data" / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"{HEADS[name]}\n")
        rows = ([*key, *told] for key, every in sorted(lines.items()) for told in every)
        csv.writer(file, lineterminator="\n").writerows(rows)
        file.write(end)


def main() -> None:
    """Write both tables, or show the ages."""
    if "--ages" in sys.argv:
        print(*stale(), sep="\n")
        return
    path = ROOT / "data" / "history.csv"
    known = path.read_text(encoding="utf-8").rpartition(KNOWN)[2].strip() if path.exists() else ""
    write("history", history(past(path), known), f"{KNOWN}{git('log', '-1', '--format=%h').decode()}")
    write("ages", ages())


if __name__ == "__main__":
    main()
