"""The course's experiments, a file each: one that lies here is one of them, loaded when it is asked for."""

from importlib import import_module
from pathlib import Path

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Value
from brrr_course.nouns.experiment import Experiment

ORDER = (
    "matmul", "timers", "cheats", "clocks", "transfers", "nested_sine", "overlap", "first_call", "pseudo_linear",
    "pseudo_linear_flaws",
    "adds", "host_cost", "run_ahead", "scaling", "repeat", "unary", "working_set", "strides", "occupancy",
    "cos_cos", "sines", "fusion", "remat", "mlp", "gemm", "gemm_many", "vocabulary", "rnn_ladder", "rnn",
    "strassen", "strassen_errors", "block", "utilisation", "mystery", "memory_swap", "loader", "indexing",
    "decode", "prefill", "footprint", "attention", "compiled", "graph_breaks", "recompiles", "bits", "norms",
    "collective", "data_parallel", "tensor_parallel",
)  # fmt: skip
"""The course's order."""

PLAYED = ("schedule", "tiling")
"""Experiments that a class plays: nothing is recorded of them, and nothing claimed."""


def _found() -> tuple[str, ...]:
    """What lies in the folder: in the course's order, then what is new in it."""
    files = Path(__file__).parent.glob("*.py")
    here = {path.stem for path in files if "\nEXPERIMENT = " in path.read_text(encoding="utf-8")} - {*PLAYED}
    return (*(name for name in ORDER if name in here), *sorted(here - {*ORDER}))


NAMES = _found()


def own_choice(name: str, variant: str) -> dict[str, Value]:
    """What the package takes where a class plays: a point of an experiment of PLAYED.

    >>> own_choice("schedule", "pipeline")
    {'chunks': 16, 'buffers': 3}
    """
    return dict(import_module(f"brrr_course.experiments.{name}").OWN[variant])


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    >>> experiment("matmul").axes[0].name
    'size'
    """
    if name not in NAMES + PLAYED:
        raise ArgumentError("experiment", "name", name, f"one of {', '.join(NAMES)}")
    found = import_module(f"brrr_course.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
