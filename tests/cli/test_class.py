"""`brrr class`: tokens, the recording of an evening, answers as CSV, and what it says where there is nothing."""

import csv
import stat
import sys
from pathlib import Path

import made_up
import pytest
from played_class import RUN, answer, asks, hello

from brrr.__main__ import main
from brrr.core.files import typed
from brrr_course.classroom.query import parse
from brrr_course.classroom.report import HEADER
from brrr_course.classroom.store import ClassStore, device_of
from brrr_course.experiments import experiment
from brrr_course.lessons.sharing import AGREED
from brrr_course.sources.recording import Machine, Recording


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / "class.db"
    store = ClassStore(path)
    for size, error in ((64, ""), (128, ""), (256, "DeviceMemoryError")):
        asked = parse(asks(size, "cpu", "queue"), "cpu")
        told = answer({"experiment": "matmul", "point": asked.point, "variants": asked.variants}, error=error)
        device = device_of(typed(Machine, hello()["machine"]), RUN)
        store.keep(asked, told["answers"], told["run"], device, 0.2, told["machine"])
    for who, value in (("a", "25 µs"), ("b", "25 µs"), ("c", "=HYPERLINK(1)")):
        store.write("INSERT INTO answer VALUES (?, 'guess', 'How long?', ?)", who, value)
    store.close()
    return path


def test_the_evening_becomes_a_recording_that_claims_judges(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["class", "export", str(out), "--cache", str(cache)]) == 0
    assert "matmul: 4 rows" in capsys.readouterr().out
    monkeypatch.setenv("BRRR_RECORDINGS", str(out))
    assert main(["claims", "matmul", "--source", "recorded:cpu"]) == 0
    assert "RECORDED · Synthetic CPU · 2026-01-01" in capsys.readouterr().out
    assert '"error":"DeviceMemoryError"' in (out / "cpu" / "machine.json").read_text("utf-8").replace(": ", ":")


def test_an_export_joins_what_is_there_or_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same device it adds rows, twice none; into another device's folder it writes nothing."""
    matmul, mine = experiment("matmul"), tmp_path / "mine" / "cpu"
    machine = typed(Machine, hello()["machine"])
    made_up.record(tmp_path / "mine", machine, {"size": ["512"]}, run=made_up.run_info("own", machine=made_up.CPU))
    made_up.record(tmp_path / "mine", machine, run=made_up.run_info("own", machine=made_up.CPU), names=["adds"])
    before, adds = Recording.read(mine, matmul).rows, (mine / "adds.csv").read_bytes()
    for _ in range(2):
        assert main(["class", "export", str(tmp_path / "mine"), "--cache", str(cache)]) == 0
        found = Recording.read(mine, matmul)
        assert found.rows[: len(before)] == before and len(found.rows) == len(before) + 4
    assert [run.id for run in found.machine.runs] == ["own", RUN.id] and (mine / "adds.csv").read_bytes() == adds
    made_up.record(tmp_path / "other", made_up.CPU.__class__("cpu", "Another CPU", "cpu"), {"size": ["512"]})
    (tmp_path / "damaged" / "cpu").mkdir(parents=True)
    (tmp_path / "damaged" / "cpu" / "adds.csv").write_bytes(adds)
    for name, said in (("other", "cannot be joined"), ("damaged", "machine.json: is missing")):
        files = {path: path.read_bytes() for path in (tmp_path / name / "cpu").iterdir()}
        assert main(["class", "export", str(tmp_path / name), "--cache", str(cache)]) == 2
        assert said in capsys.readouterr().err
        assert {path: path.read_bytes() for path in (tmp_path / name / "cpu").iterdir()} == files


