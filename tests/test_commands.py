"""Every command that README, the documents and the set-up files show: it exists, and takes what is shown behind it."""

import argparse
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

from brrr.__main__ import commands, main
from brrr_course.lessons import course

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import dev  # noqa: E402

TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
START = re.compile(
    r"(?:WHEELHOUSE=\S+ |[A-Z_]+=\S+ )*(brrr|make|python3? dev\.py|py dev\.py|python3? -m (?:brrr|tools)\S*) "
)


def shown(text: str) -> Iterator[str]:
    """The commands of a Markdown text: in its code spans and its shell blocks, without their comments."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    for each in [*SPAN.findall(BLOCK.sub("", text)), *lines]:
        for part in each.partition("  #")[0].split(" && "):
            if START.match(part.strip() + " ") and "..." not in part:
                yield part.strip()


ALL = sorted({command for path in TEXTS for command in shown(path.read_text(encoding="utf-8"))})
EXAMPLES = {"NAME": "h200", "EXPERIMENT": "repeat", "DIR": "x", "RECORDINGS": "x", "FILE.csv": "x.csv"}
"""What stands for the capital words of a text."""


class Parsed(BaseException):
    """The command understood its arguments."""


@pytest.fixture
def parsing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end where their arguments are understood."""
    real = argparse.ArgumentParser.parse_args

    def parse(*arguments: object, **named: object) -> NoReturn:
        real(*arguments, **named)  # type: ignore[call-overload]
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)


@pytest.mark.parametrize("command", ALL)
@pytest.mark.usefixtures("parsing_only")
def test_a_command_takes_what_is_shown(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = shlex.split(command)
    words = [EXAMPLES.get(word, word) for word in parts if not re.match(r"[A-Z_]+=", word)]
    if words[0] == "make":
        given = [word.removeprefix("ARGS=") for word in parts if word.startswith("ARGS=")]
        developers([*words[1:], *shlex.split(" ".join(given))])
    elif words[1:2] == ["dev.py"]:
        developers(words[2:])
    elif words[:2] == ["python", "-m"] and words[2] != "brrr":
        tool(words[2], words[3:], monkeypatch)
    else:
        ours(words[3:] if words[0] == "python" else words[1:])


def ours(arguments: list[str]) -> None:
    """`brrr` takes the arguments; a text that only names a command may leave out what it needs."""
    if all(re.fullmatch("[a-z]+", word) for word in arguments):
        arguments = [*arguments, "--help"]
    with pytest.raises((Parsed, SystemExit)) as ended:
        raise SystemExit(main(arguments))
    assert ended.type is Parsed or ended.value.args == (0,)


def developers(arguments: list[str]) -> None:
    """`dev.py` knows the command, which takes what stands behind it where it is one of brrr's."""
    names = [word for word in arguments if word != "--here"]
    assert names[0] in {*dev.COMMANDS, "usb", "clean"}, arguments
    if names[0] in commands():
        ours(names)


def tool(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A maintainers' tool is there; one with a parser takes what is shown."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    source = ROOT / name.replace(".", "/")
    path = source / "__main__.py" if source.is_dir() else source.with_suffix(".py")
    if "parse_args" in path.read_text(encoding="utf-8"):
        with pytest.raises(Parsed):
            runpy.run_module(name, run_name="__main__")


@pytest.mark.usefixtures("parsing_only")
def test_a_wrong_option_is_found() -> None:
    with pytest.raises(SystemExit):
        main(["claims", "--no-such-option"])


@pytest.mark.parametrize("name", commands())
def test_each_command_of_the_table_has_its_main(name: str) -> None:
    assert callable(import_module(commands()[name][0]).main)


def test_dev_py_takes_here_before_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As README's line for conda has it."""
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setitem(dev.COMMANDS, "lab", (lambda python, rest: ran.append((python, rest)) or 0, "base"))
    assert dev.main(["--here", "lab", "--no-browser"]) == 0
    assert dev.main(["lab", "--here"]) == 0
    assert ran == [(sys.executable, ["--no-browser"]), (sys.executable, [])]


def test_binder_copies_the_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.binder/postBuild`: pip installs two folders that are there, and the line of Python runs."""
    lines = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8").splitlines()
    installs, copies = (shlex.split(line) for line in lines if line.startswith("python"))
    folders = [word for word, before in zip(installs[1:], installs, strict=False) if before == "--editable"]
    assert len(folders) == 2 and all((ROOT / folder / "pyproject.toml").is_file() for folder in folders)
    monkeypatch.setattr(course, "default_work", lambda: tmp_path)
    exec(copies[2])
    assert len(list(tmp_path.glob("*.ipynb"))) == len(list((ROOT / "notebooks").glob("*.ipynb")))


def test_the_commands_run_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brrr", "claims", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "--sources" in done.stdout
