"""The timeline of an experiment's variant at a point, and the name of the file that it is kept in."""

from __future__ import annotations

from urllib.parse import quote

from brrr.errors import BrrrError, UnavailableError
from brrr.experiment import Experiment, Point
from brrr.tracing.model import Timeline
from brrr.tracing.tracer import trace

FOLDER = "traces"
"""Of a device's folder: `traces/<experiment>/<variant>@<axis>=<value>,<axis>=<value>.json`."""


def trace_variant(experiment: Experiment, variant: str, point: Point) -> Timeline:
    """Build the variant's workload, check its result, and trace it.

    Raises what goes wrong as one of brrr's errors: WrongResultError, DeviceMemoryError, UnavailableError.
    """
    from brrr.timing.timers import _empty_cache, as_brrr_error

    if experiment.variant(variant).timer == "first-call":
        raise UnavailableError(f"trace: {experiment.name} {variant} is a first call in a process of its own: no loop")
    try:
        return _traced(experiment, variant, point)
    except BrrrError:
        raise
    except Exception as error:
        raise as_brrr_error(error, f"trace: {experiment.name} {variant} at {dict(point)}") from error
    finally:
        _empty_cache()  # the workload is gone by now: its memory is the next point's


def _traced(experiment: Experiment, variant: str, point: Point) -> Timeline:
    workload, device = experiment.workload(variant, point), experiment.variant(variant).device
    try:
        workload.check()
        return trace(workload.run, device=workload.queue if device == "cpu-queue" else device)
    finally:
        workload.close()


def file_name(variant: str, point: Point) -> str:
    """The name of a recorded timeline's file.

    >>> file_name("eager", {"size": 1024, "how": "a/b"})
    'eager@size=1024,how=a%2Fb.json'
    """
    where = ",".join(f"{name}={quote(str(value), safe=' +-_.')}" for name, value in point.items())
    return f"{quote(variant, safe=' +-_.')}@{where}.json"
