"""`brrr class`: share this machine's GPUs with a class, whose notebooks then measure live.

brrr class serve                  # on this machine's GPUs, or on its CPU's queue
brrr class token ada grace        # a token for each student, shown once
brrr class status                 # who waits, and what runs
brrr class forget matmul size=64  # what was measured wrongly, so that it is measured again
brrr class export DIR             # the evening as a recording, for `brrr claims`
brrr class answers FILE.csv       # guesses and marks of those who agreed to send them, counted
brrr class report FILE.csv        # what each of them did, by the name of their token
brrr class withdraw ada           # take a student's answers out
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from brrr.core.errors import ArgumentError, BrrrError, UnavailableError
from brrr.core.files import is_own
from brrr_course.classroom.report import HEADER, plain, report
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.tokens import holds, issue, revoke
from brrr_course.lessons.sharing import AGREED
from brrr_course.sources.remote import ANY_HTTP, Connection

try:
    from brrr_course.classroom import serving
except ImportError as lacking:
    raise UnavailableError(f"{lacking}; install it with: pip install 'brrr-course[class]'") from lacking

CACHE = Path("class.db")
ANSWERS = "kind", "name", "value", "students"


def main(argv: Sequence[str]) -> int:
    """`brrr class serve | token | status | export | answers | report | ...`: 0 when it went well, 2 for an error."""
    options = _parser().parse_args(argv)
    try:
        options.run(options)
    except (BrrrError, ImportError) as error:
        print(f"brrr class: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    lines = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="brrr class", description=lines[0], epilog=lines[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="measure for a class until Ctrl-C")
    serve.add_argument("--gpus", help="numbers of the GPUs, as 0,1 (default: all; none is the CPU's queue)")
    serve.add_argument("--cpu", action="store_true", help="use the CPU's queue, though there may be a GPU")
    serve.add_argument("--workers", type=_count, default=1, metavar="N", help="workers of the CPU's queue (default: 1)")
    serve.add_argument("--port", type=_count, default=serving.PORT, help="(default: %(default)s)")
    serve.add_argument("--host", default="127.0.0.1", help="whom to listen to (default: this machine alone)")
    serve.add_argument("--address", default="", metavar="URL", help="where students reach it, through a proxy of yours")
    serve.add_argument("--scheduler", default="", metavar="ADDRESS", help="use the workers of dask's scheduler there")
    serve.add_argument("--dashboard", type=_count, metavar="PORT", help="dask's dashboard, for this machine alone")
    serve.add_argument("--longest", type=_seconds, default=60.0, metavar="S", help="refuse longer points (default: 60)")
    serve.add_argument("--hub", default="", metavar="SERVICE", help="run as this service of a JupyterHub")
    serve.add_argument("--retry", action="store_true", help="try again what could not be measured before")
    token = commands.add_parser("token", help="a token for each name, shown once")
    token.add_argument("names", nargs="+", metavar="NAME")
    token.add_argument("--days", type=float, default=120.0, help="until it expires (default: 120)")
    token.add_argument("--teacher", action="store_true", help="may also see the status and the answers")
    token.add_argument("--revoke", action="store_true", help="end all tokens of the names instead")
    token.add_argument("--out", type=Path, metavar="DIR", help="write DIR/NAME.token instead of showing it")
    status = commands.add_parser("status", help="who waits, and what runs")
    forget = commands.add_parser("forget", help="a measurement, so that it is measured again when it is asked for")
    forget.add_argument("experiment", metavar="EXPERIMENT")
    forget.add_argument("at", nargs="*", metavar="AXIS=VALUE", help="at these points alone")
    export = commands.add_parser("export", help="what was measured, as a recording")
    export.add_argument("folder", type=Path, metavar="DIR")
    answers = commands.add_parser("answers", help="guesses and marks as CSV, without names")
    answers.add_argument("file", type=Path, metavar="FILE")
    report = commands.add_parser("report", help="exercises done and guesses as CSV, by the names of tokens")
    report.add_argument("file", type=Path, metavar="FILE")
    report.add_argument("names", nargs="*", metavar="NAME", help="users of a hub, whose names the class's file lacks")
    withdraw = commands.add_parser("withdraw", help="take a student's answers out, and that they agreed to be named")
    withdraw.add_argument("names", nargs="+", metavar="NAME")
    for command, run in (
        (serve, _serve),
        (token, _token),
        (status, _status),
        (forget, _forget),
        (export, _export),
        (answers, _answers),
        (report, _report),
        (withdraw, _withdraw),
    ):
        command.add_argument("--cache", type=Path, default=CACHE, metavar="FILE", help="(default: %(default)s)")
        command.set_defaults(run=run)
    return parser


def _count(text: str) -> int:
    value = int(text)
    if not 0 < value < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 65535")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def _serve(options: argparse.Namespace) -> None:
    named = tuple(options.gpus.split(",")) if options.gpus else () if options.cpu else None
    if named is None:
        named = ("all of the scheduler's",) if options.scheduler else serving.gpus_here()
    if options.retry:
        store = ClassStore(options.cache)
        store.retry()
        store.close()
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        print("The gateway itself does not encrypt: tokens cross the network in the clear unless a proxy adds TLS. "
              "On a network that you trust, students set BRRR_ALLOW_HTTP=1 (docs/classroom.md).")  # fmt: skip
    asyncio.run(serving.serve(
        options.cache, named, workers=options.workers, host=options.host, port=options.port, hub=options.hub,
        scheduler=options.scheduler, dashboard=options.dashboard, longest_s=options.longest,
        public=options.address, say=lambda text: print(text, flush=True),
    ))  # fmt: skip


def _token(options: argparse.Namespace) -> None:
    store = ClassStore(options.cache)
    if twice := {name for name in options.names if options.names.count(name) > 1}:
        raise ArgumentError("brrr class token", "NAME", sorted(twice), "each name once, for a name is one student")
    for name in options.names:
        if options.revoke:
            print(f"{name}: {revoke(store, name)} tokens ended")
            continue
        had = holds(store, name)
        try:
            with _written(options.out, name) as write:
                write(issue(store, name, days=options.days, teacher=options.teacher))
        except OSError as error:
            raise UnavailableError(
                f"{error.filename}: {error.strerror}; no token was made for {name}. "
                "Another --out DIR, or another name; to replace a token, end it (--revoke) and delete its file"
            ) from error
        if had:
            print(f"{name}: has {had + 1} tokens now, and who holds any is the same student", file=sys.stderr)


@contextmanager
def _written(folder: Path | None, name: str) -> Iterator[Callable[[str], object]]:
    """What takes the token of a name: a new file of its owner's, or the screen."""
    if folder is None:
        yield lambda token: print(f"{name}\t{token}")
        return
    folder.mkdir(0o700, parents=True, exist_ok=True)
    path = folder / f"{quote(name, safe=' @+,')}.token"  # two names, two files
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        yield lambda token: file.write(token + "\n")
    print(path)


