"""A quick calibration of this machine's CPU, and that every check in it can fail."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from brrr.cli import calibrate as command
from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate
from brrr.roofline.calibrate import calibrate, cpu, part, reference_calls
from brrr.roofline.calibrate.cpu import LinearRecurrence
from brrr.roofline.calibrate.host_cost import LIMIT, measure_host, measure_python, operators
from brrr.roofline.calibrate.part import Findings, ReadyProduct, measure_products
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import Peaks, read_peaks
from tools.reference import autograd

TARGET_S = 5.0


@pytest.fixture(scope="module")
def peaks() -> Peaks:
    start = time.perf_counter()
    found = calibrate("cpu", quick=True)
    took_s = time.perf_counter() - start
    print(f"a quick calibration took {took_s:.1f} s, target {TARGET_S} s")
    assert took_s < 5 * TARGET_S
    return found


def test_a_cpu_has_bandwidths_products_arithmetic_and_host_costs(peaks: Peaks) -> None:
    assert peaks.kind == "cpu" and peaks.torch == torch.__version__ and not peaks.assumed
    for kind in ("copy", "read", "write", "triad"):
        places = [place for place, _ in peaks.curve(kind).points]
        assert places[0] <= 2**16 < 2**24 < places[-1] and peaks.bandwidth(1e6, kind) > 0
    assert peaks.matmul("fp32").unit == "FLOP/s" and peaks.arithmetic(fma=False).unit == "FLOP/s"
    assert "lower bound" in str(peaks.arithmetic().conditions["what"])
    for operator in ("pointwise", "in-place", "reduction", "matmul", "view", "copy"):
        assert peaks.host_s(operator).unit == "s"
    assert any("host.compiled: left out" in note for note in peaks.notes)
    assert not peaks.sweeps and any("sweep of operators: left out" in note for note in peaks.notes)
    assert not any(name.startswith(("kernel.", "gap.")) for name in peaks.measured), "a CPU has no launches"


def test_the_command_prints_and_keeps_them_and_says_what_is_wrong(
    peaks: Peaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def played(device: str | None, **options: Any) -> Peaks:
        asked.append((device, options["quick"]))
        options["progress"]("bandwidth")
        return peaks

    with monkeypatch.context() as short:
        short.setattr(command, "calibrate", played)
        assert command.main(["--device", "cpu", "--quick", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert asked == [("cpu", True)] and "Peaks of" in out and "working set" in out and "measuring: bandwidth" in err
    assert str(tmp_path / "cpu" / "peaks.json") in out and read_peaks(tmp_path / "cpu") == peaks
    assert command.main(["--device", "cpu", "--seconds", "-1"]) == 2
    assert "budget_s is -1.0" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert command.main(["--device", "cuda"]) == 2
        assert "calibrate: device is 'cuda', but CUDA does not work here" in capsys.readouterr().err


def test_a_cpu_makes_calls_of_the_references_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of each kind here; nothing is carried over to a CPU, and no gradient's time holds autograd's."""
    monkeypatch.setitem(reference_calls.MOST, "cpu", (2e5, 3e-6))
    monkeypatch.setattr(reference_calls, "QUICK_S", 2.0)
    found = Findings(time.perf_counter() + 1e3, quick=True)
    reference_calls.sweep_products(found, "cpu")
    reference_calls.sweep_operators(found, "cpu")
    products, swept = found.sweeps["products"].columns, found.sweeps["operators"].columns
    assert set(products["dtype"]) <= set(reference_calls.CPU_DTYPES) and not any(swept["carried"])
    assert len(set(swept["kind"])) > 1 and not any("backward" in str(name) for name in swept["operator"])


# ---------------------------------------------------------------- checks that can fail


def test_streams_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = torch.rand(4096) + 0.5
    before = arena.clone()
    for kind in cpu.STREAMS:
        moved, _ = cpu.stream(kind, arena, 4096)
        assert 4032 <= moved <= 4096 and torch.equal(arena, before)
    monkeypatch.setattr(torch, "add", lambda b, c, alpha, out: out.copy_(b + c))
    with pytest.raises(WrongResultError, match="torch's add"):
        cpu.stream("triad", arena, 4096)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, source: self)
    with pytest.raises(WrongResultError, match="torch's copy_"):
        cpu.stream("copy", arena, 4096)


