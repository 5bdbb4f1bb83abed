"""`brrr lab`: the student's copies, the address, and a real JupyterLab behind it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from brrr.core.errors import UnavailableError
from brrr_course.cli import lab
from brrr_course.lessons import course
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]


def notebook(text: str) -> str:
    outputs = [{"output_type": "stream", "name": "stdout", "text": "the answer µ"}]
    cell = {"cell_type": "code", "id": "a", "source": text, "execution_count": 3, "metadata": {}, "outputs": outputs}
    prose = {"cell_type": "markdown", "id": "b", "source": "Why? µs", "metadata": {}}
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "widgets": {"state": {}}}
    return json.dumps({"cells": [prose, cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def edition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lessons, which brrr takes for the course's."""
    folder = tmp_path / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    for name in ("00_start_here", "01_async_timing", "01b_more", "solutions/01_async_timing"):
        (folder / f"{name}.ipynb").write_text(notebook(f"# {name}"), "utf-8")
    monkeypatch.setattr(course, "share", lambda name: tmp_path / name)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "my work" / "course"


# -- the copies


def test_all_lessons_are_copied_without_outputs(edition: Path, work: Path) -> None:
    names = [path.name for path in course.copy_lessons(edition, work)]
    assert names == ["00_start_here.ipynb", "01_async_timing.ipynb", "01b_more.ipynb"]
    assert sorted(path.name for path in work.rglob("*")) == names, "no solution, nothing half-written"
    copy = json.loads((work / "01_async_timing.ipynb").read_text("utf-8"))
    prose, code = copy["cells"]
    assert (code["source"], code["outputs"], code["execution_count"]) == ("# 01_async_timing", [], None)
    assert prose == {"cell_type": "markdown", "id": "b", "source": "Why? µs", "metadata": {}}
    assert "widgets" not in copy["metadata"]
    assert "the answer" in (edition / "01_async_timing.ipynb").read_text("utf-8"), "the edition keeps its outputs"


def test_a_copy_is_never_overwritten_and_an_older_one_is_told_from_one_that_a_student_changed(
    edition: Path, work: Path
) -> None:
    work.mkdir(parents=True)
    for name, text in (("00_start_here", "# 00_start_here"), ("01b_more", "# as it was")):
        (work / f"{name}.ipynb").write_text(notebook(text), "utf-8")  # from before editions were kept
    assert course.older_copies(edition, work) == ["01b_more"]
    (work / "01b_more.ipynb").unlink()
    names = [path.name for path in course.copy_lessons(edition, work)]
    assert names == ["01_async_timing.ipynb", "01b_more.ipynb"] and course.copy_lessons(edition, work) == []
    changed = json.loads((work / "01_async_timing.ipynb").read_text("utf-8"))
    changed["cells"][1]["source"] = ["mine\n", "too"]
    (work / "01_async_timing.ipynb").write_text(json.dumps(changed), "utf-8")
    assert course.older_copies(edition, work) == []
    (edition / "01b_more.ipynb").write_text(notebook("# better"), "utf-8")
    (work / "00_start_here.ipynb").write_text("no notebook")
    assert course.older_copies(edition, work) == ["01b_more"]
    assert course.copy_lessons(edition, work) == [] and (work / "00_start_here.ipynb").read_text() == "no notebook"


def test_lab_names_older_copies(
    edition: Path, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "share", lambda name: edition)
    monkeypatch.setattr(lab, "serve", lambda *_, **__: 0)
    course.copy_lessons(edition, work)
    assert lab.main(["--work", str(work)]) == 0
    assert "Older" not in capsys.readouterr().out
    (edition / "01b_more.ipynb").write_text(notebook("# better"), "utf-8")
    assert lab.main(["--work", str(work)]) == 0
    said = capsys.readouterr().out
    assert "01b_more" in said and "brrr lab --fresh 01b" in said
    assert lab.main(["--work", str(work), "--fresh", "00", "01b"]) == 0
    said = capsys.readouterr().out
    assert "Older" not in said and "Your copy of 00 is kept" in said and "Your copy of 01b is kept" in said


