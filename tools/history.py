"""The verdicts of each claim on every recording that was committed, and how old the rows are that it rests on.

`python -m tools.history` adds to data/history.csv what today's claims say of the commits that it does not know yet, and
of what stands here; and writes data/ages.csv anew. Run it when a recording or a claim was committed, and commit both.
What stands in the history is kept; without the file, every commit is judged that today's reader reads (the lines of
before 22 Nov 2026 were made from converted files, by this tool as it was first committed). Of a claim that was changed,
or its judge, every recording is judged once more, and the first of these lines ends in *anew*; with `--again` of each
claim that was ever changed, where that shows another flip.
A claim is as old as its sentence, expressions, points, bounds and told changes are: `ages.csv` has the commit that has
the newest of them, and how many of the rows began before it. Where any did, `after_data` in the ledger names the
recording: this tool writes it. A claim that is changed must be committed before it runs.
`python -m tools.history --ages` shows how many rows are older than the code that they measured: the experiment's, the
modules of brrr that this imports, and brrr/timing; then the claims with such rows by experiment.
"""

import ast
import csv
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.measurement import Measurement
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns import table
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.ledger import past, read_ledger
from brrr_course.nouns.source import Evidence, Key
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.rows import Row

ROOT = Path(__file__).resolve().parent.parent
HISTORY, AGES, RECORDINGS, LEDGER = (
    ROOT / "data" / n for n in ("history.csv", "ages.csv", "recordings", "claims.toml")
)
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


def history(known: str, again: bool) -> Iterator[list[str]]:
    """What is known, with the verdicts on newer commits: a line where one differs from the one before."""
    found, newest = {key: list(lines) for key, lines in past(HISTORY).items()}, dict[tuple[str, str], list[str]]()
    unknown = git("log", "--format=%h", f"{known}..HEAD" if known else "HEAD").split()
    commits = list(recorded())
    for day, commit, pairs in commits:
        newest |= {pair: [day, commit] for pair in pairs}
        if commit in unknown:
            for key, line in judged(commit, day, pairs):
                lines = found.setdefault(key, [])
                if line[2:] != (lines[-1][2:4] if lines else ["not measured", ""]):
                    lines.append([*line, ""])
    here = [(device, name) for device, name in newest if (RECORDINGS / device / f"{name}.csv").is_file()]
    told = {key: line for pair in here for key, line in verdicts(RECORDINGS, *newest[pair], [pair])}
    anew = {key for key, line in told.items() if line[2:] != (found[key][-1][2:4] if found.get(key) else line[2:])}
    anew |= {key for key, line in told.items() if not found.get(key) and line[2] != "not measured"}
    changed_once = {key for key in told.keys() & found.keys() if again and any(line[4] for line in found[key])}
    series: dict[tuple[str, str], list[list[str]]] = {key: [] for key in anew | changed_once}
    wanted = {(device, claim.partition(".")[0]) for claim, device in series}
    for day, commit, pairs in commits:
        for key, line in judged(commit, day, [pair for pair in pairs if pair in wanted]):
            if key in series and line[2:] != (series[key][-1][2:] if series[key] else ["not measured", ""]):
                series[key].append(line)
    for key, lines in series.items():
        lines += [told[key]] * (not lines or lines[-1][2:] != told[key][2:])  # today's reader may refuse the others
        if key in anew or flips([[*line, ""] for line in lines]) - flips(found.get(key, [])):
            found.setdefault(key, []).extend([*line, ANEW * (not at)] for at, line in enumerate(lines))
    yield from ([*key, *line] for key, lines in sorted(found.items()) for line in lines)
    yield [f"{KNOWN}{git('log', '-1', '--format=%h').strip()}"]


def flips(lines: list[list[str]]) -> set[tuple[str, str]]:
    """From which verdict to which a new recording led."""
    return {(one[2], later[2]) for one, later in pairwise(lines) if one[2] != later[2] and not later[4]}


