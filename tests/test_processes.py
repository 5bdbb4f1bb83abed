"""Every process that brrr starts ends with the one that started it, and imports nothing from the current folder."""

import ast
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from brrr.core.private import python
from brrr_course.cli import lab

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows tells nobody that a parent is gone")

WITH_ITS_PARENT = "it looks for its parent (`brrr.core.private.end_with`)"
SOON = "a program that answers one question, within a time limit"
STARTED = {
    "brrr/gpu/probe.py": SOON,
    "brrr/kernels/alone.py": "the same few launches in Triton's interpreter, which end by themselves",
    "brrr_course/classroom/serving.py": SOON,
    "brrr_course/classroom/worker.py": WITH_ITS_PARENT,
    "brrr_course/classroom/teacher.py": WITH_ITS_PARENT,
    "brrr_course/cli/lab.py": "it reads from a pipe that closes (test_lab.py), and is killed where it then hangs",
    "brrr_course/experiments/adds.py": "a compiler of thirty lines, which ends by itself",
    "brrr_course/experiments/ranks.py": WITH_ITS_PARENT,
    "brrr_course/hatch/tracked.py": SOON,
    "brrr_course/site/build.py": WITH_ITS_PARENT,
    "brrr_course/sources/first_call.py": WITH_ITS_PARENT,
}
"""By the file that starts it, how a process ends when its parent is killed."""
DASK = {"brrr_course/classroom/engine.py"}
"""dask's own processes watch their parents; what they start is a worker's (above)."""
STARTERS = {
    "Popen", "ProcessPoolExecutor", "Process", "check_call", "check_output", "create_subprocess_exec", "fork", "execv",
    "create_subprocess_shell", "get_context", "posix_spawn", "spawnv", "startfile", "system",
}  # fmt: skip


def starts(path: Path) -> bool:
    """Whether a file's code calls what starts a process."""
    calls = (each.func for each in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(each, ast.Call))
    for func in calls:
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        of = func.value.id if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else ""
        if (name in STARTERS and of not in ("psutil", "platform")) or (of == "subprocess" and name in ("run", "call")):
            return True
    return False


def test_every_place_that_starts_a_process_is_known() -> None:
    found = {path.relative_to(ROOT).as_posix() for top in ("brrr", "brrr_course") for path in (ROOT / top).rglob("*.py")
             if starts(path)}  # fmt: skip
    assert found - DASK == {*STARTED}


SLEEPS = "import time\ntime.sleep(120)\n"
PARENTS = {
    "a module": "import subprocess; from brrr.core.private import python; subprocess.run(python('sleeper'))",
    "a module in a thread": """
import subprocess, threading, time
from brrr.core.private import python
threading.Thread(target=subprocess.run, args=(python('sleeper'),)).start()
time.sleep(120)
""",
    "a module of a module": """
import subprocess; from brrr.core.private import python; subprocess.run(python('middle'))
""",
    "a leader of its group": """
import subprocess; from brrr.core.private import python
subprocess.Popen(python('leader'), start_new_session=True).wait()
""",
    "the site's pool": """
import os, time
from concurrent.futures import ProcessPoolExecutor
from brrr_course.site import build
def played(*_, **__): pass
build.lesson_page = time.sleep
build.partial = lambda f, **_: f
build.roads = lambda paths: {each: (120, 120) for each in paths}
class Pool(ProcessPoolExecutor):
    def map(self, function, *_):
        return super().map(function, [120, 120])
build.ProcessPoolExecutor = Pool
if __name__ == "__main__":
    from pathlib import Path
    build.build(Path("out"))
""",
    "ranks": """
import os, time
from multiprocessing import get_context
from brrr_course.experiments.ranks import Rank, _serve
if __name__ == "__main__":
    ours, theirs = get_context("spawn").Pipe()
    get_context("spawn").Process(target=_serve, args=(theirs, Rank(0, 1, "cpu"), os.getpid())).start()
    ours.send((time.sleep, (120,)))
    time.sleep(120)
""",
}


def until(found: Callable[[], Any], limit_s: float = 60.0) -> Any:
    end_s = time.monotonic() + limit_s
    while not (value := found()) and time.monotonic() < end_s:
        time.sleep(0.05)
    return value


