"""The floor of a step at a place: the plan's bytes and FLOP, the exchange as it was measured, the device's rates."""

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.counting.cost import ITEMSIZE
from brrr.roofline.device_model import DeviceModel, model_of
from brrr.roofline.figures import level_rate
from brrr.roofline.peaks import short
from brrr.roofline.persistent import Step
from brrr_course.experiments.judging import datasheet
from brrr_course.experiments.rnn.steps import At, place, step
from brrr_course.nouns.source import Evidence

PRODUCTS = 3
"""Of TF32, which float32 on tensor cores takes in place of one."""
TINY = 32
"""At this hidden size a step is the exchange."""


def exchange(evidence: Evidence, cell: str, dtype: str) -> Estimate:
    """A trip of the state to the L2 cache and back, as a step shows it that has next to nothing else to do."""
    tiny: Estimate = step(evidence, "persistent", **place(cell, dtype, 1, TINY))
    return tiny


def floor_of(evidence: Evidence, at: At) -> Step:
    """The floor of a step, with the exchange from the same source and the rates recorded for its device.

    The input's product for all steps comes before the first one, so its share of a step is added.
    """
    from brrr.kernels.recurrent.plan import plan

    cell, dtype, batch, hidden = str(at["cell"]), str(at["dtype"]), int(at["batch"]), int(at["hidden"])
    exchanged = exchange(evidence, cell, dtype)
    made = plan(cell, hidden=hidden, batch=batch, dtype=dtype)
    model = model_of(datasheet(evidence).key)
    if not model.curves:
        raise NotRecordedError(f"no peaks were measured on {model.device}")
    matmul = model.value(f"matmul.{short(dtype)}")
    parts = {
        "exchange": exchanged.median,
        "state": made.state_bytes / level_rate(model.curves["read"], batch * hidden * ITEMSIZE[dtype]),
        "arithmetic": made.flop / _rate(model, made.tiles, dtype, matmul),
    }
    return Step(parts, serial_s=made.flop / matmul)


def _rate(model: DeviceModel, tiles: bool, dtype: str, matmul: float) -> float:
    """FLOP/s of the units that the plan computes on."""
    if dtype != "float32":
        return matmul
    return model.value("matmul.tf32") / PRODUCTS if tiles else model.value("arithmetic.fp32.fma")
