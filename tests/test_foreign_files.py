"""No command removes or overwrites what it did not write.

What a command writes, renames to or removes is heard in a first run. Then, in a fresh folder for each of these paths, a
stranger's file lies there, and must be there afterwards: in its place or, of what sets things aside, by another name.
"""

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_up
import peaks_made_up
import pytest
import timelines

from brrr.__main__ import main
from brrr.cli import calibrate, diagnose
from brrr.core.errors import BrrrError
from brrr.diagnosis.report import BEGIN
from brrr.roofline.peak import SweptCalls
from brrr_course.classroom import serving
from brrr_course.classroom.store import ClassStore
from brrr_course.cli import lab, new_lesson
from brrr_course.lessons import course
from brrr_course.site import build as site
from brrr_course.sources import isolated, samples, timeline_file
from brrr_course.sources.timers import FOLDER as TRACES

ROOT = Path(__file__).resolve().parents[1]
STRANGER = b"a stranger's file, which nobody has asked to lose\n"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_heard: list[tuple[set[str], set[str]]] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if not _heard or event not in ("open", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"):
        return
    touched, new = _heard[0]
    path = args[1] if event == "os.rename" else args[0]
    if not isinstance(path, str | os.PathLike) or (event == "open" and not (args[2] or 0) & WRITES):
        return
    (new if event == "open" and args[2] & os.O_EXCL else touched).add(os.path.abspath(path))


sys.addaudithook(_hear)


@contextmanager
def hearing(root: Path) -> Iterator[list[Path]]:
    """The paths below the root that are written or removed within it, but for files that can only be new ones."""
    found: list[Path] = []
    _heard.append((set(), set()))
    try:
        yield found
    finally:
        touched, new = _heard.pop()
        found += sorted(Path(path).relative_to(root) for path in touched - new if path.startswith(f"{root}{os.sep}"))


@dataclass(frozen=True)
class Command:
    """What is there before, what is run, and paths that no first run touches."""

    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    more: tuple[str, ...] = ()
    sets_aside: bool = False


def notebooks(root: Path, *names: str) -> None:
    (root / "lessons").mkdir(parents=True)
    for name in names:
        cell = {"cell_type": "markdown", "id": "a", "source": f"# {name}", "metadata": {}}
        content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (root / "lessons" / f"{name}.ipynb").write_text(json.dumps(content), "utf-8")


def two_recordings(root: Path) -> None:
    """One with samples and a timeline, and one that shall get them."""
    for run, size in (("first", "64"), ("second", "128")):
        made_up.record(root / run, made_up.GPU, {"size": [size]}, run=made_up.run_info(run))
    theirs = root / "second" / "h200"
    key: samples.Key = ((128,), "gpu", "hot", "second")
    samples.join(theirs / f"matmul{samples.ENDING}", {"second.00000": {key: {"host_s": [1e-6]}}})
    timeline_file.write(timelines.host_bound(2), theirs / TRACES / "matmul" / "new.json")


def class_of_one(root: Path) -> None:
    ClassStore(root / "class.db").close()


def in_class(*words: str) -> Callable[[Path], object]:
    return lambda root: main(["class", *(word.format(root=root) for word in words), "--cache", str(root / "class.db")])


def gateway(root: Path) -> None:
    """Its file that says how it is reached, as `serve` writes and removes it."""
    store, cache = ClassStore(root / "class.db"), root / "class.db"
    try:
        serving._tell_own(serving.serving_file(cache), "http://127.0.0.1:1", store)
        serving._forget_own(serving.serving_file(cache))
    finally:
        store.close()


def clone(root: Path) -> None:
    for name in ("data/lesson", "notebooks/source"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "solutions"))
    (root / "notebooks" / "source" / "solutions").mkdir()
    for name in ("brrr_course/experiments", "brrr_course/lessons/exercises"):
        (root / name).mkdir(parents=True)
    for name in ("data/claims.toml", "data/exercises.toml"):
        shutil.copy(ROOT / name, root / name)


