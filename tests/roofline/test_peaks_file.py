"""peaks.json and sweeps.npz: what is written reads the same; what is damaged is refused, with file and field named."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up
import pytest
from peaks_made_up import gpu_peaks

from brrr.cli.calibrate import keep
from brrr.core.errors import RecordingError
from brrr.roofline import peaks as file
from brrr.roofline.peak import SweptCalls
from brrr.roofline.peaks import find_peaks, read_peaks, recorded_peaks, slug_of, write
from brrr.roofline.sweep_file import Packed, packed
from brrr_course.experiments import experiment
from brrr_course.sources.folders import Store
from brrr_course.sources.recording import Machine, Recording
from tests.refusals import refused

PEAKS = replace(gpu_peaks(), device=made_up.GPU.device)


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "h200", PEAKS)
    assert path.name == "peaks.json" and read_peaks(tmp_path / "h200") == PEAKS
    again = replace(PEAKS, date="2001-01-01", assumed={}, notes=())
    write(tmp_path / "h200", again)
    assert read_peaks(tmp_path / "h200") == again


def test_peaks_live_with_a_recording_and_outlive_the_next_run(writable_root: Path) -> None:
    folder = writable_root / "h200"
    before = Recording.read(folder, experiment("matmul"))
    write(folder, PEAKS)
    assert Recording.read(folder, experiment("matmul")).rows == before.rows
    Store(folder, made_up.GPU, [experiment("matmul")]).note(made_up.run_info("run-2", "2000-01-02"))
    assert [run.id for run in Machine.read(folder).runs] == ["run-1", "run-2"]
    assert read_peaks(folder) == PEAKS


def test_recorded_peaks_go_by_the_devices_short_name_which_is_no_path(writable_root: Path) -> None:
    write(writable_root / "h200", PEAKS)
    assert recorded_peaks("h200", writable_root) == PEAKS
    for name in ("h300", "../h200", "", "H200", ".h200", "h200/", "h200.before-20260101"):
        with refused("device", name):
            recorded_peaks(name, writable_root)


@pytest.mark.parametrize("machine", [True, False])
def test_another_devices_peaks_are_neither_read_nor_overwritten(writable_root: Path, machine: bool) -> None:
    """By the machine beside them; where there is none, by the name of a device that is known, or by the peaks there."""
    folder, mine = writable_root / "h200", replace(PEAKS, kind="cpu", device="this CPU")
    if not machine:
        (folder / "machine.json").unlink()
    write(folder, mine)
    for read in (lambda: read_peaks(folder), lambda: recorded_peaks("h200", writable_root)):
        with pytest.raises(RecordingError, match=r"these are the peaks of this CPU .cpu., and .* H200"):
            read()
    path = keep(writable_root / "own", mine)
    before = path.read_bytes()
    assert keep(writable_root / "own", replace(mine, device="another CPU")).parent.name == "another-cpu"  # beside it
    write(writable_root / "own" / "another", PEAKS)
    with pytest.raises(RecordingError, match="these are of another"):
        keep(writable_root / "own", replace(PEAKS, device="another"))
    assert path.read_bytes() == before and keep(writable_root / "own", replace(mine, date="2031-01-01")) == path


def test_peaks_are_read_once_and_anew_when_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, PEAKS)
    first = find_peaks(tmp_path)
    monkeypatch.setattr(file, "read_json", lambda *args: pytest.fail("read twice"))
    assert find_peaks(tmp_path) is first
    monkeypatch.undo()
    again = replace(PEAKS, notes=("measured once more",))
    write(tmp_path, again)
    assert find_peaks(tmp_path) == again
    (tmp_path / "peaks.json").unlink()
    assert find_peaks(tmp_path) is None


NAMES = ("operator", "kind", "form", "dtype", "lines", "length", "read", "written")
CALLS: Any = [("aten.sum", "reduction", "", "float32", 1, 4096, 16384, 4),
              ("aten.sum", "reduction", "rows", "float32", 7, 7, 196, 28)]  # fmt: skip
SWEEP = SweptCalls.of(NAMES, CALLS, [2.048e-6, 1.5e-3])
SWEPT = replace(PEAKS, sweeps={"operators": replace(SWEEP, fits={"reduction/rows": (1.0,)})})


def test_a_sweep_lies_in_a_file_beside_and_comes_back_to_the_digit(tmp_path: Path) -> None:
    path = write(tmp_path, SWEPT)
    assert "aten.sum" not in path.read_text() and (tmp_path / "sweeps.npz").is_file()
    assert read_peaks(tmp_path) == SWEPT and read_peaks(tmp_path).sweeps == SWEPT.sweeps
    write(tmp_path, PEAKS)
    assert read_peaks(tmp_path) == PEAKS and not (tmp_path / "sweeps.npz").exists()


def test_a_sweep_is_unpacked_when_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SWEPT)
    monkeypatch.setitem(sys.modules, "numpy", None)  # whoever imports it now fails
    found = read_peaks(tmp_path)
    assert list(found.sweeps) == ["operators"] and "products" not in found.sweeps
    with pytest.raises(ImportError):
        found.sweeps["operators"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "is missing or cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is not what was measured with them"),
        (lambda path: path.write_bytes(packed({"operators": replace(SWEEP, seconds=(1.0, 1.0))})), "is not what was"),
    ],
)
def test_a_damaged_sweep_is_named_when_the_peaks_are_read(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    write(tmp_path, SWEPT)
    spoil(tmp_path / "sweeps.npz")
    with pytest.raises(RecordingError, match=rf"sweeps\.npz: {message}.*brrr calibrate"):
        read_peaks(tmp_path)


@pytest.mark.parametrize(
    "content", [b"no archive", packed({"products": SWEEP}), packed({"operators": SWEEP.part([0])})]
)
def test_a_sweep_that_does_not_fit_its_outline_is_named(content: bytes) -> None:
    outline = SweptCalls({"operator": (), "more": ()}, ())
    with pytest.raises(RecordingError, match=r"there/sweeps\.npz: holds no sweep of operators: "):
        Packed(content, {"operators": outline}, "there/sweeps.npz")["operators"]


PRODUCTS = SweptCalls.of(("m", "n", "k", "batch", "layout", "dtype"), [(64, 64, 64, 1, "nn", "tf32")], [2e-6])


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("products", "m", "many"), ("products", "k", 0), ("products", "batch", -1), ("products", "n", 2**60),
        ("products", "dtype", "float99"), ("products", "dtype", 3), ("products", "layout", "n"),
        ("operators", "length", 0), ("operators", "operator", 7),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be_is_named_with_its_file(tmp_path: Path, name: str, column: str, value: Any) -> None:
    """Sealed by hand, so that each fingerprint fits; nor may a column be missing."""
    good = {"products": PRODUCTS, "operators": SWEEP}[name]
    less = {each: values for each, values in good.columns.items() if each != column}
    for columns, said in (({**less, column: (value,) * len(good)}, f"{column} is {value!r}"), (less, f"'{column}'")):
        write(tmp_path, replace(PEAKS, sweeps={name: replace(good, columns=columns)}))
        with pytest.raises(RecordingError, match=rf"sweeps\.npz: holds no sweep of {name}: {said}"):
            read_peaks(tmp_path).sweeps[name]


@pytest.mark.parametrize("values", [(0.0, 1.0, 0.0, 1.0), (1.0, 1e308, 0.0, 1.0), (1.0, 0.0, 1.0, 1.0)])
def test_hyperparameters_without_a_solution_are_refused(tmp_path: Path, values: tuple[float, ...]) -> None:
    right = (1.0, 1.0, 0.0, 1.0)
    path = write(tmp_path, replace(PEAKS, sweeps={"operators": replace(SWEEP, fits={"x": right})}))
    assert read_peaks(tmp_path).sweeps["operators"].fits["x"] == right
    text = path.read_text()
    path.write_text(text.replace(json.dumps(right, separators=(",", ":")).strip(), json.dumps(values)))
    with pytest.raises(
        RecordingError, match=r"peaks\.json: peaks\.sweeps\.operators\.fits\.x is .*; expected 1e-06 to"
    ):
        read_peaks(tmp_path)


@pytest.mark.parametrize(
    "sweep",
    [
        SweptCalls.of(("m",), [(255,), (256,)], [2.0005e-6, 1 / 3e6]),  # no whole nanoseconds
        SweptCalls.of(("m", "n"), [(2**40, -1), (0, 200)], [1e-8, 999.999999999]),
        SweptCalls.of(("m", "dtype"), [], []),
    ],
)
def test_whatever_is_packed_comes_back(sweep: SweptCalls) -> None:
    (back,) = Packed(packed({"x": sweep}), {"x": sweep.part(())}, "").values()
    assert back == sweep and [*map(float.hex, back.seconds)] == [*map(float.hex, sweep.seconds)]


def figure(**changed: Any) -> Callable[[dict[str, Any]], object]:
    return lambda peaks: peaks["measured"]["gap.stream"].update(**changed)


SPOILED: dict[str, Callable[[dict[str, Any]], object]] = {
    "kind": lambda peaks: peaks.update(kind="a GPU"),
    "gap.stream.value": figure(value=1e6),
    "gap.stream.low and high": figure(low=1.0),
    "gap.stream.unit is 'ms'": figure(unit="ms"),
    "gap.stream is 'datasheet'": figure(kind="datasheet"),
    "gap.stream.unit is 'B/s'": figure(unit="B/s", value=1e9, low=1e9, high=1e9),
    "assumed kernel.floor": lambda peaks: peaks["assumed"]["kernel.floor"].update(kind="measured"),
    "curves.copy.points is []": lambda peaks: peaks["curves"]["copy"].update(points=[]),
    "above zero and rising": lambda peaks: peaks["curves"]["copy"]["points"].reverse(),
    "curves.copy.points[1] is [{": lambda peaks: peaks["curves"]["copy"]["points"][1].pop(0),
    "curves.copy.points[1][1].value": lambda peaks: peaks["curves"]["copy"]["points"][1][1].update(unit="s"),
}


@pytest.mark.parametrize("said", SPOILED)
def test_wrong_peaks_are_refused_by_name(tmp_path: Path, said: str) -> None:
    """What is wrong in any file of ours is told in tests/core/test_files.py."""
    path = write(tmp_path, PEAKS)
    content = json.loads(path.read_text())
    SPOILED[said](content["peaks"])
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)


def test_the_folder_is_named_after_the_device() -> None:
    assert slug_of(gpu_peaks()) == "h200" and slug_of(replace(PEAKS, kind="cpu", device="Some CPU")) == "cpu"