def _status(options: argparse.Namespace) -> None:
    path = serving.serving_file(options.cache)
    if not path.exists():
        raise UnavailableError(f"no `brrr class serve` runs here with {options.cache}")
    own = json.loads(path.read_text("utf-8"))
    os.environ[ANY_HTTP] = "1"  # the address is this machine's own, whatever --host named
    found = Connection(own["url"], own["token"]).ask("GET", "/status")
    print(f"{found['device']}, workers: {len(found['workers'])} {found['trouble']}".rstrip())
    for job in found["running"] + found["waiting"]:
        point = ", ".join(f"{name}={value}" for name, value in job["point"].items())
        state = "waiting" if job["running_s"] is None else f"running {job['running_s']} s"
        others = f" and {job['others']} more" if job["others"] > 0 else ""
        print(f"{state}: {job['experiment']} {point}, {len(job['variants'])} variants, for {job['user']}{others}")
    print(f"{len(found['running'])} running, {len(found['waiting'])} waiting")


def _forget(options: argparse.Namespace) -> None:
    at = dict(text.partition("=")[::2] for text in options.at)
    print(f"{_there(options).forget_measured(options.experiment, at)} rows forgotten; notebooks that run keep theirs")


def _export(options: argparse.Namespace) -> None:
    print("\n".join(_there(options).export(options.folder)))
    print(f"Look at it: BRRR_RECORDINGS={options.folder} brrr claims")


def _answers(options: argparse.Namespace) -> None:
    query = "SELECT kind, name, value, COUNT(*) FROM answer WHERE (kind, name) != (?, ?) GROUP BY kind, name, value"
    rows = _there(options).read(query, *AGREED)
    _write(options.file, [ANSWERS, *rows])
    print(f"{len(rows)} rows in {options.file}")


def _report(options: argparse.Namespace) -> None:
    rows = list(report(_there(options), options.names))
    _write(options.file, rows)
    print(f"{len(rows) - 1} students in {options.file}, {sum(row[1] == 'yes' for row in rows[1:])} of them agreed")


def _withdraw(options: argparse.Namespace) -> None:
    store = _there(options)
    for name in options.names:
        print(f"{name}: {store.withdraw(name)} rows taken out")


def _write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """A CSV file that its owner alone can read; BrrrError where another's is there."""
    if not is_own(path, ",".join(ANSWERS), ",".join(HEADER)):
        raise BrrrError(f"{path}: is there, and no `brrr class` wrote it. Move it away, or choose another name")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            path.chmod(0o600)  # it may have been there
            csv.writer(file).writerows(map(plain, rows))
    except OSError as error:
        raise UnavailableError(f"{path}: cannot be written ({error.strerror})") from None


def _there(options: argparse.Namespace) -> ClassStore:
    if not options.cache.exists():
        raise UnavailableError(f"{options.cache}: is not there; `brrr class serve` makes it")
    return ClassStore(options.cache)
