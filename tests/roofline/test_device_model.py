"""What a device model is asked by others: one stream, one operator by itself, and what is known of this machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rooflines import cpu, gpu, pointwise, product

from brrr.core.errors import ArgumentError
from brrr.core.files import share
from brrr.core.measurement import Processor
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import datasheets, find_hardware, hardware, hardware_names
from brrr.roofline import device_model
from brrr.roofline.corrections import kernel_time, operator_time
from brrr.roofline.device_model import NOT_THIS_ONE, OTHER_CPU, Where, known_here, model_of, peaks_here
from brrr.roofline.lowering import in_tf32
from brrr.roofline.peaks import MissingPeakError, Peaks, recorded_peaks
from brrr.roofline.predicting import predict
from brrr.roofline.terms import stream_s


def test_a_stream_is_its_bytes_and_the_start_and_end_of_a_kernel() -> None:
    """400 MB at 4 TB/s are 100 µs, start and end 1 µs; on a CPU 1 MB at 100 GB/s is 10 µs, and a call 1 µs."""
    assert stream_s(model_of(gpu()), 200e6, 200e6) == pytest.approx(101e-6)
    assert stream_s(model_of(cpu()), 0.5e6, 0.5e6) == pytest.approx(11e-6, rel=0.1)
    assert stream_s(model_of(cpu()), 5e6, 5e6, 64e6) > 1.5 * stream_s(model_of(cpu()), 5e6, 5e6)


@pytest.mark.parametrize("device", [gpu(), cpu(), "h200", "datasheet:a100"])
@pytest.mark.parametrize("moved", [(4096.0, 4096.0), (1e6, 7e6), (3e8, 0.0)])
def test_a_stream_takes_what_a_fused_operator_without_arithmetic_takes(
    device: Where, moved: tuple[float, float]
) -> None:
    model = model_of(device)
    fused = OperatorCost("sums", 0.0, *moved, "float32", (), "fused")
    assert stream_s(model, *moved, 1e8) == operator_time(fused, model, max(1e8, fused.bytes)).device_s


def test_an_operator_by_itself_costs_a_gpus_host_nothing() -> None:
    on_gpu, on_cpu = (kernel_time(pointwise(400e6), model_of(each)) for each in (gpu(), cpu()))
    assert on_gpu.host_s == 0 and on_gpu.device_s == pytest.approx(101e-6) and on_cpu.host_s == pytest.approx(1e-6)
    each = product(4096, 4096, 4096, "float32", 4)
    single, tf32 = (kernel_time(one, model_of("h200")).device_s for one in (each, in_tf32(each)))
    assert single is not None and tf32 is not None and tf32 < single / 3


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_of_this_machine_its_own_peaks_count_then_the_datasheet(
    kind: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = gpu() if kind == "cuda" else cpu()
    recorded: dict[str, Peaks] = {"here": peaks}
    sheet = hardware("h200") if kind == "cuda" else None
    here = SimpleNamespace(slug="here", name=peaks.device, hardware=sheet)
    monkeypatch.setattr("brrr.gpu.device.this_device", lambda asked: here if asked == kind else None)
    monkeypatch.setattr(device_model, "find_recorded", recorded.get)
    assert known_here(kind) is peaks_here(kind) is peaks
    here.name = "another of the kind"
    with pytest.raises(MissingPeakError, match=r"another of the kind.*brrr calibrate"):
        peaks_here(kind)
    if sheet is not None:
        assert known_here(kind) is sheet
        return
    with pytest.raises(MissingPeakError, match="brrr calibrate"):
        known_here(kind)


@pytest.mark.parametrize("here", ["AMD EPYC", "Apple M4", ""])
def test_another_machine_s_cpu_is_said_to_be_one_and_this_machine_s_own_is_not(
    here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The course's recording has a CPU, which "cpu" means where this machine's own was not calibrated."""
    own = recorded_peaks("cpu")
    monkeypatch.setattr(device_model, "cpu_name", lambda: here or own.device)
    found = predict(Cost(2**26, 2**29), device="cpu")
    assert (found.device, model_of("cpu").peaks) == (own.device, own)
    for notes in (found.notes, model_of("cpu").notes, str(found)):
        assert (OTHER_CPU in notes) is bool(here)
    for named in ("h200", "datasheet:a100"):
        assert not {*model_of(named).notes} & {*NOT_THIS_ONE}


def test_several_devices_make_one_table() -> None:
    work = Cost(flop=2**40, bytes=2**30)
    found = predict(work, device=["4090", "datasheet:t4", hardware("l4")])
    lines = str(found).splitlines()
    assert [each.device for each in found] == ["NVIDIA GeForce RTX 4090", "NVIDIA T4", "NVIDIA L4"]
    assert lines[0] == "PREDICTED, eager"
    assert all(each.device in line for each, line in zip(found, lines[2:], strict=True))
    assert found[1].period_s == predict(work, device="datasheet:t4").period_s
    for several, devices in ((work, []), ([work], ["t4"])):
        with pytest.raises(ArgumentError, match="predict: device is"):
            predict(several, device=devices)
    with pytest.raises(ArgumentError, match="Nearest: rtx-4090"):
        predict(work, device=["t4", "4091"])


def test_a_datasheet_of_one_s_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = (share("data") / "hardware.toml").read_text("utf-8")
    table = theirs[theirs.index("[t4]") : theirs.index("[a100]")]
    (own := tmp_path / "own.toml").write_text(table.replace("[t4", "[mine").replace("T4", "My Own"), "utf-8")
    monkeypatch.setenv("BRRR_HARDWARE", str(own))
    for each in (datasheets, find_hardware):
        each.cache_clear()
    try:
        assert predict(Cost(flop=1.0, bytes=2**30), device="my own").device == "NVIDIA My Own"
        assert hardware_names()[0] == "mine" and "t4" in hardware_names()
    finally:
        for each in (datasheets, find_hardware):
            each.cache_clear()
