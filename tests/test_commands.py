"""Every command that README, the documents and the set-up files show: it exists, and takes what is shown behind it."""

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

import dev
from brrr.__main__ import commands, main
from brrr_course.lessons import course

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]
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


def run_by_files() -> Iterator[str]:
    """The commands that set-up files run, or show in a comment: workflows, environment.yml, deploy/."""
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "environment.yml", *(ROOT / "deploy").iterdir()]
    for text in (path.read_text(encoding="utf-8") for path in files):
        lines = re.findall(r"(?:- run: |^#   )([^#\n]*)", text, re.MULTILINE)
        parts = (part.strip() for line in lines for part in line.split("&&"))
        yield from (part for part in parts if START.match(f"{part} "))
        yield from (words.replace(",", "") for words in re.findall(r"command: \[(.*)\]", text))
        if '"-m", "brrr", "class", "serve"' in text:
            yield "python -m brrr class serve --hub brrr --port 8642 --cache x"


FROM_FILES = list(run_by_files())
ALL = sorted({*FROM_FILES, *(command for path in TEXTS for command in shown(path.read_text(encoding="utf-8")))})
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


def test_the_set_up_files_commands_are_found() -> None:
    assert len(FROM_FILES) == 7 and all(START.match(command + " ") for command in FROM_FILES), FROM_FILES


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
    """`.binder/postBuild`: both lines of Python run, and the first installs with the Python that runs it."""
    lines = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8").splitlines()
    installs, copies = (shlex.split(line) for line in lines if line.startswith("python"))
    steps: list[str] = []
    monkeypatch.setattr(dev, "reachable", lambda url: False)
    monkeypatch.setattr(dev, "venv_python", dev.venv_python)
    monkeypatch.setattr(dev.subprocess, "call", lambda command, **_: steps.append(command) or 0)
    monkeypatch.setattr(dev, "fetch", lambda *words: True)
    exec(installs[2])
    assert [step[0] for step in steps] == [sys.executable] and str(ROOT / "brrr_course") in steps[0]
    monkeypatch.setattr(course, "default_work", lambda: tmp_path)
    exec(copies[2])
    assert len(list(tmp_path.glob("*.ipynb"))) == len(list((ROOT / "notebooks").glob("*.ipynb")))