def test_answers_are_counted_and_the_report_names_those_who_agreed_and_neither_holds_a_formula(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, file = ["ada", "=bob", "cyd"], tmp_path / "report.csv"
    file.touch(0o644)
    assert main(["class", "answers", str(file), "--cache", str(cache)]) == 0
    lines = file.read_text("utf-8").splitlines()
    assert lines == ["kind,name,value,students", "guess,How long?,25 µs,2", "guess,How long?,'=HYPERLINK(1),1"]
    assert main(["class", "token", "prof", "--teacher", "--cache", str(cache)]) == 0
    assert main(["class", "token", *names, "--cache", str(cache)]) == 0
    store = ClassStore(cache)
    for name in ("ada", "=bob", "hub user", "cyd"):
        who = store.digest(name)
        given = [("check", "00-launches", "wrong"), ("check", "01-events", "right"), ("guess", "How; =long?", "a;=1+1")]
        for row in (given[1:] if name == "=bob" else given) + [(*AGREED, "named")] * (name != "cyd"):
            store.write("INSERT INTO answer VALUES (?, ?, ?, ?)", who, *row)
    store.close()
    assert main(["class", "report", str(file), "hub user", "nobody", "--cache", str(cache)]) == 0
    assert "5 students" in (told := capsys.readouterr().out) and "3 of them agreed" in told
    assert [*csv.reader(file.open(encoding="utf-8", newline=""))] == [
        [*HEADER, "check: 00-launches", "check: 01-events", "guess: How;' =long?"],
        ["'=bob", "yes", "1", "1", "1", "", "right", "a;'=1+1"],
        ["ada", "yes", "1", "2", "1", "wrong", "right", "a;'=1+1"],
        ["cyd", "no", "0", "0", "0", "", "", ""],
        ["hub user", "yes", "1", "2", "1", "wrong", "right", "a;'=1+1"],
        ["nobody", "no", "0", "0", "0", "", "", ""],
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["class", "answers", str(file), "--cache", str(cache)]) == 0
    assert "named" not in file.read_text("utf-8")
    assert main(["class", "report", str(tmp_path), "--cache", str(cache)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_one_student_s_answers_are_taken_out(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ClassStore(cache)
    for name in ("ada", "bob"):
        for given in (("check", "01-events", "right"), (*AGREED, "named")):
            store.answer(name, *given)
    before = store.read("SELECT * FROM answer WHERE who != ?", store.digest("ada"))
    assert main(["class", "withdraw", "ada", "nobody", "--cache", str(cache)]) == 0
    assert capsys.readouterr().out == "ada: 2 rows taken out\nnobody: 0 rows taken out\n"
    assert store.read("SELECT * FROM answer") == before
    store.close()


def test_tokens_are_written_for_their_owner_and_can_be_ended(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["class", "token", "ada", "bob", "--out", str(tmp_path / "t"), "--cache", str(cache)]) == 0
    path = tmp_path / "t" / "ada.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and "." in path.read_text("utf-8")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    assert main(["class", "token", "--revoke", "ada", "--cache", str(cache)]) == 0
    assert "ada: 1 tokens ended" in capsys.readouterr().out
    assert main(["class", "token", "cyd", "--days", "-1", "--cache", str(cache)]) == 2
    assert "--days is -1.0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["status"], ["export", "out"], ["answers", "x.csv"], ["report", "x.csv"]])
def test_where_there_is_nothing_it_says_so(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["class", *command]) == 2
    assert "class.db" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_file_of_a_newer_brrr_or_of_something_else_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ClassStore(cache)
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    other = tmp_path / "other.db"
    other.write_text("no database at all, but a text that is long enough to be read as one" * 20, "utf-8")
    for path, said in ((cache, "has format 99"), (other, "cannot be used")):
        assert main(["class", "export", str(tmp_path), "--cache", str(path)]) == 2
        assert said in capsys.readouterr().err


def test_two_names_are_two_files_and_no_token_is_replaced(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, end = tmp_path / "t", ["--out", str(tmp_path / "t"), "--cache", str(cache)]
    assert main(["class", "token", "a/b", "a_b", "../up", *end]) == 0
    assert len({each.read_text() for each in out.iterdir()}) == 3 and stat.S_IMODE(out.stat().st_mode) == 0o700
    before = {each: each.read_text() for each in out.iterdir()}
    capsys.readouterr()
    assert main(["class", "token", "a_b", *end]) == 2
    assert "File exists" in capsys.readouterr().err and before == {each: each.read_text() for each in out.iterdir()}
    assert main(["class", "token", "a_b", "--cache", str(cache)]) == 0
    assert "a_b: has 2 tokens now" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (["ada", "bob", "ada"], "each name once"), (["\U0001f680" * 64, "--out", "t"], "File name too long"),
    (["ada", "--out", "file"], "File exists"), (["ada", "--out", "file/below"], "Not a directory"),
])  # fmt: skip
def test_what_cannot_be_written_makes_no_token(
    cache: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(cache.parent)
    Path("file").touch()
    assert main(["class", "token", *words, "--cache", str(cache)]) == 2
    store = ClassStore(cache)
    assert said in capsys.readouterr().err and store.read("SELECT * FROM token") == []
    store.close()


@pytest.mark.parametrize("longest", ["nan", "inf", "0", "-1", "x"])
def test_the_longest_point_is_a_number_of_seconds(longest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["class", "serve", "--longest", longest])
    assert "--longest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "left"), [(["size=64"], {"128", "256"}), ([], set()), (["size=7"], {"64", "128", "256"})]
)
def test_a_measurement_is_forgotten(cache: Path, words: list[str], left: set[str]) -> None:
    assert main(["class", "forget", "matmul", *words, "--cache", str(cache)]) == 0
    store = ClassStore(cache)
    assert {key.split(", ")[1].rstrip("]") for (key,) in store.read("SELECT point FROM point")} == left
    store.close()
    assert main(["class", "forget", "matmul", "width=64", "--cache", str(cache)]) == 2, "there is no such axis"


def test_without_its_extra_it_says_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        each for each in sys.modules if each.startswith(("brrr_course.cli.classroom", "brrr_course.classroom"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert main(["class", "serve", "--help"]) == 1
    assert "pip install 'brrr-course[class]'" in capsys.readouterr().err
