"""`%brrr`, `%%brrr` and `brrr time`: the line, the options, and whose names and errors are whose."""

import builtins
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from brrr.cli.time import imported, main
from brrr.core.measurement import Estimate, Measurement
from brrr.counting.cost import Cost
from brrr.diagnosis.timed import Timed, steps_from


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, as Python, looks for modules where it is called."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """IPython's, which takes the place of the main program."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("display", "__IPYTHON__", "get_ipython"):
        monkeypatch.setattr(builtins, name, None, raising=False)
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "brrr")
    made.run_cell("import torch\nx = torch.ones(64, 64)")
    yield made
    InteractiveShell.clear_instance()


def same(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, 9)


def test_the_line_of_a_gpu() -> None:
    """A loop of 12 µs with kernels of 8: rates are those of the loop."""
    measured = Measurement(host_s=same(11.9e-6), kernel_s=same(8e-6), span_s=same(9e-6), period_s=same(12e-6))
    found = Timed(measured, Cost(flop=12e6, bytes=24e6), None, 6e-6, "host-bound")
    assert str(found).startswith("12 µs a call (")
    assert "kernels 8 µs, host 11.9 µs; 1 TFLOP/s, 2 TB/s, 50 % of the roof of the memory: host-bound" in str(found)
    assert (
        found.as_dict()["measurement"]["period_s"] == same(12e-6).as_dict() and found.as_dict()["cost"]["flop"] == 12e6
    )


