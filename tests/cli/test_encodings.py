"""Outputs that cannot show every sign: each command writes something in its place, and no `print` raises."""

import io
import sys
from contextlib import suppress

import pytest

from brrr.__main__ import main
from brrr.core import units
from brrr.core.measurement import Estimate, Measurement

ENCODINGS = ["ascii", "cp936", "cp932", "cp437", "latin-1", "koi8-r", "utf-8"]
LACKING = ("ascii", "cp936", "cp932", "koi8-r")
COMMANDS = [
    ["--help"], ["doctor"], ["calibrate", "--help"], ["diagnose", "--help"], ["time", "nowhere"],
    ["time", "sum(range(99))", "--setup", "'µ×·'", "--device", "cpu", "--budget", "0.01", "-v"], ["claims", "matmul"],
]  # fmt: skip


class Output(io.TextIOWrapper):
    """A stream that has an encoding and refuses what it lacks, as a terminal or a pipe."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")

    @property
    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_command_ends_in_an_error_for_a_sign(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(encoding)
    with monkeypatch.context() as streams:
        for name in ("stdout", "stderr"):
            streams.setattr(sys, name, output)
        for command in COMMANDS:
            with suppress(SystemExit):
                assert main(command) in (0, 1, 2)
        print("cpu µs × · – m² 漢 \udc80")
    line = output.text.splitlines()[-1]
    assert ("cpu us" in line) == (encoding in LACKING)
    assert "\\udc80" in line and ("\\u6f22" in line) == (encoding not in ("cp936", "cp932", "utf-8"))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_results_are_printed_anywhere(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script of one's own prints them, which no command has prepared the output for."""
    time, output = Estimate(2e-6, 1.9e-6, 2.2e-6, 40), Output(encoding)
    with monkeypatch.context() as streams:
        streams.setattr(sys, "stdout", output)
        print(time, Measurement(host_s=time, device="漢 \udc80"), Measurement(host_s=time, notes=("2 × 2",)).details())
    assert output.text.startswith("2 us" if encoding in LACKING else "2 µs")
    assert output.errors == "strict", "what the script prints is its own"


def test_signs_have_stand_ins_that_every_output_shows() -> None:
    assert all(stands.isascii() and not sign.isascii() for sign, stands in units.SIGNS.items())
    assert "1 µs × 漢".encode("ascii", units.STAND_INS) == b"1 us x \\u6f22"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", units.STAND_INS)
