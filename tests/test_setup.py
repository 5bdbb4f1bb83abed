"""dev.py: which Python, which packages, when to install again, what to say; and what the built package holds.

That a machine is set up as a whole CI does, on Linux, macOS and Windows (.github/workflows/tests.yml).
"""

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dev as real_dev

ROOT = Path(__file__).resolve().parent.parent
GOOD = {"version": [3, 12, 1], "machine": "x86_64", "bits": 64, "lacks": "", "path": "/usr/bin/python3.12"}
OLD = {**GOOD, "version": [3, 9, 2], "path": "/usr/bin/python3.9"}
NO_VENV = {**GOOD, "version": [3, 11, 2], "lacks": "ensurepip", "path": "/usr/bin/python3.11"}
NEWER = {**GOOD, "version": [3, 15, 0]}
SETTINGS = ("pyproject.toml", "brrr_course/pyproject.toml", "constraints.txt", "hashes.txt")


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """dev.py, moved to an empty folder under Linux, without GPU, proxy, wheelhouse, network."""
    (tmp_path / "brrr_course").mkdir()
    for name in SETTINGS:
        shutil.copy(ROOT / name, tmp_path / name)
    for name, folder in (("ROOT", "."), ("COURSE", "brrr_course"), ("VENV", ".venv")):
        monkeypatch.setattr(real_dev, name, str(tmp_path / folder))
    monkeypatch.setattr(real_dev, "gpu_present", lambda: False)
    monkeypatch.setattr(real_dev, "reachable", lambda url, seconds=3.0: False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WHEELHOUSE", raising=False)
    return real_dev


def pythons(dev: ModuleType, monkeypatch: pytest.MonkeyPatch, *probes: dict | None) -> None:
    """Let these be the Pythons of the machine, in the order in which they are tried."""
    monkeypatch.setattr(dev, "candidates", lambda: [[str(number)] for number in range(len(probes))])
    monkeypatch.setattr(dev, "probe", lambda command: probes[int(command[0])])


# -- the file itself, and what calls it


def test_an_old_python_without_packages_gets_as_far_as_a_message() -> None:
    module = ast.parse((ROOT / "dev.py").read_text("utf-8"), feature_version=(3, 6))
    nodes = list(ast.walk(module))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert "subprocess" in names and {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_help_an_unknown_command_and_the_makefile_name_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    every = {*real_dev.COMMANDS, "usb", "clean"}
    with pytest.raises(real_dev.SetupError, match="'tset'") as caught:
        real_dev.main(["tset"])
    assert real_dev.main(["--help"]) == 0
    assert all(name in text for text in (capsys.readouterr().out, str(caught.value)) for name in every)
    text = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.search(r"^(lab .*):$", text, re.MULTILINE)[1].split()) == {*every, "help"}  # type: ignore[index]
    assert '"$(PYTHON)" dev.py $@ $(ARGS)' in text


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
def test_make_without_a_python_says_so() -> None:
    done = subprocess.run(["make", "lab", "PYTHON="], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode and "Python 3.11" in done.stdout


# -- which Python


def test_what_does_not_run_is_no_candidate(dev: ModuleType) -> None:
    assert dev.probe(["/no/such/python"]) is dev.probe([sys.executable, "-c", "raise SystemExit(3)"]) is None


@pytest.mark.parametrize("probes", [(OLD, None, NO_VENV, GOOD, NEWER), (NEWER, GOOD), (NEWER,)])
def test_the_first_fitting_python_is_taken_and_a_newer_one_only_alone(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, probes: tuple[dict | None, ...]
) -> None:
    pythons(dev, monkeypatch, *probes)
    assert dev.find_python() == (GOOD if GOOD in probes else NEWER)


@pytest.mark.parametrize(
    ("release", "python", "words"),
    [
        ("ID=debian\n", NO_VENV, ["3.11.2", "ensurepip", "apt install python3.11-venv"]),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', OLD, ["3.9.2", "apt install python3 python3-venv"]),
        ("ID=fedora\n", OLD, ["dnf install"]), ("ID=arch\n", OLD, ["pacman"]),
        ("ID=other\n", None, ["found: none", "python.org"]),
    ],
)  # fmt: skip
def test_no_python_says_what_to_install_and_makes_nothing(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, release: str, python: dict | None, words: list[str]
) -> None:
    (Path(dev.ROOT) / "os-release").write_text(release)
    family = dev.linux_family(os.path.join(dev.ROOT, "os-release"))
    monkeypatch.setattr(dev, "linux_family", lambda: family)
    pythons(dev, monkeypatch, python)
    with pytest.raises(dev.SetupError) as caught:
        dev.main(["lab"])
    assert all(word in str(caught.value) for word in words) and not os.path.exists(dev.VENV), str(caught.value)


@pytest.mark.parametrize(
    ("platform", "macos", "probe", "lacks"),
    [
        ("darwin", "14.5", {}, "Intel"), ("darwin", "12.7", {"machine": "arm64"}, "macOS 12.7"),
        ("win32", "", {"bits": 32}, "64-bit"), ("darwin", "14.0", {"machine": "arm64"}, ""), ("linux", "", {}, ""),
        ("win32", "", {"machine": "AMD64"}, ""),
    ],
)  # fmt: skip
def test_machines_without_torch_are_told_so(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str, macos: str, probe: dict, lacks: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(dev.platform, "mac_ver", lambda: (macos, ("", "", ""), ""))
    with pytest.raises(dev.SetupError, match=lacks) if lacks else contextlib.nullcontext():
        dev.check_machine({**GOOD, **probe})


def test_a_full_disk_and_a_folder_that_cannot_be_written_to_are_told_before_the_download(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pythons(dev, monkeypatch, GOOD)
    monkeypatch.setattr(dev, "NEEDED_GB", dict.fromkeys(dev.NEEDED_GB, 1e9))
    with pytest.raises(dev.SetupError, match="GB are free"):
        dev.make_venv()
    monkeypatch.setattr(dev.os, "access", lambda path, mode: False)
    with pytest.raises(dev.SetupError, match="cannot be written to"):
        dev.make_venv()


# -- which packages


def test_cpu_build_is_preferred_where_its_index_answers(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dev.torch_options() is None
    monkeypatch.setattr(dev, "reachable", lambda url: url.startswith(dev.CPU_INDEX))
    assert dev.torch_options() == ["--no-deps", "--index-url", dev.CPU_INDEX]
    assert dev.index_options() == [], "no other package is looked for there"
    monkeypatch.setattr(dev, "gpu_present", lambda: True)
    assert dev.torch_options() is None


def test_a_wheelhouse_shuts_out_every_index_and_is_for_one_python(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dev, "probe", lambda command: GOOD)
    house = tmp_path / "my wheels"
    house.mkdir()
    monkeypatch.setenv("WHEELHOUSE", str(house))
    with pytest.raises(dev.SetupError, match="holds no packages"):
        dev.index_options()
    (house / "torch-2.13.0-cp311-cp311-any.whl").touch()
    assert dev.index_options() == ["--no-index", "--find-links", str(house)]
    with pytest.raises(dev.SetupError, match="another Python"):
        dev.check_wheelhouse()
    (house / "torch-2.13.0-cp312-cp312-any.whl").touch()
    dev.check_wheelhouse()


def test_an_address_is_reachable_where_it_answers_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = threading.Event()

    def answer(request: Any, timeout: float) -> Any:
        if "silent" in request.full_url:
            silent.wait(30)
        status = 404 if "lacking" in request.full_url else 200
        return contextlib.nullcontext(SimpleNamespace(status=status))

    monkeypatch.setattr(real_dev.urllib.request, "urlopen", answer)
    addresses = ("http://there", "http://lacking", "no address", "http://silent")
    assert [real_dev.reachable(each, seconds=0.3) for each in addresses] == [True, False, False, False]
    silent.set()


def test_failed_cuda_item_costs_only_itself(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(dev, "fetch", lambda wanted, where: tried.append(wanted[0]) or "pycuda" not in wanted[0])
    dev.install_cuda([])
    assert tried == [requirement for requirement, _ in dev.CUDA_ITEMS]
    said = capsys.readouterr().out
    assert said.count("Not installed") == 1 and "pycuda" in said and "CUDA C++" in said


@pytest.mark.parametrize("known", [True, False])
def test_each_file_is_held_against_its_hash(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    """Also what a package brings along; the CPU build's hash is one of its release's."""
    taken = {"metadata": {"name": "Brrr.Big", "version": "1.0+cpu"}, "download_info": {}}
    own = {"metadata": {"name": "brrr", "version": "2.0"}, "download_info": {"dir_info": {}}}
    Path(dev.ROOT, "hashes.txt").write_text(
        f"# what\nbrrr-{'big' if known else 'other'}==1.0 \\\n    --hash=sha256:ab\n"
    )
    ran: list[tuple[str, ...]] = []

    def pip(*words: str) -> bool:
        ran.append(words)
        if "--dry-run" in words:
            Path(words[words.index("--report") + 1]).write_text(json.dumps({"install": [taken, own]}))
        else:
            assert Path(words[words.index("--requirement") + 1]).read_text() == "Brrr.Big==1.0+cpu --hash=sha256:ab"
        return True

    monkeypatch.setattr(dev, "pip", pip)
    assert dev.fetch(["brrr-big"], ["--find-links", "here"], "out") is known
    assert ("brrr-big==1.0 is not in hashes.txt" in capsys.readouterr().out) is not known
    assert all(words[-2:] == ("--find-links", "here") for words in ran) and len(ran) == 1 + known
    assert not known or {"wheel", "--no-deps", "--require-hashes"} < {*ran[1]}


def test_a_bar_tells_how_much_of_the_packages_is_there(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    for name in ("index", "folder", "packages"):
        (tmp_path / name).mkdir()
    (tmp_path / "index" / "big.whl").write_bytes(bytes(8_000_000))
    monkeypatch.setattr(dev, "site_packages", lambda: str(tmp_path / "packages"))
    found = [{"download_info": {"url": (tmp_path / "index" / "big.whl").as_uri()}}]
    for part, where, size in (("2 of 8 MB downloaded", "folder", 2), ("4 of 8 MB installed", "packages", 16.8)):
        with dev.shown_progress(found, str(tmp_path / "folder")):
            assert os.environ["TMPDIR"] == str(tmp_path / "folder")
            (tmp_path / where / "big").write_bytes(bytes(int(size * 1e6)))
            while part not in shown.getvalue():
                time.sleep(0.05)
    assert "[####" in shown.getvalue() and "s left" in shown.getvalue() and os.environ.get("TMPDIR") is None


def test_a_caller_s_files_are_found_from_the_repository(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setattr(dev.os, "execv", lambda *_: None)
    monkeypatch.setattr(dev, "WINDOWS", False)
    monkeypatch.setenv("BRRR_TOKEN_FILE", "ada:1.token")
    monkeypatch.setenv("BRRR_RECORDINGS", f"a{os.pathsep}/b")
    dev.become(["python"])
    assert os.environ["BRRR_TOKEN_FILE"] == str(tmp_path / "mine" / "ada:1.token")
    assert os.environ["BRRR_RECORDINGS"] == f"{tmp_path / 'mine' / 'a'}{os.pathsep}/b" and os.getcwd() == str(tmp_path)


# -- when to install again


@pytest.fixture
def installs(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was installed, of a set-up whose slow steps are played; from "no network" on it fails."""
    done: list[list[str]] = []

    def make_venv() -> None:
        python = Path(dev.venv_python())
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        (Path(dev.VENV) / "pyvenv.cfg").write_text("version = 3.12.1\n")

    def install(extras: list[str], there: set[str]) -> None:
        done.append(extras)
        if "no network" in os.environ:
            raise dev.SetupError("no network")

    monkeypatch.setattr(dev, "make_venv", make_venv)
    monkeypatch.setattr(dev, "install", install)
    return done


def test_what_is_there_is_not_installed_again_and_a_failed_set_up_is_not_there(
    dev: ModuleType, installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dev.ensure("base") == dev.venv_python()
    for extra in ("base", "dev", "base", "dev"):
        dev.ensure(extra)
    assert installs == [["base"], ["base", "dev"]]
    with monkeypatch.context() as failing:
        failing.setenv("no network", "1")
        with pytest.raises(dev.SetupError):
            dev.ensure("class")
    dev.ensure("base")
    assert installs[2:] == [["base", "class", "dev"], ["base"]]


@pytest.fixture
def started(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What `lab` started in the background; the lessons open by themselves."""
    found: list[list[str]] = []
    monkeypatch.setattr(dev.subprocess, "Popen", lambda command, stdout: found.append(command))
    monkeypatch.setattr(dev, "become", lambda command: 0)
    return found


def test_the_lessons_open_before_torch_is_there(
    dev: ModuleType, installs: list[list[str]], started: list[list[str]], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What fails in the background is said, costs nothing that is there, and goes on with the next call."""
    note, gentle = Path(dev.coming_path()), []
    monkeypatch.setattr(dev.os, "nice", gentle.append, raising=False)
    for fails in (True, False):
        assert dev.main(["lab"]) == 0 and started.pop()[1:] == [dev.__file__, "rest"] and note.read_text()
        with monkeypatch.context() as network:
            if fails:
                network.setenv("no network", "1")
            assert dev.main(["rest"]) == 0
        assert note.read_text() == "" and ("no cell waits" in (said := capsys.readouterr().err)) is not fails
        assert not fails or ("no network" in said and "Ctrl-C, then `make lab`" in said)
    assert len(gentle) == 2, "a lesson is open meanwhile"
    assert installs == [[], ["base"], ["base"]] and dev.main(["lab"]) == 0 and not started


@pytest.mark.parametrize("machine", ["a GPU", "a Mac"])
def test_where_lessons_measure_at_once_all_is_there_before_they_open(
    dev: ModuleType, installs: list[list[str]], started: list[list[str]], monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(dev, "gpu_present", lambda: machine == "a GPU")
    monkeypatch.setattr(sys, "platform", "darwin" if machine == "a Mac" else "linux")
    assert dev.main(["lab"]) == 0 and installs == [["base"]] and not started


@pytest.mark.parametrize("there", [(), ("first",)])
@pytest.mark.parametrize("extras", [[], ["base", "dev"]])
def test_what_is_installed_first_is_all_but_torch_and_stays_as_it_is(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, extras: list[str], there: tuple[str, ...]
) -> None:
    wanted: list[list[str]] = []
    monkeypatch.setattr(dev, "fetch", lambda names, where: wanted.append(names) or True)
    monkeypatch.setattr(dev, "pip", lambda *words: wanted.append(["ours"]) or True)
    monkeypatch.setattr(dev, "reachable", lambda url: True)
    monkeypatch.setattr(dev, "venv_python", lambda: sys.executable)
    dev.install(extras, there)
    first = [each for each in wanted if each[0] == "hatchling"]
    assert bool(first) is (["ours"] in wanted) is (not there)
    names = {re.split("[<>=]", each)[0] for each in first[0]} if first else set()
    assert not first or ({"jupyterlab", "numpy", "matplotlib", "anywidget"} <= names and "torch" not in names)
    assert (["torch"] in wanted) is bool(extras) is any(f"{dev.COURSE}[dev]" in each for each in wanted)


def appended(dev: ModuleType, name: str) -> None:
    with open(os.path.join(dev.ROOT, name), "a") as file:
        file.write("# changed\n")


STAMPS = ["", "[]", "{}", '{"key": 1', '{"key": "other", "extras": ["base"]}']
CHANGES: dict[str, Callable[[ModuleType, pytest.MonkeyPatch], object]] = {
    **{name: lambda dev, patch, name=name: appended(dev, name) for name in (*SETTINGS, ".venv/pyvenv.cfg")},
    "a new GPU": lambda dev, patch: patch.setattr(dev, "gpu_present", lambda: True),
    "a lost Python": lambda dev, patch: os.remove(dev.venv_python()),
    **{f"stamp {text}": lambda dev, patch, text=text: Path(dev.stamp_path()).write_text(text) for text in STAMPS},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_installs_again(
    dev: ModuleType, installs: list[list[str]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dev.ensure("base")
    CHANGES[name](dev, monkeypatch)
    dev.ensure("base")
    assert len(installs) == 2


def test_two_set_ups_at_once_are_one_after_the_other(dev: ModuleType, installs: list[list[str]]) -> None:
    both = [threading.Thread(target=dev.ensure, args=("base",)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert installs == [["base"]]
    with dev.alone(), open(dev.VENV + ".lock", "a") as other:
        assert not dev.locked(other)
    with open(dev.VENV + ".lock", "a") as other:
        assert dev.locked(other)


def site(dev: ModuleType) -> Path:
    folder = Path(dev.VENV) / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def test_no_umlaut_of_a_folder_stands_where_python_starts(dev: ModuleType) -> None:
    folder = site(dev)
    for name in ("_brrr_gpu.pth", "other.pth"):
        (folder / name).write_text("/home/J\xfcrgen/brrr", encoding="utf-8")
    dev.point_relatively()
    assert (folder / (folder / "_brrr_gpu.pth").read_text("ascii").strip()).resolve() == Path(dev.ROOT).resolve()
    assert "rgen" in (folder / "other.pth").read_text("utf-8")


@pytest.mark.skipif(not real_dev.sys.platform.startswith("linux"), reason="PyCUDA is built so on Linux alone")
def test_pycuda_is_built_by_the_headers_of_torchs_packages(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[list[str]] = []
    monkeypatch.setattr(dev, "fetch", lambda wanted, where: fetched.append(wanted) or True)
    monkeypatch.setattr(dev, "find_nvcc", lambda: None)
    cuda = site(dev) / "nvidia" / "cu13"
    cuda.mkdir(parents=True)
    before = dict(os.environ)
    with dev.headers_for("pycuda>=2024.1", []):
        assert os.environ["CUDA_ROOT"] == str(cuda) and os.environ["CPATH"] == str(cuda / "include")
        assert "libcurand.so" in os.listdir(os.environ["LIBRARY_PATH"])
    assert dict(os.environ) == before and fetched == [dev.HEADERS]
    monkeypatch.setattr(dev, "find_nvcc", lambda: "/usr/bin/nvcc")
    for requirement in ("pycuda>=2024.1", "nvmath-python>=0.7"):
        with dev.headers_for(requirement, []):
            assert dict(os.environ) == before


def test_venv_of_a_folder_with_spaces(dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A real environment with pip; a broken one is made anew, a good one kept."""
    monkeypatch.setattr(dev, "VENV", str(tmp_path / "a folder" / ".venv"))
    monkeypatch.setattr(dev, "NEEDED_GB", dict.fromkeys(dev.NEEDED_GB, 0.0))
    python = Path(dev.venv_python())
    python.parent.mkdir(parents=True)
    python.touch()  # not even executable
    dev.stamp("", [])
    dev.make_venv()
    assert tuple(dev.probe([str(python)])["version"]) == sys.version_info[:3] and dev.has_pip()
    (python.parent / "marker").touch()
    dev.make_venv()
    assert (python.parent / "marker").exists()


def test_pip_is_kept_inside_the_environment(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PYTHONPATH": "/x", "PIP_TARGET": "/x", "PIP_USER": "1"}.items():
        monkeypatch.setenv(name, value)
    environment = dev.clean_environment()
    assert environment["PIP_USER"] == "0" and not {"PYTHONPATH", "PIP_TARGET"} & environment.keys()


# -- the commands

OURS = (".mypy_cache/CACHEDIR.TAG", "brrr/__pycache__/x.pyc")
FOREIGN = [
    ".venv", ".venv/mine.py", "build/mine.whl", "dist/mine.whl", "artifacts/mine.png", ".coverage",
    "__pycache__/mine.txt", "brrr/core/__pycache__/mine.txt", "tests/mine.pyc", ".mypy_cache/mine", ".hypothesis/mine",
    "work/00_start_here.ipynb", "data/recordings/mine/machine.json", "wheelhouse/mine.whl", *SETTINGS,
]  # fmt: skip


def touched(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")


def test_clean_removes_caches_and_links_but_not_what_they_point_to(dev: ModuleType, tmp_path: Path) -> None:
    touched(tmp_path, *OURS, "elsewhere/keep")
    if os.name == "posix":
        (tmp_path / ".venv").symlink_to(tmp_path / "elsewhere")
    assert dev.clean() == 0
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"elsewhere/keep", *SETTINGS} and not (tmp_path / ".venv").is_symlink()


@pytest.mark.parametrize("name", FOREIGN)
def test_what_nothing_here_made_is_not_removed(name: str, dev: ModuleType, tmp_path: Path) -> None:
    """Nor where an environment is to be made: it is said, and nothing else is done."""
    touched(tmp_path, name)
    with contextlib.suppress(dev.SetupError):
        dev.clean()
    if name.startswith(".venv"):
        with pytest.raises(dev.SetupError, match="Move it away"):
            dev.remove_own()
    assert (tmp_path / name).read_text() == "mine"


def test_gpu_lane_fails_without_a_gpu(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev.subprocess, "call", lambda *_, **__: 3)
    with pytest.raises(dev.SetupError, match="CUDA device"):
        dev.test_gpu("python", [])


def step(name: str, code: str) -> tuple:
    return (name, [sys.executable, "-c", code], {"WORD": "x"})


def test_every_check_runs_one_failure_counts_and_a_step_beside_is_heard_last(
    dev: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = step("a", "import os; os.environ['WORD']"), step("b", "raise SystemExit(1)")
    last = step("c", "print('last'); raise SystemExit(1)")
    for steps, beside, end in (
        ([good, good], None, "All 2 checks passed."), ([bad, step("a", "print('first')")], None, "FAILED: b"),
        ([good], step("b", "pass"), "All 2 checks passed."), ([step("a", "print('first')")], last, "FAILED: c"),
    ):  # fmt: skip
        assert dev.run_all(steps, beside=beside) == end.startswith("FAILED")
        said = capfd.readouterr().out
        assert said.rstrip().endswith(end) and ("first" in said) is ("FAILED" in end)
    assert said.index("first") < said.index("last")


def test_cpu_lane_holds_every_check(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list = []
    monkeypatch.setattr(dev, "run_all", lambda given, beside: steps.extend([beside, *given]) or 0)
    monkeypatch.setattr(dev, "ROOT", str(ROOT))
    dev.test("python", [])
    words = [" ".join(command) for _, command, _ in steps]
    for part in (
        "ruff check .", "ruff format --check .", "lint_imports", "mypy --strict", "--doctest-modules brrr",
        "--no-loadscope-reorder tests --ignore=tests/gpu",
    ):  # fmt: skip
        assert any(part in one for one in words), part


# -- the built package


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command, which must succeed, and return what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, env=real_dev.clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of both distributions, built from their unpacked sdists, so these are whole."""
    out = tmp_path_factory.mktemp("built")
    for folder in (ROOT, ROOT / "brrr_course"):
        run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=folder)
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "-w", out)
    run(sys.executable, "-m", "pip", "wheel", "-q", *offline, *out.iterdir())
    return {path.name.partition("-")[0]: path for path in out.glob("*.whl")}


def environment(folder: Path, *installed: Path) -> tuple[str, Path, Path]:
    """A bare environment with these wheels: its Python, its packages' folder, and `brrr`."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = real_dev.venv_python(str(folder))
    offline = ("install", "-q", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, *offline, *installed)
    purelib = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"))
    return python, purelib, Path(python).parent / ("brrr.exe" if os.name == "nt" else "brrr")


SMALL = """
import brrr, sys
from brrr import Cost, array, measure, predict
from brrr.drawing.roofline import roofline_plot
print(predict(Cost(flop=1e9, bytes=1e8), device="h200"), measure(lambda: sum(range(1000)), budget_s=0.01), sep="\\n")
calls = [
    lambda: brrr.cost, lambda: brrr.PersistentRNN, lambda: predict(lambda x: x * 2, array(8, "float32"), device="h200"),
    lambda: brrr.calibrate(quick=True), lambda: brrr.diagnose(lambda: 1), lambda: brrr.elementwise("z = x * 2;", x=1.0),
    lambda: brrr.capture(lambda: 1), lambda: measure(lambda: 1, device="cuda"),
    lambda: roofline_plot({}, "h200", dtypes=[], badge=None),
]
for number, call in enumerate(calls):
    try:
        print(number, "works:", call())
    except brrr.UnavailableError as error:
        print(error)
print(sorted({"torch", "matplotlib", "pandas"} & {*sys.modules}))
"""


def test_the_small_wheel_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    """With numpy and psutil, and nothing else: what needs more says which extra brings it."""
    python, purelib, script = environment(tmp_path / "v", wheels["brrr_gpu"])
    for name in ("numpy", "psutil"):
        there = Path(metadata.distribution(name).locate_file(""))
        for each in (name, f"{name}.libs"):  # the libraries that a wheel brings along
            if (there / each).is_dir():
                (purelib / each).symlink_to(there / each)
    predicted, measured, *said, loaded = run(python, "-c", SMALL, cwd=tmp_path).splitlines()
    assert predicted.startswith("PREDICTED: about 26 µs, memory-bound (NVIDIA H200") and "on the host" in measured
    extras = [re.sub(r".*(pip install .*?brrr-gpu\[\w+\]\").*", r"\1", line) for line in said]
    torch, plot = 'pip install "brrr-gpu[torch]"', 'pip install "brrr-gpu[plot]"'
    assert extras == [*[torch] * 8, plot] and loaded == "[]", said
    assert "a call" in run(script, "time", "sum(range(1000))", cwd=tmp_path)
    assert "torch          no    not installed" in run(script, "doctor", cwd=tmp_path)
    refused = subprocess.run([script, "calibrate", "--quick"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert refused.returncode and torch in refused.stderr and "Traceback" not in refused.stderr


def test_installed_wheels_find_their_data(wheels: dict[str, Path], tmp_path: Path) -> None:
    """In an environment of their own, which sees this one's packages but not this repository (.pth within .pth)."""
    assert {*wheels} == {"brrr_gpu", "brrr_course"} and wheels["brrr_gpu"].stat().st_size < 3e6
    python, purelib, script = environment(tmp_path / "v", *wheels.values())
    (purelib / "borrowed.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    code = (
        "import json, brrr; from brrr_course.lessons.course import default_work, notebooks_in;"
        "from brrr_course.nouns.places import share;"
        "print(json.dumps([brrr.__file__, str(share('data')), str(default_work()),"
        " [path.name for path in notebooks_in(share('notebooks'))]]))"
    )
    package, data, work, names = json.loads(run(python, "-c", code, cwd=tmp_path))
    assert Path(package).parent.parent == purelib.resolve() and Path(work) == tmp_path / "work"
    for kind in ("csv", "toml", "json"):
        known = run("git", "-C", ROOT / "data", "ls-files", f"**/*.{kind}", f"*.{kind}").splitlines()
        there = {path.relative_to(data).as_posix() for path in Path(data).rglob(f"*.{kind}")}
        assert {*known} - there == ({"recordings/h200/peaks.json"} if kind == "json" else set()), "brrr-gpu's"
    assert names == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert "brrr lab " in run(script, "--help", cwd=tmp_path)