@pytest.mark.parametrize("kind", PARENTS)
def test_killed_it_leaves_nobody(kind: str, tmp_path: Path) -> None:
    for name, text in (("sleeper", SLEEPS), ("parent", PARENTS[kind]), ("middle", PARENTS["a module"]),
                       ("leader", "import subprocess; subprocess.run(['sleep', '120'])")):  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    with subprocess.Popen([sys.executable, "-P", str(tmp_path / "parent.py")], cwd=tmp_path, env=environment) as parent:
        process = psutil.Process(parent.pid)
        least = {"a module of a module": 2, "a leader of its group": 2, "the site's pool": 3}.get(kind, 1)
        assert until(lambda: len(process.children(recursive=True)) >= least), "nothing was started"
        time.sleep(random.Random(kind).uniform(0, 1.5))  # they have begun, or not yet
        descendants = process.children(recursive=True)
        parent.kill()
    assert psutil.wait_procs(descendants, timeout=60)[1] == []


HANGS = """
import signal, time
def main(arguments):
    signal.signal(signal.SIGTERM, lambda *_: time.sleep(120))
    print("up", flush=True)
    time.sleep(120)
"""


def test_a_server_whose_end_hangs_is_stopped_with_its_group(tmp_path: Path) -> None:
    (tmp_path / "jupyterlab").mkdir()
    (tmp_path / "jupyterlab" / "__init__.py").touch()
    (tmp_path / "jupyterlab" / "labapp.py").write_text(HANGS)
    code = lab.WHILE_HEARD.replace(f"time.sleep({lab.STOP_S:g})", "time.sleep(0.3)")
    assert code != lab.WHILE_HEARD
    pipes: Any = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-P", "-c", code], env=environment, start_new_session=True, **pipes) as made:
        assert made.stderr is not None and made.stdin is not None and made.stderr.readline() == b"up\n"
        made.stdin.close()
        assert made.wait(30) == -9


# -- what they import


def imported() -> set[str]:
    """The packages that brrr's code imports anywhere, its own and those of extras too."""
    found: set[str] = set()
    for path in (path for top in ("brrr", "brrr_course") for path in (ROOT / top).rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in each.names] if isinstance(each, ast.Import) else []
            if isinstance(each, ast.ImportFrom) and not each.level:
                names.append(each.module or "")
            found |= {name.partition(".")[0] for name in names}
    return found - {"brrr", "__future__", "_thread"}


BEFORE = "import runpy, sys, {package}; print(*{{name.partition('.')[0] for name in sys.modules}})"
"""What is loaded before any line of ours could forbid it: `python -m` itself, and the package's first lines."""
RECORDED = ["claims", "matmul", "--source", "recorded:cpu"]
ENTRIES: dict[str, list[str]] = {
    "python -m brrr": [sys.executable, "-m", "brrr", "--version"],
    "python -m brrr_course": [sys.executable, "-m", "brrr_course", *RECORDED],
    "python -m brrr time": [sys.executable, "-m", "brrr", "time", "mine()", "--setup", "from mine_alone import mine"],
    "python -m brrr diagnose": [sys.executable, "-m", "brrr", "diagnose", "script.py"],
    "python -m brrr doctor": [sys.executable, "-m", "brrr", "doctor"],
    "python -m brrr class": [sys.executable, "-m", "brrr", "class", "token", "ada", "--cache", "class.db"],
    "brrr": [sys.executable, str(Path(sys.executable).with_name("brrr")), "time", "1+1"],
    "dev.py": [sys.executable, str(ROOT / "dev.py"), "class", "--here", "token", "ada", "--cache", "{folder}/class.db"],
    "what brrr starts": python("brrr", "time", "1+1"),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_is_imported_from_the_current_folder(entry: str, tmp_path: Path) -> None:
    """Modules of all names that brrr imports lie there; what a statement and a script import is found all the same."""
    settings: Any = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    settings["env"] = {**os.environ, "PYTHONPATH": str(ROOT) if entry == "what brrr starts" else ""}
    package = "brrr_course" if entry.endswith("course") else "brrr"
    early = set(subprocess.run([sys.executable, "-P", "-c", BEFORE.format(package=package)], **settings).stdout.split())
    own = {"python -m brrr diagnose": {"torch"}, "python -m brrr_course": {"brrr_course"}}  # what is asked for there
    for name in imported() - early - own.get(entry, set()):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'TAKEN')!r}, 'a').write('{name} ')", "utf-8")
    (tmp_path / "mine_alone.py").write_text("def mine(): return sum(range(100))", "utf-8")
    (tmp_path / "script.py").write_text("import torch, mine_alone; torch.ones(9) + mine_alone.mine()", "utf-8")
    command = [each.replace("{folder}", str(tmp_path)) for each in ENTRIES[entry]]
    if entry == "brrr" and not Path(command[1]).exists():
        pytest.skip("no console script beside this Python")
    done = subprocess.run(command, **settings)
    taken = tmp_path / "TAKEN"
    assert not taken.exists(), f"{taken.read_text()}\n{done.stderr}"
    assert done.returncode == 0, done.stdout + done.stderr
