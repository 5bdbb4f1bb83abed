"""`sweep`: rows in every form, memory that runs out, errors with their sizes, and files that go on where it ended."""

import csv
import gc
import io
import json
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import brrr
from brrr.core.errors import DeviceMemoryError, RecordingError, UnavailableError
from brrr.drawing.style import kept_figures
from tests.on_played import there
from tests.refusals import refused

QUICK: Any = {"device": "cpu", "budget_s": 0.01}


def relu(n: int) -> Callable[[], torch.Tensor]:
    return partial(torch.relu, torch.ones(n))


def test_a_row_is_what_brrr_time_measures_in_every_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    axes = {"f": [torch.relu, torch.sigmoid], "n": torch.tensor([64, 128])}
    found = brrr.sweep(lambda f, n: partial(f, torch.ones(n)), axes, **QUICK)
    assert [tuple(row.sizes.values()) for row in found.rows] == [
        ("relu", 64), ("relu", 128), ("sigmoid", 64), ("sigmoid", 128),
    ]  # fmt: skip
    row = found.rows[1]
    assert row.time and row.cost and (row.cost.flop, row.cost.eager_bytes) == (128, 1024)
    rates = {"flop_per_s": 128 / row.time.median, "bytes_per_s": 1024 / row.time.median}
    assert row.rates.items() > rates.items() and str(row).endswith(f" of the roof of the memory: {row.regime}")
    assert "sigmoid  128" in str(found) and "kernels" not in str(found) and f"LIVE · {found.badge.device}" in str(found)
    assert json.loads(found.to_json())["rows"][1]["rates"]["flop_per_s"] == rates["flop_per_s"]
    found.to_csv(tmp_path / "sizes.csv")
    (_, line, *_), text = csv.DictReader(io.StringIO(found.to_csv())), (tmp_path / "sizes.csv").read_text("utf-8")
    assert (line["f"], line["n"], line["kernel_s_low"]) == ("relu", "128", "") and text == found.to_csv()
    assert float(line["period_s_median"]) == row.time.median and float(line["bytes_per_s"]) == rates["bytes_per_s"]
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert [each["n"] for each in found.to_frame()] == [64, 128] * 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        found.to_frame()


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError("CUDA out of memory. Tried 9 GiB"), DeviceMemoryError("9 GB are needed"), MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError("MPS backend out of memory"),
])  # fmt: skip
def test_memory_that_runs_out_ends_a_row_and_any_other_error_names_the_sizes(error: Exception) -> None:
    def make(n: int) -> Callable[[], Any]:
        if n == 2:
            raise error
        return relu(n)

    found = brrr.sweep(make, [1, 2, 3], **QUICK)
    assert [row.time is None for row in found.rows] == [False, True, False]
    assert str(found.rows[1]) == "out of memory" and "out of memory from size=2" in str(found)
    assert str(error).split(". ")[0] in found.details()
    with pytest.raises(ZeroDivisionError) as caught:
        brrr.sweep(lambda a, b: lambda: a / b, {"a": [1], "b": [2, 0]}, **QUICK)
    assert caught.value.__notes__ == ["sweep: at a=1, b=0"]
    with pytest.raises(brrr.ArgumentError) as refusal:  # a notebook shows the note, too
        brrr.sweep(torch.ones, [1], **QUICK)
    assert refusal.value._render_traceback_()[1] == "sweep: at size=1"


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, stops, file = list[int](), {2: DeviceMemoryError("none is left"), 4: KeyboardInterrupt()}, tmp_path / "n.json"

    def make(n: int) -> Callable[[], Any]:
        made.append(n)
        if n in stops:
            raise stops.pop(n)
        return relu(n)

    def again(sizes: Any = (1, 2, 3, 4, 5), **how: Any) -> brrr.Sweep:
        return brrr.sweep(make, sizes, file=file, **{**QUICK, **how})

    assert [row.sizes["size"] for row in again().rows] == [1, 2, 3]
    kept = [row.as_dict() for row in again().rows]
    assert made == [1, 2, 3, 4, 2, 4, 5] and [row["sizes"]["size"] for row in kept] == [1, 2, 3, 4, 5]
    assert [row.as_dict() for row in again().rows] == kept and len(made) == 7
    for other in ((1, 2), {"rows": (1, 2, 3, 4, 5)}):
        with refused("file", str(file)):
            again(other)
    monkeypatch.setattr("brrr.gpu.device.torch_version", lambda: "0.1")
    with refused("file", str(file)):
        again()
    file.write_text("a stranger's", "utf-8")
    with pytest.raises(RecordingError, match=r"n\.json: is no valid JSON"):
        again()
    assert file.read_text("utf-8") == "a stranger's"


def test_a_rows_memory_is_free_before_the_next_is_made() -> None:
    made = list[Any]()

    def make(n: int) -> Callable[[], Any]:
        assert [each for each in made if each() is not None] == []
        x = torch.ones(n)
        x.circle = [x]  # type: ignore[attr-defined]
        made.append(weakref.ref(x))
        return lambda: torch.relu(x) if n < 3 else (_ for _ in ()).throw(MemoryError())

    gc.disable()
    try:
        assert len(brrr.sweep(make, [1, 2, 3, 4], **QUICK).rows) == 4
    finally:
        gc.enable()


def test_progress_is_for_who_looks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    brrr.sweep(relu, [8, 16], **QUICK)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    brrr.sweep(relu, [8, 16], **QUICK)
    assert [each.strip() for each in capsys.readouterr().err.split("\r")[1:]] == [
        "sweep: 1 of 2, size=8", "sweep: 2 of 2, size=16",
    ]  # fmt: skip


def test_figures() -> None:
    axes = {"dtype": [torch.float32, torch.float64], "n": [8, 64, 512]}
    found = brrr.sweep(lambda dtype, n: partial(torch.relu, torch.ones(n, dtype=dtype)), axes, **QUICK)
    with kept_figures():
        drawn = found.plot().figure
    assert drawn is not None
    (on,) = drawn.axes
    lines = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in on.lines}
    times = [(row.sizes["n"], row.time and row.time.median) for row in found.rows]
    assert lines["dtype=torch.float32"] == times[:3] and lines["dtype=torch.float64"] == times[3:]
    assert lines["the roof"][2] == (512, found.rows[2].roof_s)
    assert (on.get_xscale(), on.get_yscale(), on.get_xlabel()) == ("log", "log", "n")
    assert str(found.badge) in [each.get_text() for each in drawn.texts]
    assert "dtype=torch.float64, n=512: 0.0625 FLOP/B" in found.plot("roofline").alt


@pytest.mark.parametrize("given", [
    {"sizes": []}, {"sizes": [1, 1]}, {"sizes": 5}, {"sizes": {"n": 5}}, {"make": 5}, {"device": "tpu"},
])  # fmt: skip
def test_arguments_that_are_none(given: dict[str, Any]) -> None:
    with refused(*given):
        brrr.sweep(**{"make": relu, "sizes": [1], **QUICK, **given})


@there
def test_on_an_accelerator_that_nobody_knows() -> None:
    place = torch.accelerator.current_accelerator()
    found = brrr.sweep(lambda n: partial(torch.relu, torch.ones(n, device=place)), [8, 64], budget_s=0.02)
    assert found.kind == "played" and all(row.measurement.host_s and row.cost for row in found.rows)
    with pytest.raises(brrr.MissingPeakError):
        found.plot("roofline")
