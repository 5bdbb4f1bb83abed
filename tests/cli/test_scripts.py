"""`brrr diagnose` of scripts and modules: run as Python runs them, with forks, pools and what happens at the end."""

import atexit
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brrr.cli import diagnose
from brrr.cli.diagnose import main

SEEN = """
import __main__, os, sys
spec = __spec__ and (__spec__.name, __spec__.origin)
print([__name__, __file__, __package__, spec, sys.argv, sys.path[0], os.getcwd(), __main__.SEEN is SEEN])
""".replace("\nspec", "\nSEEN = object()\nspec", 1)


@pytest.fixture(autouse=True)
def not_at_the_end() -> Iterator[None]:
    """At the process's end a script is the main module once more: not here, where this process is the tests'."""
    yield
    atexit.unregister(diagnose._become)


@pytest.mark.parametrize("arguments", [[], ["--json", "-m", "x"], ["--", "-v", "", "b.py"]])
@pytest.mark.parametrize("called", [
    ["pack/script.py"], ["SCRIPT"], ["without"], ["pack/../pack/trace"], ["-m", "pack.script"], ["-m", "pack"],
])  # fmt: skip
def test_a_script_sees_what_it_sees_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], called: list[str],
    arguments: list[str],
) -> None:  # fmt: skip
    (tmp_path / "pack").mkdir()
    for name in ("pack/script.py", "pack/__main__.py", "pack/trace", "without"):
        (tmp_path / name).write_text(f"#!/usr/bin/env python3\n{SEEN}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    called = [each.replace("SCRIPT", str(tmp_path / "pack" / "script.py")) for each in called]
    by_python = subprocess.run([sys.executable, *called, *arguments], capture_output=True, text=True, check=True)
    for each in [each for each in sys.modules if each.split(".")[0] == "pack"]:
        monkeypatch.delitem(sys.modules, each)
    assert main(["--seconds", "60", *called, *arguments]) == 2, "no operator ran"
    assert capfd.readouterr().out == by_python.stdout
    for each in [each for each in sys.modules if each.split(".")[0] == "pack"]:
        del sys.modules[each]


@pytest.mark.parametrize("content", ["{", "[1]", "\x1f\x8b", "", "print('ran')", "#!/bin/python\nprint('ran')"])
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace"])
def test_what_may_be_a_trace_is_only_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, name: str
) -> None:
    """Nothing that is named as a trace runs, and nothing else but by its first line."""
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert main([str(path), "--json"]) == 2
    assert (capfd.readouterr().out == "ran\n") == (content.startswith("#!") and name == "trace")


def test_a_module_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "nowhere.to.be.found"]) == 1
    assert "No module named 'nowhere'" in capfd.readouterr().err


def test_state_is_the_scripts_again_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, kept = tmp_path / "script.py", (sys.modules["__main__"], sys.argv, sys.path, os.getcwd())
    (tmp_path / "inner").mkdir()
    script.write_text("import os\nclass Own: pass\nos.chdir('inner')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    at_end: list[tuple[Any, ...]] = []
    register = atexit.register
    kept_back = lambda *each: at_end.append(each) if each[0] is diagnose._become else register(*each)  # noqa: E731
    monkeypatch.setattr(atexit, "register", kept_back)
    assert main(["script.py", "1"]) == 2 and Path.cwd() == tmp_path
    become, *given = at_end[-1]
    try:
        become(*given)
        assert hasattr(sys.modules["__main__"], "Own") and sys.argv == ["script.py", "1"]
        assert sys.path[0] == str(tmp_path) and Path.cwd() == tmp_path / "inner"
    finally:
        diagnose._become(*kept[:3], str(tmp_path))


# Children end in each way that Python has; the parent goes on, and saves at its end.
FORKS = """
import atexit, os, pickle, sys, tempfile, threading, torch
class Net(torch.nn.Linear): pass
net, process = Net(64, 64), os.getpid()
def save(): os.write(1, f"saved {len(pickle.dumps(net)) > 100} {sys.argv[1:]} {os.getpid() == process}\\n".encode())
atexit.register(save)
os.chdir(tempfile.gettempdir())

def ends(how):
    child = os.fork()
    if child: return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if how == "exit": sys.exit(3)
    if how == "said": sys.exit("why")
    if how == "left": os._exit(7)
    if how == "raised": raise KeyError("mine")
    if how == "thread": threading.Thread(target=print, args=("thread's",)).start()
    if how == "daemon":
        if not os.fork(): sys.exit(5)
    raise SystemExit

print([ends(how) for how in ("exit", "said", "left", "raised", "thread", "daemon", "none")], flush=True)
print("parent", flush=True)
sys.stdout = open(os.devnull, "w")
for _ in range(50): net(torch.randn(8, 64))
sys.exit(None)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_end_where_the_script_does_and_its_end_is_its_own(tmp_path: Path) -> None:
    """In a process of its own, whose children are forks of all that."""
    script = tmp_path / "script.py"
    script.write_text(FORKS, encoding="utf-8")
    command = [sys.executable, "-m", "brrr", "diagnose", str(script), "one"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, start_new_session=True)
    assert done.returncode == 0, done.stderr
    before, _, after = done.stdout.partition("parent\n")
    assert before.count("[3, 1, 7, 1, 0, 0, 0]") == 1 and "thread's" in before
    assert before.count("saved True ['one'] False") == 7, "all but the one that left at once"
    assert after.count("of a step") == 1 and "addmm" in after
    assert done.stderr.count("KeyError: 'mine'") == 1 and done.stderr.count("why") == 1
    assert "other processes computed for" in done.stderr


BURN = "import subprocess, sys, time\nburn = [sys.executable, '-S', '-c', 'sum(range(10**7)); input()']\n"
TORCH = "import torch\nfor _ in range(9): torch.ones(64, 64) @ torch.ones(64, 64)\n"


@pytest.mark.parametrize(("text", "told"), [
    (f"{BURN}subprocess.run(burn, input=b'x')", True),
    (f"{BURN}{TORCH}run = subprocess.Popen(burn, stdin=-1)\ntime.sleep(0.4)", True),
    (f"{TORCH}print('alone')", False),
])  # fmt: skip
def test_what_other_processes_did_is_said_not_to_be_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, told: bool
) -> None:
    """Of those that have ended, and of those that still run."""
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    code, said = main([str(tmp_path / "script.py")]), capfd.readouterr()
    assert ("other processes computed for" in said.err) == told
    assert code == (0 if TORCH in text else 2) and ("of a step" in said.out) == (TORCH in text)
    assert "ran in its process: nothing is diagnosed" in said.err or TORCH in text
