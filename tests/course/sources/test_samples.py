"""Raw samples beside a recording: what they give is what the CSV says, and nobody who reads a recording loads them."""

import dataclasses
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import made_up
import pytest

from brrr.core.errors import RecordingError
from brrr.core.files import share
from brrr.core.measurement import Estimate, Field, Measurement
from brrr_course.experiments import experiment
from brrr_course.sources import samples
from brrr_course.sources.folders import join
from brrr_course.sources.plan import Step
from brrr_course.sources.recording import Recording
from brrr_course.sources.rows import Row, Timed

MATMUL = experiment("matmul")
PAIRS = [3.0e-6 + 1e-8 * at for at in range(40)]
HOST_TICK_S, DEVICE_TICK_S = 1e-9, 32e-9
"""The steps of the two clocks: no interval is narrower."""
ON_DEVICE = ("kernel_s", "busy_s", "span_s")
OFF_S = 1.5e-6
"""What a made-up calibration takes off an event pair."""


def measure(step: Step) -> dict[str, Timed]:
    """As a GPU's timers do: the span is the event pair's less a surplus."""
    span = Estimate.of(PAIRS, DEVICE_TICK_S).shifted(-OFF_S)
    host = [1e-6, 1.0004e-6, 1.0005e-6]
    times: dict[str, Any] = {"span_s": span, "host_s": Estimate.of(host, HOST_TICK_S), "sm_clock_hz": 1.9e9}
    given = {"pair_s": tuple(PAIRS), "host_s": tuple(host), "period_s": (1.0,)}
    timed = made_up.made_up(step.experiment, "gpu", step.point)
    return {name: dataclasses.replace(timed, measurement=Measurement(**times, samples=given)) for name in step.variants}


def four(e: Estimate) -> tuple[float, float, float, int]:
    return e.median, e.low, e.high, e.n


def near(estimate: Estimate) -> Any:
    """As float32 holds it."""
    return pytest.approx(four(estimate), rel=3e-7)


def recomputed(row: Row, series: samples.Series) -> dict[Field, Estimate]:
    """The row's times computed again from their samples.

    A period that is the mean of calls that take turns is left out, and a CPU's host time with it: how many calls a
    sample is of is not kept. What the calibration took off a span's median it takes off the ends. Where a span was
    raised to the busy time, which is seldom, the interval in the file holds both, and this one does not.
    """
    found: dict[Field, Estimate] = {}
    for name, values in series.items():
        on_device = name in ON_DEVICE and row.measurement.sm_clock_hz is not None
        again = Estimate.of(values, DEVICE_TICK_S if on_device else HOST_TICK_S)
        kept = row.measurement.get(name)
        if name in ("period_s", "host_s") and kept is not None and kept.n != again.n:
            continue
        shifted = again.shifted(kept.median - again.median if kept is not None and name == "span_s" else 0.0)
        found[name] = Estimate(shifted.median, max(0.0, shifted.low), shifted.high, shifted.n)
    return found


def test_intervals_computed_again_are_those_of_the_file(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.GPU, {"size": ["64", "128"]}, measure=measure)
    made_up.record(tmp_path, made_up.GPU, {"size": ["256"]}, measure=measure, run=made_up.run_info("run-2"))
    rows = Recording.read(tmp_path / "h200", MATMUL).rows
    kept = samples.read(tmp_path / "h200" / "matmul.samples.npz")
    assert {row.key for row in rows} == set(kept) and {row.run for row in rows} == {"run-1", "run-2"}
    for row in rows:
        again = recomputed(row, kept[row.key])
        assert set(again) == {"host_s", "span_s"}
        for name, found in again.items():
            measured = row.measurement.get(name)
            assert measured is not None and four(found) == near(measured)


