"""What a source has of Strassen levels, size by size: for a guess of errors, and for the drawing of the frontier."""

from brrr.gpu import is_gpu
from brrr_course.experiments import experiment
from brrr_course.experiments.strassen import CPU, places, sizes, way_of
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source, quick

FIRST, FIRST_ON_A_CPU = 4096, 512
"""The size at which a live source measures before anything is shown."""

FIRST_ON_GPU = (
    "sgemm", "sgemm-strassen-1-prepared", "sgemm-strassen-2-prepared", "fp16x3", "fp16x3-strassen-1", "tf32",
    "bf16", "bf16-strassen-1", "fp16",
)  # fmt: skip
FIRST_ON_CPU = (
    "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared", "cpu-sgemm-strassen-2-prepared",
    "cpu-sgemm-winograd-1", "cpu-sgemm-winograd-2",
)  # fmt: skip
"""What a live source measures there. On a GPU each way takes most of a second to reach its own clock, on a CPU split
products are slow: with all of them a reader would wait for a minute."""

KINDS = {
    "float32, Strassen": ("sgemm", "strassen"),
    "float32, Winograd": ("sgemm", "winograd"),
    "float32's accuracy, tensor cores": ("fp16x3", "strassen"),
    "bfloat16": ("bf16", "strassen"),
}


def described() -> Experiment:
    """The experiment on Strassen's algorithm."""
    return experiment("strassen")


def sizes_with_errors(source: Source) -> list[int]:
    """The sizes of which a source has times and errors; a live one measures some ways at one size first."""
    if source.live:
        gpu = is_gpu(source.name)
        wanted, first = (FIRST_ON_GPU, FIRST) if gpu else (FIRST_ON_CPU, FIRST_ON_A_CPU)
        if quick() and not gpu:
            first = min(first, *map(int, source.values(described(), "size")))
        source.measure_together(described(), wanted, {"size": first})
    return sizes(source)


def kinds_of(source: Source) -> dict[str, tuple[str, str]]:
    """The inner products and forms that a source has, by their titles."""
    names = source.variants(described())
    gpu = any(not name.startswith(CPU) for name in names)
    there = {(way.inner, way.form) for name in names if (way := way_of(name)) and name.startswith(CPU) != gpu}
    return {title: each for title, each in KINDS.items() if each in there}


def grown(source: Source, kind: str, size: int, level: int) -> tuple[float, float] | None:
    """Speed and error with so many levels over those with none, with the right side prepared where that was measured.

    None where one of the two was not measured.
    """
    inner, form = kinds_of(source)[kind]
    there = {place.variant.removeprefix(CPU): place for place in places(source, size)}
    name = f"{inner}-{form}-{level}"
    plain, place = there.get(inner), there.get(f"{name}-prepared") or there.get(name)
    return (plain.time_s / place.time_s, place.error / plain.error) if plain and place else None
