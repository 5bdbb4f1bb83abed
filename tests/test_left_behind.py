"""The check at each test's end: every kind of change fails the test that made it, by name, and is gone for the next."""

import os
import random
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import _shuffle

TESTS = Path(__file__).resolve().parent


class Change(NamedTuple):
    """A test's body, how what is said of it begins, and what holds for the next test."""

    body: str
    said: str
    then: str = "True"


CHANGES = (
    Change("os.environ['LEFT'] = 'here'", "environment: LEFT was not set, is 'here'", "'LEFT' not in os.environ"),
    Change("del os.environ['GIVEN']", "environment: GIVEN was 'yes', is not set", "os.environ['GIVEN'] == 'yes'"),
    Change("os.chdir('/')", "os.getcwd: was ", "os.getcwd() == here"),
    Change("signal.signal(signal.SIGTERM, print)", "signal handlers: SIGTERM was ",
           "signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"),
    Change("sys.path.insert(0, '/elsewhere')", "sys.path: was ", "'/elsewhere' not in sys.path"),
    Change("sys.path = ['/elsewhere', *sys.path]", "sys.path: was ", "'/elsewhere' not in sys.path"),
    Change("sys.argv.append('--more')", "sys.argv: was ", "'--more' not in sys.argv"),
    Change("sys.excepthook = print", "sys.excepthook: was ", "sys.excepthook is not print"),
    Change("logging.disable()", "logging.root.manager.disable: was 0", "not logging.root.manager.disable"),
    Change("socket.setdefaulttimeout(1.5)", "socket.getdefaulttimeout: was None", "not socket.getdefaulttimeout()"),
    Change("del sys.modules['colorsys']", "sys.modules: colorsys was taken out", "'colorsys' in sys.modules"),
    Change("sys.modules['colorsys'] = os", "sys.modules: colorsys was replaced", "sys.modules['colorsys'] is not os"),
    Change("sys.modules['made_up_one'] = types.ModuleType('made_up_one')", "sys.modules: made_up_one is the test's own",
           "'made_up_one' not in sys.modules"),
    Change("tmp_path.joinpath('own_one.py').touch(); monkeypatch.syspath_prepend(tmp_path); import own_one",
           "sys.modules: own_one is the test's own", "'own_one' not in sys.modules"),
    Change("numpy.seterr(all='raise')", "numpy.seterr: ", "numpy.geterr()['over'] == 'warn'"),
    Change("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype: was torch.float32",
           "torch.get_default_dtype() == torch.float32"),
    Change("torch.set_default_device('meta')", "torch's default device: was ", "torch.empty(1).device.type == 'cpu'"),
    Change("torch.set_float32_matmul_precision('high')", "torch's precision of float32: ",
           "torch.get_float32_matmul_precision() == 'highest'"),
    Change("torch.backends.fp32_precision = 'tf32'", "torch's precision of float32: ",
           "torch.backends.fp32_precision == 'none' and torch.backends.cudnn.allow_tf32"),
    Change("torch.backends.cudnn.allow_tf32 = False", "torch's precision of float32: ",
           "torch.backends.cudnn.allow_tf32 and torch.backends.cudnn.conv.fp32_precision == 'tf32'"),
    Change("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark: was False",
           "not torch.backends.cudnn.benchmark"),
    Change("torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.flash_sdp_enabled: was True",
           "torch.backends.cuda.flash_sdp_enabled()"),
    Change("matplotlib.rcParams['lines.linewidth'] = 9", "matplotlib.rcParams: lines.linewidth was ",
           "matplotlib.rcParams['lines.linewidth'] < 9"),
    Change("threading.Thread(target=time.sleep, args=(9,), name='lasting', daemon=True).start()",
           "threads: lasting still runs"),
)  # fmt: skip
HEAD = """
import colorsys, logging, matplotlib, numpy, os, pytest, signal, socket, sys, threading, time, torch, types, warnings
here = os.getcwd()
"""
BESIDE = """
def test_with_monkeypatch(monkeypatch, tmp_path):
    monkeypatch.setenv("LEFT", "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/elsewhere")
    monkeypatch.setitem(sys.modules, "colorsys", None)

def test_what_is_no_change():
    warnings.simplefilter("error")
    numpy.random.rand()
    import wave
    threading.Thread(target=time.sleep, args=(0.05,)).start()

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
        cwd=folder, env={**os.environ, "PYTHONPATH": search, "GIVEN": "yes", "BRRR_TEST_ORDER": ""},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    cases = ElementTree.parse(folder / "said.xml").iter("testcase")
    told = {".".join(map(str, map(case.get, ("classname", "name")))): [*case] for case in cases}
    return {name: "\n".join(each.text or "" for each in parts) for name, parts in told.items()}


def test_every_kind_of_change_fails_its_test_and_is_gone_for_the_next(tmp_path: Path) -> None:
    """A test for each change, and behind it one that the change must not reach."""
    body = "def test_{n}(monkeypatch, tmp_path):\n    {one.body}\n\n"
    then = "def test_{n}_then():\n    assert {one.then}\n\n"
    changing = HEAD + "".join((body + then).format(n=n, one=one) for n, one in enumerate(CHANGES))
    found = errors(tmp_path, test_tiny=changing, test_beside=HEAD + BESIDE, test_loaded=LOADED)
    for n, each in enumerate(CHANGES):
        assert f"\n{each.said}" in found[f"test_tiny.test_{n}"], (each, found[f"test_tiny.test_{n}"])
        assert n == len(CHANGES) - 1 or not found[f"test_tiny.test_{n}_then"], each
    green = {name.partition(".")[2] for name, said in found.items() if name.startswith("test_beside") and not said}
    assert green == {"test_with_monkeypatch", "test_what_is_no_change", "test_first"}, found
    assert "\nenvironment: LEFT was not set" in found["test_beside.test_last"]
    assert "Loading this file changes the process:\nenvironment: LEFT was" in found[".test_loaded"]


class Item(NamedTuple):
    """What is drawn of a test."""

    path: Path
    number: int


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.integers())
def test_a_seed_draws_the_order_of_files_and_of_the_tests_in_each(files: list[str], seed: int) -> None:
    made = [Item(Path(file), n) for n, file in enumerate(files)]
    orders = [[*made], [*made]]
    for order in orders:
        _shuffle(order, random.Random(seed))  # type: ignore[arg-type]
    assert orders[0] == orders[1] and sorted(orders[0]) == sorted(made)
    assert len([*groupby(orders[0], key=lambda item: item.path)]) == len({*files}), "a file's tests stay together"
