"""A quick calibration of this machine's CPU, and that every check in it can fail."""

import time
from pathlib import Path

import pytest
import torch

from brrr.cli.calibrate import main
from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate
from brrr.roofline.calibrate import again, calibrate, cpu, part
from brrr.roofline.calibrate.cpu import LinearRecurrence
from brrr.roofline.calibrate.host_cost import LIMIT, measure_host, measure_python, operators
from brrr.roofline.calibrate.part import Findings, ReadyProduct, measure_products
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import Peaks, read_peaks
from tools.reference.autograd import measure_backward

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


def test_a_cpu_makes_calls_of_the_references_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of each kind here; nothing is carried over to a CPU, and no gradient's time holds autograd's."""
    monkeypatch.setitem(again.MOST, "cpu", (2e5, 3e-6))
    monkeypatch.setattr(again, "QUICK_S", 1.0)
    found = Findings(time.perf_counter() + 1e3, quick=True)
    again.sweep_products(found, "cpu")
    again.sweep_operators(found, "cpu")
    products, swept = found.sweeps["products"].columns, found.sweeps["operators"].columns
    assert set(products["dtype"]) <= set(again.CPU_DTYPES) and not any(swept["carried"])
    assert len(set(swept["kind"])) > 3 and not any("backward" in str(name) for name in swept["operator"])


def test_the_command_prints_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--quick", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "Peaks of" in out and "working set" in out and "measuring: bandwidth" in err
    assert str(tmp_path / "cpu" / "peaks.json") in out
    assert read_peaks(tmp_path / "cpu").kind == "cpu"


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--seconds", "-1"]) == 2
    assert "budget_s is -1.0" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cuda"]) == 2
    assert "calibrate: device is 'cuda', but CUDA does not work here" in capsys.readouterr().err


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
def test_one_wrong_element_is_found(wrong: float) -> None:
    right = torch.rand(1000) + 1.0
    spoilt = right.clone()
    spoilt[-1] *= wrong
    part.same(right, lambda block: right[block], "it")
    with pytest.raises(WrongResultError, match="it gave a wrong result"):
        part.same(spoilt, lambda block: right[block], "it")
    with pytest.raises(WrongResultError):
        part.close(spoilt, right, 1e-4, "it")
    b, c = torch.randn(1000), torch.randn(1000)
    a = b + 0.5 * c
    part.same(a, part.added(b, c, 0.5), "it", part.roundings(b, c, 0.5))
    a[500] = a[500] * wrong if wrong == wrong else wrong
    with pytest.raises(WrongResultError):
        part.same(a, part.added(b, c, 0.5), "it", part.roundings(b, c, 0.5))


def test_a_number_near_zero_is_held_against_the_others() -> None:
    """A norm's result near zero is off by a rounding of the numbers that it came from."""
    right = torch.tensor([1.0, -1.0, 1e-9], dtype=torch.float64)
    part.close(right + 1e-7, right, 1e-6, "it")
    with pytest.raises(WrongResultError, match="it gave a wrong result"):
        part.close(right + 1e-5, right, 1e-6, "it")


def test_the_check_looks_behind_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "BLOCK", 64)
    ones = torch.ones(200)
    ones[199] = 2
    with pytest.raises(WrongResultError):
        part.same(ones, lambda block: torch.ones(block.stop - block.start), "it")


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


@pytest.mark.parametrize("error", [1e-4, 1.0, float("nan")])
def test_a_wrong_product_is_found(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(dtype: str, size: int, device: str) -> ReadyProduct:
        a, b = torch.randn(size, size), torch.randn(size, size)
        return ReadyProduct(lambda: a @ b + error * size**0.5 * torch.randn(size, size), a, b)

    monkeypatch.setattr(part, "product", spoilt)
    with pytest.raises(WrongResultError, match="a fp32 product of 64"):
        measure_products("fp32", (64,), "cpu", timed, Findings(until_s=1e18), share_s=1e9, by="torch")


def test_sizes_that_take_too_long_are_left_out() -> None:
    found = Findings(until_s=1e18)
    measure_products("fp32", (64, 66, 256), "cpu", timed, found, share_s=0.1, by="torch")
    assert len(found.curves["matmul.fp32"].points) == 2
    assert found.notes == ["matmul.fp32: size 256 left out, for lack of time"]


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


def test_autograd_on_a_cpu(of_classes: dict[str, Peak]) -> None:
    found = Findings(until_s=time.perf_counter() + 30, measured=dict(of_classes))
    measure_backward("cpu", found, {})
    new = {name: found.measured[name] for name in found.measured if name not in of_classes}
    names = {"host.backward", "host.backward-operator", "host.backward-gradient"}
    assert "host.backward-operator" in new and set(new) <= names
    assert all(0 < each.value < 1e-3 for each in new.values())


def test_a_line_of_python_costs_less_than_an_operator(of_classes: dict[str, Peak]) -> None:
    found = Findings(until_s=time.perf_counter() + 30, measured=dict(of_classes))
    measure_python("cpu", found)
    assert 0 < found.measured["host.line"].value < found.measured["host.relu"].value


def test_a_wrong_gradient_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.autograd, "grad", lambda y, wanted, above, **_: [2 * above for _ in wanted])
    with pytest.raises(WrongResultError, match="the gradient of relus or sums"):
        measure_backward("cpu", Findings(until_s=time.perf_counter() + 30), {})
