"""dev.py: which Python, which packages, when to install again, what to say; and what the built package holds."""

import ast
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import dev as real_dev  # noqa: E402

GOOD = {"version": [3, 12, 1], "machine": "x86_64", "bits": 64, "lacks": "", "path": "/usr/bin/python3.12"}
OLD = {**GOOD, "version": [3, 9, 2], "path": "/usr/bin/python3.9"}
NO_VENV = {**GOOD, "version": [3, 11, 2], "lacks": "ensurepip", "path": "/usr/bin/python3.11"}


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """dev.py, moved to an empty folder, without GPU, proxy, wheelhouse, network."""
    (tmp_path / "brrr_course").mkdir()
    for name in ("pyproject.toml", "brrr_course/pyproject.toml", "constraints.txt", "hashes.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(real_dev, "ROOT", str(tmp_path))
    monkeypatch.setattr(real_dev, "COURSE", str(tmp_path / "brrr_course"))
    monkeypatch.setattr(real_dev, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(real_dev, "gpu_present", lambda: False)
    monkeypatch.setattr(real_dev, "reachable", lambda url, seconds=3.0: False)
    monkeypatch.delenv("WHEELHOUSE", raising=False)
    return real_dev


def pythons(dev: ModuleType, monkeypatch: pytest.MonkeyPatch, *probes: dict | None) -> None:
    """Let these be the Pythons of the machine, in the order in which they are tried."""
    monkeypatch.setattr(dev, "candidates", lambda: [[str(number)] for number in range(len(probes))])
    monkeypatch.setattr(dev, "probe", lambda command: probes[int(command[0])])


# -- the file itself


def syntax_ok(source: str) -> bool:
    try:
        ast.parse(source, feature_version=(3, 6))
    except SyntaxError:
        return False
    return True


def test_dev_parses_on_an_old_python() -> None:
    assert syntax_ok((ROOT / "dev.py").read_text("utf-8"))
    assert not syntax_ok("if (x := 1):\n    pass")  # the test can fail


def imports(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names}


def test_dev_needs_the_standard_library_only() -> None:
    assert imports((ROOT / "dev.py").read_text("utf-8")) <= sys.stdlib_module_names
    assert not imports("import numpy.linalg") <= sys.stdlib_module_names


def run_dev(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "dev.py"), *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


def test_help_and_an_unknown_command_say_which_there_are() -> None:
    for done in (run_dev("--help"), run_dev("tset")):
        assert all(name in done.stdout + done.stderr for name in [*real_dev.COMMANDS, "usb", "clean"])
        assert "Traceback" not in done.stderr
    assert done.returncode == 1 and "'tset'" in done.stderr


def test_makefile_forwards_every_command() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.search(r"^(lab .*):$", text, re.MULTILINE)[1].split())  # type: ignore[index]
    assert targets == {*real_dev.COMMANDS, "usb", "clean", "help"}
    assert '"$(PYTHON)" dev.py $@ $(ARGS)' in text


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
def test_make_without_a_python_says_so() -> None:
    done = subprocess.run(["make", "lab", "PYTHON="], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "Python 3.11" in done.stdout


# -- which Python


def test_running_python_is_probed_right(dev: ModuleType) -> None:
    seen = dev.probe([sys.executable])
    assert tuple(seen["version"]) == sys.version_info[:3]
    assert Path(seen["path"]).exists()


@pytest.mark.parametrize("command", [["/no/such/python"], [sys.executable, "-c", "raise SystemExit(3)"]])
def test_what_does_not_run_is_no_candidate(dev: ModuleType, command: list[str]) -> None:
    assert dev.probe(command) is None


def test_first_fitting_python_is_taken(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pythons(dev, monkeypatch, OLD, None, NO_VENV, GOOD)
    assert dev.find_python() == GOOD


def test_newer_python_only_if_there_is_no_other(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = {**GOOD, "version": [3, 15, 0]}
    pythons(dev, monkeypatch, newer, GOOD)
    assert dev.find_python() == GOOD
    pythons(dev, monkeypatch, newer)
    assert dev.find_python() == newer
    assert "3.15.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("release", "probes", "words"),
    [
        ("ID=debian\n", [NO_VENV], ["3.11.2", "ensurepip", "apt install python3.11-venv"]),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', [OLD], ["3.9.2", "apt install python3 python3-venv"]),
        ("ID=fedora\n", [OLD], ["dnf install"]),
        ("ID=arch\n", [OLD], ["pacman"]),
        ("ID=other\n", [None], ["found: none", "python.org"]),
    ],
)
def test_no_python_says_what_to_install(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, release: str, probes: list[dict | None], words: list[str]
) -> None:
    (Path(dev.ROOT) / "os-release").write_text(release)
    family = dev.linux_family(os.path.join(dev.ROOT, "os-release"))
    monkeypatch.setattr(dev, "linux_family", lambda: family)
    monkeypatch.setattr(sys, "platform", "linux")
    pythons(dev, monkeypatch, *probes)
    with pytest.raises(dev.SetupError) as caught:
        dev.find_python()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_message_comes_at_once(tmp_path: Path) -> None:
    """As a whole, in a real process: no fitting Python, nothing made, one message, soon."""
    code = "import dev, sys; dev.OLDEST = (4, 0); dev.VENV = sys.argv[1]; dev.main(['lab'])"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "v")], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    seconds = time.perf_counter() - started
    print(f"a machine without a fitting Python is told so after {seconds:.2f} s (target 2 s)")
    assert "SetupError: This course needs Python 3.11 or newer; found: " in done.stderr
    assert not (tmp_path / "v").exists()
    assert seconds < 10


@pytest.mark.parametrize(
    ("platform", "macos", "probe", "words"),
    [
        ("darwin", "14.5", {**GOOD, "machine": "x86_64"}, ["Intel", "Binder", "Colab"]),
        ("darwin", "12.7", {**GOOD, "machine": "arm64"}, ["macOS 12.7", "macOS 14"]),
        ("win32", "", {**GOOD, "bits": 32}, ["64-bit"]),
    ],
)
def test_machines_without_torch_are_told_so(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str, macos: str, probe: dict, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(dev.platform, "mac_ver", lambda: (macos, ("", "", ""), ""))
    with pytest.raises(dev.SetupError) as caught:
        dev.check_machine(probe)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(("platform", "machine"), [("darwin", "arm64"), ("linux", "x86_64"), ("win32", "AMD64")])
def test_machines_with_torch_pass(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str, machine: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(dev.platform, "mac_ver", lambda: ("14.0", ("", "", ""), ""))
    dev.check_machine({**GOOD, "machine": machine})


def test_full_disk_is_told_before_the_download(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "NEEDED_GB", dict.fromkeys(dev.NEEDED_GB, 1e9))
    with pytest.raises(dev.SetupError, match="GB are free"):
        dev.check_space()


# -- which packages


def test_cpu_build_is_preferred_where_its_index_answers(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert dev.torch_options() is None
    monkeypatch.setattr(dev, "reachable", lambda url: url.startswith(dev.CPU_INDEX))
    assert dev.torch_options() == ["--no-deps", "--index-url", dev.CPU_INDEX]
    assert dev.index_options() == [], "no other package is looked for there"
    monkeypatch.setattr(dev, "gpu_present", lambda: True)
    assert dev.torch_options() is None


def test_wheelhouse_shuts_out_every_index(dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    house = tmp_path / "my wheels"
    house.mkdir()
    monkeypatch.setenv("WHEELHOUSE", str(house))
    with pytest.raises(dev.SetupError, match="holds no packages"):
        dev.index_options()
    (house / "torch-2.13.0-cp311-cp311-any.whl").touch()
    assert dev.index_options() == ["--no-index", "--find-links", str(house)]


class Answer(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/torch/" else 404)
        self.end_headers()

    def log_message(self, *values: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_reachable(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert real_dev.reachable(index + "/torch/")
    assert not real_dev.reachable(index + "/jax/")
    assert not real_dev.reachable("no address")


def test_reachable_gives_up_on_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.perf_counter()
        assert not real_dev.reachable(f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.3)
        assert time.perf_counter() - started < 5


def test_failed_cuda_item_costs_only_itself(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(dev, "fetch", lambda wanted, where: tried.append(wanted[0]) or "pycuda" not in wanted[0])
    dev.install_cuda([])
    assert tried == [requirement for requirement, _ in dev.CUDA_ITEMS]
    said = capsys.readouterr().out
    assert said.count("Not installed") == 1
    assert "pycuda" in said
    assert "CUDA C++" in said


def wheel(folder: Path, name: str, needs: str = "") -> str:
    """A wheel with nothing in it; its digest."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    needed = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needed}")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_file_is_held_against_its_hash(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the pip that is here, also for what a package brings along; the CPU build's hash is one of its release's."""
    house, out = tmp_path / "house", tmp_path / "out"
    house.mkdir()
    digests = {"big": wheel(house, "brrr_big", "Brrr.Small>=1"), "small": wheel(house, "brrr_small")}
    (tmp_path / "constraints.txt").write_text("brrr-small==1.0\n")
    monkeypatch.setattr(dev, "venv_python", lambda: sys.executable)
    where = ["--no-index", "--find-links", str(house)]
    for wrong, said in (({"small": "0" * 64}, "DO NOT MATCH"), ({"small": ""}, "brrr-small==1.0 is not in"), ({}, "")):
        known = {**digests, **wrong}
        lines = [f"brrr-{name}==1.0 \\\n    --hash=sha256:{digest}" for name, digest in known.items() if digest]
        (tmp_path / "hashes.txt").write_text("# what\n" + "\n".join(lines) + "\n")
        assert dev.fetch(["brrr-big"], where, str(out)) is not bool(wrong)
        found = capfd.readouterr()
        assert said in found.out + found.err
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in house.iterdir())


def test_the_order_in_which_packages_come(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch before what needs it, from its own index alone; our own packages last, with nothing left to look for."""
    steps: list[tuple[Any, ...]] = []
    monkeypatch.setattr(dev, "fetch", lambda *words: steps.append(words) or True)
    monkeypatch.setattr(dev, "pip", lambda *words: steps.append(words) or True)
    monkeypatch.setattr(dev, "torch_options", lambda: ["--index-url", "there"])
    dev.install(["base", "dev"])
    both = ["--editable", dev.ROOT, "--editable", f"{dev.COURSE}[dev]"]
    assert steps == [
        (["hatchling"], []), (["torch"], ["--index-url", "there"]), (["--no-build-isolation", *both], []),
        ("install", "--no-deps", "--no-build-isolation", *both),
    ]  # fmt: skip


def test_a_folder_that_cannot_be_written_to_is_told(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev.os, "access", lambda path, mode: False)
    pythons(dev, monkeypatch, GOOD)
    with pytest.raises(dev.SetupError, match="cannot be written to") as caught:
        dev.make_venv()
    assert "install" not in str(caught.value)


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


class Fakes:
    """Stands in for the slow steps, and counts them."""

    def __init__(self, dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.venvs, self.installs, self.fails = 0, [], False
        self.dev = dev
        monkeypatch.setattr(dev, "make_venv", self.make_venv)
        monkeypatch.setattr(dev, "install", self.install)

    def make_venv(self) -> None:
        self.venvs += 1
        python = Path(self.dev.venv_python())
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        (Path(self.dev.VENV) / "pyvenv.cfg").write_text("version = 3.12.1\n")

    def install(self, extras: list[str]) -> None:
        self.installs.append(extras)
        if self.fails:
            raise self.dev.SetupError("no network")


@pytest.fixture
def fakes(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(dev, monkeypatch)


def test_second_call_installs_nothing(fakes: Fakes) -> None:
    assert fakes.dev.ensure("base") == fakes.dev.venv_python()
    fakes.dev.ensure("base")
    assert (fakes.venvs, fakes.installs) == (1, [["base"]])


def test_dev_is_added_to_base_and_base_is_in_dev(fakes: Fakes) -> None:
    for extra in ("base", "dev", "base", "dev"):
        fakes.dev.ensure(extra)
    assert fakes.installs == [["base"], ["base", "dev"]]


def appended(dev: ModuleType, name: str) -> None:
    with open(os.path.join(dev.ROOT, name), "a") as file:
        file.write("# changed\n")


STAMPS = ["", "[]", "{}", '{"key": 1', '{"key": "other", "extras": ["base"]}']
CHANGES: dict[str, Callable[[ModuleType, pytest.MonkeyPatch], object]] = {
    **{
        name: lambda dev, patch, name=name: appended(dev, name)
        for name in ("pyproject.toml", "constraints.txt", "hashes.txt")
    },
    "another Python": lambda dev, patch: appended(dev, ".venv/pyvenv.cfg"),
    "a new GPU": lambda dev, patch: patch.setattr(dev, "gpu_present", lambda: True),
    "a lost Python": lambda dev, patch: os.remove(dev.venv_python()),
    **{f"stamp {text}": lambda dev, patch, text=text: Path(dev.stamp_path()).write_text(text) for text in STAMPS},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_installs_again(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    fakes.dev.ensure("base")
    CHANGES[name](fakes.dev, monkeypatch)
    fakes.dev.ensure("base")
    assert (fakes.venvs, len(fakes.installs)) == (2, 2)


def test_a_failed_set_up_is_not_taken_for_done(fakes: Fakes) -> None:
    fakes.dev.ensure("base")
    fakes.fails = True
    with pytest.raises(fakes.dev.SetupError):
        fakes.dev.ensure("dev")
    fakes.fails = False
    fakes.dev.ensure("base")
    assert fakes.installs == [["base"], ["base", "dev"], ["base"]]


def test_two_set_ups_at_once_are_one_after_the_other(fakes: Fakes) -> None:
    both = [threading.Thread(target=fakes.dev.ensure, args=("base",)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert (fakes.venvs, fakes.installs) == (1, [["base"]])


def test_a_lock_is_held_by_one(dev: ModuleType) -> None:
    with dev.alone(), open(dev.VENV + ".lock", "a") as other:
        assert not dev.locked(other)
    with open(dev.VENV + ".lock", "a") as other:
        assert dev.locked(other)


def site(dev: ModuleType, *names: str) -> Path:
    folder = Path(dev.VENV) / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("/home/J\xfcrgen/brrr", encoding="utf-8")
    return folder


def test_no_umlaut_of_a_folder_stands_where_python_starts(dev: ModuleType) -> None:
    folder = site(dev, "_brrr_gpu.pth", "other.pth")
    dev.point_relatively()
    told = (folder / "_brrr_gpu.pth").read_text("ascii").strip()
    assert (folder / told).resolve() == Path(dev.ROOT).resolve()
    assert "rgen" in (folder / "other.pth").read_text("utf-8")


@pytest.mark.parametrize(("tag", "fits"), [("cp312", True), ("cp311", False)])
def test_a_wheelhouse_for_another_python_is_told(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tag: str, fits: bool
) -> None:
    (tmp_path / f"torch-2.13.0-{tag}-{tag}-any.whl").touch()
    monkeypatch.setenv("WHEELHOUSE", str(tmp_path))
    monkeypatch.setattr(dev, "probe", lambda command: GOOD)
    if fits:
        dev.check_wheelhouse()
    else:
        with pytest.raises(dev.SetupError, match="another Python"):
            dev.check_wheelhouse()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PyCUDA is built so on Linux alone")
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
    """A real environment with pip; a broken one is made anew."""
    monkeypatch.setattr(dev, "VENV", str(tmp_path / "a folder" / ".venv"))
    monkeypatch.setattr(dev, "NEEDED_GB", dict.fromkeys(dev.NEEDED_GB, 0.0))
    os.makedirs(os.path.dirname(dev.venv_python()))
    Path(dev.venv_python()).touch()  # not even executable
    with pytest.raises(dev.SetupError, match="Move it away"):  # somebody else's, it may be
        dev.make_venv()
    dev.stamp("", [])
    dev.make_venv()
    assert tuple(dev.probe([dev.venv_python()])["version"][:2]) >= (3, 11)
    assert dev.has_pip()
    marker = Path(dev.VENV) / "marker"
    marker.touch()
    dev.make_venv()
    assert marker.exists(), "a good environment is kept"


def test_pip_is_kept_inside_the_environment(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PYTHONPATH": "/x", "PIP_TARGET": "/x", "PIP_USER": "1"}.items():
        monkeypatch.setenv(name, value)
    environment = dev.clean_environment()
    assert environment["PIP_USER"] == "0"
    assert not {"PYTHONPATH", "PIP_TARGET"} & environment.keys()


# -- the commands


def test_clean_keeps_work_and_what_links_point_to(dev: ModuleType, tmp_path: Path) -> None:
    caches = (".mypy_cache/CACHEDIR.TAG", "brrr/__pycache__/x.pyc")
    for name in ("work/00_start_here.ipynb", *caches, "data/x.csv", "elsewhere/keep"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    if os.name == "posix":
        (tmp_path / ".venv").symlink_to(tmp_path / "elsewhere")
    assert dev.clean() == 0
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    settings = {"pyproject.toml", "brrr_course/pyproject.toml", "constraints.txt", "hashes.txt"}
    assert left == {"work/00_start_here.ipynb", "data/x.csv", "elsewhere/keep", *settings}
    assert not (tmp_path / ".venv").is_symlink()


FOREIGN = [
    ".venv", ".venv/mine.py", "build/mine.whl", "dist/mine.whl", "artifacts/mine.png", ".coverage",
    "__pycache__/mine.txt", "brrr/core/__pycache__/mine.txt", "tests/mine.pyc", ".mypy_cache/mine", ".hypothesis/mine",
    ".pytest_cache/mine", ".ruff_cache/mine", "work/00_start_here.ipynb", "data/recordings/mine/machine.json",
    "wheelhouse/mine.whl",
]  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_what_nothing_here_made_is_not_removed(name: str, dev: ModuleType, tmp_path: Path) -> None:
    """Nor where an environment is to be made: it is said, and nothing else is done."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with contextlib.suppress(dev.SetupError):
        dev.clean()
    if name.startswith(".venv"):
        with pytest.raises(dev.SetupError, match="Move it away"):
            dev.remove_own()
    assert (tmp_path / name).read_text() == "mine"


def test_gpu_lane_fails_without_a_gpu(dev: ModuleType, tmp_path: Path) -> None:
    no_gpu = tmp_path / "python"
    no_gpu.write_text("#!/bin/sh\nexit 3\n")
    no_gpu.chmod(0o755)
    with pytest.raises(dev.SetupError, match="CUDA device"):
        dev.test_gpu(str(no_gpu), [])


def step(name: str, code: str) -> tuple:
    return (name, [sys.executable, "-c", code], {"WORD": "x"})


def test_every_check_runs_and_one_failure_counts(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.run_all([step("a", "import os; os.environ['WORD']"), step("b", "pass")]) == 0
    assert dev.run_all([step("a", "raise SystemExit(1)"), step("b", "print(7)")]) == 1
    said = capsys.readouterr().out
    assert "All 2 checks passed." in said and said.rstrip().endswith("FAILED: a")


def test_a_step_beside_the_others_counts_and_is_heard_last(dev: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert dev.run_all([step("a", "print('first')")], beside=step("b", "print('last'); raise SystemExit(1)")) == 1
    said = capfd.readouterr().out
    assert said.index("first") < said.index("last") and said.rstrip().endswith("FAILED: b")
    assert dev.run_all([step("a", "pass")], beside=step("b", "pass")) == 0
    assert "All 2 checks passed." in capfd.readouterr().out


def test_cpu_lane_holds_every_check(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list = []
    monkeypatch.setattr(dev, "run_all", lambda given, beside: steps.extend([beside, *given]) or 0)
    monkeypatch.setattr(dev, "ROOT", str(ROOT))
    dev.test("python", [])
    words = [" ".join(command) for _, command, _ in steps]
    for part in (
        "ruff check .",
        "ruff format --check .",
        "mypy --strict",
        "--doctest-modules brrr",
        "not timing tests --ignore=tests/gpu",
        "-m timing tests",
    ):
        assert any(part in one for one in words), part
    assert "test_timing.py" in words[-1]


# -- the built package


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command, which must succeed, and return what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, env=real_dev.clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def files(folder: Path, pattern: str) -> set[str]:
    """Those of a folder that git knows: own recordings may lie beside them. What an environment has is all meant."""
    if folder.is_relative_to(ROOT):
        return {*run("git", "-C", folder, "ls-files", f"**/{pattern}", pattern).splitlines()}
    return {path.relative_to(folder).as_posix() for path in folder.rglob(pattern)}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of both distributions: the small one's built from its unpacked sdist, so the sdist is whole."""
    out = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out)
    archive = next(out.iterdir())
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "-w", out)
    for source in (archive, ROOT / "brrr_course"):
        run(sys.executable, "-m", "pip", "wheel", "-q", *offline, source)
    return {path.name.partition("-")[0]: path for path in out.glob("*.whl")}


def test_the_wheels_ship_their_data(wheels: dict[str, Path]) -> None:
    names = {}
    for name, path in wheels.items():
        with zipfile.ZipFile(path) as archive:
            names[name] = set(archive.namelist())
    assert set(names) == {"brrr_gpu", "brrr_course"}
    assert "brrr/share/data/hardware.toml" in names["brrr_gpu"]
    assert wheels["brrr_gpu"].stat().st_size < 3e6
    assert {name.partition("/")[0] for name in names["brrr_gpu"]} == {"brrr", "brrr_gpu-0.2.0.dist-info"}
    for folder, pattern in (("data", "*.csv"), ("data", "*.toml"), ("data", "*.json"), ("notebooks", "*.ipynb")):
        shipped = {f"brrr_course/share/{folder}/{name}" for name in files(ROOT / folder, pattern)}
        assert shipped <= names["brrr_course"]
    assert {name.partition("/")[0] for name in names["brrr_course"]} == {"brrr_course", "brrr_course-0.2.0.dist-info"}


SMALL = """
import brrr, sys
from brrr import Cost, array, measure, predict
from brrr.drawing.roofline import roofline_plot
print(predict(Cost(flop=1e9, bytes=1e8), device="h200"), measure(lambda: sum(range(1000)), budget_s=0.01), sep="\\n")
calls = {
    "brrr.cost": lambda: brrr.cost, "brrr.PersistentRNN": lambda: brrr.PersistentRNN,
    "predict": lambda: predict(lambda x: x * 2, array(8, "float32"), device="h200"),
    "calibrate": lambda: brrr.calibrate(quick=True), "diagnose": lambda: brrr.diagnose(lambda: 1),
    "elementwise": lambda: brrr.elementwise("z = x * 2;", x=1.0),
    "roofline_plot": lambda: roofline_plot({"x": predict(Cost(1e9, 1e8), device="h200")}),
    "capture": lambda: brrr.capture(lambda: 1), "measure": lambda: measure(lambda: 1, device="cuda"),
}
for name, call in calls.items():
    try:
        print(name, "works:", call())
    except brrr.UnavailableError as error:
        print(error)
print(sorted({"torch", "matplotlib", "pandas"} & {*sys.modules}))
"""


def test_the_small_wheel_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    """With numpy and psutil, and nothing else: what needs more says which extra brings it."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "v")
    python = real_dev.venv_python(str(tmp_path / "v"))
    install = ("-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index")
    run(sys.executable, *install, wheels["brrr_gpu"])
    purelib = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"))
    for name in ("numpy", "psutil"):
        there = Path(metadata.distribution(name).locate_file(""))
        for each in (name, f"{name}.libs"):  # the libraries that a wheel brings along
            if (there / each).is_dir():
                (purelib / each).symlink_to(there / each)
    predicted, measured, *said, loaded = run(python, "-c", SMALL, cwd=tmp_path).splitlines()
    assert predicted.startswith("PREDICTED: about 26 µs, memory-bound (NVIDIA H200") and "on the host" in measured
    extras = [re.sub(r".*(pip install .*?brrr-gpu\[\w+\]\").*", r"\1", line) for line in said]
    torch, plot = 'pip install "brrr-gpu[torch]"', 'pip install "brrr-gpu[plot]"'
    assert extras == [*[torch] * 6, plot, *[torch] * 2], said
    assert loaded == "[]"
    script = Path(python).parent / ("brrr.exe" if os.name == "nt" else "brrr")
    assert "a call" in run(script, "time", "sum(range(1000))", cwd=tmp_path)
    assert "torch          no    not installed" in run(script, "doctor", cwd=tmp_path)
    refused = subprocess.run([script, "calibrate", "--quick"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert refused.returncode and torch in refused.stderr and "Traceback" not in refused.stderr


def test_installed_wheels_find_their_data(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Install them into an environment of its own, which sees this one's packages but not this repository."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "v")
    python = real_dev.venv_python(str(tmp_path / "v"))
    offline = ("install", "-q", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, *offline, *wheels.values())
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    purelib, borrowed = run(python, "-c", where), run(sys.executable, "-c", where)
    (Path(purelib) / "borrowed.pth").write_text(
        borrowed + "\n"
    )  # a .pth inside it (our own editable install) stays unread
    code = (
        "import json, brrr; from brrr_course.lessons.course import default_work, notebooks_in;"
        "from brrr_course.nouns.places import share;"
        "print(json.dumps([brrr.__file__, str(share('data')), str(default_work()),"
        " [path.name for path in notebooks_in(share('notebooks'))]]))"
    )
    package, data, work, names = json.loads(run(python, "-c", code, cwd=tmp_path))
    assert Path(package).parent.parent == Path(purelib).resolve()
    assert files(Path(data), "*.csv") == files(ROOT / "data", "*.csv")
    assert Path(work) == tmp_path / "work"
    assert names == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    script = Path(python).parent / ("brrr.exe" if os.name == "nt" else "brrr")
    assert "brrr lab " in run(script, "--help", cwd=tmp_path)