@pytest.mark.parametrize("name", ["01", "01_async_timing", "01_async_timing.ipynb"])
def test_fresh_sets_the_old_copy_aside(edition: Path, work: Path, name: str) -> None:
    course.copy_lessons(edition, work)
    (work / "01_async_timing.ipynb").write_text("mine")
    (guessed := course.guesses_beside(work / "01_async_timing.ipynb")).write_text("{}")
    aside = course.set_aside(name, work)
    assert aside is not None and not guessed.exists()
    assert aside.read_text() == "mine"
    assert re.fullmatch(r"01_async_timing\.\d{4}-\d\d-\d\d_\d{6}\.ipynb", aside.name)
    assert [path.name for path in course.copy_lessons(edition, work)] == ["01_async_timing.ipynb"]


def test_fresh_twice_in_a_second_loses_nothing(edition: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course.time, "strftime", lambda form: "2030-01-01_000000")
    for text in ("first", "second"):
        course.copy_lessons(edition, work)
        (work / "01_async_timing.ipynb").write_text(text)
        with pytest.raises(UnavailableError, match="there already") if text == "second" else contextlib.nullcontext():
            course.set_aside("01", work)
    assert sorted(path.read_text() for path in work.glob("01_*")) == ["first", "second"]


def test_what_cannot_be_done_says_why(
    edition: Path, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for name in ("7", "", "1", "solutions", "../00_start_here"):
        with refused("--fresh", name):
            course.set_aside(name, work)
    for port in (0, -1, 65536):
        with refused("--port", port):
            next(lab.free_ports(port))
    for source, target, said in (
        (tmp_path, work, "no lessons in"),
        (edition, tmp_path / "file" / "work", "--work DIR"),
    ):
        with pytest.raises(UnavailableError, match=said):
            course.copy_lessons(source, target)
    monkeypatch.setattr(lab, "share", lambda name: edition)
    monkeypatch.setattr(lab, "server_command", lambda *given, root: [sys.executable, "-c", "raise SystemExit(5)"])
    for words, said in ((["--fresh", "99"], "'99'"), (["--no-browser"], "ended with status 5")):
        assert lab.main([*words, "--work", str(work)]) == 1
        assert said in capsys.readouterr().err


def test_a_full_disk_leaves_nothing_half_written(edition: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UnavailableError, match="No space left"):
        course.copy_lessons(edition, work)
    assert not list(work.iterdir())
    monkeypatch.setattr(lab.tempfile, "mkstemp", lambda **_: full(work / "page"))
    with lab._announced(work, 9, "token", browser=True):  # the address is printed all the same
        pass


# -- the server's surroundings


def test_a_taken_port_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert next(lab.free_ports(port)) != port
    assert next(lab.free_ports(port)) == port


def test_files_of_the_student_s_are_found_from_a_kernel_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"BRRR_TOKEN_FILE": "a:b.token", "BRRR_RECORDINGS": os.pathsep.join(["mine", "", "/theirs"]), "HOME": "x"}
    whole = {"BRRR_TOKEN_FILE": f"{tmp_path}/a:b.token", "BRRR_RECORDINGS": f"{tmp_path}/mine{os.pathsep}/theirs"}
    assert lab.whole_paths(given) == whole
    assert lab.whole_paths({}) == {}


def test_jupyter_keeps_its_files_beside_the_lessons_where_home_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not beside this Python, which another user may have installed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert lab.jupyter_folders(tmp_path / "work") == {}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    monkeypatch.chdir(tmp_path)
    found = lab.jupyter_folders(Path("work"))
    assert len(found) == 6 and all(Path(path).parent == tmp_path / "work" / ".home" for path in found.values())


