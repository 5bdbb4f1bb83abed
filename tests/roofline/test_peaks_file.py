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
from brrr.core.errors import ArgumentError, RecordingError
from brrr.roofline import peaks as file
from brrr.roofline.peak import Sweep
from brrr.roofline.peaks import FORMAT, MissingPeakError, find_peaks, read_peaks, recorded_peaks, slug_of, write
from brrr.roofline.sweep_file import Packed, packed
from brrr_course.experiments import experiment
from brrr_course.sources.folders import Store
from brrr_course.sources.recording import Machine, Recording

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


def test_a_recording_without_peaks_says_what_to_run(synthetic_root: Path) -> None:
    with pytest.raises(RecordingError, match=r"peaks\.json: there are no peaks\. Run brrr\.calibrate"):
        read_peaks(synthetic_root / "h200")


def test_recorded_peaks_go_by_the_devices_short_name(writable_root: Path) -> None:
    write(writable_root / "h200", PEAKS)
    assert recorded_peaks("h200", writable_root) == PEAKS
    with pytest.raises(ArgumentError, match=r"device is 'h300'; expected one of h200\. Run brrr"):
        recorded_peaks("h300", writable_root)


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
SWEEP = Sweep.of(NAMES, CALLS, [2.048e-6, 1.5e-3])
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
    outline = Sweep({"operator": (), "more": ()}, ())
    with pytest.raises(RecordingError, match=r"there/sweeps\.npz: holds no sweep of operators: "):
        Packed(content, {"operators": outline}, "there/sweeps.npz")["operators"]


PRODUCTS = Sweep.of(("m", "n", "k", "batch", "layout", "dtype"), [(64, 64, 64, 1, "nn", "tf32")], [2e-6])


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("products", "m", "many", "m is 'many'; expected a whole number, 1 to"),
        ("products", "k", 0, "k is 0; expected a whole number, 1 to"),
        ("products", "batch", -1, "batch is -1; expected a whole number, 1 to"),
        ("products", "n", 2**60, f"n is {2**60}; expected"),
        ("products", "dtype", "float99", "dtype is 'float99'; expected "),
        ("products", "dtype", 3, "dtype is 3; expected "),
        ("products", "layout", "n", "layout is 'n'; expected nn or nt"),
        ("products", "m", None, "'m'"),
        ("operators", "length", 0, "length is 0; expected a whole number, 1 to"),
        ("operators", "operator", 7, "operator is 7; expected a text"),
        ("operators", "written", None, "'written'"),
    ],
)
def test_a_column_that_cannot_be_is_named_with_its_file(
    tmp_path: Path, name: str, column: str, value: int | str | None, message: str
) -> None:
    """Sealed by hand, so that each fingerprint fits."""
    good = {"products": PRODUCTS, "operators": SWEEP}[name]
    columns = {**good.columns, column: (value,) * len(good)} if value is not None else dict(good.columns)
    columns.pop(column if value is None else "", None)
    write(tmp_path, replace(PEAKS, sweeps={name: replace(good, columns=columns)}))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path).sweeps[name]
    assert str(caught.value).startswith(f"{tmp_path / 'sweeps.npz'}: holds no sweep of {name}: {message}")


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


@pytest.mark.parametrize("machine", [True, False])
def test_another_devices_peaks_are_refused(writable_root: Path, machine: bool) -> None:
    """By the machine beside them; where there is none, by the name of a device that is known."""
    folder, mine = writable_root / "h200", replace(PEAKS, kind="cpu", device="this CPU")
    if not machine:
        (folder / "machine.json").unlink()
    write(folder, mine)
    for read in (lambda: read_peaks(folder), lambda: recorded_peaks("h200", writable_root)):
        with pytest.raises(RecordingError, match=r"peaks\.json: these are the peaks of this CPU .cpu., and .* H200"):
            read()
    if machine:
        with pytest.raises(RecordingError, match="the peaks of another"):
            keep(writable_root, replace(mine, device="another"))


def test_a_figure_that_is_missing_is_told_with_the_file(tmp_path: Path) -> None:
    write(tmp_path, replace(PEAKS, curves={}))
    with pytest.raises(MissingPeakError, match=rf"'copy' was not measured on .*{tmp_path / 'peaks.json'}"):
        read_peaks(tmp_path).curve("copy")


