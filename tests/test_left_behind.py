"""The check at each test's end: every kind of change fails the test that made it, by name, and is gone for the next."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent


class Change(NamedTuple):
    """A test's body, how what is said of it begins, and what holds for the next test."""

    body: str
    said: str
    then: str = "True"


PLAIN = (
    Change("os.environ['LEFT'] = 'here'", "environment: LEFT was not set, is 'here'", "'LEFT' not in os.environ"),
    Change("del os.environ['GIVEN']", "environment: GIVEN was 'yes', is not set", "os.environ['GIVEN'] == 'yes'"),
    Change("os.chdir('/')", "os.getcwd: was ", "os.getcwd() == here"),
    Change("sys.path.insert(0, '/elsewhere')", "sys.path: was ", "'/elsewhere' not in sys.path"),
    Change("del sys.modules['colorsys']", "sys.modules: colorsys was taken out", "'colorsys' in sys.modules"),
    Change("torch.set_num_threads(7)", "torch.get_num_threads: was ", "torch.get_num_threads() != 7"),
    Change("threading.Thread(target=time.sleep, args=(9,), name='lasting', daemon=True).start()",
           "threads: lasting still runs"),
)  # fmt: skip
HEAD = """
import colorsys, os, sys, threading, time, torch, warnings
here = os.getcwd()
"""
PUT_BACK = f"""{HEAD}
def test_with_monkeypatch(monkeypatch, tmp_path):
    monkeypatch.setenv("LEFT", "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/elsewhere")
    monkeypatch.setitem(sys.modules, "colorsys", None)

def test_what_is_no_change():
    warnings.simplefilter("error")
    torch.rand(2)
    import wave
    threading.Thread(target=time.sleep, args=(0.05,)).start()
"""
OF_A_FILE = """
import os
import pytest

@pytest.fixture(scope="module")
def kept():
    os.environ["LEFT"] = "here"

def test_first(kept): pass
def test_last(kept): pass
"""
LOADED = "import os\nos.environ['LEFT'] = 'here'\ndef test_it(): pass\n"


def errors(folder: Path, **files: str) -> dict[str, str]:
    """What a run of these files of tests, with this folder's fixtures, says of each test: nothing if it is green."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    search = os.pathsep.join((str(TESTS), str(TESTS.parent)))
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--junitxml=said.xml"]
    ran = subprocess.run(
        [*command, "--continue-on-collection-errors", *(f"{name}.py" for name in files)],
        cwd=folder, env={**os.environ, "PYTHONPATH": search, "GIVEN": "yes"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    cases = ElementTree.parse(folder / "said.xml").iter("testcase")
    told = {".".join(map(str, map(case.get, ("classname", "name")))): [*case] for case in cases}
    return {name: "\n".join(each.text or "" for each in parts) for name, parts in told.items()}


def written(changes: Sequence[Change]) -> str:
    """A file with a test for each change, and behind it one that the change must not reach."""
    body = "def test_{n}(monkeypatch, tmp_path):\n    global torch, matplotlib\n    {one.body}\n\n"
    then = "def test_{n}_then():\n    assert {one.then}\n\n"
    return HEAD + "".join((body + then).format(n=n, one=one) for n, one in enumerate(changes))


def compared(changes: Sequence[Change], found: dict[str, str]) -> None:
    for n, each in enumerate(changes):
        assert f"\n{each.said}" in found[f"test_tiny.test_{n}"], (each, found[f"test_tiny.test_{n}"])
        assert n == len(changes) - 1 or not found[f"test_tiny.test_{n}_then"], each


def test_every_kind_of_change_fails_its_test_and_is_gone_for_the_next(tmp_path: Path) -> None:
    files = {"test_tiny": written(PLAIN), "test_put_back": PUT_BACK, "test_of_a_file": OF_A_FILE, "test_loaded": LOADED}
    found = errors(tmp_path, **files)
    compared(PLAIN, found)
    assert not found["test_put_back.test_with_monkeypatch"] and not found["test_put_back.test_what_is_no_change"]
    assert not found["test_of_a_file.test_first"], "what its fixture changes is there for all of its tests"
    assert "\nenvironment: LEFT was not set" in found["test_of_a_file.test_last"]
    assert "Loading this file changes the process:\nenvironment: LEFT was" in found[".test_loaded"]
