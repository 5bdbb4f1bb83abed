"""brrr: why GPU code is fast or slow. Timers that tell the truth, measurements to replay, lessons to play.

>>> import brrr
>>> print(brrr.measure(lambda: sum(range(100_000)), device="cpu", budget_s=0.05).period_s is not None)
True

Importing it loads no torch and no matplotlib: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "ArgumentError": "brrr.errors",
    "BrrrError": "brrr.errors",
    "CaptureError": "brrr.errors",
    "Cost": "brrr.counting.cost",
    "CostMode": "brrr.counting.mode",
    "CpuQueue": "brrr.timing.cpu_queue",
    "DeviceMemoryError": "brrr.errors",
    "Estimate": "brrr.measurement",
    "Experiment": "brrr.experiment",
    "LineError": "brrr.codegen",
    "Live": "brrr.live",
    "Measurement": "brrr.measurement",
    "MissingPeakError": "brrr.peaks",
    "NotRecordedError": "brrr.errors",
    "Peak": "brrr.peaks",
    "Peaks": "brrr.peaks",
    "Pipeline": "brrr.pipeline",
    "Prediction": "brrr.roofline.prediction",
    "Recorded": "brrr.recordings.recorded",
    "RecordingError": "brrr.errors",
    "Scaling": "brrr.scaling",
    "Timeline": "brrr.tracing",
    "TraceError": "brrr.errors",
    "Transition": "brrr.transition",
    "UnavailableError": "brrr.errors",
    "WrongResultError": "brrr.errors",
    "array": "brrr.counting.description",
    "calibrate": "brrr.peaks",
    "capture": "brrr.graphs",
    "check": "brrr.lesson",
    "claims": "brrr.claims_table",
    "compare": "brrr.lesson",
    "compare_speedup": "brrr.lessons.speedup_comparison",
    "compare_values": "brrr.lessons.value_comparison",
    "cost": "brrr.counting.tracing",
    "doctor": "brrr.machines.checkup",
    "elementwise": "brrr.codegen",
    "explore": "brrr.widget.explorer",
    "factory": "brrr.factory_drawing",
    "find_transition": "brrr.transition",
    "guess": "brrr.lesson",
    "hardware": "brrr.device",
    "host_array": "brrr.pipeline",
    "measure": "brrr.timing",
    "measure_together": "brrr.timing",
    "pays": "brrr.transition",
    "predict": "brrr.roofline.predicting",
    "reachable": "brrr.lesson",
    "roofline_plot": "brrr.roofline.drawing",
    "scaling_test": "brrr.scaling",
    "timeline": "brrr.tracing.view",
    "trace": "brrr.tracing",
}

__all__ = [*sorted(_WHERE), "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name not in _WHERE:
        raise AttributeError(f"module 'brrr' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from brrr.claims_table import claims as claims
    from brrr.counting.cost import Cost as Cost
    from brrr.device import hardware as hardware
    from brrr.errors import ArgumentError as ArgumentError
    from brrr.errors import BrrrError as BrrrError
    from brrr.errors import CaptureError as CaptureError
    from brrr.errors import DeviceMemoryError as DeviceMemoryError
    from brrr.errors import NotRecordedError as NotRecordedError
    from brrr.errors import RecordingError as RecordingError
    from brrr.errors import UnavailableError as UnavailableError
    from brrr.errors import WrongResultError as WrongResultError
    from brrr.experiment import Experiment as Experiment
    from brrr.graphs import capture as capture
    from brrr.live import Live as Live
    from brrr.machines.checkup import doctor as doctor
    from brrr.measurement import Estimate as Estimate
    from brrr.measurement import Measurement as Measurement
    from brrr.pipeline import Pipeline as Pipeline
    from brrr.pipeline import host_array as host_array
    from brrr.recordings.recorded import Recorded as Recorded
    from brrr.scaling import Scaling as Scaling
    from brrr.scaling import scaling_test as scaling_test
    from brrr.timing import measure as measure
    from brrr.timing import measure_together as measure_together
    from brrr.timing.cpu_queue import CpuQueue as CpuQueue
    from brrr.tracing import Timeline as Timeline
    from brrr.tracing import trace as trace
    from brrr.transition import Transition as Transition
    from brrr.transition import find_transition as find_transition
    from brrr.transition import pays as pays