@pytest.mark.parametrize("wrong", [float("nan"), 0.0, 1.001])
@pytest.mark.parametrize("block", [64, part.BLOCK])
def test_one_wrong_element_is_found(wrong: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first block of the check too; a number near zero is off by a rounding of those that it came from."""
    monkeypatch.setattr(part, "BLOCK", block)
    right = torch.rand(1000) + 1.0
    spoilt = right.clone()
    spoilt[-1] *= wrong
    part.same(right, lambda block: right[block], "it")
    with pytest.raises(WrongResultError, match="it gave a wrong result"):
        part.same(spoilt, lambda block: right[block], "it")
    with pytest.raises(WrongResultError):
        part.close(spoilt, right, 1e-4, "it")
    near = torch.tensor([1.0, -1.0, 1e-9], dtype=torch.float64)
    part.close(near + 1e-7, near, 1e-6, "it")
    with pytest.raises(WrongResultError, match="it gave a wrong result"):
        part.close(near + 1e-5, near, 1e-6, "it")
    b, c = torch.randn(1000), torch.randn(1000)
    a = b + 0.5 * c
    part.same(a, part.added(b, c, 0.5), "it", part.roundings(b, c, 0.5))
    a[500] = a[500] * wrong if wrong == wrong else wrong
    with pytest.raises(WrongResultError):
        part.same(a, part.added(b, c, 0.5), "it", part.roundings(b, c, 0.5))


@pytest.mark.parametrize("addition", [True, False])
def test_the_recurrence_tells_a_step_left_out(addition: bool) -> None:
    recurrence = LinearRecurrence(1024, addition=addition)
    start = 0.5 + torch.rand(8, dtype=torch.float64) / 2
    x = start.clone()
    for _ in range(recurrence.steps - 1):
        x = x * recurrence.factor + recurrence.addend
    with pytest.raises(WrongResultError):
        part.close(x, recurrence.end(start), 1e-5, "a chain")
    part.close(x * recurrence.factor + recurrence.addend, recurrence.end(start), 1e-12, "a chain")


def timed(call: object, seconds: float) -> Estimate:
    return Estimate(1e-3, 1e-3, 1e-3, 9)


@pytest.mark.parametrize("dtype", ["fp32", "fp64", "bf16", "fp16", "int8"])
def test_products_are_right(dtype: str) -> None:
    found = Findings(until_s=1e18)
    measure_products(dtype, (64, 96), "cpu", timed, found, share_s=1e9, by="torch")
    curve = found.curves[f"matmul.{dtype}"]
    assert [place for place, _ in curve.points] == [64, 96]
    assert curve.points[1][1].value == pytest.approx(2 * 96**3 / 1e-3)
    assert curve.points[0][1].unit == ("IOP/s" if dtype == "int8" else "FLOP/s")
    measure_products(dtype, (64, 66, 256), "cpu", timed, found, share_s=0.1, by="torch")
    assert len(found.curves[f"matmul.{dtype}"].points) == 2
    assert found.notes == [f"matmul.{dtype}: size 256 left out, for lack of time"]


@pytest.mark.parametrize("error", [1e-4, 1.0, float("nan")])
def test_a_wrong_product_is_found(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(dtype: str, size: int, device: str) -> ReadyProduct:
        a, b = torch.randn(size, size), torch.randn(size, size)
        return ReadyProduct(lambda: a @ b + error * size**0.5 * torch.randn(size, size), a, b)

    monkeypatch.setattr(part, "product", spoilt)
    with pytest.raises(WrongResultError, match="a fp32 product of 64"):
        measure_products("fp32", (64,), "cpu", timed, Findings(until_s=1e18), share_s=1e9, by="torch")


def test_every_class_of_operators_gives_what_it_says() -> None:
    for each in operators("cpu"):
        with torch.no_grad():
            part.close(each.call().detach(), each.expected, LIMIT, each.written)
            part.close(each.call().detach(), each.expected, LIMIT, each.written)
        with pytest.raises(WrongResultError):
            part.close(each.call().detach(), each.expected + 1.0, LIMIT, each.written)


@pytest.fixture(scope="module")
def of_classes() -> dict[str, Peak]:
    found = Findings(until_s=time.perf_counter() + 3)
    measure_host("cpu", found)
    return found.measured


def test_autograd_on_a_cpu(of_classes: dict[str, Peak], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gradient 2 µs; of a relu's 35 µs beside its forward call its own, and what an operator costs, are taken."""
    at = {"one": 40, "first": 50, "every": 50 + 2 * (autograd.MANY - 1), "network": 300, "relu": 5, "ahead": 100}
    told = [Estimate.of([each * 1e-6]) for each in at.values()]
    monkeypatch.setattr(autograd, "at_usual_speed", lambda calls, device, found: told)
    found = Findings(until_s=time.perf_counter() + 30, measured=dict(of_classes))
    autograd.measure_backward("cpu", found, {})
    once, operator, gradient = (found.measured[f"host.backward{end}"].value for end in ("", "-operator", "-gradient"))
    assert gradient == pytest.approx(2e-6) and operator > 0
    assert once + operator == pytest.approx(33e-6)


def test_a_line_of_python_costs_less_than_an_operator(of_classes: dict[str, Peak]) -> None:
    found = Findings(until_s=time.perf_counter() + 30, measured=dict(of_classes))
    measure_python("cpu", found)
    assert 0 < found.measured["host.line"].value < found.measured["host.relu"].value


def test_a_wrong_gradient_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.autograd, "grad", lambda y, wanted, above, **_: [2 * above for _ in wanted])
    with pytest.raises(WrongResultError, match="the gradient of relus or sums"):
        autograd.measure_backward("cpu", Findings(until_s=time.perf_counter() + 30), {})