@pytest.mark.parametrize(
    "sweep",
    [
        Sweep.of(("m",), [(255,), (256,)], [2.0005e-6, 1 / 3e6]),  # no whole nanoseconds
        Sweep.of(("m", "n"), [(2**40, -1), (0, 200)], [1e-8, 999.999999999]),
        Sweep.of(("m", "dtype"), [], []),
    ],
)
def test_whatever_is_packed_comes_back(sweep: Sweep) -> None:
    (back,) = Packed(packed({"x": sweep}), {"x": sweep.part(())}, "").values()
    assert back == sweep and [*map(float.hex, back.seconds)] == [*map(float.hex, sweep.seconds)]


@pytest.mark.parametrize("device", ["../h200", "", "H200", ".h200", "h200/", "h200.before-20260101"])
def test_a_devices_name_is_no_path(writable_root: Path, device: str) -> None:
    write(writable_root / "h200", PEAKS)
    with pytest.raises(ArgumentError, match="expected one of h200"):
        recorded_peaks(device, writable_root)


Spoil = Callable[[dict[str, Any]], object]

WRONG: list[tuple[Spoil, str]] = [
    (lambda p: p.update(kind="tpu"), "kind is 'tpu'; expected one of cuda, cpu"),
    (lambda p: p.pop("curves"), "curves is missing"),
    (lambda p: p.update(colour="red"), "colour is not a known key"),
    (lambda p: p["measured"]["gap.stream"].update(value="1 us"), "measured.gap.stream.value is '1 us'"),
    (
        lambda p: p["measured"]["gap.stream"].update(value=1e6),
        "gap.stream.value is 1000000.0; expected 1e-10 to 1000 s",
    ),
    (lambda p: p["measured"]["gap.stream"].update(low=1.0), "measured.gap.stream.low and high"),
    (lambda p: p["measured"]["gap.stream"].update(unit="ms"), "measured.gap.stream.unit is 'ms'"),
    (lambda p: p["measured"]["gap.stream"].update(kind="datasheet"), "gap.stream is 'datasheet'; expected a measured"),
    (lambda p: p["measured"]["gap.stream"].update(spread=1), "measured.gap.stream.spread is not a known key"),
    (lambda p: p["measured"]["gap.stream"]["conditions"].update(on=None), "conditions.on is None"),
    (
        lambda p: p["measured"]["gap.stream"].update(unit="B/s", value=1e9, low=1e9, high=1e9),
        "gap.stream.unit is 'B/s'; expected s",
    ),
    (lambda p: p["measured"].update(more=3), "measured.more is 3; expected an object"),
    (lambda p: p["assumed"]["kernel.floor"].update(kind="measured"), "assumed kernel.floor is 'measured'; expected"),
    (lambda p: p["curves"]["copy"].update(points=[]), "curves.copy.points is []; expected at least one"),
    (lambda p: p["curves"]["copy"]["points"].reverse(), "above zero and rising"),
    (lambda p: p["curves"]["copy"]["points"][1].pop(0), "curves.copy.points[1] is [{"),
    (lambda p: p["curves"]["copy"]["points"][1][1].update(unit="s"), "curves.copy.points[1][1].value"),
    (lambda p: p["curves"]["copy"].pop("axis"), "curves.copy.axis is missing"),
    (lambda p: p.update(notes="none"), "notes is 'none'; expected a list"),
    (lambda p: p.update(date="2001-01-01"), "the checksum does not fit"),
]


WRONG_FORMATS = [
    (FORMAT + 1, f"format is {FORMAT + 1}; expected {FORMAT}: newer than"),
    (FORMAT - 1, f"format is {FORMAT - 1}; expected {FORMAT}: an older brrr wrote it"),
    ("1", "format is '1'; expected a whole number"),
]


@pytest.mark.parametrize(("version", "message"), WRONG_FORMATS)
def test_peaks_of_another_format_say_what_to_do(tmp_path: Path, version: object, message: str) -> None:
    path = write(tmp_path, PEAKS)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": version}))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(("spoil", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_peaks_are_refused_by_name(tmp_path: Path, spoil: Spoil, message: str) -> None:
    path = write(tmp_path, PEAKS)
    content = json.loads(path.read_text())
    spoil(content["peaks"])
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_the_folder_is_named_after_the_device() -> None:
    assert slug_of(gpu_peaks()) == "h200" and slug_of(replace(PEAKS, kind="cpu", device="Some CPU")) == "cpu"


def test_calibrate_never_overwrites_the_peaks_of_another_device(tmp_path: Path) -> None:
    """All CPUs share a folder's name."""
    mine = replace(gpu_peaks(), kind="cpu", device="this CPU")
    path = keep(tmp_path, mine)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=r"holds the peaks of this CPU; these are of another.* --out DIR"):
        keep(tmp_path, replace(mine, device="another"))
    assert path.read_bytes() == before
    assert keep(tmp_path, replace(mine, date="2031-01-01")) == path