@pytest.mark.parametrize(("environment", "platform", "shows"), [
    ({"DISPLAY": ":0"}, "linux", True), ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True), ({}, "linux", False),
    ({"WSL_DISTRO_NAME": "Ubuntu"}, "linux", True), ({}, "darwin", True), ({}, "win32", True),
    ({"SSH_CONNECTION": "a 1 b 22", "DISPLAY": "localhost:10.0"}, "linux", False),
    ({"SSH_CONNECTION": "a 1 b 22"}, "darwin", False),
])  # fmt: skip
def test_browser_opens_only_where_one_sits(environment: dict[str, str], platform: str, shows: bool) -> None:
    assert lab.can_show_browser(environment, platform) is shows


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"SSH_CONNECTION": "1.2.3.4 50000 10.0.0.7 22", "USER": "ada"}, "ssh -L 8890:127.0.0.1:8890 ada@10.0.0.7"),
        ({"SSH_CONNECTION": "::1 5 fe80::7 2222", "LOGNAME": "b"}, "ssh -p 2222 -L 8890:127.0.0.1:8890 b@fe80::7"),
        ({"SSH_CONNECTION": ""}, "ssh -L 8890:127.0.0.1:8890 USER@THIS_MACHINE"),
    ],
)
def test_ssh_hint(environment: dict[str, str], command: str) -> None:
    assert f"    {command}\n" in lab.ssh_hint(8890, environment)


@pytest.mark.parametrize(("child", "said"), [("import time; time.sleep(60)", "does not listen"), ("exit(1)", "")])
def test_who_has_the_port_of_a_server_is_told_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch, child: str, said: str
) -> None:
    monkeypatch.setattr(lab, "START_S", 2.0)
    monkeypatch.setattr(lab, "server_command", lambda *given, root: [sys.executable, "-c", child])
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        server = lab._start(work, port := stranger.getsockname()[1], "token")
        with pytest.raises(UnavailableError, match=said) if said else contextlib.nullcontext():
            assert not lab._wait_until_up(server, port)
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    server.wait()


def test_a_cell_that_lacks_a_name_is_told_what_defines_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = [sys.executable, "-c", "import os; print(os.environ['PYTHONSTARTUP'])"]
    monkeypatch.setattr(lab, "server_command", lambda *given, root: says)
    first = lab._start(work, 1, "token").communicate()[0].decode().strip()
    manager, client = start_new_kernel(env={**os.environ, "PYTHONSTARTUP": first})
    try:
        waits = "import sys; assert 'brrr_course.view.coming' not in sys.modules"  # for a torch that is still coming
        for code, told in (("1 / 0", False), ("explore('matmul')", True), ("_tell", True), (waits, False)):
            said: list[Any] = []
            client.execute_interactive(code, output_hook=said.append)
            assert "error" in [each["msg_type"] for each in said]
            text = "".join(each["content"].get("text", "") for each in said)
            assert ("Run All Above" in text) == told
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# -- a real JupyterLab


CODE = """
import pathlib, sys
from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.cli import lab
lab.share = lambda name: pathlib.Path(sys.argv[1])
sys.exit(lab.main(sys.argv[2:]))
"""


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return str(answer.read().decode())


