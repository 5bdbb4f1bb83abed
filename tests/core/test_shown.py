"""What a terminal is given: nothing from outside moves its cursor, whatever prints it and wherever it came from."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr import __main__
from brrr.__main__ import COMMANDS, main
from brrr.cli import diagnose
from brrr.core.errors import BrrrError
from brrr.core.shown import BREAKS, printable, shown
from brrr_course.cli import COMMANDS as ADDED

MOVES = [
    "\x1b[2J", "\x1b]0;mine\x07", "\r", "\x9b31m", "\x08\x7f", "\u202eabc\u202c", "\u2066", "\u2028", "\ud800", "\x00",
]  # fmt: skip
NEVER = ("Cc", "Cf", "Cs", "Zl", "Zp")


def harmless(text: str) -> bool:
    return all(unicodedata.category(each) not in NEVER or each in "\n\t" for each in text)


@given(st.text(st.characters(codec=None)))
def test_whatever_is_printed_moves_no_terminal_and_can_be_encoded(text: str) -> None:
    said = printable(text, BREAKS)
    assert harmless(said) and said.encode() is not None
    assert printable(said, BREAKS) == said and printable(text.encode("ascii", "ignore").decode(), BREAKS).isascii()


@given(st.text(st.characters(codec=None)))
def test_json_that_was_printed_is_json(text: str) -> None:
    """But for the control characters, which JSON writes itself."""
    assert json.loads(printable(json.dumps(text, ensure_ascii=False), BREAKS)) == text


def test_the_usual_signs_stay() -> None:
    usual = "11 µs × 2\xa0%\n\tgrün, 日本 🙂\u202f– é"
    assert printable(usual, BREAKS) == usual


@pytest.mark.parametrize("name", [*COMMANDS, *ADDED])
def test_every_command_prints_through_it(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """By print, by writing, by argparse, by an error that is one of ours; and afterwards the streams are as before."""
    before, odd = (sys.stdout, sys.stderr), "".join(MOVES)

    class Played(ModuleType):
        @staticmethod
        def main(argv: list[str]) -> int:
            print(odd, "and", odd, sep=odd)
            sys.stderr.write(odd)
            print(odd, file=sys.stderr)
            raise BrrrError(odd)

    monkeypatch.setattr(__main__, "import_module", lambda _: Played("played"))
    assert main([name]) == 1
    seen = capsys.readouterr()
    assert harmless(seen.out) and harmless(seen.err) and "\\u001b" not in seen.out and "\\x1b[2J" in seen.out
    assert seen.err.count("\\x1b[2J") == 3 and (sys.stdout, sys.stderr) == before


BROKEN = """
import types
from brrr import __main__
def main(argv): raise BrokenPipeError(32, "of a process of its own")
__main__.import_module = lambda _: types.SimpleNamespace(main=main)
raise SystemExit(__main__.main(["doctor"]))
"""


@pytest.mark.parametrize("gone", [True, False])
def test_only_a_reader_that_is_gone_has_read_enough(gone: bool) -> None:
    """`brrr claims | head` is no error; a pipe that breaks elsewhere is."""
    ours, theirs = os.pipe()
    if gone:
        os.close(ours)
    ran = subprocess.run([sys.executable, "-c", BROKEN], stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    if not gone:
        os.close(ours)
    assert (ran.returncode, "BrokenPipeError" in ran.stderr) == ((0, False) if gone else (1, True)), ran.stderr


def test_a_name_that_is_no_command_is_printed_through_it_too(capsys: Any) -> None:
    assert main(["\x1b[2J"]) == 2 and harmless(capsys.readouterr().err)


def test_a_script_prints_as_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with diagnose._streams():
        assert not hasattr(sys.stdout, "stream")
    monkeypatch.setattr(sys, "stdout", shown(sys.stdout))
    with diagnose._streams():
        assert not hasattr(sys.stdout, "stream")
    assert hasattr(sys.stdout, "stream") and shown(None) is None