def recorded() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The commits that changed a recording, oldest first: the day, the short name, and devices with experiments."""
    for (commit, day, _), paths in log("-c", "--name-only", "--diff-filter=AMR", "--", "data/recordings/*.csv"):
        parts = (re.fullmatch(r"data/recordings/([^/]+)/(\w+)\.csv", path) for path in paths)
        if pairs := [(part[1], part[2]) for part in parts if part and part[2] in NAMES]:
            yield day, commit, pairs


def judged(commit: str, day: str, pairs: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """What today's claims say of the recordings of a commit."""
    if not pairs:
        return
    with tempfile.TemporaryDirectory() as folder:
        git("archive", "-o", f"{folder}/files.tar", commit, "data/recordings")
        with tarfile.open(f"{folder}/files.tar") as files:
            files.extractall(folder, filter="data")
        yield from verdicts(Path(folder, "data", "recordings"), day, commit, pairs)


def verdicts(root: Path, day: str, commit: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Any]:
    """Of each claim: claim and device; day, commit, verdict and figure."""
    for device, name in pairs:
        try:
            said = [(each, each.verdict(Evidence(experiment(name), Recorded(device, root))))
                    for each in experiment(name).claims]  # fmt: skip
        except BrrrError as error:
            print(f"not judged: {error}", file=sys.stderr)
            continue
        for claim, verdict in said:
            figure = "" if verdict.status == "not measured" else verdict.figure
            yield (claim.entry.id, device), [day, commit, verdict.status, figure]


class Noting(Mapping[Key, Measurement]):
    """What is known of a variant; each row that is looked at is noted by its run."""

    def __init__(self, rows: Mapping[Key, Row], looked: dict[int, str]) -> None:
        self._rows, self._looked = rows, looked

    def __getitem__(self, key: Key) -> Measurement:
        row = self._rows[key]
        self._looked[id(row)] = row.run
        return row.measurement

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Watched(Recorded):
    """A recording that notes the run of each row that a claim looks at."""

    def __init__(self, device: str) -> None:
        super().__init__(device, RECORDINGS)
        self.looked: dict[int, str] = {}

    def known(self, experiment: Experiment, variant: str) -> Mapping[Key, Measurement]:
        return Noting(self.rows(experiment, variant), self.looked)


def rested() -> Iterator[tuple[str, str, list[str]]]:
    """Each claim that is judged and the device, with the runs of its rows, oldest first.

    What is no experiment of the course's is judged elsewhere: its claims rest on all of its rows.
    """
    for path in sorted(RECORDINGS.glob("*/*.csv")):
        device, name = path.parent.name, path.stem
        if name in NAMES:
            asked, source = experiment(name), Watched(device)
            for claim in asked.claims:
                source.looked.clear()
                status = claim.verdict(Evidence(asked, source)).status
                if status in ("holds", "fails", "undecided") and source.looked:
                    yield claim.entry.id, device, sorted(source.looked.values())
        else:
            runs = sorted(row["run"] for row in table.read(path))
            for each in read_ledger(LEDGER).claim:
                if each.experiment == name and not each.not_here:
                    yield each.id, device, runs


def ages() -> Iterator[list[Any]]:
    """Of each claim and device the commit that fixed it, its second, how many of its rows are older, and the oldest."""
    since = fixed()
    for name, device, runs in rested():
        yield [name, device, *since[name], sum(run < since[name][1] for run in runs), len(runs), runs[0]]


def named() -> dict[str, list[str]]:
    """The commit in which each claim's name stood first: in the ledger, or before that in its experiment's code."""
    first: dict[str, list[str]] = {}
    for (commit, _, second), lines in log("-p", "--unified=0", "--", "*.py", "data/claims.toml", ":!tests"):
        parts: list[str] = []
        for line in lines:
            parts = re.findall(r"/(\w+?)(?:_claims)?(?=[./])", line) if line.startswith("+++ ") else parts
            for name in re.findall(r'"([\w.-]+)"', line) if line.startswith("+") else ():
                for each in (name, *(f"{part}.{name}" for part in parts)):
                    first.setdefault(each, [commit, second])
    return first


