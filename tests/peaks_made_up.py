"""Made-up peaks of a GPU, for tests without one: clearly synthetic, never written under data/."""

from collections.abc import Mapping

from brrr.core.measurement import Value
from brrr.roofline.peak import Curve, Peak, Unit
from brrr.roofline.peaks import Peaks


def peak(value: float, unit: Unit = "B/s", **conditions: Value) -> Peak:
    """A measured figure with an interval of one percent."""
    return Peak(value, value * 0.99, value * 1.01, unit, conditions=conditions)


def curve(values: Mapping[float, float], unit: Unit = "B/s", axis: str = "working_set_bytes") -> Curve:
    """A measured curve."""
    return Curve(axis, tuple((place, peak(value, unit)) for place, value in values.items()), {"by": "a formula"})


def gpu_peaks() -> Peaks:
    """An H200 as nobody measured it: more than its datasheet for bf16, so that a text has to doubt it."""
    sets = {65536.0: 5e12, 16e6: 7e12, 64e6: 5e12, 4e9: 4.2e12}
    once = {65536.0: 6e10, 16e6: 4e12, 64e6: 4.5e12, 4e9: 4.1e12}
    products = Curve("size", ((8192.0, peak(1.2e15, "FLOP/s", sm_clock_hz=1.7e9, held_back_by="power-cap")),))
    return Peaks(
        "NVIDIA H200",
        "cuda",
        "2000-01-01T00:00:00+00:00",
        brrr="0.0.test",
        driver="580.1",
        cuda="13.0",
        torch="2.11.0+cu130",
        measured={
            "arithmetic.fp32.fma": peak(60e12, "FLOP/s", by="a formula", sm_clock_hz=1.98e9),
            "arithmetic.fp32.mul": peak(30e12, "FLOP/s"),
            "gap.stream": peak(0.9e-6, "s"),
            "host.pointwise": peak(5e-6, "s", operator="x + y"),
        },
        curves={"read": curve(sets), "copy": curve(sets), "copy-once": curve(once), "matmul.bf16": products},
        assumed={"kernel.floor": Peak.stated(1e-6, "s", "assumed", what="an H200's")},
        notes=("host.compiled: left out: it may need 20 s, and 3.0 s were left",),
    )