def test_the_magic_prints_one_line(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_line_magic("brrr", "--budget 0.02 torch.relu(x)") is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "a call" in said and said.split(" roof")[1].rstrip().endswith(("bound", "filled"))


def test_options(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = shell.run_line_magic("brrr", "-q -o --budget 0.02 x @ x")
    assert isinstance(found, Timed) and found.cost is not None and found.cost.flop == 2 * 64**3
    assert capsys.readouterr().out == ""
    shell.run_line_magic("brrr", "-v -p 2 --budget 0.02 --device cpu x @ x")
    said = capsys.readouterr().out
    assert "aten.mm" in said and "latency_s" in said and "PREDICTED" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [("-n 10 x + 1", "--budget"), ("-r 3 x + 1", "--budget"), ("-t x", "no meaning"), ("-p none x", "-p is 'none'"),
     ("--budget -1 x", "--budget is '-1'"), ("--device tpu x", "device"), ("--budget 0.01 --cold x + 1", "cold")],
)  # fmt: skip
def test_what_has_no_meaning_says_what_has(shell: Any, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shell.run_line_magic("brrr", line)


def test_a_cell_and_its_set_up_keep_their_names(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("brrr", "--budget 0.02 scale = 3.0", "y = x * scale\nz = y.sum()\n")
    assert "a call" in capsys.readouterr().out
    assert not {"y", "z", "scale", "_brrr_step", "_brrr_make"} & set(shell.user_ns)


@pytest.mark.parametrize("code", ["assert step() == 5", "assert make() == 6", "assert len({five}) == 1"])
def test_the_code_means_what_it_says(shell: Any, code: str) -> None:
    """A user's own `step` is called, not the function around the code; braces are sets, not IPython's substitution."""
    shell.run_cell("five = 5\ndef step(): return 5\ndef make(): return 6")
    shell.run_line_magic("brrr", f"-q --budget 0.01 {code}")


def test_the_users_errors_are_the_users(shell: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        shell.run_line_magic("brrr", "1 / 0")
    with pytest.raises(SyntaxError):
        shell.run_line_magic("brrr", "a b")
    with pytest.raises(NameError):
        shell.run_cell_magic("brrr", "w = nobody_knows", "w + 1")


def test_nothing_of_the_users_becomes_a_description(shell: Any) -> None:
    shell.run_cell("kept = {}; listed = []")
    shell.run_line_magic("brrr", "-q --budget 0.02 kept.update(y=x * 2); listed.append(x + 1)")
    assert type(shell.user_ns["kept"]["y"]) is torch.Tensor and {type(each) for each in shell.user_ns["listed"]} == {
        torch.Tensor
    }


def test_a_name_that_both_set_goes_on(shell: Any) -> None:
    found = shell.run_cell_magic(
        "brrr", "-q -o --budget 0.01 k = 0; seen = []", "k += 1\nseen.append(k)\n[k for k in (1, 2)]"
    )
    assert found is not None
    assert shell.run_line_magic("brrr", "   ") is None
    with pytest.raises(SyntaxError):
        shell.run_line_magic("brrr", "return 5")


def test_locals_of_a_function_are_seen(shell: Any) -> None:
    shell.run_cell(
        "def f():\n    own = 3.0\n    get_ipython().run_line_magic('brrr', '-q --budget 0.01 x * own')\nf()\nok = True"
    )
    assert shell.user_ns.get("ok") is True


def test_what_cannot_be_counted_is_timed_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    from brrr.diagnosis.timed import timed

    calls = []

    def step() -> torch.Tensor:
        from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

        calls.append(1)
        assert not _get_current_dispatch_mode_stack(), "nobody may look"
        return torch.ones(8)

    found = timed(step, device="cpu", budget_s=0.01)
    assert found.cost is None and "nobody may look" in str(found)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    setup = "import torch; x = torch.ones(256, 256)"
    assert main(["x @ x", "--setup", setup, "--budget", "0.02", "--device", "cpu"]) == 0
    assert "the roof" in capsys.readouterr().out
    assert main(["--json", "x.relu()", "--setup", setup, "--budget", "0.02"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["bytes"] == 2 * 4 * 256**2
    assert main(["-v", "sum(range(100))", "--budget", "0.02"]) == 0
    assert "no operator of torch" in capsys.readouterr().out


def test_statements_side_by_side_share_what_the_set_up_made(capsys: pytest.CaptureFixture[str]) -> None:
    statements = ["made.append(1)", "made.append(2); math.sqrt(2.0)"]
    assert main(["--compare", *statements, "--setup", "made = []", "--budget", "0.02", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [*found["calls"]] == statements and [*found["ratios"]] == statements[1:]
    assert err == "brrr time: imported math\n"
    both = steps_from("made = []", ["made.append(1)", "made"], {})
    assert both[0]() is None and both[1]() == [1]
    assert main(["--compare", "--csv", "sum(range(99))", "sum(range(999))", "--budget", "0.02"]) == 0
    rows = [*csv.DictReader(capsys.readouterr().out.splitlines())]
    (told,) = (row for row in rows if row["ratio"])
    assert told["call"] == "sum(range(999))" and told["time"] == "period_s" and float(told["ratio"]) > 1
    for wrong in (["1", "2"], ["--compare", "1"]):
        with pytest.raises(SystemExit):
            main(wrong)


def test_packages_that_a_statement_names_are_imported_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fractions.Fraction(1, n)", "--setup", "n = 3", "--budget", "0.01", "--csv"]) == 0
    assert capsys.readouterr().err == "brrr time: imported fractions\n"
    code = "import json as js, os.path\njson = {}\njs.x, json.x, os.x, nobody_has_this.x, math\nfor re in x: re.y"
    assert imported(code) == {}
    assert main(["nobody_has_this.x"]) == 1 and "NameError" in capsys.readouterr().err


def test_errors_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["1 / 0"]) == 1 and capsys.readouterr().err == "brrr time: ZeroDivisionError: division by zero\n"
    assert main(["a b"]) == 1 and "SyntaxError" in capsys.readouterr().err
    (tmp_path / "mine_to_time.py").write_text("def f(x):\n    return x['none']\n", encoding="utf-8")
    setup = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from mine_to_time import f"
    assert main(["f({})", "--setup", setup]) == 1
    said = capsys.readouterr().err
    del sys.modules["mine_to_time"]
    assert "KeyError: 'none'" in said and "mine_to_time.py, line 2, in f" in said and "diagnosis" not in said
    assert main(["1", "--budget", "-1"]) == 2 and "budget_s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("exit()", "SystemExit: None"),
        ("raise SystemExit('why')", "SystemExit: why"),
        ("n += 1; assert n < 50", "AssertionError"),
        ("n += 1; 1 / (50 - n)", "ZeroDivisionError: division by zero"),
        ("n += 1\nif n > 50: exit(3)", "SystemExit: 3"),
    ],
)
def test_an_error_at_any_call_is_the_users_own(statement: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([statement, "--setup", "n = 0", "--budget", "0.01"]) == 1
    assert capsys.readouterr().err.strip() == f"brrr time: {said}"


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.cli.time.timed", lambda *_, **__: {}["ours"])
    with pytest.raises(KeyError, match="ours"):
        main(["1 + 1"])
