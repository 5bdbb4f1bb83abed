"""A prediction in full: its operators, the figures it rests on, and what was simplified."""

from __future__ import annotations

from itertools import groupby

from brrr import units
from brrr.peaks.peaks_text import table
from brrr.roofline.prediction import Prediction
from brrr.roofline.terms import OperatorTime

_HEAD = ("calls", "operator", "host", "bytes", "FLOP", "on the device")


def details(prediction: Prediction) -> str:
    """Equal neighbours stand on one line, with the times of one of them."""
    runs = [(each, len(list(same))) for each, same in groupby(prediction.operators)]
    rows = [_HEAD, *(_row(each, count) for each, count in runs)]
    return "\n".join([str(prediction), *_times(prediction), "", *table(rows), "", *_origins(prediction)])


def _row(each: OperatorTime, count: int) -> tuple[str, ...]:
    device = "nothing" if each.device_s is None else units.seconds(each.device_s)
    computing = units.seconds(each.compute_s) if each.known else "unknown"
    return str(count), each.name, units.seconds(each.host_s), units.seconds(each.memory_s), computing, device


def _times(prediction: Prediction) -> list[str]:
    names = ("period_s", "span_s", "busy_s", "host_s", "latency_s")
    times = [(name, getattr(prediction, name)) for name in names]
    margin = f"margin {units.ratio(prediction.margin)}"
    return [", ".join([*(f"{name} {units.seconds(time)}" for name, time in times if time is not None), margin])]


def _origins(prediction: Prediction) -> list[str]:
    return [
        f"rests on ({prediction.origin}):",
        *(f"  {used}" for used in prediction.basis),
        *(f"note: {note}" for note in prediction.notes),
    ]
