"""`sweep`: rows in every form, memory that runs out, errors with their sizes, and files that go on where it ended."""

import gc
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
    assert [row.sizes for row in found.rows] == [{"f": f, "n": n} for f in ("relu", "sigmoid") for n in (64, 128)]
    row = found.rows[1]
    assert row.time and row.cost and (row.cost.flop, row.cost.eager_bytes) == (128, 1024)
    rates = {"flop_per_s": 128 / row.time.median, "bytes_per_s": 1024 / row.time.median}
    assert row.rates.items() > rates.items() and str(row).endswith(f" of the roof of the memory: {row.regime}")
    assert "sigmoid  128" in str(found) and "kernels" not in str(found) and f"LIVE · {found.badge.device}" in str(found)
    assert found.as_dict()["rows"][1]["rates"] == row.rates and found.to_csv(tmp_path / "sizes.csv") == found.to_csv()
    head, _, line, *_ = (each.split(",") for each in (tmp_path / "sizes.csv").read_text("utf-8").splitlines())
    told = dict(zip(head, line, strict=True))
    assert (told["f"], told["n"], told["kernel_s_low"]) == ("relu", "128", "")
    assert float(told["period_s_median"]) == row.time.median and float(told["bytes_per_s"]) == rates["bytes_per_s"]
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert [each["n"] for each in found.to_frame()] == [64, 128] * 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        found.to_frame()


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError("CUDA: tried 9 GiB"), DeviceMemoryError("9 GB are needed"), MemoryError("too large"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError("MPS backend out of memory"),
])  # fmt: skip
def test_memory_that_runs_out_ends_a_row_and_is_free_before_the_next(error: Exception) -> None:
    made = list[Any]()

    def make(n: int) -> Callable[[], Any]:
        assert [each for each in made if each() is not None] == []
        x = torch.ones(n)
        x.circle = [x]  # type: ignore[attr-defined]
        made.append(weakref.ref(x))
        return lambda: torch.relu(x) if n != 2 else (_ for _ in ()).throw(type(error)(*error.args))

    gc.disable()
    try:
        found = brrr.sweep(make, [1, 2, 3], **QUICK)
    finally:
        gc.enable()
    assert [row.time is None for row in found.rows] == [False, True, False] and str(error) in str(found)
    assert str(found.rows[1]) == "out of memory" and "out of memory from size=2" in str(found)


def test_any_other_error_names_the_sizes() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        brrr.sweep(lambda a, b: lambda: a / b, {"a": [1], "b": [2, 0]}, **QUICK)
    assert caught.value.__notes__ == ["sweep: at a=1, b=0"]
    with pytest.raises(brrr.ArgumentError) as refusal:  # a notebook shows the note, too
        brrr.sweep(torch.ones, [1], **QUICK)
    assert refusal.value._render_traceback_()[1] == "sweep: at size=1"


def test_it_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stops, file = {2: DeviceMemoryError("none is left"), 4: KeyboardInterrupt()}, tmp_path / "n.json"

    def make(n: int) -> Callable[[], Any]:
        if n in stops:
            raise stops.pop(n)
        return relu(n)

    def again(sizes: Any = (1, 2, 3, 4, 5), make: Any = make, file: Path = file) -> list[Any]:
        return [row.as_dict() for row in brrr.sweep(make, sizes, file=file, **QUICK).rows]

    assert [row["sizes"]["size"] for row in again()] == [1, 2, 3] and capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    whole = again()
    assert whole == again() and [row["sizes"]["size"] for row in whole] == [1, 2, 3, 4, 5]
    assert capsys.readouterr().err == "".join(f"sweep: {size} of 5, size={size}\n" for size in (2, 4, 5))
    flags = {"on": [True, None]}, lambda on: relu(8), tmp_path / "flags.json"  # told as text
    assert again(*flags) == again(*flags)
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


def test_figures() -> None:
    axes = {"dtype": [torch.float32, torch.float64], "n": [8, 64, 512]}
    found = brrr.sweep(lambda dtype, n: partial(torch.relu, torch.ones(n, dtype=dtype)), axes, **QUICK)
    with kept_figures():
        drawn: Any = found.plot().figure
    (on,) = drawn.axes
    lines = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in on.lines}
    times = [(row.sizes["n"], row.time and row.time.median) for row in found.rows]
    assert lines["dtype=torch.float32"] == times[:3] and lines["dtype=torch.float64"] == times[3:]
    assert lines["the roof"][2] == (512, found.rows[5].roof_s)
    assert (on.get_xscale(), on.get_yscale(), on.get_xlabel()) == ("log", "log", "n")
    assert str(found.badge) in [each.get_text() for each in drawn.texts]
    assert "dtype=torch.float64, n=512: 0.0625 FLOP/B" in found.plot("roofline").alt
    with refused("what", "bytes"):
        found.plot("bytes")  # type: ignore[arg-type]


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
