"""What a class keeps on disk, in one SQLite file: what was measured, what is asked for, tokens, and answers.

A row is found by experiment, its version, point, variant, cache state and device (its name, UUID, driver, CUDA and
torch). All of it is written in transactions: a kill at any moment loses nothing that was answered.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, TypeVar

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr.core.files import digest, typed
from brrr_course.classroom.query import Query, version
from brrr_course.experiments import NAMES, experiment
from brrr_course.sources.folders import LASTING, add
from brrr_course.sources.recording import Failure, Machine, Recording, RunInfo
from brrr_course.sources.rows import from_cells

FORMAT = 2
SCHEMA = """
CREATE TABLE run(id TEXT PRIMARY KEY, device TEXT NOT NULL, machine TEXT NOT NULL, info TEXT NOT NULL);
CREATE TABLE point(number INTEGER PRIMARY KEY, experiment TEXT NOT NULL, version TEXT NOT NULL, point TEXT NOT NULL,
  variant TEXT NOT NULL, cache TEXT NOT NULL, device TEXT NOT NULL, run TEXT NOT NULL, seconds REAL NOT NULL,
  answer TEXT NOT NULL, UNIQUE(experiment, version, point, variant, cache, device));
CREATE TABLE request(id TEXT PRIMARY KEY, user TEXT NOT NULL, asked TEXT NOT NULL, owner TEXT NOT NULL);
CREATE TABLE claim(key TEXT, variant TEXT, owner TEXT NOT NULL, PRIMARY KEY(key, variant));
CREATE TABLE token(id TEXT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, teacher INTEGER NOT NULL,
  expires REAL NOT NULL);