def fixed() -> dict[str, list[str]]:
    """The commit since which each claim says and decides what it does today, with its second.

    What a claim of the first ledger said is as old as its name; and an expression that took the place of a function in
    the experiment's code (until 26 Nov 2026) decides what that did, unless the claim tells a change. A change that was
    told on a later day than its own is no new one.
    """
    first, names = dict[tuple[str, str], list[str]](), named()
    in_code, in_ledger = set[str](), set[str]()
    for place, ((commit, _, second), _) in enumerate(log("--", str(LEDGER))):
        for claim in tomllib.loads(git("show", f"{commit}:data/claims.toml"))["claim"]:
            name = claim["id"]
            for said in parts(claim):
                moved = said.startswith("decides") and name in in_code - in_ledger
                old = moved or (not place and not said.startswith("changed"))
                first.setdefault((name, said), names[name] if old else [commit, second])
            (in_ledger if {"value", "judge", "not_here"} & {*claim} else in_code).add(name)
    today = tomllib.loads(LEDGER.read_text(encoding="utf-8"))["claim"]
    if new := {each["id"] for each in today for said in parts(each) if (each["id"], said) not in first}:
        sys.exit(f"not committed as they stand in the ledger: {', '.join(sorted(new))}. Commit them, then run this")
    found = {}
    for each in today:
        told = {said: first[each["id"], said] for said in parts(each)}
        late = {said for said, (_, second) in told.items() if re.match(rf"changed (?!{second[:8]})", said)}
        found[each["id"]] = max((told[said] for said in told.keys() - late), key=lambda at: at[1])
    return found


def parts(claim: dict[str, Any]) -> list[str]:
    """What a claim says, what decides it with its names written out, and each change that it tells, as texts."""
    let = claim.get("let", {})

    def written(text: str, inside: frozenset[str] = frozenset()) -> str:
        tree = ast.parse(text.strip(), mode="eval")
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
        used = sorted(name for name in names & {*let} - inside)
        return ast.unparse(tree) + "".join(f"; {written(let[name], inside | {name})}" for name in used)

    value = claim.get("value", [])
    said = [written(text) for text in ([value] if isinstance(value, str) else value)]
    ends = {key: claim.get(key) for key in ("within", "about", "about_gain", "at", "judge", "not_here")}
    told = [(each["date"].replace("-", ""), each["what"]) for each in claim.get("changed", ())]
    return [f"says {claim['sentence']}", f"decides {said} {ends}", *(f"changed {day} {what}" for day, what in told)]


def mark(rows: list[list[Any]]) -> None:
    """Name in the ledger's `after_data` the recordings that were there, in part or whole, when a claim was fixed."""
    after: dict[str, list[str]] = {}
    for name, device, _, _, older, *_ in rows:
        after.setdefault(name, []).extend([device] * (older > 0))
    head, *claims = re.split(r"(?m)^(?=\[\[claim\]\]\n)", LEDGER.read_text(encoding="utf-8"))
    for at, text in enumerate(claims):
        devices = ", ".join(f'"{each}"' for each in after.get(text.split('"')[1], ()))
        text = re.sub(r"(?m)^after_data = .*\n", "", text)
        line = f"after_data = [{devices}]\n" if devices else ""
        claims[at] = re.sub(r'(?m)^(fixed = ".*"\n)', rf"\1{line}", text)
    LEDGER.write_text(head + "".join(claims), encoding="utf-8")


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
    rows = list(ages())
    mark(rows)
    past_verdicts = history(known, again="--again" in sys.argv)
    for path, head, made in ((HISTORY, "claim,device,date,commit,verdict,value,anew", past_verdicts),
                             (AGES, "claim,device,commit,committed,older,rows,oldest", rows)):  # fmt: skip
        lines = [head.split(","), *made]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
