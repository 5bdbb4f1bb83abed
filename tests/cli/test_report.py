"""`brrr doctor --report` on a CPU and on a played accelerator, where all goes well and where it fails."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from brrr.__main__ import main
from brrr.cli import report
from brrr.cli.inventory import Row
from brrr.gpu.device import accelerators
from tests import on_played


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_on_a_cpu_it_says_so_and_a_failure_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "default_device_kind", lambda: "cpu")
    monkeypatch.setattr(report, "SETUP", "import torch; small = torch.ones(9)")
    monkeypatch.setattr(report, "CALLS", ("torch.relu(small)", "torch.relu(large)"))
    monkeypatch.setattr(report, "diagnose", failing(KeyboardInterrupt()))
    monkeypatch.setenv("HOME", "/home/Ada King")
    monkeypatch.setenv("USERPROFILE", "/home/Ada King")
    monkeypatch.setattr(report, "calibrate", failing(OSError("no '/home/Ada King/x.so' in C:\\ada\nand more")))
    found = json.loads(report.report([Row("torch", "found", "2.13.0", "all")]))
    assert found["torch"] == "found: 2.13.0" and "no accelerator" in found["measured"]
    assert any("until the result is there" in line for line in found["torch.relu(small)"])
    assert found["torch.relu(large)"] == "failed: NameError: name 'large' is not defined"
    assert found["diagnose"] == "failed: KeyboardInterrupt: KeyboardInterrupt"
    assert found["calibrate"] == "failed: OSError: no 'PATH' in PATH"
    assert "trying: calibrate" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["", "no events"])
@on_played.there
def test_on_an_accelerator_it_measures_and_asks_its_events(fault: str) -> None:
    from tests import played

    with played.as_new(bytes_per_s=1e12, flop_per_s=1e13, faults={*filter(None, [fault])}):
        found = json.loads(report.report([]))
    events = found.pop("ms between two events")
    well = not fault and min(json.loads(events[0])) > 0
    assert well or (fault and events.startswith("failed: ") and "tell no time" in events)
    assert found["measured"] == "played" and {*report.CALLS, "diagnose", "calibrate"} <= {*found}
    assert not [each for each in found.values() if str(each).startswith("failed")]
    assert any("PLAYED" in line for line in found["torch.relu(small)"])


@pytest.mark.parametrize(("kind", "asked"), [("mps", False), ("xpu", True)])
def test_events_that_may_hang_are_not_asked(kind: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "default_device_kind", lambda: kind)
    monkeypatch.setattr(report, "calibrate", failing(OSError()))
    assert ("ms between two events" in json.loads(report.report([]))) is asked


@on_played.there
def test_the_doctor_finds_it() -> None:
    from brrr.cli import doctor

    found = doctor.doctor()
    assert found.accelerator == "played"
    assert (doctor.main(["--require", "played"]), doctor.main(["--require", "mps"])) == (0, 1)
    assert "Played accelerator (PLAYED): a first addition is right" in found.rows[-1].seen


@pytest.mark.parametrize(
    "command", [["time", "1 + 1"], ["calibrate", "--quick", "--no-write"]], ids=lambda each: each[0]
)
@pytest.mark.parametrize(("kind", "said"), [("tpu", accelerators()), ("hpu", "no accelerator here")])
def test_a_device_is_any_that_torch_knows(
    command: list[str], kind: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--device", kind]) == 2
    assert said in capsys.readouterr().err