KEPT = sorted((share("data") / "recordings").glob("*/*.samples.npz"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_those_that_the_course_keeps_give_its_intervals(path: Path) -> None:
    """But for a span that was raised to the busy time, and the ticks of others' clocks: how far is not kept."""
    kept = samples.read(path)
    for row in Recording.read(path.parent, experiment(path.name.partition(".")[0])).rows:
        series = kept.get(row.key, {})
        again = recomputed(row, series)
        if "period_s" in series and "period_s" not in again:  # the mean of loops and of single calls
            every, mean = [*series["period_s"], *series["latency_s"]], row.measurement.period_s
            assert mean is not None and mean.n > len(series["period_s"])
            assert min(every) * 0.999 <= mean.median <= max(every) * 1.001
        for name, found in again.items():
            measured = row.measurement.get(name)
            assert measured is not None
            ticks = 1e-9 if row.measurement.sm_clock_hz is None else 0.0
            if four(found) != pytest.approx(four(measured), rel=3e-7, abs=ticks):
                assert name == "span_s" and row.measurement.busy_s, (row.key, name)
                assert measured.median == row.measurement.busy_s.median


def test_rows_without_samples_make_no_file(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.GPU, {"size": ["64"]})
    assert not list((tmp_path / "h200").glob("*.npz")) and samples.read(tmp_path / "h200" / "matmul.samples.npz") == {}


def two(root: Path) -> tuple[Path, Path]:
    """Folders of two runs, with samples."""
    for run, size in (("gpu-0", "64"), ("gpu-1", "128")):
        made_up.record(root / run, made_up.GPU, {"size": [size]}, measure=measure, run=made_up.run_info(run))
    return root / "gpu-0" / "h200", root / "gpu-1" / "h200"


def test_joined_folders_have_the_samples_of_both(tmp_path: Path) -> None:
    into, theirs = two(tmp_path)
    for _ in range(2):
        join(into, theirs)
    assert set(samples.read(into / "matmul.samples.npz")) == {row.key for row in Recording.read(into, MATMUL).rows}


def npy(shape: str, descr: str = "<f4", data: bytes = bytes(4)) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + data


HARMS = {
    "a member more": {"secret.99999.npy": b"MZ anything at all"},
    "a pair without an index": {"gpu-1.00009.npy": npy("(1,)")},
    "more than there are": {"gpu-1.00009.json": 10**9, "gpu-1.00009.npy": npy("(1,)")},
    "a sample of no row": {"gpu-1.00009.json": 0, "gpu-1.00009.npy": npy("(1,)")},
    "no number": {"gpu-1.00009.json": 1, "gpu-1.00009.npy": npy("(1,)", data=b"\0\0\xc0\x7f")},
    "texts": {"gpu-1.00009.json": 1, "gpu-1.00009.npy": npy("(1,)", "<U1")},
    "too much in all": {"gpu-1.00009.json": 4096, "gpu-1.00009.npy": npy("(4096,)", data=bytes(4 * 4096))},
    "zipped in a way nobody knows": {},
}
"""Members beside the writer's own; of an index so many samples that it tells of."""


@pytest.mark.parametrize("harm", HARMS)
def test_a_join_takes_what_the_writer_makes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """Nothing hides in a folder from elsewhere: what no row tells of is refused, and nothing is written."""
    monkeypatch.setattr(samples, "MOST_JSON_BYTES", 8192)
    into, other = two(tmp_path)
    theirs, before = other / "matmul.samples.npz", {path.name: path.read_bytes() for path in into.iterdir()}
    with ZipFile(theirs, "a", ZIP_DEFLATED) as archive:
        for name, told in HARMS[harm].items():
            index = f'[[[[1],"gpu","hot","gpu-1"],{{"host_s":{told}}}]]'
            archive.writestr(name, told if isinstance(told, bytes) else index)
    if not HARMS[harm]:
        entry = b"PK\1\2\x14\3\x14\0\0\0"
        theirs.write_bytes(theirs.read_bytes().replace(entry + b"\x08\0", entry + b"\x63\0"))
    with pytest.raises(RecordingError, match=r"matmul\.samples\.npz: cannot be read"):
        join(into, other)
    assert {path.name: path.read_bytes() for path in into.iterdir()} == before


def test_what_changes_after_it_was_read_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into, other = two(tmp_path)
    theirs = other / "matmul.samples.npz"
    read = samples.parts

    def swapped(path: Path) -> dict[str, samples.Part]:
        found = read(path)
        with ZipFile(theirs, "w") as archive:
            archive.writestr("secret.99999.npy", b"MZ anything at all")
        return found

    monkeypatch.setattr(samples, "parts", swapped)
    join(into, other)
    monkeypatch.undo()
    assert set(samples.read(into / "matmul.samples.npz")) == {row.key for row in Recording.read(into, MATMUL).rows}