CREATE TABLE answer(who TEXT, kind TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY(who, kind, name));
CREATE TABLE score(challenge TEXT, who TEXT, shown TEXT NOT NULL, point TEXT, PRIMARY KEY(challenge, who, point));
CREATE TABLE salt(value TEXT NOT NULL);
"""

PAGE = 500
"""Rows of what was measured in one answer."""
T = TypeVar("T")
Answer = Mapping[str, Any]
"""Of one variant at one point: `{"cells": a recording's row}`, or `{"error": its class, "reason": its text}`."""


class ClassStore:
    """The class's file; several gateways of one machine may have it open at a time.

    >>> Store(Path("class.db")).answers(asked, devices=["0123456789abcdef"])  # doctest: +SKIP
    {'cpu': {'cells': {...}}}

    `owner` is this process as an owner of requests. A loop that serves others runs each call `reading` or `writing`:
    either may wait for other programs or the disk. Raises UnavailableError for a file that cannot be opened, or of a
    newer brrr; BrrrError where the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.owner = path, secrets.token_hex(8)
        self._locks: list[IO[str]] = []
        self._one = threading.RLock()
        self._reads, self._writes = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self.unsaved: list[tuple[str, tuple[Any, ...]]] = []
        try:
            _keep_private(path)
            options: Any = {"isolation_level": None, "timeout": 10, "check_same_thread": False}
            self._db: sqlite3.Connection = sqlite3.connect(path, **options)
            self._reader: sqlite3.Connection = sqlite3.connect(path, **options)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may lose seconds, never the file
            with self._transaction():
                self._make()
        except (sqlite3.Error, OSError) as error:
            raise UnavailableError(f"{path}: cannot be used as the class's cache ({error})") from error

    def reading(self, call: Callable[..., T], *values: object) -> asyncio.Future[T]:
        """A call that only reads, in a thread beside the running loop; it waits for no `writing`."""
        return asyncio.get_running_loop().run_in_executor(self._reads, call, *values)

    def writing(self, call: Callable[..., T], *values: object) -> asyncio.Future[T]:
        """A call that writes, or takes a file's lock, in a thread beside the running loop; in the order of calls."""
        return asyncio.get_running_loop().run_in_executor(self._writes, call, *values)

    def _make(self) -> None:
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            raise UnavailableError(f"{self.path}: has format {found}; this brrr reads {FORMAT}")
        if not found:
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT INTO salt VALUES (?)", (secrets.token_hex(16),))
            self._db.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._one:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._refused(error) from error
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query, as they stand on the disk."""
        try:
            return self._reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def write(self, statement: str, *values: object) -> int:
        """Change the file, and say how many rows; BrrrError where the disk does not take it."""
        with self._one:
            try:
                return self._db.execute(statement, values).rowcount
            except sqlite3.Error as error:
                raise self._refused(error) from error

    def _refused(self, error: sqlite3.Error) -> BrrrError:
        """Students read it: it names no folder."""
        advice = "the teacher must make room there"
        if "locked" in str(error) or "busy" in str(error):
            advice = "another program holds it: the teacher must end that, as `fuser` names it"
        return BrrrError(f"{self.path.name}: the class's file does not take it ({error}); {advice}")

    def close(self) -> None:
        """Give up what this process owns, once what is being written is written."""
        for thread in (self._reads, self._writes):
            thread.shutdown()
        self._reader.close()
        self._db.close()
        self._lock_of(self.owner).unlink(missing_ok=True)
        for lock in self._locks:
            lock.close()

    # -- who is alive: an owner holds a lock on a file, which the system gives back whatever ends the process ---------

    def hold(self, name: str = "") -> bool:
        """Hold the lock of that name, without one this owner's; False where another process has it."""
        path = self._lock_of(name or self.owner)
        lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "w")  # held as long as the process lives
        path.chmod(0o600)  # who may open it may hold it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._locks.append(lock)
        return True

    def alive(self, owner: str) -> bool:
        """Whether another process holds the lock of that owner."""
        try:
            with self._lock_of(owner).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock_of(owner).unlink(missing_ok=True)  # it was killed
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _lock_of(self, owner: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{owner}.lock")

    def _dead(self, table: str) -> Iterable[str]:
        owners = [str(owner) for (owner,) in self.read(f"SELECT DISTINCT owner FROM {table}")]
        return [owner for owner in owners if owner != self.owner and not self.alive(owner)]

    # -- what is asked for, and who measures it ----------------------------------------------------------------------

    def note(self, identity: str, user: str, asked: Query) -> None:
        """Keep a request until it is answered or cancelled."""
        what = json.dumps({"experiment": asked.experiment, "variants": asked.variants, "point": asked.point})
        self.write("INSERT INTO request VALUES (?, ?, ?, ?)", identity, user, what, self.owner)

    def forget(self, identity: str) -> None:
        """A request is answered, or nobody wants it any more."""
        self.write("DELETE FROM request WHERE id = ?", identity)

    def adopted(self) -> list[tuple[str, str, str]]:
        """What a gateway that is gone left behind, now this one's: id, user and what was asked, oldest first."""
        found = []
        for owner in self._dead("request"):
            found += self.read("SELECT id, user, asked FROM request WHERE owner = ? ORDER BY rowid", owner)
            self.write("UPDATE request SET owner = ? WHERE owner = ?", self.owner, owner)
        return found

    def claim(self, asked: Query, variants: Sequence[str], devices: Iterable[str]) -> list[str]:
        """Those of the variants that this process may measure: not those that another one alive does, or just did."""
        with self._transaction():
            for owner in self._dead("claim"):
                self.write("DELETE FROM claim WHERE owner = ?", owner)
            known = self.answers(asked, devices)
            for variant in variants:
                if variant not in known:
                    self.write("INSERT OR IGNORE INTO claim VALUES (?, ?, ?)", asked.key, variant, self.owner)
            query = "SELECT variant FROM claim WHERE key = ? AND owner = ?"
            mine = self._db.execute(query, (asked.key, self.owner)).fetchall()
        return [variant for variant in variants if (variant,) in mine]

    def release(self, asked: Query) -> None:
        """Give back what was claimed."""
        for variant in asked.variants:
            self.write("DELETE FROM claim WHERE key = ? AND variant = ? AND owner = ?", asked.key, variant, self.owner)

    # -- what was measured -------------------------------------------------------------------------------------------

    def answers(self, asked: Query, devices: Iterable[str]) -> dict[str, Answer]:
        """What is known of the variants at the point, of one device where it has them all, else of several."""
        marks = ", ".join("?" * len(known := list(devices)))
        at = (asked.experiment, version(asked.experiment), asked.key)
        # first what is not on the disk yet: another thread may be writing it
        rows = [(row[5], row[3], row[8]) for _, row in list(self.unsaved) if row[:3] == at and row[5] in known]
        rows += self.read(
            f"SELECT device, variant, answer FROM point WHERE experiment = ? AND version = ? AND point = ? "
            f"AND device IN ({marks})", *at, *known,
        )  # fmt: skip
        by_device: dict[str, dict[str, Answer]] = {}
        for device, variant, answer in rows:
            if variant in asked.variants:
                by_device.setdefault(device, {})[variant] = {**json.loads(answer), "device": device}
        found: dict[str, Answer] = {}
        for answers in sorted(by_device.values(), key=len):  # the device with the most comes last and stays
            found |= answers
        return found

    def device_at(self, asked: Query) -> str:
        """The device that measured something at the point already, so that its ratios come from one; else empty."""
        query = "SELECT device FROM point WHERE experiment = ? AND version = ? AND point = ?"
        found = self.read(query, asked.experiment, version(asked.experiment), asked.key)
        return str(found[-1][0]) if found else ""

    def known(self, name: str, devices: Iterable[str], after: int = 0) -> str:
        """The next rows of an experiment after that number, `PAGE` at most, as JSON: number, variant, answer."""
        marks = ", ".join("?" * len(known := list(devices)))
        rows = self.read(
            f"SELECT number, variant, answer FROM point WHERE experiment = ? AND version = ? AND number > ? "
            f"AND device IN ({marks}) ORDER BY number LIMIT {PAGE}", name, version(name), after, *known,
        )  # fmt: skip
        return f"[{', '.join(f'[{number}, {json.dumps(variant)}, {answer}]' for number, variant, answer in rows)}]"

    def keep(self, asked: Query, answers: Mapping[str, Answer], run: Mapping[str, Any], device: str, seconds: float,
             machine: Mapping[str, Any], alone: bool = True) -> None:  # fmt: skip
        """Keep what a worker answered: each row once, and of the failures those that would only come again.

        Memory may have been short because of what ran beside it: that is kept where it ran `alone`.
        Where the disk is full, BrrrError; what could not be written is tried again with the next answer.
        """
        values = (run["id"], device, json.dumps(machine), json.dumps(run))
        self.unsaved.append(("INSERT OR IGNORE INTO run VALUES (?, ?, ?, ?)", values))
        lasting = {*LASTING, "TimedOutError"} - (set() if alone else {"DeviceMemoryError"})
        for variant, answer in answers.items():
            if "cells" in answer or answer["error"] in lasting:
                cache = answer["cells"]["cache"] if "cells" in answer else ""
                row = (asked.experiment, version(asked.experiment), asked.key, variant, cache, device, run["id"],
                       seconds / len(answers), json.dumps(answer))  # fmt: skip
                self.unsaved.append(("INSERT OR IGNORE INTO point VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row))
        self.save()

    def save(self) -> None:
        """Write what is not on the disk yet, all of it or nothing."""
        try:
            with self._transaction():
                for statement, row in self.unsaved:
                    self._db.execute(statement, row)
        except BrrrError as error:
            raise BrrrError(f"{error}; {len(self.unsaved)} rows wait for it") from error
        self.unsaved.clear()

    def retry(self) -> None:
        """Forget the failures, so that their points are measured when they are asked for again."""
        self.write("""DELETE FROM point WHERE answer LIKE '{"error"%'""")

    def forget_measured(self, name: str, at: Mapping[str, str]) -> int:
        """Forget what was measured of an experiment where the axes have these values; how many rows there were."""
        names = [axis.name for axis in experiment(name).axes]
        if unknown := set(at) - set(names):
            raise ArgumentError("brrr class forget", "AXIS", sorted(unknown), f"some of {', '.join(names)}")
        rows = self.read("SELECT number, point FROM point WHERE experiment = ?", name)
        points = [(number, dict(zip(names, map(str, json.loads(key)[1:]), strict=True))) for number, key in rows]
        gone = [number for number, point in points if at.items() <= point.items()]
        return sum(self.write("DELETE FROM point WHERE number = ?", number) for number in gone)

    def answer(self, name: str, *given: str) -> None:
        """Keep somebody's answer: its kind, what it answers, and its text; the newest counts."""
        self.write("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)", self.digest(name), *given)

    def withdraw(self, name: str) -> int:
        """Take somebody's answers out, and that they agreed to be named; how many there were."""
        return self.write("DELETE FROM answer WHERE who = ?", self.digest(name))

    def digest(self, name: str) -> str:
        """Somebody as this file knows them where no name shall stand: the same each time, and in no other file."""
        ((salt,),) = self.read("SELECT value FROM salt")
        return digest(f"{salt} {name}")

    # -- the class's evening as a recording --------------------------------------------------------------------------

    def export(self, folder: Path) -> list[str]:
        """Write the newest machine's rows as a recording into `folder`/SLUG; a line for each file.

        Only rows of today's version of an experiment are written. A recording that is there gets what it lacks, as
        `brrr join` does. NotRecordedError where nothing was measured, RecordingError where they may not be joined.
        """
        every = [(typed(Machine, json.loads(machine)), typed(RunInfo, json.loads(info)))
                 for machine, info in self.read("SELECT machine, info FROM run ORDER BY rowid")]  # fmt: skip
        if not every:
            raise NotRecordedError(f"{self.path}: nothing was measured yet")
        machine = replace(every[-1][0], runs=tuple(info for each, info in every if each == every[-1][0]))
        rows: dict[str, list[Any]] = {}
        for name, variant, key, run, answer in self._exported(machine):
            if "cells" in answer:
                rows.setdefault(name, []).append(from_cells(answer["cells"], experiment(name), machine.device))
            else:
                machine = _with_failure(machine, run, name, variant, key, answer)
        found = [Recording(experiment(name), machine, tuple(each)) for name, each in rows.items()]
        said = add(target := folder / machine.slug, machine, found, self.path)
        older = len({each for each, _ in every}) - 1
        other = f"{older} other machines are in {self.path}, and not exported"
        return [*said, f"written to {target}", *([other] if older else [])]

    def _exported(self, machine: Machine) -> Iterator[tuple[str, str, str, str, Answer]]:
        runs = {run.id for run in machine.runs}
        query = "SELECT experiment, version, variant, point, run, answer FROM point ORDER BY number"
        for name, made, variant, key, run, answer in self.read(query):
            if run in runs and name in NAMES and made == version(name):
                yield name, variant, key, run, json.loads(answer)


def _with_failure(machine: Machine, run: str, name: str, variant: str, key: str, answer: Answer) -> Machine:
    point = dict(zip([axis.name for axis in experiment(name).axes], json.loads(key)[1:], strict=True))
    info = machine.run(run)
    assert info is not None
    failure = Failure(name, variant, point, answer["error"], answer["reason"])
    return machine.with_run(replace(info, failed=(*info.failed, failure)))


def _keep_private(path: Path) -> None:
    """Its owner's alone before SQLite opens it, which gives the files that it puts beside it the same rights."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if each.exists():
            each.chmod(0o600)


def device_of(machine: Machine, run: RunInfo) -> str:
    """What a row is found by beside its point: the devices with their UUIDs, driver, CUDA and torch, as a digest."""
    return digest(json.dumps([machine.slug, [asdict(each) for each in run.devices], run.software]))