def notebook_builder() -> Any:
    spec = importlib.util.spec_from_file_location("build_of_notebooks", ROOT / "notebooks" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORD = ["matmul", "--device", "cpu", "--only", "size=64"]
COMMANDS = {
    "site": Command(
        lambda root: [
            notebooks(root, "00_a", "01_b"),
            site.build(root / "out", device="cpu"),
            (root / "lessons" / "01_b.ipynb").unlink(),
        ],
        lambda root: site.build(root / "out", device="cpu"),
        ("out/notebooks/mine.ipynb", "out/notebooks/mine/data.csv"),
    ),
    "site anew": Command(
        lambda root: notebooks(root, "00_a"), lambda root: site.build(root / "out", device="cpu"), ("out/notebooks",)
    ),
    "record": Command(lambda root: None, lambda root: main(["record", *RECORD, "--out", str(root)])),
    "record more": Command(
        lambda root: main(["record", *RECORD, "--out", str(root)]),
        lambda root: main(["record", "matmul", "--device", "cpu", "--only", "size=128", "--out", str(root)]),
    ),
    "record --fresh": Command(
        lambda root: main(["record", *RECORD, "--out", str(root)]),
        lambda root: main(["record", *RECORD, "--out", str(root), "--fresh"]),
        sets_aside=True,
    ),
    "join": Command(
        two_recordings, lambda root: main(["join", str(root / "second/h200"), "--into", str(root / "first/h200")])
    ),
    "calibrate": Command(lambda root: None, lambda root: main(["calibrate", "--out", str(root)])),
    "calibrate again": Command(
        lambda root: main(["calibrate", "--out", str(root)]), lambda root: main(["calibrate", "--out", str(root)])
    ),
    "lab": Command(
        lambda root: notebooks(root, "00_start_here", "01_b"),
        lambda root: main(["lab", "--work", str(root / "work")]),
        ("work/.open-mine.html", "work/.00_start_here.guesses.json"),
    ),
    "lab --fresh": Command(
        lambda root: [notebooks(root, "00_start_here"), main(["lab", "--work", str(root / "work")])],
        lambda root: main(["lab", "--work", str(root / "work"), "--fresh", "00"]),
        ("work/.00_start_here.guesses.json",),
        sets_aside=True,
    ),
    "class token": Command(class_of_one, in_class("token", "ada", "--out", "{root}/tokens"), ("tokens/ada.token",)),
    "class export": Command(class_of_one, in_class("export", "{root}/out"), ("out", "out/cpu/machine.json")),
    "class answers": Command(class_of_one, in_class("answers", "{root}/answers.csv")),
    "class report": Command(class_of_one, in_class("report", "{root}/report.csv")),
    "class serve": Command(class_of_one, gateway),
    "diagnose --html": Command(
        lambda root: None, lambda root: main(["diagnose", str(root / "trace.json"), "--html", str(root / "page.html")])
    ),
    "new-lesson": Command(clone, lambda root: new_lesson.write(root, "19", "sorting")),
    "notebooks/build.py --out": Command(
        lambda root: None,
        lambda root: notebook_builder().build(ROOT / "notebooks/source/00_start_here.py", root, empty=True),
    ),
}
"""Every command that writes, of those in COMMANDS of both packages; `dev.py` has its own test (tests/test_setup.py)."""
READ_ONLY = {"doctor", "time", "claims", "compare"}


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_environment: None) -> None:
    """What takes long is played: measuring, the pages' content, JupyterLab."""

    class Pool:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Any:
            return SimpleNamespace(map=map, submit=lambda _: SimpleNamespace(result=lambda: "<p>why</p>"))

        def __exit__(self, *_: object) -> None: ...

    def page(path: Path, before: str, after: str, **_: object) -> Any:
        return SimpleNamespace(name=path.stem, html=f"<p>{path.stem}</p>", missing=())

    def pages(found: Any, asked: object) -> dict[str, str]:
        return {f"{each.name}.html": each.html for each in found} | {"index.html": "index"}

    def open_lab(work: Path, **_: object) -> int:
        with lab._announced(work, 9, "token", browser=True):
            return 0

    def lessons(name: str) -> Path:
        return next(tmp_path.glob("*/lessons")) if name == "notebooks" else ROOT / name

    peaks = replace(peaks_made_up.gpu_peaks(), sweeps={"some": SweptCalls.of(("m",), [(64,)], [2e-6])})
    found = SimpleNamespace(details=lambda: "said", to_html=lambda: f"{BEGIN}page")
    for where, name, value in (
        (site, "ProcessPoolExecutor", Pool), (site, "lesson_page", page), (site, "share", lessons),
        (site, "site_pages", pages),
        (isolated, "measure_step", made_up.measure), (calibrate, "calibrate", lambda *_, **__: peaks),
        (lab, "serve", open_lab), (lab, "share", lessons), (course, "share", lessons),
        (lab.webbrowser, "open", lambda _: True), (diagnose, "of_file", lambda *_: found),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, value)


def files(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_stranger_s_file_is_there_afterwards(name: str, tmp_path: Path, played: None) -> None:
    command = COMMANDS[name]
    first = tmp_path / "0"
    first.mkdir()
    command.prepare(first)
    with hearing(first) as touched:
        command.run(first)
    assert touched or command.more, "nothing is written"
    shutil.rmtree(first)
    for number, path in enumerate([*touched, *map(Path, command.more)], start=1):
        root = tmp_path / str(number)
        root.mkdir()
        command.prepare(root)
        if (root / path).is_dir():
            continue  # one of ours
        for parent in (root / path).parents:
            if parent.is_file():
                parent.unlink()
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(STRANGER)
        with suppress(BrrrError, SystemExit):
            command.run(root)
        there = files(root)
        assert STRANGER in there.get(path, b"") or (command.sets_aside and STRANGER in there.values()), path
        shutil.rmtree(root)


def test_every_command_is_here() -> None:
    from brrr.__main__ import COMMANDS as OWN
    from brrr_course.cli import COMMANDS as ADDED

    assert {name.split()[0] for name in COMMANDS} - {"notebooks/build.py"} | READ_ONLY == {*OWN, *ADDED}
