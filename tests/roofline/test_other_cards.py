"""Cards that nobody measured: a Hardware's own figures count, and what it can sustain."""

from dataclasses import replace

import pytest
import torch

from brrr import array, predict
from brrr.gpu.datasheet import Hardware, Source, hardware
from brrr.roofline.device_model import model_of
from brrr.roofline.reference import FREE_ISSUE, INLINE_ECC, rates_of, reference

SQUARE = array((4096, 4096))
OURS = Hardware(
    key="ours", name="Our GPU", generation="ours", year=2026, memory_bytes_per_s=1e12, sm_count=100,
    boost_clock_hz=2e9, dense={"shader cores": {"fp32": 5e13}, "matrix cores": {"bf16": 4e14}},
    sources=(Source("our own figures", "https://example.org"),),
)  # fmt: skip


def seconds(device: Hardware, dtype: str = "float32") -> float:
    made = array((4096, 4096), dtype)
    return predict(torch.mm, made, made, device=device, tf32=False).busy_s or 0.0


def copied_s(device: Hardware) -> float:
    return predict(torch.clone, array(2**28), device=device).busy_s or 0.0


def rate(device: Hardware, name: str = "matmul.fp32") -> float:
    return rates_of(device)[1][name].points[2][1].value


@pytest.mark.parametrize("known", [OURS, hardware("rtx-4090"), hardware("mi210")], ids=lambda each: each.key)
def test_a_hardwares_own_figures_count(known: Hardware) -> None:
    slower = replace(
        known, key="slower", name="A GPU that no file knows", memory_bytes_per_s=known.memory_bytes_per_s / 10
    )
    assert copied_s(slower) / copied_s(known) == pytest.approx(10, rel=0.02)
    said = predict(torch.relu, SQUARE, device=slower)
    assert said.device == slower.name and said.kinds == ("datasheet", "assumed") and said.busy_s
    twice = replace(known, dense={unit: {each: 2 * flop for each, flop in peaks.items()}
                                  for unit, peaks in known.dense.items()}, tdp_w=None)  # fmt: skip
    assert seconds(twice) < 0.6 * seconds(replace(known, tdp_w=None))


def test_too_little_memory_is_that_of_the_hardware_given() -> None:
    small = replace(OURS, memory_bytes=2**20)
    assert "does not fit" in predict(torch.relu, SQUARE, device=small).too_large
    assert not predict(torch.relu, SQUARE, device=OURS).too_large


def test_the_references_own_curves_are_as_they_were_measured() -> None:
    _, curves = rates_of(hardware("h200"))
    for name in ("matmul.fp32", "matmul.bf16", "matmul.tf32", "copy"):
        got, theirs = curves[name].points, reference().curves[name].points
        assert [(at, peak.value) for at, peak in got] == [(at, pytest.approx(peak.value)) for at, peak in theirs]


def test_power_holds_a_clock_back_only_where_it_is_short() -> None:
    l4 = hardware("l4")
    ample = replace(l4, tdp_w=500)
    assert rate(l4) < 0.5 * rate(ample)
    assert rate(replace(l4, tdp_w=1000)) == rate(ample) == rate(replace(l4, tdp_w=None))
    assert rate(l4) / rate(replace(l4, tdp_w=60)) == pytest.approx(((0.925 * 72 - 20) / (0.925 * 60 - 20)) ** 0.5)
    assert 0 < rate(replace(l4, tdp_w=15)) < rate(l4)
    assert rate(hardware("v100-pcie")) > 0.9 * hardware("v100-pcie").peak("fp32")


def test_an_older_process_takes_more_power() -> None:
    l4 = hardware("l4")
    assert rate(replace(l4, process_nm=12)) == pytest.approx(rate(l4) / 1.9**0.5)


def test_a_scheduler_of_sixteen_lanes_issues_beside_its_multiply_adds() -> None:
    ours = replace(OURS, compute_capability=(8, 6))
    assert rate(replace(OURS, compute_capability=(8, 0))) == pytest.approx(FREE_ISSUE * rate(ours))
    assert rate(replace(OURS, compute_capability=(8, 0)), "matmul.bf16") == rate(ours, "matmul.bf16")


def test_bits_that_mend_errors_take_bandwidth_where_they_lie_in_the_memory() -> None:
    t4 = hardware("t4")
    assert copied_s(replace(t4, inline_ecc=None)) / copied_s(t4) == pytest.approx(INLINE_ECC, rel=0.01)
    assert model_of(t4).value("copy") == t4.memory_bytes_per_s  # roofs stay the datasheet's


@pytest.mark.parametrize(("name", "dtype", "short"), [("v100", "bfloat16", "bf16"), ("t4", "bfloat16", "bf16"),
                                                      ("gtx-1070", "float16", "fp16 and bf16")])  # fmt: skip
def test_a_short_type_without_units_counts_as_float32(name: str, dtype: str, short: str) -> None:
    made, known = array((4096, 4096), dtype), hardware(name)
    said = predict(torch.mm, made, made, device=known)
    assert said.busy_s and 0.7 < said.busy_s / seconds(known) < 1.1
    assert f"it has no units for {short}: such products count as in fp32" in said.notes


def test_a_slower_clock_stretches_what_a_kernel_does_beside_its_bytes_and_flop() -> None:
    small = array((64, 64), "bfloat16")
    fast, slow = (
        predict(torch.mm, small, small, device=replace(OURS, boost_clock_hz=clock)).busy_s for clock in (2e9, 1e9)
    )
    assert fast is not None and slow is not None and 1.4 < slow / fast <= 2.0


def test_before_hopper_tensor_cores_wait_for_the_memory() -> None:
    """Bytes and FLOP of one product take as long as each other; float32's kernels are the same on both."""
    made = array((512, 8192), "bfloat16"), array((8192, 4096), "bfloat16")
    ampere, hopper = (replace(OURS, compute_capability=each) for each in ((8, 6), (9, 0)))
    both = [predict(torch.mm, *made, device=each).busy_s or 0.0 for each in (ampere, hopper)]
    assert both[0] > 1.1 * both[1]
    assert seconds(ampere) == seconds(hopper)