BROWSER = """#!/bin/sh
cp "$(echo "$1" | sed 's,^file://,,; s,%20, ,g')" "$0.page"
stat -c %a "$(echo "$1" | sed 's,^file://,,; s,%20, ,g')" >> "$0.seen"
echo "$1" >> "$0.seen"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sends the signals of Linux, whose browser is a script here")
def test_a_killed_lab_leaves_no_server_and_gave_a_browser_no_token(edition: Path, work: Path, tmp_path: Path) -> None:
    browser, shadow = tmp_path / "browser", tmp_path / "here" / "jupyterlab.py"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    shadow.parent.mkdir()
    shadow.write_text("raise SystemExit('imported from the current folder')")
    environment = {name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"}
    environment |= {"DISPLAY": ":0", "BROWSER": f"{browser} %s", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
    environment["BRRR_TOKEN_FILE"] = "ada.token"
    command = [sys.executable, "-P", "-c", CODE, str(edition), "--work", str(work)]
    with subprocess.Popen(
        command, cwd=shadow.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = read_until(process, "Ctrl-C here")
        servers = psutil.Process(process.pid).children()
        assert [each.environ()["BRRR_TOKEN_FILE"] for each in servers] == [str(shadow.parent / "ada.token")], said
        process.kill()
    address = re.search(r"^ +(http://127\.0\.0\.1:\d+/\S+\?token=(\w+))$", said, re.M)
    assert address and "Open it in your browser" not in said, said
    rights, opened = browser.with_suffix(".seen").read_text().split()
    assert rights == "600" and opened.startswith("file://") and address[2] not in opened
    assert f'url={address[1]}"' in browser.with_suffix(".page").read_text()
    assert psutil.wait_procs(servers, timeout=60)[1] == [], "the server lives on"
    assert [path.suffix for path in work.glob(".*")] == [".html"]
    with lab._announced(work, 9, "other", browser=False):
        pass
    assert not list(work.glob(".*")), "the next one takes it away"


@pytest.mark.skipif(os.name != "posix", reason="sends the signal of Ctrl-C")
def test_lab_serves_the_lessons_until_ctrl_c(edition: Path, work: Path) -> None:
    """On a taken port and over ssh: the next port, the first lesson, no pop-ups, our kernel, a clean end."""
    environment = {**os.environ, "SSH_CONNECTION": "1.2.3.4 5 10.0.0.7 22", "PYTHONUNBUFFERED": "1"}
    environment["JUPYTER_RUNTIME_DIR"] = str(runtime := work.parent / "runtime")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(edition), "--port", str(port), "--work", str(work)], cwd=ROOT,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        try:
            said = read_until(process, "Ctrl-C here")
            wanted = r"^ +(http://127\.0\.0\.1:(\d+)/lab/tree/00_start_here\.ipynb)\?token=(\w+)$"
            address = re.search(wanted, said, re.M)
            assert address, said
            page, served_port, token = address.groups()
            assert int(served_port) != port
            assert f"ssh -L {served_port}:127.0.0.1:{served_port}" in said
            check_served(page, int(served_port), token)
            lines = command_lines(psutil.Process(process.pid).children(recursive=True))
            assert lines
            assert not [line for line in lines if token in line], "all users see this"
            written = [path.name.split("-")[0] for path in runtime.iterdir()]
            assert "jpserver" in written and "jupyter_cookie_secret" not in written, "its cookies would open the next"
        finally:
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest and "LabApp]" not in said + rest
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(served_port))) != 0, "the server lives on"


def command_lines(processes: list[psutil.Process]) -> list[str]:
    """The command lines of those that still run: a helper of the server may have ended since it was listed."""
    lines = []
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one, too
            lines.append(" ".join(each.cmdline()))
    return lines


def read_until(process: subprocess.Popen[str], words: str) -> str:
    said = ""
    deadline = time.monotonic() + 120
    assert process.stdout is not None
    while words not in said and time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            break
        said += line
    return said


def check_served(page: str, port: int, token: str) -> None:
    base = f"http://127.0.0.1:{port}"
    html = get(f"{page}?token={token}")
    assert '"news": {"disabled": true}' in html
    settings = get(f"{base}/lab/api/settings/@jupyterlab/apputils-extension:notification?token={token}")
    asks = json.loads(settings)["schema"]["properties"]
    assert (asks["fetchNews"]["default"], asks["checkForUpdates"]["default"]) == ("false", False)
    names = [entry["name"] for entry in json.loads(get(f"{base}/api/contents?token={token}"))["content"]]
    assert sorted(names) == ["00_start_here.ipynb", "01_async_timing.ipynb", "01b_more.ipynb"]
    kernels = json.loads(get(f"{base}/api/kernelspecs?token={token}"))
    assert kernels["default"] == "python3"
    assert Path(kernels["kernelspecs"]["python3"]["spec"]["argv"][0]).name in ("python", Path(sys.executable).name)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(f"{base}/api/contents")
